"""Nests that fold everything, or all axes but the last: sums per channel where channels lie densest, a loss, a gradient of one slope.

    parallel for t in tasks:                              t's own part of the sum
      part[t, :] = 0
      for r in rows of a task: for c in C: part[t, c] += x[t * rows + r, c] - mean[c]
    for t in tasks: for c in C: acc[c] += part[t, c]
    parallel for t in tasks: for r ..: for c in C: dst[..] = (x[..] - mean[c]) * acc[c]

Where the columns are folded, too, a part is one number. Axes that everything runs through evenly are then one row, of which a task has a
piece.

The tasks follow from the shape alone and their parts are added in order, so the bits of a result do not depend on threads. A value per
element that a later phase reads again is computed again there from what it was made of, as long as that is cheaper than memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from benchgraph.core.divide import divisor_from
from benchgraph.core.target import LINE_BYTES
from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import FusedOp
from benchgraph.lower.access import ZERO, Coord, Storage, along
from benchgraph.lower.region import Merged, Region, Span
from benchgraph.ops.spec import Reduction
from benchgraph.tir.build import Loop, add, binary, block_size, constant, mul, nest, seq
from benchgraph.tir.cost import FUNCTION
from benchgraph.tir.ir import Const, Expr, For, Load, LoopKind, Stmt, Store, Tensor

MOST_TASKS = 64  # as many parts are added up by one thread
FEWEST_ROWS = 32  # of a task: then adding up the parts is a thirtieth of the work
FEWEST_ELEMENTS = 16384  # of a task
# Of a task whose data another nest reads too, so that L2 holds two such inputs until it does: elements, at least, and rows, lest parts are
# much to add up. LayerNorm's gradients of f32[8,16,384,384], one Zen 4 core: 16.2 ms by 64 tasks, 9.0 by 512; [64,64,112,112] 29.6, 23.2.
SHARED_ELEMENTS, SHARED_ROWS = 32768, 64
WORTH = 98304  # elements of a nest from which on a plain sum, of 3 instructions on a vector, saves a second thread's waking (tir/cost.py)

# Instructions on a vector up to which a value is computed anew. On one of two Cascade Lake cores that read 10 to 24 GB/s together, a vector
# that goes to memory and back takes as long as 50 of them; from a cache, as long as a few.
MOST_STEPS = FUNCTION


@dataclass(frozen=True)
class Cut:
    """How the elements of a fold become tasks.

    outer: axes of its rows; without any, the one row is cut. run: axes that its columns run through as one. each: rows, or else columns,
    of a task. keeps_columns: whether columns are not folded.
    """

    outer: tuple[int, ...]
    run: tuple[int, ...]
    each: int
    keeps_columns: bool


def cut(domain: Domain, inner: int, merged: Merged, *, is_shared: bool = False) -> Cut | None:
    """None where more is kept than columns, along the axis `inner`, and where there is not enough for several tasks.

    inner, merged: the innermost loop's axis, and runs of folded axes, as for a region. is_shared: another nest reads as much of the same,
    and merge-blocks may let the two go through it together.
    """
    extents = domain.extents
    kept = {axis for axis, extent in enumerate(extents) if extent != 1 and axis not in domain.reduced}
    folded = [axis for axis in sorted(domain.reduced) if extents[axis] != 1]
    if not folded or kept - {inner} or prod(extents) < WORTH:
        return None
    run = next((axes for axes in merged if inner in axes), (inner,))
    outer = tuple(axis for axis in folded if axis not in run)
    rows, columns = (prod(extents[axis] for axis in axes) for axes in (outer, run))
    if not outer:
        alike = max(FEWEST_ELEMENTS, -(-columns // MOST_TASKS))
        return Cut(outer, run, -(-alike // LINE_BYTES) * LINE_BYTES, keeps_columns=False)
    each = -(-rows // MOST_TASKS)
    if is_shared:
        each = min(each, max(SHARED_ELEMENTS // columns, SHARED_ROWS))
    least = max(-(-FEWEST_ELEMENTS // columns), each, FEWEST_ROWS if kept else 1)
    each = divisor_from(rows, least) or least
    return Cut(outer, run, each, bool(kept)) if rows > each else None


def lower_parts(storage: Storage, node: FusedOp, domain: Domain, by: Cut, across: tuple[int, ...], inside: frozenset[int]) -> Stmt:
    """across, inside: as for a region."""
    return _Parts(storage, node, domain, by, across, inside).emit(node.ops)


class _Parts(Region):
    """A region at one row and one column, with its own loops around the phases."""

    def __init__(self, storage: Storage, node: FusedOp, domain: Domain, by: Cut, across: tuple[int, ...], inside: frozenset[int]) -> None:
        task, row, column = (storage.var(stem) for stem in ("o", "r", "i"))
        extents = domain.extents
        columns: Loop = (column, Const(prod(extents[axis] for axis in by.run)))
        axes, var, rest = (by.outer, row, (columns,)) if by.outer else (by.run, column, ())
        total = prod(extents[axis] for axis in axes)
        found = {**along(by.run, extents, column), **along(axes, extents, add(mul(task, by.each), var))}
        coords = tuple(found.get(axis, Coord(ZERO)) for axis in range(len(extents)))
        super().__init__(storage, domain, (Span(Const(1)),) * len(extents), coords, across=across, inside=inside, most_steps=MOST_STEPS)
        self.tasks: Loop = (task, Const(-(-total // by.each)))
        self.of_task: tuple[Loop, ...] = ((var, block_size(total, by.each, task)), *rest)
        self.kept: tuple[Loop, ...] = (columns,) if by.keeps_columns else ()
        self.starts_of_sums: dict[int, list[Stmt]] = {}  # by phase: how what parts are added to starts
        self.parts: dict[int, list[tuple[Stmt, Stmt]]] = {}  # by phase: how a task's part of a fold starts, how it is added

    def finish(self) -> Stmt:
        body: list[Stmt] = list(self.before)
        for number, phase in enumerate(self.phases):
            body += [nest(self.kept, seq(*phase.per_row))] if phase.per_row else []
            if phase.per_element:
                body += [self._spread(phase.per_element, self.parts.get(number, [])), *self._summed(number)]
        return seq(*body)

    def _spread(self, body: list[Stmt], parts: list[tuple[Stmt, Stmt]]) -> Stmt:
        """The elements as tasks."""
        start = [nest(self.kept, seq(*(first for first, _ in parts)))] if parts else []
        task = seq(*start, nest(self.of_task, seq(*body)))
        return For(*self.tasks, task, LoopKind.parallel)

    def _summed(self, phase: int) -> list[Stmt]:
        """The parts of a phase's folds put together, behind the tasks: what makes these may then be made one with what is in front."""
        if phase not in self.parts:
            return []
        added = seq(*(added for _, added in self.parts[phase]))
        return [nest(self.kept, seq(*self.starts_of_sums[phase])), nest((self.tasks, *self.kept), added)]

    def _start(self, phase: int, start: Store) -> None:
        self.starts_of_sums.setdefault(phase, []).append(start)

    def _fold(self, phase: int, acc: Tensor, index: tuple[Expr, ...], how: Reduction, value: Expr) -> None:
        (task, tasks), line = self.tasks, Const(LINE_BYTES * 8 // acc.dtype.bits)  # a line is written by one task
        column, columns = self.kept[0] if self.kept else (ZERO, line)
        part, at = self.storage.extra(acc.dtype, (constant(tasks) or 0, constant(columns) or 0)), (task, column)
        start = Store(part, at, how.start)
        super()._fold(phase, part, at, how, value)
        self.parts.setdefault(phase, []).append((start, Store(acc, index, binary(how.op, Load(acc, index), Load(part, at)))))
