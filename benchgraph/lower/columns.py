"""Nests that fold all axes but the last: sums per channel where channels lie densest, on vectors of channels, with rows spread over tasks.

    parallel for t in tasks:                              t's own part of the sum
      part[t, :] = 0
      for r in rows of a task: for c in C: part[t, c] += x[t * rows + r, c] - mean[c]
    for t in tasks: for c in C: acc[c] += part[t, c]
    parallel for t in tasks: for r ..: for c in C: dst[..] = (x[..] - mean[c]) * acc[c]

The tasks follow from the shape alone and their parts are added in order, so the bits of a result do not depend on threads. A value per
element that a later phase reads again is computed again there from what it was made of, as long as that is cheaper than memory.
"""

from __future__ import annotations

from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Fused
from benchgraph.lower.access import ZERO, Coord, Storage, aligned, along
from benchgraph.lower.region import Region, Span
from benchgraph.ops import spec
from benchgraph.ops.spec import Elementwise, Reduction
from benchgraph.tir.build import add, binary, cast, minimum, mul, seq, sub
from benchgraph.tir.ir import Const, Expr, For, Load, LoopKind, Stmt, Store, Tensor
from benchgraph.tir.work import FUNCTION, steps

MOST_TASKS = 64  # as many parts are added up by one thread
FEWEST_ROWS = 32  # of a task: then adding up the parts is a thirtieth of the work
FEWEST_ELEMENTS = 16384  # of a task
WORTH = 98304  # elements of a nest from which on a plain sum, of 3 instructions on a vector, saves a second thread's waking (tir/work.py)
# Instructions on a vector up to which a value is computed anew. On one of two Cascade Lake cores that read 10 to 24 GB/s together, a vector
# that goes to memory and back takes as long as 50 of them; from a cache, as long as a few.
MOST_STEPS = FUNCTION
MOST_READ = 2  # values per element that it is computed from: a value that is kept would be written and read


def folds_columns(domain: Domain) -> bool:
    """Whether all is folded but a last axis of several elements, and there is enough of it for several tasks."""
    *outer, last = domain.extents
    kept = [extent for axis, extent in enumerate(outer) if axis not in domain.reduced]
    folded = bool(domain.reduced) and len(outer) not in domain.reduced
    enough = prod(domain.extents) >= WORTH and prod(outer) > _rows(prod(outer), last)
    return folded and last > 1 and set(kept) <= {1} and enough


def lower_columns(storage: Storage, node: Fused, domain: Domain) -> Stmt:
    return _Columns(storage, node, domain).emit(node.ops)


