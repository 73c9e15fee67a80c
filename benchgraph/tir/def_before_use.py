"""Do statements store every element of a tensor before they load it?

Stored boxes are tracked through the block: `for i in E { t[i + 4] = ... }` stores t[4 .. 4 + E), whether E is a number or an expression
such as min(32, 100 - mo*32); a later load inside a loop of the same extent lies in that box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchgraph.tir.accesses import Access, accesses_of, position
from benchgraph.tir.affine import Linear, Ranges, inside, linear_bounds
from benchgraph.tir.build import constant
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Brgemm, Const, Expr, For, If, Pack, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import tensor_names, variables


@dataclass(frozen=True)
class _Side:
    """A box along one dim: base .. base + step*count - 1."""

    base: Linear
    step: int
    count: Expr


_Box = tuple[_Side, ...]


def is_defined_before_use(t: Tensor, stmts: Sequence[Stmt], ranges: Ranges) -> bool:
    """True when every load from t inside these statements certainly reads what they stored before it."""
    return first_undefined_use(t, stmts, ranges) is None


def first_undefined_use(t: Tensor, stmts: Sequence[Stmt], ranges: Ranges) -> int | None:
    """The place of the first of these statements that may load from t what none before it stored, nor itself; None when there is none."""
    stored: list[_Box] = []
    for place, s in enumerate(stmts):
        after = _run(t, s, ranges, {}, stored)
        if after is None:
            return place
        stored = after
    return None


def _run(t: Tensor, s: Stmt, ranges: Ranges, extents: Mapping[str, Expr], stored: list[_Box]) -> list[_Box] | None:
    """The boxes stored after s, those before it first; None when a load may read something else. extents: those of the loops around."""
    if t.name not in tensor_names(s):
        return stored
    match s:
        case Seq():
            return _run_all(t, s.stmts, ranges, extents, stored)
        case For():
            body = _run(t, s.body, inside(s, ranges), {**extents, s.var.name: s.extent}, stored)
            if body is None:
                return None
            swept = [_swept(box, s.var, s.extent) for box in body[len(stored) :]]
            return stored + [box for box in swept if box is not None]
        case If():
            then = _run(t, s.then, assume(s.cond, ranges, holds=True), extents, stored)
            orelse = stored if s.orelse is None else _run(t, s.orelse, assume(s.cond, ranges, holds=False), extents, stored)
            if then is None or orelse is None:
                return None
            new = orelse[len(stored) :]
            return stored + [box for box in then[len(stored) :] if box in new]
        case Store() | Brgemm() | Pack():
            return _leaf(t, s, ranges, extents, stored)
    return stored


def _run_all(t: Tensor, stmts: Iterable[Stmt], ranges: Ranges, extents: Mapping[str, Expr], stored: list[_Box]) -> list[_Box] | None:
    """As `_run`, one after the other."""
    for c in stmts:
        after = _run(t, c, ranges, extents, stored)
        if after is None:
            return None
        stored = after
    return stored


def _leaf(t: Tensor, s: Store | Brgemm | Pack, ranges: Ranges, extents: Mapping[str, Expr], stored: list[_Box]) -> list[_Box] | None:
    for a in accesses_of(t.name, s, ranges):
        if a.is_store:
            whole = not isinstance(s, Store) or s.mask is None
            stored = [*stored, _box(a)] if whole else stored
        elif not any(_holds(box, a, extents) for box in stored):
            return None
    return stored


def _box(a: Access) -> _Box:
    def side(i: Expr, first: float, last: float) -> _Side:
        return _Side(position(i).plus(Linear({}, int(first))), 1, Const(int(last - first) + 1))

    return tuple(side(i, *span) for i, span in zip(a.index, a.spans, strict=True))


def _swept(box: _Box, var: Var, extent: Expr) -> _Box | None:
    """What the box covers when var runs through its loop; None when that is not a box, or the loop may not run at all."""
    moving = [d for d, side in enumerate(box) if any(var.name in variables(atom) for atom in side.base.terms)]
    if any(var.name in variables(side.count) for side in box):
        return None
    if not moving:
        return box if (constant(extent) or 0) > 0 else None
    side = box[moving[0]]
    step, count = side.base.terms.get(var, 0), constant(side.count)
    rest = side.base.minus(Linear({var: step} if step else {}))
    if len(moving) > 1 or count is None or step != side.step * count or any(var.name in variables(atom) for atom in rest.terms):
        return None
    return tuple(_Side(rest, step, extent) if d == moving[0] else s for d, s in enumerate(box))


def _holds(box: _Box, a: Access, extents: Mapping[str, Expr]) -> bool:
    return all(_inside(side, a, d, extents) for d, side in enumerate(box))


def _inside(side: _Side, a: Access, dim: int, extents: Mapping[str, Expr]) -> bool:
    ahead = position(a.index[dim]).minus(side.base)
    (first, last), count = a.spans[dim], constant(side.count)
    lo, hi = linear_bounds(ahead, a.ranges)
    if lo + first < 0:
        return False
    if count is not None:
        return hi + last < side.step * count
    for var, step in ahead.terms.items():
        if step == side.step and isinstance(var, Var) and extents.get(var.name) == side.count:
            lo, hi = linear_bounds(ahead.minus(Linear({var: step})), a.ranges)
            return lo + first >= 0 and hi + last < side.step
    return False
