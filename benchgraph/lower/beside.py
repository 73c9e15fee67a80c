"""Windows beside each other: some at a time, so that what they share, taps of src and weights, is read once, and sums do not wait.

for y in 112: for x in 32:                       for g in 28: for x in 32:
  dst[y, x] = src[y, x] * w[0, x]                  dst[4g, x] = src[4g, x] * w[0, x] + src[4g + 1, x] * w[1, x] + ...
            + src[y + 1, x] * w[1, x]      ->      dst[4g + 1, x] = src[4g + 1, x] * w[0, x] + src[4g + 2, x] * w[1, x] + ...
            + src[y + 2, x] * w[2, x]              dst[4g + 2, x] = ...

y is the last axis along which neighbouring windows meet the same elements. Windows at its borders have places that are numbers, and taps
beyond them are left out; taps along other axes are loops, under the conditions they have. Vectors of x are worked on one after the other,
their sums in registers (vectorize.py takes the loops over taps along):

    for x: acc_0 .. acc_3 = init;  for taps along other axes: if they count: acc_0 = acc_0 op tap_0 op tap_1 ..., acc_1 = ...;  finish

Where a window has many taps along y, as those have that sum a gradient of weights over rows of an image, it goes past them row by row of x:

    acc_0[..] .. acc_3[..] = init;  for taps along other axes: if they count: for some taps along y: for x: acc_0[x] = ...;  for x: finish
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from math import prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.lower.window_nest import Nest, Stretch, over
from benchgraph.lower.window_rows import Row, holding, not_negative
from benchgraph.ops.spec import Indices
from benchgraph.tir.affine import Range, Ranges, linear
from benchgraph.tir.build import add, binary, constant, mul, seq, sub
from benchgraph.tir.index import Simplifier, simplify_expr
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, LoopKind, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import loads_of, variables

Found: TypeAlias = tuple[Expr, tuple[Expr, ...]]  # what a tap gives, and those of the conditions on it that are not known to hold

MOST_TAPS, TAPS = 12, 8  # along y that are one expression; of more, so many at a time
MOST_APART = 4  # blocks of windows at the borders of y, each with code of its own
FEW_ROWS = 64  # places of the other axes that are too few for threads to share


def beside(row: Row, kind: LoopKind) -> tuple[int, Stmt] | None:
    """y, and the loops over it and x; None where that is of no use, or not that simple. kind: of the loops over dst."""
    nest = row.nest
    if nest.together == 1 or nest.how.op is None or nest.how.unclamped is not None or not nest.is_close or nest.period > 1:
        return None
    for axis in reversed(range(len(nest.loops))):
        own = _leading(nest, axis) if axis != nest.along and nest.dst.shape[axis] > 1 else ()
        if own:
            found = _Beside(nest, axis, own, row.interior, row.decided).lower(kind)
            return None if found is None else (axis, found)
    return None


def _leading(nest: Nest, axis: int) -> tuple[int, ...]:
    """The axes of the box of taps that lead along an axis of dst, where windows beside each other along it have something in common."""
    taps, var = tuple(Var(f"$t{k}") for k in range(len(nest.taps))), nest.loops[axis]
    found, common = set[int](), nest.how.channel_weights is not None
    for index in (i for load in loads_of(nest.tap(nest.loops, taps).value) for i in load.index if var.name in variables(i)):
        terms = linear(index).terms
        for k, (tap, extent) in enumerate(zip(taps, nest.taps, strict=True)):
            if tap.name in variables(index):
                found.add(k)
                common |= extent > 1 and _meet(terms.get(var, 0), terms.get(tap, 0), extent, nest.together)
    return tuple(sorted(found)) if common else ()


def _meet(apart: int, step: int, extent: int, together: int) -> bool:
    """Whether some of so many windows, so far apart, of so many taps, a step apart, meet the same elements; 0 where quotients say where."""
    return step == 0 or any(apart * i % step == 0 and abs(apart * i // step) < extent for i in range(1, together))


@dataclass(frozen=True)
class _Beside:
    """axis: y. own: the axes of the box of taps that lead along it. interior, decided: per axis of dst, where all taps count, and where
    minima and maxima in what they give are known."""

    nest: Nest
    axis: int
    own: tuple[int, ...]
    interior: list[Stretch]
    decided: list[Stretch]

    @cached_property
    def outer_taps(self) -> tuple[Var | None, ...]:
        """Of each axis of the box, the variable of its loop; None for those that lead along y."""
        return tuple(None if k in self.own else self.nest.storage.var("k") for k in range(len(self.nest.taps)))

    @property
    def places(self) -> Shape:
        """Extents of the axes but y, x last."""
        nest = self.nest
        return (*(extent for axis, extent in enumerate(nest.dst.shape) if axis not in (self.axis, nest.along)), nest.x_size)

    def at(self, x: Expr) -> Indices:
        """The place along them."""
        return (*(at for axis, at in enumerate(self.nest.outer) if axis not in (self.axis, self.nest.along)), x)

    def lower(self, kind: LoopKind) -> Stmt | None:
        together, (head, count, tail) = self.nest.together, self._blocks()
        if self.interior[self.nest.along] != (0, self.nest.x_size) or len(head) + len(tail) > MOST_APART:
            return None
        rows = prod(extent for axis, extent in enumerate(self.nest.dst.shape) if axis not in (self.axis, self.nest.along))
        is_shared = kind is LoopKind.parallel and rows < FEW_ROWS
        group, first = self.nest.storage.var("g"), len(head[:1]) if is_shared else 0
        at = add(mul(sub(group, first), together), head[-1].stop if head else 0)
        ranges: dict[str, Range] = {group.name: (first, first + count - 1)}
        ends = [[_Block(self, tuple(map(Const, piece)), {}) for piece in pieces] for pieces in (head, tail)]
        groups = [_Block(self, tuple(add(at, i) for i in range(together)), ranges)] if count else []
        if not all(block.is_decided for blocks in (*ends, groups) for block in blocks):
            return None
        before, after, middle = (seq(*(block.lower() for block in blocks)) for blocks in (*ends, groups))
        if not is_shared:
            return seq(before, For(group, Const(count), middle), after)
        body = If(binary(BinOp.lt, group, Const(first + count)), middle, after) if tail else middle
        body = If(binary(BinOp.lt, group, Const(first)), before, body) if head else body
        return For(group, Const(first + count + len(tail[:1])), body, kind)

    def _blocks(self) -> tuple[list[range], int, list[range]]:
        """Windows ahead of the interior of y, how many whole groups of them come then, and those behind."""
        size, ends = self.nest.dst.shape[self.axis], zip(self.interior[self.axis], self.decided[self.axis], strict=True)
        first, last = (choose(pair) for choose, pair in zip((max, min), ends, strict=True))
        together = self.nest.together
        if size <= 2 * together or first >= last:
            return _pieces(0, size, together), 0, []
        begin = -(-first // together) * together
        count = max((last - begin) // together, 0)
        return _pieces(0, begin, together), count, _pieces(begin + count * together, size, together)


def _pieces(first: int, last: int, most: int) -> list[range]:
    """As few as may be of so many at most, as even as may be."""
    count = -(-(last - first) // most)
    cuts = [first + (last - first) * i // count for i in range(count + 1)] if count else []
    return [range(a, b) for a, b in pairwise(cuts)]


@dataclass(frozen=True)
class _Turn:
    """Taps along y that are folded in one go: their places on the own axes. loop: of those that come `count` times."""

    taps: list[Indices]
    loop: Var | None = None
    count: int = 1

    def repeated(self, stmt: Stmt) -> Stmt:
        return stmt if self.loop is None else For(self.loop, Const(self.count), stmt)


@dataclass(frozen=True)
class _Block:
    """The windows at these neighbouring places of y, over all of x. ranges: of the variables in them."""

    of: _Beside
    ys: Indices
    ranges: dict[str, Range]

    @property
    def is_decided(self) -> bool:
        """Whether it is known which of its own taps a window has, and the others are under the same conditions for all, whatever x."""
        within = {self.x.name, *(turn.loop.name for turn in self._turns if turn.loop is not None)}
        known = not any(within & variables(c) for when in self._conditions for c in when)
        return bool(self._turns) and len(self._conditions) <= 1 and known

    def lower(self) -> Stmt:
        here = self._vector_by_vector(*self._found) if len(self._turns) == 1 else self._row_by_row()
        apart = self.of.nest.is_inside(self.of.decided, but=self.of.axis)
        return here if apart is None else If(apart, here, here)  # the first of them becomes simpler

    # ---- what there is to be folded

    @cached_property
    def x(self) -> Var:
        return self._var("x")

    @cached_property
    def _nests(self) -> tuple[Nest, ...]:
        return tuple(self.of.nest.moved(self.of.axis, y, self.ranges) for y in self.ys)

    @cached_property
    def _turns(self) -> list[_Turn]:
        """The taps along y, all at once or, where they are many, some at a time; none where borders of theirs are too wide for that."""
        own = [self.of.nest.taps[k] for k in self.of.own]
        if prod(own) <= MOST_TAPS:
            return [_Turn([tuple(map(Const, place)) for place in product(*map(range, own))])]
        first, last = self._middle() if len(own) == 1 else (0, 0)
        count = (last - first) // TAPS
        ends = _pieces(0, first, TAPS), _pieces(first + count * TAPS, own[0], TAPS)
        head, tail = ([_Turn([(Const(k),) for k in piece]) for piece in pieces] for pieces in ends)
        if count < 1 or len(head) + len(tail) > MOST_APART:
            return []
        k = self._var("k")
        at = add(mul(k, TAPS), first)
        return [*head, _Turn([(add(at, i),) for i in range(TAPS)], k, count), *tail]

    def _middle(self) -> Stretch:
        """Which of the taps along y all windows have, as far as their own conditions go."""
        size, k = self.of.nest.taps[self.of.own[0]], self._var("k")
        box = tuple(k if loop is None else loop for loop in self.of.outer_taps)
        first, last = 0, size
        for nest in self._nests:
            ranges = self._known(nest, {k.name: (0, size - 1)})
            own = (simplify_expr(c, ranges) for c in nest.tap(nest.at(self.x), box).conditions if k.name in variables(c))
            for form in (form for c in own if constant(c) is None for form in not_negative(c)):
                _, low, high = holding(form, (k,), [size], ranges)
                first, last = max(first, low), min(last, high)
        return first, max(first, last)

    @cached_property
    def _found(self) -> list[list[list[Found]]]:
        """For each turn what the taps of each window give, inside of the loops over the others, as far as it has them."""
        return [[list(self._taps_of(nest, turn)) for nest in self._nests] for turn in self._turns]

    def _taps_of(self, nest: Nest, turn: _Turn) -> Iterator[Found]:
        simpler = Simplifier(self._known(nest, {} if turn.loop is None else {turn.loop.name: (0, turn.count - 1)}))
        for places in turn.taps:
            own = dict(zip(self.of.own, places, strict=True))
            tap = nest.tap(nest.at(self.x), tuple(own[k] if loop is None else loop for k, loop in enumerate(self.of.outer_taps)))
            when = [simpler(c) for c in tap.conditions]
            if all(constant(c) != 0 for c in when):
                yield tap.value, tuple(c for c in when if constant(c) is None)

    def _known(self, nest: Nest, more: Ranges) -> Ranges:
        loops = {k.name: (0, n - 1) for k, n in zip(self.of.outer_taps, nest.taps, strict=True) if k is not None}
        return {**nest.ranges, **loops, self.x.name: (0, nest.x_size - 1), **more}

    @cached_property
    def _conditions(self) -> set[tuple[Expr, ...]]:
        """Those under which taps count, as far as that is not known."""
        return {when for windows in self._found for taps in windows for _, when in taps}

    # ---- the ways to fold it

    def _vector_by_vector(self, found: list[list[Found]]) -> Stmt:
        """All taps for one x, or a vector of them, after the other."""
        nest = self.of.nest
        accs = [nest.storage.extra(DType.f32, self.of.places) for _ in self.ys]
        at = self.of.at(self.x)
        starts = (Store(acc, at, nest.init) for acc in accs)
        sums = (self._sum(acc, at, taps) for acc, taps in zip(accs, found, strict=True) if taps)
        done = (n.done(n.at(self.x), Load(acc, at)) for n, acc in zip(self._nests, accs, strict=True))
        (turn,) = self._turns
        return self._over_x(seq(*starts, self._over_taps(turn.repeated(seq(*sums))), *done))

    def _row_by_row(self) -> Stmt:
        """All x for some taps after the others: where these are a row of src."""
        nest, turns = self.of.nest, list[Stmt]()
        acc = nest.storage.extra(DType.f32, (len(self.ys), *self.of.places))
        at = [(Const(i), *self.of.at(self.x)) for i in range(len(self.ys))]
        for turn, found in zip(self._turns, self._found, strict=True):
            stmt = self._over_x(seq(*(self._sum(acc, i, taps) for i, taps in zip(at, found, strict=True) if taps)))
            turns.append(turn.repeated(stmt))
        starts = self._over_x(seq(*(Store(acc, i, nest.init) for i in at)))
        done = (n.done(n.at(self.x), Load(acc, i)) for n, i in zip(self._nests, at, strict=True))
        return seq(starts, self._over_taps(seq(*turns)), self._over_x(seq(*done)))

    def _sum(self, acc: Tensor, at: Indices, found: list[Found]) -> Stmt:
        held: Expr = Load(acc, at)
        return Store(acc, at, reduce(self.of.nest.fold, (value for value, _ in found), held))

    def _over_taps(self, stmt: Stmt) -> Stmt:
        """The loops over taps along other axes, and the conditions on them."""
        (when,) = self._conditions or {()}
        loops: list[tuple[Var, Expr]] = []
        for k, extent in zip(self.of.outer_taps, self.of.nest.taps, strict=True):
            loops += [(k, Const(extent))] if k is not None else []
        return over(loops, when, stmt)

    def _over_x(self, stmt: Stmt) -> Stmt:
        return For(self.x, Const(self.of.nest.x_size), stmt)

    def _var(self, stem: str) -> Var:
        return self.of.nest.storage.var(stem)
