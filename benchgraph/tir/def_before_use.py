"""Whether statements store every element of a tensor before they load it.

The analysis tracks stored boxes: `for i in 8 { t[i + 4] = ... }` stores t[4 .. 12), which contains what a later load reads. Boxes that
touch are one: with a later `t[12] = ...` it is t[4 .. 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from benchgraph.tir.accesses import Access, Extent, accesses_of, position
from benchgraph.tir.affine import Linear, Range, Ranges, inside, linear_bounds
from benchgraph.tir.build import constant
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Expr, For, If, Seq, Stmt, Store, Tensor
from benchgraph.tir.visit import tensor_names, variables

_Box: TypeAlias = tuple[Extent, ...]


def first_undefined_use(t: Tensor, stmts: Sequence[Stmt], ranges: Ranges) -> int | None:
    """Position of the first of these statements that may load an element of t which is not stored before; None if none does."""
    stored: list[_Box] = []
    for at, s in enumerate(stmts):
        after = _boxes_after(t, s, ranges, stored)
        if after is None:
            return at
        stored = after
    return None


def _boxes_after(t: Tensor, s: Stmt, ranges: Ranges, stored: list[_Box]) -> list[_Box] | None:
    """`stored` and the boxes that s stores; None if s may load an element of neither."""
    if t.name not in tensor_names(s):
        return stored
    match s:
        case Seq():
            for c in s.stmts:
                after = _boxes_after(t, c, ranges, stored)
                if after is None:
                    return None
                stored = after
        case For():
            body = _boxes_after(t, s.body, inside(s, ranges), stored)
            if body is None:
                return None
            for box in body[len(stored) :]:
                stored = stored if (swept := _swept(box, s)) is None else _with(stored, swept)
        case If():
            then = _boxes_after(t, s.then, assume(s.cond, ranges, holds=True), stored)
            orelse = stored if s.orelse is None else _boxes_after(t, s.orelse, assume(s.cond, ranges, holds=False), stored)
            if then is None or orelse is None:
                return None
            return stored + [box for box in then[len(stored) :] if box in orelse[len(stored) :]]
        case _:
            return _boxes_after_access(t, s, ranges, stored)
    return stored


def _boxes_after_access(t: Tensor, s: Stmt, ranges: Ranges, stored: list[_Box]) -> list[_Box] | None:
    for a in accesses_of(t.name, s, ranges):
        if not a.is_store:
            if not any(_contains(box, a) for box in stored):
                return None
        elif not isinstance(s, Store) or s.mask is None:
            stored = _with(stored, tuple(map(_side, a.index, a.spans)))
    return stored


def _with(stored: list[_Box], box: _Box) -> list[_Box]:
    """Stored boxes and one more; and what that is together with the last one beside it."""
    union = next((both for other in reversed(stored) if (both := _union(box, other)) is not None), None)
    return [*stored, box] if union is None else [*stored, box, union]


def _union(box: _Box, other: _Box) -> _Box | None:
    """Of two boxes that differ in one dim, in which they touch or overlap; None where the union is not a box."""
    differing = [d for d, (side, beside) in enumerate(zip(box, other, strict=True)) if side != beside]
    if len(differing) != 1:
        return None
    (d,) = differing
    (base, first, last), (base_of_other, start, end) = box[d], other[d]
    if base != base_of_other or max(first, start) > min(last, end) + 1:
        return None
    return (*box[:d], (base, min(first, start), max(last, end)), *box[d + 1 :])


def _side(i: Expr, span: Range) -> Extent:
    base = position(i)
    return Linear(base.terms), base.constant + span[0], base.constant + span[1]


def _swept(box: _Box, loop: For) -> _Box | None:
    """The union of a box over all iterations of a loop; None if that is not a box, or if the loop may have no iteration."""
    count, name = constant(loop.extent) or 0, loop.var.name
    moving = [d for d, (base, _, _) in enumerate(box) if any(name in variables(atom) for atom in base.terms)]
    if count <= 0 or len(moving) > 1:
        return None
    for d in moving:
        base, first, last = box[d]
        step = base.terms.get(loop.var, 0)
        rest = base.minus(Linear({loop.var: step}))
        if step != last - first + 1 or any(name in variables(atom) for atom in rest.terms):
            return None
        box = (*box[:d], (rest, first, last + step * (count - 1)), *box[d + 1 :])
    return box


def _contains(box: _Box, a: Access) -> bool:
    for (base, first, last), i, span in zip(box, a.index, a.spans, strict=True):
        least, most = linear_bounds(position(i).minus(base), a.ranges)
        if least + span[0] < first or most + span[1] > last:
            return False
    return True
