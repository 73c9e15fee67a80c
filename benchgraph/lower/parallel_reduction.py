"""Parallel reductions, of everything or of all axes but the last: sums per channel with channels last, a loss, the gradient of one slope.

    parallel for t in tasks:                              partial sums of a task
      part[t, :] = 0
      for r in rows of a task: for c in C: part[t, c] += x[t * rows + r, c] - mean[c]
    for t in tasks: for c in C: acc[c] += part[t, c]
    parallel for t in tasks: for r ..: for c in C: dst[..] = (x[..] - mean[c]) * acc[c]

Where columns are reduced, too, a part is one number. Axes that all accesses step through evenly are then one row, split into tasks. The
tasks follow from the shape alone, and their parts are added in order: a result's bits do not depend on threads.
"""

from __future__ import annotations

from math import prod

from benchgraph.gir.domain import Domain
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import ZERO, Coord, Storage, unravel
from benchgraph.machine.target import LINE_BYTES
from benchgraph.ops.spec import Reduction
from benchgraph.schedule.primitives import UnrollJam
from benchgraph.tir.build import Loop, add, binary, block_size, constant, mul, nest, seq
from benchgraph.tir.ir import Const, Expr, For, Load, LoopKind, Stmt, Store, Tensor


class ParallelReductionRegion(Region):
    """A region of one row and one column, with its own loops around the phases. rows: the axes that number rows; without any, the one row
    is split. columns: the axes that are a row, as one loop. per_task: rows, or else columns, of a task. The others: see Region."""

    def __init__(
        self,
        storage: Storage,
        domain: Domain,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
        per_task: int,
        contiguous: tuple[int, ...],
        private: frozenset[int],
        most_instructions: int,
        jam: UnrollJam,
    ) -> None:
        task, row, column = (storage.var(stem) for stem in ("task", "r", "i"))
        extents, rank = domain.extents, len(domain.extents)
        inner: Loop = (column, Const(prod(extents[axis] for axis in columns)))
        axes, var, rest = (rows, row, (inner,)) if rows else (columns, column, ())
        total = prod(extents[axis] for axis in axes)
        coord_of = unravel(columns, extents, column) | unravel(axes, extents, add(mul(task, per_task), var))
        coords = tuple(coord_of.get(axis, Coord(ZERO)) for axis in range(rank))
        spans = (Span(Const(1)),) * rank
        super().__init__(storage, domain, spans, coords, None, (), contiguous, private, most_instructions, jam)
        self.tasks: Loop = (task, Const(-(-total // per_task)))
        self.of_task: tuple[tuple[Loop, ...], tuple[Loop, ...]] = ((var, block_size(total, per_task, task)),), rest
        self.kept: tuple[Loop, ...] = (inner,) if columns[-1] not in domain.reduced else ()
        self.initial_stores: dict[int, list[Stmt]] = {}  # by phase: of the results that parts are added to
        self.parts: dict[int, list[tuple[Stmt, Stmt]]] = {}  # by phase: (initial store of a task's part, its addition to the result)

    def finish(self) -> Stmt:
        body: list[Stmt] = list(self.before)
        for number, phase in enumerate(self.phases):
            body += [nest(self.kept, seq(*phase.per_row))] if phase.per_row else []
            if phase.per_element:
                rows, columns = self.of_task
                elements = nest(columns, seq(*phase.per_element))
                parts, work = self.parts.get(number, []), nest(rows, elements, unroll_jam=self.jam.of(number) if phase.reduces else 1)
                clears = [nest(self.kept, seq(*(initial for initial, _ in parts)))] if parts else []
                body.append(For(*self.tasks, seq(*clears, work), LoopKind.parallel))
                if parts:  # are added up behind the tasks, whose loop may then be fused with the one before it
                    body.append(nest(self.kept, seq(*self.initial_stores[number])))
                    additions = nest(self.kept, seq(*(addition for _, addition in parts)))
                    body.append(nest((self.tasks,), additions, unroll_jam=self.jam.count))
        return seq(*body)

    def _initialise(self, phase: int, store: Store) -> None:
        self.initial_stores.setdefault(phase, []).append(store)

    def _accumulate(self, phase: int, acc: Tensor, index: tuple[Expr, ...], form: Reduction, value: Expr) -> None:
        (task, tasks), line = self.tasks, Const(LINE_BYTES * 8 // acc.dtype.bits)  # no two tasks write the same cache line
        column, columns = self.kept[0] if self.kept else (ZERO, line)
        part, at = self.storage.temporary(acc.dtype, (constant(tasks) or 0, constant(columns) or 0)), (task, column)
        initial = Store(part, at, form.start)
        super()._accumulate(phase, part, at, form, value)
        self.parts.setdefault(phase, []).append((initial, Store(acc, index, binary(form.op, Load(acc, index), Load(part, at)))))
