"""shrink-tensors: a temporary moves to the innermost block that holds all its uses, and keeps only what one run of that block touches.

    alloc t: f32[128,64]                    ->  parallel for mo in 4 {
    parallel for mo in 4 {                        alloc t: f32[32,64] thread
      brgemm t[mo*32:m, 0:n] = ...                brgemm t[0:m, 0:n] = ...
      for i in 32 {                               for i in 32 {
        for j in 64 {                               for j in 64 {
          u[mo*32 + i, j] = t[mo*32 + i, j]*s         alloc u: f32 register
          y[mo*32 + i, j] = exp(u[mo*32 + i, j])      u = t[i, j]*s
                                                      y[mo*32 + i, j] = exp(u)

A temporary that a block fills anew for a later use, without reading what it held, becomes two, as does one that both branches of an `if`
use and nothing else. Moving into a loop is sound when no
iteration reads what another wrote: always for a parallel loop; for a serial one when the loop variable cuts the tensor into pieces, or
when each iteration first stores, unconditionally, everything it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from operator import is_

from benchgraph.core.target import Target
from benchgraph.tir.accesses import Access, accesses_of, extent, inner_names, is_partitioned, position
from benchgraph.tir.affine import Linear, Range, Ranges, inside, to_expr
from benchgraph.tir.def_before_use import first_undefined_use, is_defined_before_use
from benchgraph.tir.index import assume
from benchgraph.tir.ir import (
    Alloc,
    Brgemm,
    Expr,
    FlatSlice,
    For,
    Func,
    If,
    Load,
    LoopKind,
    Pack,
    Ramp,
    Scope,
    Seq,
    Slice,
    Stmt,
    Store,
    Tensor,
    tensor,
)
from benchgraph.tir.operands import operands
from benchgraph.tir.scalar_promotion import promote_scalars
from benchgraph.tir.visit import (
    bound_names,
    claim,
    exprs,
    loads_of,
    map_children,
    map_exprs,
    map_parts,
    map_tensors,
    statements,
    tensor_names,
    walk,
)


def shrink_tensors(f: Func, target: Target) -> Func:
    """Every temporary, one after the other. A tensor keeps its name; what splits off gets a fresh one."""
    body = promote_scalars(f.body)
    taken = {p.name for p in f.params} | tensor_names(f.body)
    for name in dict.fromkeys(s.tensor.name for s in walk(body) if isinstance(s, Alloc) and s.tensor.scope is not Scope.register):
        body = _replaced(body, name, _Place({}, False, taken))
    return f if body == f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Place:
    """Where we stand: ranges of the variables of the loops around, whether one of those is parallel, names of tensors (grows)."""

    ranges: Ranges
    in_parallel: bool
    taken: set[str]

    def within(self, loop: For) -> _Place:
        return replace(self, ranges=inside(loop, self.ranges), in_parallel=self.in_parallel or loop.kind is LoopKind.parallel)

    def given(self, cond: Expr, *, holds: bool) -> _Place:
        return replace(self, ranges=assume(cond, self.ranges, holds=holds))


def _replaced(s: Stmt, name: str, place: _Place) -> Stmt:
    """s with the declaration of this tensor taken out and put back where it belongs."""
    if isinstance(s, Seq):  # a new one for each tensor: its statements know their names, it does not
        return _replaced_in_block(s, name, place)
    if name not in tensor_names(s):
        return s
    match s:
        case For():
            return map_children(s, lambda c: _replaced(c, name, place.within(s)))
        case Alloc() if s.tensor.name == name:
            return Seq(())
    return map_children(s, lambda c: _replaced(c, name, place))


def _replaced_in_block(s: Seq, name: str, place: _Place) -> Stmt:
    users = _users(s.stmts, name)
    declared = next((k for k in users if isinstance(s.stmts[k], Alloc)), None)
    stmts = list(s.stmts)
    # The name may be declared again in another block inside this one's earlier statements.
    for k in users if declared is None else users[: users.index(declared)]:
        stmts[k] = _replaced(stmts[k], name, place)
    if declared is None:
        return s if all(map(is_, s.stmts, stmts)) else Seq(tuple(stmts))
    own = s.stmts[declared]
    assert isinstance(own, Alloc)
    later = [k - declared - 1 for k in users if k > declared]
    placed = _declare(own.tensor, Seq(s.stmts[declared + 1 :]), place, users=later)
    return Seq((*stmts[:declared], *statements(placed)))


def _users(stmts: Sequence[Stmt], name: str) -> list[int]:
    """The places of the statements that declare or access a tensor."""
    return [k for k, names in enumerate(map(tensor_names, stmts)) if name in names]


def _uses(s: Stmt, t: Tensor) -> bool:
    return t.name in tensor_names(s)


def _declare(t: Tensor, s: Stmt, place: _Place, found: Sequence[Access] = (), users: Sequence[int] | None = None) -> Stmt:
    """s, which holds all uses of t, with t declared in the innermost block that does. found: these, users: places, if they are known."""
    stmts = statements(s)
    users = _users(stmts, t.name) if users is None else users
    if not users:
        return s
    first, uses = users[0], tuple(stmts[k] for k in users)  # of a long block few statements, and only those are looked at
    found = found or list(accesses_of(t.name, Seq(uses), place.ranges))
    if len(users) > 1:
        again = _filled_anew(t, uses, place)
        if again is not None:
            return _split(t, stmts, users[again], place)
    else:
        deeper = _descend(t, stmts[first], place, found)
        if deeper is not None:
            return Seq((*stmts[:first], deeper, *stmts[first + 1 :])) if len(stmts) > 1 else deeper
    shrunk, shift = _shrunk(t, Seq(uses), place, found)
    moved = list(stmts)
    for k in users:
        moved[k] = _shifted(stmts[k], t.name, shrunk, shift, place.ranges)
    return Seq((*moved[:first], Alloc(shrunk), *moved[first:]))


def _filled_anew(t: Tensor, uses: Sequence[Stmt], place: _Place) -> int | None:
    """From which of these statements on, not the first, they read of t what they store; None when there is no such one."""
    first = 1
    while first < len(uses):
        before = first_undefined_use(t, uses[first:], place.ranges)
        if before is None:
            return first
        first += before + 1  # what begins between stores still less before it reads there
    return None


def _split(t: Tensor, stmts: tuple[Stmt, ...], at: int, place: _Place) -> Stmt:
    """The block with t declared for the statements before `at` and another tensor for the rest."""
    other = _renamed(t, place)
    before = _declare(t, Seq(stmts[:at]), place)
    after = _declare(other, map_tensors(Seq(stmts[at:]), {t.name: other}), place)
    return Seq((*statements(before), *statements(after)))


def _descend(t: Tensor, s: Stmt, place: _Place, found: Sequence[Access]) -> Stmt | None:
    """s with t declared inside it, or None when t must live outside."""
    if any(load.tensor.name == t.name for e in exprs(s) for load in loads_of(e)):
        return None
    match s:
        case For() if s.kind is LoopKind.parallel or _is_private(t, s, place, found):
            return replace(s, body=_declare(t, s.body, place.within(s), found))
        case If():
            return _branches(t, s, place, found)
        case Seq():
            return _declare(t, s, place, found)
    return None


def _branches(t: Tensor, s: If, place: _Place, found: Sequence[Access]) -> If:
    """s with t declared in the branches that use it, under a name of its own in the second when both do."""
    then, orelse = place.given(s.cond, holds=True), place.given(s.cond, holds=False)
    if s.orelse is None or not _uses(s.orelse, t):
        return replace(s, then=_declare(t, s.then, then, found))
    if not _uses(s.then, t):
        return replace(s, orelse=_declare(t, s.orelse, orelse, found))
    other = _renamed(t, place)
    return replace(s, then=_declare(t, s.then, then), orelse=_declare(other, map_tensors(s.orelse, {t.name: other}), orelse))


def _renamed(t: Tensor, place: _Place) -> Tensor:
    return replace(t, name=claim(t.name, place.taken))


def _is_private(t: Tensor, loop: For, place: _Place, found: Sequence[Access]) -> bool:
    """No iteration of a serial loop reads from t what another one wrote."""
    return is_partitioned(found, loop.var.name, inner_names(loop)) or is_defined_before_use(t, [loop.body], inside(loop, place.ranges))


# ---- the new shape ---------------------------------------------------------------------------------------------------


def _shrunk(t: Tensor, s: Stmt, place: _Place, found: Sequence[Access]) -> tuple[Tensor, tuple[Linear, ...]]:
    """The tensor as s needs it, and what to subtract from each index."""
    inner = bound_names(s)
    scope = Scope.thread if place.in_parallel else Scope.shared
    dims = [_window(found, d, inner, t.shape[d]) for d in range(len(t.shape))]
    shape, shift = tuple(size for size, _ in dims), tuple(base for _, base in dims)
    if prod(shape) == 1 and _fits_register(t, s):
        return Tensor(t.name, t.dtype, (), (), Scope.register), shift
    if shape == t.shape:
        return replace(t, scope=scope), shift
    return tensor(t.name, t.dtype, shape, scope), shift


def _window(found: Sequence[Access], dim: int, inner: frozenset[str], size: int) -> tuple[int, Linear]:
    """(extent, base): all accesses lie in base .. base + extent - 1 along this dim."""
    whole = size, Linear({})
    extents = [extent(a, dim, inner) for a in found]
    if any(base != extents[0][0] for base, _, _ in extents):
        return whole
    first, last = min(lo for _, lo, _ in extents), max(hi for _, _, hi in extents)
    if not (isfinite(first) and isfinite(last)) or last - first + 1 >= size:
        return whole
    return max(int(last - first) + 1, 1), Linear(extents[0][0].terms, int(first))


def _fits_register(t: Tensor, s: Stmt) -> bool:
    """One element that neither a microkernel or packing nor several threads use."""
    for c in walk(s):
        if isinstance(c, Brgemm | Pack) and any(t.name == o.piece.tensor.name for o in operands(c)):
            return False
        if isinstance(c, For) and c.kind is LoopKind.parallel and _uses(c, t):
            return False
    return True


def _shifted(s: Stmt, name: str, new: Tensor, shift: tuple[Linear, ...], ranges: Ranges) -> Stmt:
    """s with accesses to the tensor of this name turned into accesses to the new one."""
    if name not in tensor_names(s):
        return s
    if isinstance(s, For):
        within: dict[str, Range] = inside(s, ranges)
        s = replace(s, body=_shifted(s.body, name, new, shift, within))
    else:
        s = map_children(s, lambda c: _shifted(c, name, new, shift, ranges))

    def index(old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if new.scope is Scope.register:
            return ()
        return tuple(_minus(i, base, ranges) for i, base in zip(old, shift, strict=True))

    def expr(e: Expr) -> Expr:
        if not any(load.tensor.name == name for load in loads_of(e)):
            return e
        e = map_parts(e, expr)
        return Load(new, index(e.index), e.mask) if isinstance(e, Load) and e.tensor.name == name else e

    def piece(p: Slice | FlatSlice) -> Slice | FlatSlice:
        return replace(p, tensor=new, index=index(p.index)) if isinstance(p, Slice) and p.tensor.name == name else p

    s = map_exprs(s, expr)
    match s:
        case Store() if s.tensor.name == name:
            return Store(new, index(s.index), s.value, s.mask)
        case Brgemm():
            return replace(s, src=piece(s.src), wei=piece(s.wei), acc=piece(s.acc))
        case Pack():
            return replace(s, src=piece(s.src), dst=piece(s.dst))
    return s


def _minus(i: Expr, base: Linear, ranges: Ranges) -> Expr:
    if not base.terms and not base.constant:
        return i
    form = to_expr(position(i).minus(base), ranges)
    return replace(i, base=form) if isinstance(i, Ramp) else form
