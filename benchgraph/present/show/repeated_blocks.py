"""Draws repeated blocks once: the layers of a network are often the same ops with the same attributes and shapes.

    a MatMul ReLU MatMul ReLU MatMul ReLU b   ->   a [MatMul ReLU] x3 b

A block is a run of ops in the order of execution. Its repetitions are equal up to ids: they compute the same, read the same of their own
and the previous block's results, are partitioned alike, and only the next block reads their results. Results of the last
repetition may be read by any op.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from benchgraph.present.show.picture import Box, Picture, RepeatedBlock, Wire

LEAST_SAVED = 6  # ops that must be saved, since small pictures are clear without it
LONGEST = 256  # ops of a block


def with_repeats_collapsed(picture: Picture) -> Picture:
    """The first of each run of equal blocks, with their count; the same picture if there are none."""
    ops, start = _Ops(picture), 0
    runs = list[tuple[int, int, int]]()
    while start < len(picture.boxes):
        saved, period, count = ops.best(start)
        if saved >= LEAST_SAVED:
            runs.append((start, period, count))
        start += period * count if saved >= LEAST_SAVED else 1
    return _drawn(picture, runs) if runs else picture


@dataclass(frozen=True)
class _Ops:
    picture: Picture

    @cached_property
    def place(self) -> dict[int, int]:
        return {b.id: i for i, b in enumerate(self.picture.boxes)}

    @cached_property
    def wires(self) -> dict[int, Wire]:
        return {w.id: w for w in self.picture.wires}

    @cached_property
    def made(self) -> list[list[Wire]]:
        """Tensors by position of their op, in port order."""
        by_position: list[list[Wire]] = [[] for _ in self.picture.boxes]
        for w in self.picture.wires:
            if w.source is not None:
                by_position[self.place[w.source]].append(w)
        return by_position

    @cached_property
    def last_read(self) -> list[int]:
        """By position, that of the last op that reads one of its results."""
        return [max((self.place[id] for w in made for id in w.targets), default=i) for i, made in enumerate(self.made)]

    @cached_property
    def signature(self) -> list[tuple[object, ...]]:
        """By position, all of an op but where its inputs come from."""
        result = list[tuple[object, ...]]()
        for box, made in zip(self.picture.boxes, self.made, strict=True):
            reads = tuple(_type(self.wires[id]) for id in box.reads)
            made_types = tuple(map(_type, made))
            result.append((box.kind, box.attrs, reads, made_types, self.picture.partition_labels[box.partition]))
        return result

    def best(self, start: int) -> tuple[int, int, int]:
        """(ops saved, ops per block, blocks) of the best run that begins here; (0, 1, 1) if there is none."""
        best = 0, 1, 1
        for period in range(1, min((len(self.signature) - start) // 2, LONGEST) + 1):
            if self.signature[start] == self.signature[start + period]:
                count = self._count(start, period)
                if (count - 1) * period > best[0]:
                    best = (count - 1) * period, period, count
        return best

    def _count(self, start: int, period: int) -> int:
        first = self._inner(start, period)
        count, between = 1, None
        while start + (count + 1) * period <= len(self.signature):
            block = start + count * period
            if self._inner(block, period) != first or any(self.last_read[i] >= block + period for i in range(block - period, block)):
                break
            outer = self._outer(block, period)
            if outer is None or (between is not None and outer != between):
                break
            count, between = count + 1, outer
        return count

    def _inner(self, block: int, period: int) -> list[object]:
        """The ops of a block and the connections inside of it."""
        return [
            (self.signature[i], [self._from(id, i) for id in self.picture.boxes[i].reads if self._maker(id) >= block])
            for i in range(block, min(block + period, len(self.signature)))
        ]

    def _outer(self, block: int, period: int) -> list[object] | None:
        """Inputs from outside, relative to those of the previous block; None where this cannot be a repetition."""
        inputs = list[object]()
        for i in range(block, block + period):
            op, op_before = self.picture.boxes[i], self.picture.boxes[i - period]
            inputs.append((op.partition - op_before.partition, [w.is_output for w in self.made[i - period]]))
            for id, id_before in zip(op.reads, op_before.reads, strict=True):
                maker = self._maker(id)
                if maker >= block:
                    inputs.append("own")
                elif maker >= block - period:
                    inputs.append(self._from(id, i))
                elif id == id_before:
                    inputs.append("shared")
                elif maker < 0 and self._maker(id_before) < 0:
                    inputs.append("given")
                else:
                    return None
        return inputs

    def _maker(self, id: int) -> int:
        """The position of the op that makes a tensor; -1 for an input of the graph."""
        source = self.wires[id].source
        return -1 if source is None else self.place[source]

    def _from(self, id: int, reader: int) -> tuple[int, int]:
        """How many ops before its reader a tensor is made, and at which port."""
        maker = self._maker(id)
        return reader - maker, [w.id for w in self.made[maker]].index(id)


def _type(w: Wire) -> str:
    return w.label.partition(" ")[2]


def _drawn(picture: Picture, runs: list[tuple[int, int, int]]) -> Picture:
    """Only the first block of each run; readers of the last block's results read the first one's."""
    ops, dropped, renamed = _Ops(picture), set[int](), dict[int, int]()
    repeated_blocks = list[RepeatedBlock]()
    for start, period, count in runs:
        ids = [b.id for b in picture.boxes[start : start + period * count]]
        repeated_blocks.append(RepeatedBlock(tuple(ids[:period]), count, tuple(ids)))
        dropped |= set(ids[period:])
        for i in range(start, start + period):
            last = i + period * (count - 1)
            renamed |= {w.id: first.id for w, first in zip(ops.made[last], ops.made[i], strict=True)}
    readers, outputs = defaultdict[int, list[int]](list), set[int]()
    for w in picture.wires:
        readers[renamed.get(w.id, w.id)] += [id for id in w.targets if id not in dropped]
        outputs |= {renamed.get(w.id, w.id)} if w.is_output else set()
    wires = tuple(_wires(picture, dropped, readers, outputs))
    boxes = tuple(_renamed(b, renamed) for b in picture.boxes if b.id not in dropped)
    return replace(picture, boxes=boxes, wires=wires, repeated_blocks=tuple(repeated_blocks))


def _wires(picture: Picture, dropped: set[int], readers: dict[int, list[int]], outputs: set[int]) -> Iterator[Wire]:
    for w in picture.wires:
        targets = tuple(dict.fromkeys(readers[w.id]))
        is_left = w.source not in dropped if w.source is not None else bool(targets) or not w.targets
        if is_left:
            yield replace(w, targets=targets, is_output=w.id in outputs)


def _renamed(box: Box, renamed: dict[int, int]) -> Box:
    return replace(box, reads=tuple(renamed.get(id, id) for id in box.reads))
