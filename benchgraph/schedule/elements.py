"""Nests without a product and without a window: pointwise chains, reductions, softmax, norms, layout ops, and schedules they can have.

fuse d1, d2; tile d2 by 4096; order d0, d2.0, d2.1; parallel d0, d2.0; vectorize d2.1      elements in the order in which they are written
tile d0 by 60; tile d1 by 48; order d0.0, d1.0, d0.1, d1.1; ...                            tiles: reads are contiguous along d0
order d0, d1, d2; parallel d0, d1; vectorize d2                                            rows along d2, which softmax reduces
unroll_jam d1 by 4; order d0, d1, d2; vectorize d2                                         four such rows together, whose latencies overlap
tile d2 by 64; unroll_jam d1 by 4; order d0, d2.0, d1, d2.1; parallel d0, d2.0; vectorize d2.1      64 columns at a time, reduced along d1
split_reduce d0 by 96; order d0.0, d0.1, d1; parallel d0.0; vectorize d1; recompute 15     tasks of 96 rows, whose results are added
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, prod
from typing import TypeAlias

from benchgraph.core.divisors import divisor_from
from benchgraph.core.memoise import memoised_by
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.machine.table import rates
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.schedule.primitives import Fuse, Order, Parallel, Primitive, Recompute, Schedule, SplitReduce, Tile, UnrollJam, Vectorize
from benchgraph.schedule.traffic import HELD

Axes: TypeAlias = tuple[int, ...]

LANES = LINE_BYTES // F32_BYTES  # columns that are reduced over rows are in multiples of a line of f32
COLUMNS = (*(LANES << i for i in (1, 2, 3, 4, 5, 7, 9)), 48 * LANES)  # of a block that is reduced over its rows
ROWS = 4  # that are computed together: reduced along each of them, or added to one row of sums
REGISTERS_PER_SUM = 2  # at least, of each row's reduction
MOST_TASKS = 64  # of a split reduction: one thread adds what they result in
CONVERSION = 3  # instructions on a vector of a conversion and its store, which are repeated rather than stored
FUNCTION = 15  # the same where elements come from memory: as long as a vector takes there and back (docs/measurements/lowering.md)


@dataclass(frozen=True)
class Access:
    """Of an element of a buffer, in the order of the ops. bits: 0 for a number that is computed from the index. steps: by axis of the nest,
    None where uneven. phase: how many reductions it depends on, one after the other. is_private: nothing outside of the nest reads it.
    instructions: that compute it again from so many source_bits of the nest's operands; 0 where that is not to be had."""

    name: int
    bits: int
    steps: tuple[int | None, ...]
    phase: int
    is_store: bool = False
    is_private: bool = False
    instructions: int = 0
    source_bits: int = 0

    @cached_property
    def axes(self) -> frozenset[int]:
        """Those that it moves along."""
        return frozenset(axis for axis, step in enumerate(self.steps) if step != 0)


