"""Which values between the partitions of a chain share memory, oneDNN's in-place pairs among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core import slots
from benchgraph.core.slots import Value
from benchgraph.onednn.messages import Compiled


@dataclass(frozen=True)
class Piece:
    """A step. open: ids of its outputs that nobody outside the chain reads, if somebody inside does."""

    made: Compiled
    open: frozenset[int]


def plan(pieces: Sequence[Piece]) -> slots.Plan:
    """Lay out the values between steps, over inputs that die with the step where oneDNN offers the pair.

    What the user sees has memory of its own: in place over it, the next execution would find other data.
    """
    last = {p.tensor.id: step for step, piece in enumerate(pieces) for p in piece.made.inputs}
    values = [
        Value(id, p.nbytes, step, last[id], tuple(a for a, b in piece.made.inplace if b == id))
        for step, piece in enumerate(pieces)
        for p in piece.made.outputs
        if (id := p.tensor.id) in piece.open and id in last
    ]
    return slots.plan(values, grows=False)
