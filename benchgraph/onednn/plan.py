"""Which values between the partitions of a chain share memory, oneDNN's in-place pairs among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.onednn.messages import Compiled


@dataclass(frozen=True)
class Piece:
    """A step. open: ids of its outputs that nobody outside the chain reads, if somebody inside does."""

    made: Compiled
    open: frozenset[int]


@dataclass(frozen=True)
class Plan:
    """sizes: bytes of each shared buffer; slot: tensor id -> the buffer it lies in."""

    sizes: tuple[int, ...]
    slot: dict[int, int]


def plan(pieces: Sequence[Piece]) -> Plan:
    """Lay out the values between steps.

    An output takes the place of an input that dies with this step if oneDNN offers the pair; else the most recently freed buffer that is
    large enough, else a new one. What the user sees has memory of its own: in place over it, the next execution would find other data.
    """
    last = {p.tensor.id: step for step, piece in enumerate(pieces) for p in piece.made.inputs}
    sizes, slot, free = list[int](), dict[int, int](), list[int]()
    for step, piece in enumerate(pieces):
        dying = [p.tensor.id for p in piece.made.inputs if last[p.tensor.id] == step and p.tensor.id in slot]
        for placed in piece.made.outputs:
            id = placed.tensor.id
            if id not in piece.open or id not in last:
                continue
            over = next((a for a, b in piece.made.inplace if b == id and a in dying and sizes[slot[a]] >= placed.nbytes), None)
            fits = [s for s in free if sizes[s] >= placed.nbytes]
            if over is not None:
                dying.remove(over)
                slot[id] = slot[over]
            elif fits:
                free.remove(fits[-1])
                slot[id] = fits[-1]
            else:
                sizes.append(placed.nbytes)
                slot[id] = len(sizes) - 1
        free += [slot[id] for id in dying]
    return Plan(tuple(sizes), slot)