@dataclass(frozen=True)
class ElementNest:
    """reduced: axes. instructions: on an element, by phase; sums: results that
    elements are reduced to. is_pointwise: all ops run over all axes, none of which is reduced. block: of
    the last axis, in blocked layouts; 0 where there are none. share: of the largest tensor that it writes a part of. is_shared: another
    nest reads the same input."""

    extents: Shape
    reduced: frozenset[int]
    accesses: tuple[Access, ...]
    instructions: tuple[int, ...]
    sums: tuple[int, ...]
    is_pointwise: bool
    block: int = 0
    share: float = 1.0
    is_shared: bool = False

    def size(self, axes: Iterable[int]) -> int:
        return prod(self.extents[a] for a in axes)

    @cached_property
    def axes(self) -> Axes:
        return tuple(axis for axis, extent in enumerate(self.extents) if extent != 1)

    @cached_property
    def memory(self) -> tuple[Access, ...]:
        """Without values that stay inside of the nest, which become registers."""
        return tuple(a for a in self.accesses if not a.is_private)

    @cached_property
    def stored(self) -> frozenset[int]:
        """Elements that one phase computes and a later one reads."""
        first = dict[int, int]()
        for a in self.accesses:
            if a.is_private and a.is_store:
                first.setdefault(a.name, a.phase)
        return frozenset(a.name for a in self.accesses if a.phase > first.get(a.name, a.phase) and a.axes & self.reduced)

    @memoised_by
    def stored_with(self, recomputed: int) -> frozenset[int]:
        """Those that are loaded from memory where values of at most so many instructions are computed again."""
        return self.stored - {a.name for a in self.accesses if 0 < a.instructions <= recomputed}

    @memoised_by
    def again_bytes(self, recomputed: int) -> float:
        """That are accessed again: operands that an earlier phase reads, what values are computed again from, and values that are stored,
        once by the write."""
        first, seen, total = dict[int, int](), set[tuple[int, int, bool]](), 0.0
        stored = self.stored_with(recomputed)
        for a in self.accesses:
            is_later, key = a.phase > first.setdefault(a.name, a.phase), (a.name, a.phase, a.is_store)
            if key in seen or not a.axes & self.reduced:
                continue
            seen.add(key)
            if a.name in stored:
                total += F32_BYTES * self.size(a.axes) * (is_later or a.is_store)
            elif is_later:
                total += (a.source_bits if a.is_private else a.bits) / 8 * self.size(a.axes)
        return total

    # ---- axes that all accesses step through evenly are one loop

    def _fuse(self, accesses: Iterable[Access], axes: Axes) -> bool:
        dense = dense_strides(tuple(self.extents[a] for a in axes))
        steps = ([a.steps[axis] for axis in axes] for a in accesses)
        even = (s[-1] is not None and all(step == s[-1] * d for step, d in zip(s, dense, strict=True)) for s in steps)
        return self.size(axes) > 0 and all(even)

    def _groups(self, accesses: tuple[Access, ...], axes: list[int]) -> list[Axes]:
        """As few loops as possible for these axes, in their order."""
        groups = list[Axes]()
        for axis in reversed(axes):
            if groups and self._fuse(accesses, (axis, *groups[0])):
                groups[0] = (axis, *groups[0])
            else:
                groups.insert(0, (axis,))
        return groups

    @cached_property
    def written(self) -> list[Axes]:
        """All loops, in the order of what the nest writes."""
        axes, stores = list(self.axes), [a.steps for a in self.memory if a.is_store]
        if stores and None not in stores[-1]:
            axes.sort(key=lambda axis: -abs(stores[-1][axis] or 0))
        return self._groups(self.memory, axes)

    @cached_property
    def tiled(self) -> Axes:
        """A loop along which something is contiguous that the innermost loop reads with a stride."""
        *outer, inner = self.written
        strided = [a.steps for a in self.memory if not a.is_store and a.steps[inner[-1]] not in (None, 0, 1)]
        axes = next(((axis,) for steps in strided for group in outer for axis in group if steps[axis] == 1), Axes())
        left = [axis for group in outer for axis in group if axis not in axes]
        return self._extended(self.memory, axes, left) if axes else ()

    def kept(self, inner: int) -> Axes:
        """Kept axes that are one loop with the last of them in all memory but private temporaries, which can follow them."""
        left = [axis for axis in self.axes if axis not in self.reduced and axis != inner]
        return self._extended(self.accesses, (inner,), left)

    def _extended(self, accesses: tuple[Access, ...], axes: Axes, left: list[int]) -> Axes:
        """These axes with others in front, as far as they are one loop."""
        for axis in left:
            longer = (axis, *axes)
            if self._fuse((a for a in accesses if not (a.is_private and a.axes >= {*longer})), longer):
                return self._extended(accesses, longer, [a for a in left if a != axis])
        return axes

    @cached_property
    def reductions(self) -> list[Axes]:
        """The loops over reduced axes, in the order of the largest access."""
        axes = [axis for axis in self.axes if axis in self.reduced]
        has_second_pass = any(a.phase and a.axes & self.reduced for a in self.accesses)
        accesses = self.accesses if has_second_pass else self.memory
        largest = max(accesses, key=lambda a: self.size(a.axes)).steps
        if all(largest[axis] for axis in axes):
            axes.sort(key=lambda axis: -abs(largest[axis] or 0))
        return [(axis,) for axis in axes] if self.block else self._groups(accesses, axes)


def loop(axes: Axes, level: str = "") -> str:
    """The name of the loop over these axes."""
    return f"d{axes[-1]}{level}"


def axis_of(name: str) -> int:
    """The last axis of a loop."""
    return int(name[1:].split(".")[0])


