"""The loops of a window's schedule: over windows, one or several neighbouring ones at a time, and over their taps.

    for y in 112: for x in 32:                       unroll_jam y by 4; unroll t0:    for g in 28: for x in 32:
      dst[y, x] = src[y, x] * w[0, x]                   dst[4g, x] = src[4g, x] * w[0, x] + src[4g + 1, x] * w[1, x] + ...
                + src[y + 1, x] * w[1, x]               dst[4g + 1, x] = src[4g + 1, x] * w[0, x] + src[4g + 2, x] * w[1, x] + ...
                + src[y + 2, x] * w[2, x]               dst[4g + 2, x] = ...

Maxima of taps that neighbours have in common are computed once: max(max of row y, max of row y + 1, ..), where y is a row of src.

Windows at the borders of y have constant y, and those of their taps that read nothing are left out. Taps along other axes are loops, each
under its conditions, as far out as these allow:

    for x: acc_0 .. acc_3 = init;  for t1 in 3: if it counts: acc_0 = acc_0 op tap_0 op tap_1 ..., acc_1 = ...;  dst = finish(acc)

Where x is the innermost loop, it is so in each of the three steps. A row of x falls into its interior, where no tap has a condition on x,
and what is before and behind. Where all taps are unrolled, other axes have an interior too:

    if d0 and d1 are in their interiors: for x: dst[x] = finish(tap_0 op tap_1 op ...)     else: as above

Where taps depend on x // 2 or x % 2, even and odd x are two rows, and indices are affine in each. Where indices stay non-affine (x // 21),
a loop of gathers stores the reduced values of the row in a temporary, and post-ops run over it in vectors. Taps whose indices are clamped
to src have no conditions; in the interior of x they are read unclamped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise, product
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.gir.windows import Windows, where_holds
from benchgraph.lower.storage import Storage
from benchgraph.ops.spec import Indices, Interval, Source
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.window import axis, parts, tap
from benchgraph.tir.affine import Ranges
from benchgraph.tir.build import Loop, add, binary, constant, f32, mul, seq, sub
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, LoopKind, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables

Finish: TypeAlias = Callable[[Indices, Expr], Stmt]  # (index of dst, reduced value) -> its store, and post-ops
TapValue: TypeAlias = tuple[Expr, tuple[Expr, ...]]  # a tap's value, and those of its conditions that are not known to hold


@dataclass(frozen=True)
class WindowLoops:
    """src: the elements that taps read. finish: see `Finish`; has_post_ops: it does more than to store."""

    storage: Storage
    windows: Windows
    schedule: Schedule
    src: Source
    finish: Finish
    has_post_ops: bool = False

    @cached_property
    def loops(self) -> tuple[Var, ...]:
        """The variables of the loops over dst's axes; there is none for x."""
        return tuple(self.storage.var("u") for _ in self.windows.shape)

    @cached_property
    def ranges(self) -> Ranges:
        return {var.name: (0, size - 1) for var, size in zip(self.loops, self.windows.shape, strict=True)}

    @cached_property
    def taps(self) -> tuple[Var, ...]:
        """The variables of the loops over taps."""
        return tuple(self.storage.var("k") for _ in self.windows.taps)

    @cached_property
    def group(self) -> int:
        """Taps in one expression where they are unrolled in groups; 0 where they are not."""
        return next((size for k in range(len(self.taps)) for size in self.schedule.sizes(tap(k))), 0)

    @cached_property
    def unrolled(self) -> tuple[int, ...]:
        """The axes of taps that are unrolled, or unrolled in groups."""
        return tuple(k for k in range(len(self.taps)) if {tap(k), f"{tap(k)}.1"} & {*self.schedule.unrolled})

    @property
    def x_is_innermost(self) -> bool:
        return self.schedule.order[-1:] == (axis(self.windows.x),)

    @cached_property
    def y(self) -> int | None:
        """The axis along which neighbouring windows are computed together."""
        return next((a for a in range(len(self.loops)) if axis(a) == self.schedule.jam.loop), None)

    def lower(self, begins: Mapping[str, Stmt] = MappingProxyType({})) -> Stmt:
        """All loops. begins: what iterations of a loop begin with, by its name."""
        if 0 in self.windows.shape:
            return Seq(())
        body = self._row([self.loops], {}) if self.y is None else self._groups(self.y)
        for number, name in reversed([(int(name[1:]), name) for name in self.schedule.order if name.startswith("d")]):
            body = seq(begins[name], body) if name in begins else body
            if number not in (self.y, self.windows.x):
                body = For(self.loops[number], Const(self.windows.shape[number]), body, self._kind(number))
        return body

    def _kind(self, number: int) -> LoopKind:
        return LoopKind.parallel if axis(number) in self.schedule.parallel else LoopKind.serial

    def _groups(self, y: int) -> Stmt:
        """Groups of neighbouring windows; at the ends of y, in iterations before and after the others, with constant y."""
        by, along, group = self.schedule.jam.count, self.windows.neighbours, self.storage.var("g")
        assert along is not None
        head, count, tail = parts(self.windows.shape[y], along.interior, by, along.step)
        first, begin = len(head[:1]), head[-1].stop if head else 0
        ys = [add(add(mul(sub(group, first), by), begin), i) for i in range(by)]
        body = self._row([self._at(y, i) for i in ys], {group.name: (first, first + count - 1)})
        before, after = (seq(*(self._row([self._at(y, Const(i)) for i in part], {}) for part in ends)) for ends in (head, tail))
        body = If(binary(BinOp.lt, group, Const(first + count)), body, after) if tail else body
        body = If(binary(BinOp.lt, group, Const(first)), before, body) if head else body
        return For(group, Const(first + count + len(tail[:1])), body, self._kind(y))

    def _at(self, y: int, index: Expr) -> Indices:
        return tuple(index if a == y else i for a, i in enumerate(self.loops))

    def _row(self, at: Sequence[Indices], ranges: Ranges) -> Stmt:
        """Windows at these indices of dst, for all x. ranges: of variables in the indices besides `loops`."""
        return seq(*(part for offset in range(self.windows.rows) for part in self._every(offset, at, ranges)))

    def _every(self, offset: int, at: Sequence[Indices], ranges: Ranges) -> Iterator[Stmt]:
        """The row that begins with this window: before the interior of x, in it, and behind."""
        windows, every, interior = self.windows, tuple(range(len(self.taps))), self.windows.interior(offset)
        unrolls_all = prod(windows.taps) == 1 or (self.unrolled == every and not self.group)
        exists = all(a == self.y or first < end for a, (first, end) in enumerate(interior))
        is_clamped = windows.window.unclamped is not None
        loops = every if self.y is None else tuple(k for k in every if windows.neighbours and k not in windows.neighbours.taps)
        bounds = (0, *interior[windows.x], windows.row_size(offset)) if interior else (0, 0, 1, 1)
        for (first, end), is_inside in zip(pairwise(bounds), (False, True, False), strict=True):
            if first >= end:
                continue
            q = self.storage.var("x")
            x = add(mul(add(q, first), windows.rows), offset)
            whole = [tuple(x if a == windows.x else i for a, i in enumerate(index)) for index in at]
            reduction = _Reduction(self, whole, ranges, q, end - first, loops, is_inside)
            if unrolls_all and (is_clamped or (is_inside and exists)):
                condition, unrolled = self._interior_condition(interior), replace(reduction, loops=(), all_count=True).lower()
                yield unrolled if condition is None else If(condition, unrolled, reduction.lower())
            else:
                yield reduction.lower()

    def _interior_condition(self, interior: tuple[Interval, ...]) -> Expr | None:
        """The condition that all axes but x and y are in their interiors; None where they always are."""
        conditions: list[Expr] = []
        for a, (first, end) in enumerate(interior):
            if a not in (self.windows.x, self.y):
                conditions += [binary(BinOp.ge, self.loops[a], Const(first))] if first > 0 else []
                conditions += [binary(BinOp.lt, self.loops[a], Const(end))] if end < self.windows.shape[a] else []
        return all_of(conditions) if conditions else None