def _rows(rows: int, columns: int) -> int:
    """Rows of a task."""
    return max(FEWEST_ROWS, -(-FEWEST_ELEMENTS // columns), -(-rows // MOST_TASKS))


class _Columns(Region):
    """A region at one row and one column, with its own loops around the phases."""

    def __init__(self, storage: Storage, node: Fused, domain: Domain) -> None:
        extents = domain.extents
        self.columns, self.total = extents[-1], prod(extents[:-1])
        self.rows = _rows(self.total, self.columns)
        self.tasks = -(-self.total // self.rows)
        self.task, self.row, self.column = (storage.var(stem) for stem in ("t", "r", "i"))
        at = add(mul(self.task, self.rows), self.row)
        found = along([axis for axis, extent in enumerate(extents[:-1]) if extent != 1], extents, at)
        coords = (*(found.get(axis, Coord(ZERO)) for axis in range(len(extents) - 1)), Coord(self.column))
        super().__init__(storage, domain, (Span(Const(1)),) * len(extents), coords)
        self.border = {*node.ins, *node.outs}
        self.maker = {v: op for op in node.ops for v in op.outs}
        self.parts: dict[int, list[tuple[Stmt, Stmt]]] = {}  # by phase: how a task's part of a fold starts, how it is added
        self.again: dict[tuple[int, int], Expr | None] = {}  # (value, later phase) -> how it is computed anew, if it is

    def finish(self) -> Stmt:
        body: list[Stmt] = list(self.before)
        for number, phase in enumerate(self.phases):
            body += [self._over_columns(phase.per_row)] if phase.per_row else []
            if phase.per_element:
                body += self._spread(phase.per_element, self.parts.get(number, []))
        return seq(*body)

    def _over_columns(self, body: list[Stmt]) -> Stmt:
        return For(self.column, Const(self.columns), seq(*body))

    def _spread(self, body: list[Stmt], parts: list[tuple[Stmt, Stmt]]) -> list[Stmt]:
        """The rows as tasks, then the parts of the folds put together."""
        rest = self.total % self.rows
        count = minimum(self.rows, sub(self.total, mul(self.task, self.rows))) if rest else Const(self.rows)
        start = [self._over_columns([first for first, _ in parts])] if parts else []
        task = seq(*start, For(self.row, count, self._over_columns(body)))
        end = [For(self.task, Const(self.tasks), self._over_columns([added for _, added in parts]))] if parts else []
        return [For(self.task, Const(self.tasks), task, LoopKind.parallel), *end]

    def _fold(self, phase: int, acc: Tensor, index: tuple[Expr, ...], how: Reduction, value: Expr) -> None:
        part, at = self.storage.extra(acc.dtype, (self.tasks, self.columns)), (self.task, self.column)
        start = Store(part, at, Const(how.init if how.acc.is_float else int(how.init), how.acc))
        super()._fold(phase, part, at, how, value)
        self.parts.setdefault(phase, []).append((start, Store(acc, index, binary(how.op, Load(acc, index), Load(part, at)))))

    # ---- values that a later phase reads again -----------------------------------------------------------------------

    def _operand(self, v: int, at: tuple[Coord, ...], phase: int) -> Expr:
        again = self._once_more(v, at, phase)
        return super()._operand(v, at, phase) if again is None else again

    def _once_more(self, v: int, at: tuple[Coord, ...], phase: int) -> Expr | None:
        """The value computed anew, if it is one of an earlier phase that would be kept for this one, and cheap."""
        if not self._is_kept(v, phase):
            return None
        if (v, phase) not in self.again:
            read: set[int] = set()
            value = self._computed(v, read, {})
            cheap = value is not None and len(read) <= MOST_READ and steps(Store(*self.storage.place(v, at), value)) <= MOST_STEPS
            self.again[v, phase] = value if cheap else None
        return self.again[v, phase]

    def _is_kept(self, v: int, phase: int) -> bool:
        return v in self.maker and v not in self.border and self.ready[v] < phase and self._is_per_element(v)

    def _is_per_element(self, v: int) -> bool:
        axes = self.domain.axes.get(v)
        return prod(self.storage.g.value(v).shape[:-1]) > 1 if axes is None else bool(self.domain.reduced.intersection(axes))

    def _computed(self, v: int, read: set[int], made: dict[int, Expr | None]) -> Expr | None:
        """The element at this row and column from values at the border and per column, None where it is not made by few pointwise ops.

        read: grows by the values per element among these. made: by what ops make on the way, None while it is not known.
        """
        if v in made:
            return made[v]
        at = self._at(self.domain.axes[v])
        g, op = self.storage.g, self.maker[v]
        how = spec(op.kind).lower
        if not isinstance(how, Elementwise) or len(op.outs) > 1 or len(made) >= MOST_STEPS:
            return None
        made[v] = None
        operands: list[Expr] = []
        for src in op.ins:
            is_inside = src in self.maker and src not in self.border and self._is_per_element(src)
            found = self._computed(src, read, made) if is_inside else self.storage.load(src, aligned(g.value(src).shape, at))
            if found is None:
                return None
            if not is_inside and self._is_per_element(src):
                read.add(src)
            operands.append(found)
        dtype = g.value(v).dtype
        (value,) = how.values(op.attrs, g.value(v).shape, tuple(c.value for c in at), tuple(operands))
        made[v] = cast(cast(value, dtype), DType.f32) if dtype.is_float else cast(value, dtype)
        return made[v]
