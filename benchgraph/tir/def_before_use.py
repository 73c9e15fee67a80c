"""Whether statements store every element of a tensor before they load it.

The analysis tracks stored boxes: `for i in E { t[i + 4] = ... }` stores t[4 .. 4 + E), for a constant E and for an expression such as
min(32, 100 - mo*32); that box contains a later load inside a loop of the same extent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Whether every load from t in these statements provably reads what they stored before."""
    return first_undefined_use(t, stmts, ranges) is None


def first_undefined_use(t: Tensor, stmts: Sequence[Stmt], ranges: Ranges) -> int | None:
    """Position of the first of these statements that may load an element of t which is not stored before; None if none does."""
    stored: list[_Box] = []
    for at, s in enumerate(stmts):
        after = _boxes_after(t, s, ranges, {}, stored)
        if after is None:
            return at
        stored = after
    return None


def _boxes_after(t: Tensor, s: Stmt, ranges: Ranges, extents: Mapping[str, Expr], stored: list[_Box]) -> list[_Box] | None:
    """`stored` and the boxes that s stores; None if s may load an element of neither. extents: of the loops around, by variable."""
    if t.name not in tensor_names(s):
        return stored
    match s:
        case Seq():
            for c in s.stmts:
                after = _boxes_after(t, c, ranges, extents, stored)
                if after is None:
                    return None
                stored = after
        case For():
            body = _boxes_after(t, s.body, inside(s, ranges), {**extents, s.var.name: s.extent}, stored)
            if body is None:
                return None
            swept = [_swept(box, s.var, s.extent) for box in body[len(stored) :]]
            return stored + [box for box in swept if box is not None]
        case If():
            then = _boxes_after(t, s.then, assume(s.cond, ranges, holds=True), extents, stored)
            orelse = stored if s.orelse is None else _boxes_after(t, s.orelse, assume(s.cond, ranges, holds=False), extents, stored)
            if then is None or orelse is None:
                return None
            new = orelse[len(stored) :]
            return stored + [box for box in then[len(stored) :] if box in new]
        case Store() | Brgemm() | Pack():
            return _boxes_after_access(t, s, ranges, extents, stored)
    return stored


def _boxes_after_access(
    t: Tensor, s: Store | Brgemm | Pack, ranges: Ranges, extents: Mapping[str, Expr], stored: list[_Box]
) -> list[_Box] | None:
    for a in accesses_of(t.name, s, ranges):
        if a.is_store:
            is_unmasked = not isinstance(s, Store) or s.mask is None
            stored = [*stored, _box(a)] if is_unmasked else stored
        elif not any(_contains(box, a, extents) for box in stored):
            return None
    return stored


def _box(a: Access) -> _Box:
    def side(i: Expr, first: float, last: float) -> _Side:
        return _Side(position(i).plus(Linear({}, int(first))), 1, Const(int(last - first) + 1))

    return tuple(side(i, *span) for i, span in zip(a.index, a.spans, strict=True))


def _swept(box: _Box, var: Var, extent: Expr) -> _Box | None:
    """The union of a box over all iterations of a loop; None if that is not a box, or if the loop may have no iteration."""
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


def _contains(box: _Box, a: Access, extents: Mapping[str, Expr]) -> bool:
    return all(_side_contains(side, a, d, extents) for d, side in enumerate(box))


def _side_contains(side: _Side, a: Access, dim: int, extents: Mapping[str, Expr]) -> bool:
    distance = position(a.index[dim]).minus(side.base)
    (first, last), count = a.spans[dim], constant(side.count)
    lo, hi = linear_bounds(distance, a.ranges)
    if lo + first < 0:
        return False
    if count is not None:
        return hi + last < side.step * count
    for var, step in distance.terms.items():
        if step == side.step and isinstance(var, Var) and extents.get(var.name) == side.count:
            lo, hi = linear_bounds(distance.minus(Linear({var: step})), a.ranges)
            return lo + first >= 0 and hi + last < side.step
    return False