@dataclass(frozen=True)
class _TapGroup:
    """Taps in one expression, in lines that are combined first. loop: repeats it `count` times."""

    lines: Sequence[Sequence[Indices]]
    loop: Var | None = None
    count: int = 1

    def repeated(self, stmt: Stmt) -> Stmt:
        return stmt if self.loop is None else For(self.loop, Const(self.count), stmt)


@dataclass(frozen=True)
class _Reduction:
    """Of the taps of windows at these indices of dst, for so many q in x. ranges: of other variables than q and those of the nest. loops:
    the axes of taps that are loops, the others are unrolled. is_inside: taps have no conditions on x; all_count: nor any others."""

    nest: WindowLoops
    at: Sequence[Indices]
    ranges: Ranges
    q: Var
    size: int
    loops: tuple[int, ...]
    is_inside: bool
    all_count: bool = False

    def lower(self) -> Stmt:
        groups, loops = self.groups, [(self.nest.taps[k], Const(self.windows.taps[k])) for k in self.loops]
        is_row = self.windows.has_affine_taps or not self.nest.has_post_ops
        if is_row and not loops and not self.conditions and len(groups) == 1 and groups[0].loop is None:
            return self._at_once()
        accs = [self._acc() for _ in self.at]
        clears = [Store(acc, self._acc_index, self._start) for acc in accs]
        stores = list(self._stores(accs))
        updates = [self._updates(accs, values) for values in self.values]
        if not self.nest.x_is_innermost:
            body = guarded_nest(loops, self.conditions, seq(*(g.repeated(u) for g, u in zip(groups, updates, strict=True))))
            return self._over_x(*clears, body, *stores)
        on_x = [c for c in self.conditions if self.q.name in variables(c)]
        rows = (g.repeated(self._over_x(If(all_of(on_x), u) if on_x else u)) for g, u in zip(groups, updates, strict=True))
        others = [c for c in self.conditions if c not in on_x]
        return seq(self._over_x(*clears), guarded_nest(loops, others, seq(*rows)), self._over_x(*stores))

    @property
    def windows(self) -> Windows:
        return self.nest.windows

    def _over_x(self, *stmts: Stmt) -> Stmt:
        return For(self.q, Const(self.size), seq(*stmts))

    def _at_once(self) -> Stmt:
        """Each window in one expression. Several are stored after all taps are loaded: a load whose address has the low bits of a store
        before it waits for that."""
        (values,) = self.values
        reduced = [reduce(self._combine, taps) if taps else self._start for taps in values]
        if len(reduced) == 1:
            return self._over_x(self._store(self.at[0], reduced[0]))
        accs = [self._acc() for _ in self.at]
        sums = (Store(acc, self._acc_index, value) for acc, value in zip(accs, reduced, strict=True))
        return self._over_x(*sums, *self._stores(accs))

    def _stores(self, accs: Sequence[Tensor]) -> Iterator[Stmt]:
        return (self._store(at, Load(acc, self._acc_index)) for at, acc in zip(self.at, accs, strict=True))

    @property
    def _start(self) -> Expr:
        return f32(self.windows.window.start(self.windows.call))

    def _combine(self, a: Expr, b: Expr) -> Expr:
        return b if self.windows.window.op is None else binary(self.windows.window.op, a, b)

    def _store(self, at: Indices, reduced: Expr) -> Stmt:
        finish = self.windows.window.finish
        return self.nest.finish(at, reduced if finish is None else finish(self.windows.call, at, reduced))

    def _acc(self) -> Tensor:
        """A temporary for the sums of one of the windows, of each iteration of the loops around."""
        around = (int(high) + 1 for _, high in (*self._around.values(), (0, self.size - 1)))
        return self.nest.storage.temporary(DType.f32, tuple(around))

    @property
    def _acc_index(self) -> Indices:
        return (*map(Var, self._around), self.q)

    @cached_property
    def _around(self) -> Ranges:
        """Of the variables in the windows' indices."""
        names = frozenset[str]().union(*(variables(i) for a, i in enumerate(self.at[0]) if a != self.windows.x))
        return {name: range for name, range in {**self.nest.ranges, **self.ranges}.items() if name in names}

    def _updates(self, accs: Sequence[Tensor], values: Sequence[Sequence[Expr]]) -> Stmt:
        """All taps of a group, added to the sums."""
        starts: list[Expr] = [Load(acc, self._acc_index) for acc in accs]
        each = zip(accs, starts, values, strict=True)
        return seq(*(Store(acc, self._acc_index, reduce(self._combine, taps, start)) for acc, start, taps in each if taps))

    # ---- taps

    @cached_property
    def groups(self) -> Sequence[_TapGroup]:
        """The unrolled taps."""
        box = {k: n for k, n in enumerate(self.windows.taps) if k not in self.loops}
        if not self.nest.group or self.all_count:
            places = [self._index(dict(zip(box, place, strict=True))) for place in constants(box.values())]
            return [_TapGroup(self._lines(places))]
        ((k, extent),), size = box.items(), self.nest.group
        head, count, tail = parts(extent, self._common_taps(k), size)
        loop, start = self.nest.storage.var("k"), head[-1].stop if head else 0
        before, after = ([_TapGroup([[self._index({k: Const(i)})] for i in part]) for part in some] for some in (head, tail))
        whole = [_TapGroup([[self._index({k: add(mul(loop, size), start + i)})] for i in range(size)], loop, count)] if count else []
        return [*before, *whole, *after]

    def _lines(self, places: Sequence[Indices]) -> Sequence[Sequence[Indices]]:
        """Taps with the same index along y, which are the same elements for a neighbour that reads them."""
        neighbours = self.windows.neighbours
        if self.nest.y is None or neighbours is None or not self.windows.shares_lines:
            return [[place] for place in places]
        lines = dict[Indices, list[Indices]]()
        for place in places:
            lines.setdefault(tuple(place[k] for k in neighbours.taps), []).append(place)
        return list(lines.values())

    def _common_taps(self, k: int) -> Interval:
        """The interval of taps along an axis that all windows have."""
        var, size = self.nest.taps[k], self.windows.taps[k]
        ranges, (first, end) = self._ranges({}), (0, size)
        generic = _TapGroup([[self.nest.taps]])
        for condition in (c for at in self.at for line in self._counting(at, generic) for _, when in line for c in when):
            if var.name in variables(condition):
                low, high = where_holds(condition, var, size, ranges)
                first, end = max(first, low), min(end, high)
        return first, max(first, end)

    def _index(self, unrolled: Mapping[int, Expr]) -> Indices:
        return tuple(unrolled.get(k, var) for k, var in enumerate(self.nest.taps))

    @cached_property
    def _found(self) -> list[list[list[list[TapValue]]]]:
        """By group of taps, window and line."""
        return [[list(self._counting(at, group)) for at in self.at] for group in self.groups]

    def _counting(self, at: Indices, group: _TapGroup) -> Iterator[list[TapValue]]:
        """The taps of a window by line, but for those that are known not to count."""
        simplify = Simplifier(self._ranges({} if group.loop is None else {group.loop.name: (0, group.count - 1)}))
        for line in group.lines:
            taps = [self.windows.tap(at, place, self.nest.src, is_inside=self.is_inside) for place in line]
            whens = [[simplify(c) for c in tap.conditions] for tap in taps]
            yield [
                (tap.value, () if self.all_count else tuple(c for c in when if constant(c) is None))
                for tap, when in zip(taps, whens, strict=True)
                if all(constant(c) != 0 for c in when)
            ]

    def _ranges(self, more: Ranges) -> Ranges:
        taps = {var.name: (0, n - 1) for var, n in zip(self.nest.taps, self.windows.taps, strict=True)}
        return {**self.nest.ranges, **self.ranges, **taps, self.q.name: (0, self.size - 1), **more}

    @property
    def values(self) -> list[list[list[Expr]]]:
        """Of the lines, by group of taps and window."""
        return [
            [[reduce(self._combine, (value for value, _ in line)) for line in lines if line] for lines in of_windows]
            for of_windows in self._found
        ]

    @cached_property
    def conditions(self) -> list[Expr]:
        """Those under which the taps count."""
        sets = {when for of_windows in self._found for lines in of_windows for line in lines for _, when in line}
        assert len(sets) <= 1, "neighbouring windows are those whose taps count under the same conditions"
        return list(*sets)


def constants(extents: Iterable[int]) -> Iterator[Indices]:
    """All indices of a box."""
    return (tuple(map(Const, place)) for place in product(*map(range, extents)))


def guarded_nest(loops: Sequence[Loop], conditions: Iterable[Expr], stmt: Stmt) -> Stmt:
    """The statement in loops, outermost first, under conditions, each as far out as its variables allow."""
    waiting = list(conditions)
    for loop, extent in reversed(loops):
        here = [c for c in waiting if loop.name in variables(c)]
        waiting = [c for c in waiting if c not in here]
        stmt = For(loop, extent, If(all_of(here), stmt) if here else stmt)
    return If(all_of(waiting), stmt) if waiting else stmt


def all_of(conditions: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: binary(BinOp.and_, a, b), conditions)