def axes_of(schedule: Schedule, loop: str) -> Axes:
    """The axes that a loop is made of, or the loop that it is a level of."""
    whole = loop.split(".")[0]
    return tuple(map(axis_of, schedule.fused.get(whole, (whole,))))


def even_blocks(total: int, most: int, step: int = 1) -> int:
    """The largest size that makes all blocks equal, or the most where that would be a small part of it.

    >>> even_blocks(784, 128, 16), even_blocks(1000, 128, 16)
    (112, 128)
    """
    return next((size for size in range(most, most // 4, -step) if total % size == 0), min(most, total))


def space(nest: ElementNest, target: Target) -> Iterator[Schedule]:
    """All schedules."""
    if nest.block and not nest.reduced:
        *outer, last = ((axis,) for axis in range(len(nest.extents)))
        yield from _loops(nest, [axes for axes in outer if axes[0] in nest.axes], {last: nest.block}, (), last)
    elif nest.is_pointwise:
        yield from _pointwise(nest, target.l1_bytes // 2 // F32_BYTES)
    else:
        contiguous = {axis for a in nest.memory if a.bits for axis in nest.axes if a.steps[axis] == 1}
        for axis in dict.fromkeys((*(sorted(contiguous, reverse=True) if nest.reduced else ()), nest.axes[-1])):
            yield from _region(nest, axis, target)


def _pointwise(nest: ElementNest, l1_elements: int) -> Iterator[Schedule]:
    *others, inner = nest.written
    outer = [(axis,) for group in others for axis in group]
    total = nest.size(inner)
    for chunk in (l1_elements, l1_elements // 2, l1_elements // 4):
        if chunk == l1_elements or 2 * total > chunk:
            yield from _loops(nest, outer, {inner: min(chunk, total)}, (), inner)
    if nest.tiled:
        tiles = {axes: even_blocks(nest.size(axes), isqrt(l1_elements)) for axes in (nest.tiled, inner)}
        yield from _loops(nest, [axes for axes in outer if axes[0] not in nest.tiled], tiles, (), inner)


def _region(nest: ElementNest, inner: int, target: Target) -> Iterator[Schedule]:
    """Those whose innermost loop ends in this axis."""
    columns = next((group for group in nest.reductions if group[-1] == inner), ())
    if inner not in nest.reduced:
        columns = nest.kept(inner) if nest.reduced and not nest.block else (inner,)
    elif not columns:
        return
    outer = [(axis,) for axis in nest.axes if axis not in nest.reduced and axis not in columns]
    rows = [group for group in nest.reductions if group != columns]
    total = nest.size(columns)
    has_passes = bool(nest.stored) or nest.is_shared  # other nests read long rows best
    sizes = sorted({total, *(size for size in COLUMNS if size < total)}, reverse=not has_passes)
    for size in sizes if inner not in nest.reduced and not nest.block else (total,):
        blocks = {columns: even_blocks(total, size, LANES)} if size < total else {}
        yield from _loops(nest, outer, blocks, rows, columns, target.isa.registers)
    if nest.reduced and not nest.block and not outer and nest.size(nest.axes):
        yield from _split(nest, columns, target)


def _split(nest: ElementNest, columns: Axes, target: Target) -> Iterator[Schedule]:
    """Tasks last as long as a fork and join; L2 holds the operands of two, where the next nest reads them too."""
    rows = tuple(axis for axis in nest.axes if axis in nest.reduced and axis not in columns)
    count, width, r = nest.size(rows or columns), nest.size(columns) if rows else 1, rates(target)
    per_element = max(sum({a.name: a.bits / 8 for a in nest.memory if a.axes >= nest.reduced}.values()), 1)
    held = max(int(HELD * target.l2_bytes / 2 / per_element / max(width, 1)), 1)
    least = ceil(r.fork_join_ns(2) * r.read_bytes_per_ns("l2") / F32_BYTES / max(width, 1))
    per_task = max(min(ceil(count / MOST_TASKS), held) if nest.is_shared else ceil(count / MOST_TASKS), least, 1)
    per_task = divisor_from(count, per_task) or per_task if rows else ceil(per_task / LINE_BYTES) * LINE_BYTES
    split = rows or columns
    if nest.size(split) > per_task:
        fused = [Fuse(tuple(f"d{a}" for a in axes)) for axes in (rows, columns) if len(axes) > 1]
        order = (loop(split, ".0"), loop(split, ".1"), *((loop(columns),) if rows else ()))
        ends = Order(order), Parallel(order[:1]), Vectorize(order[-1:]), Recompute(FUNCTION)
        jam = _added_rows(nest, order[1], per_task) if columns[-1] not in nest.reduced else ()
        yield from (Schedule((*fused, SplitReduce(loop(split), (per_task,)), *each, *ends)) for each in dict.fromkeys((jam, ())))


def _loops(
    nest: ElementNest, outer: Sequence[Axes], blocks: dict[Axes, int], rows: Sequence[Axes], inner: Axes, registers: int = 0
) -> Iterator[Schedule]:
    """Loops over outer axes and over blocks, parallel and serial; inside of them, loops over rows and what is left of the blocks."""
    fused = [Fuse(tuple(f"d{a}" for a in axes)) for axes in (*rows, *blocks, *(() if inner in blocks else (inner,))) if len(axes) > 1]
    inside = [loop(inner)] if inner not in blocks else []
    tasks = [*map(loop, outer), *(loop(axes, ".0") for axes in blocks)]
    tasks = [tasks[-1], *tasks[:-1]] if nest.block and blocks else tasks
    order = (*tasks, *map(loop, rows), *(loop(axes, ".1") for axes in blocks), *inside)
    is_column = nest.reduced and inner[-1] not in nest.reduced and (blocks or inner != (len(nest.extents) - 1,))
    is_gathered = any(a.bits and not a.is_store and a.steps[inner[-1]] not in (0, 1) for a in nest.memory)
    ends = [Recompute(CONVERSION)] if is_column and not is_gathered else []
    head: list[Primitive] = [*fused, *(Tile(loop(axes), (size,)) for axes, size in blocks.items())]
    blocked = prod(ceil(nest.size(axes) / max(size, 1)) for axes, size in blocks.items())
    is_row, jam = inner[-1] in nest.reduced, _jam(nest, outer, rows, inner, 0 if is_gathered else registers)
    for together in dict.fromkeys(((), jam) if is_row else (jam,) if blocks else (jam, ())):
        if blocked * prod(map(nest.size, outer)) > 1 and not (is_row and together):  # rows that are tasks stay single
            yield Schedule((*head, *together, Order(order), Parallel(tuple(tasks)), Vectorize(order[-1:]), *ends))
        if not (nest.reduced and blocks):  # columns of a short nest stay in L1 together
            yield Schedule((*head, *together, Order(order), Vectorize(order[-1:]), *ends))


def _jam(nest: ElementNest, outer: Sequence[Axes], rows: Sequence[Axes], inner: Axes, registers: int) -> tuple[UnrollJam, ...]:
    """Of the loop over rows that are each reduced by one loop, if registers hold their sums; or over rows that are added to one."""
    if nest.reduced.isdisjoint(inner):
        return _added_rows(nest, loop(rows[-1]), nest.size(rows[-1])) if rows else ()
    fits = outer and not rows and nest.size(outer[-1]) >= ROWS and ROWS * REGISTERS_PER_SUM * max(nest.sums) <= registers
    return (UnrollJam(loop(outer[-1]), ROWS),) if fits else ()


def _added_rows(nest: ElementNest, rows: str, count: int) -> tuple[UnrollJam, ...]:
    """Of the loop over so many rows that are added to one, in phases that load and store sums rather than compute functions."""
    reducing = [phase for phase, sums in enumerate(nest.sums) if sums]
    phases = tuple(phase for phase in reducing if nest.instructions[phase] < FUNCTION)
    return (UnrollJam(rows, ROWS, phases if len(phases) < len(reducing) else ()),) if phases and count >= ROWS else ()


def regions(nest: ElementNest, registers: int) -> Iterator[Schedule]:
    """Of ops that are part of a task of a nest of products, the last axis innermost."""
    last = len(nest.extents) - 1
    others = [axis for axis in nest.axes if axis != last]
    outer, rows = ([(axis,) for axis in others if (axis in nest.reduced) == reduced] for reduced in (False, True))
    return (schedule for schedule in _loops(nest, outer, {}, rows, (last,), registers) if not schedule.parallel)
