"""shrink-tensors: a temporary is declared in the innermost block that has all its uses, with the shape that one iteration needs.

    alloc t: f32[128,64]                    ->  parallel for mo in 4 {
    alloc u: f32[128,64]                          alloc t: f32[32,64] thread
    parallel for mo in 4 {                        brgemm t[0:m, 0:n] = ...
      brgemm t[mo*32:m, 0:n] = ...                for i in 32 {
      for i in 32 {                                 for j in 64 {
        for j in 64 {                                 alloc u: f32 register
          u[mo*32 + i, j] = t[mo*32 + i, j]*s         u = t[i, j]*s
          y[mo*32 + i, j] = exp(u[mo*32 + i, j])      y[mo*32 + i, j] = exp(u)

A temporary that a block overwrites completely before a later use is split into two, as is one that only the two branches of an `if` use.
Moving a declaration into a loop is legal if no iteration reads what another wrote. That always holds for a parallel loop; for a serial one
if the loop variable partitions the tensor, or if each iteration unconditionally stores everything before it reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any

from benchgraph.machine.target import Target
from benchgraph.tir import ir, visit
from benchgraph.tir.accesses import Access, accesses_of, extent, is_partitioned, position
from benchgraph.tir.affine import Linear, Ranges, inside, to_expr
from benchgraph.tir.def_before_use import first_undefined_use
from benchgraph.tir.index import assume
from benchgraph.tir.operands import operands


def shrink_tensors(f: ir.Func, target: Target) -> ir.Func:
    """Shrinks one temporary after the other, of the outermost block, where lowering declares them all.

    A tensor keeps its name; one that is split off gets a fresh one. Only the statements that use a temporary are looked at, so a block of
    many takes time linear in them.
    """
    block, context = ir.Seq(visit.statements(f.body)), _Context({}, False, {p.name for p in f.params} | visit.tensor_names(f.body))
    placed: list[tuple[ir.Stmt, ...]] = [(s,) for s in block.stmts]  # each statement, behind declarations for it
    for at, s in enumerate(block.stmts):
        if isinstance(s, ir.Alloc) and s.tensor.scope is not ir.Scope.register:
            placed[at], users = (), visit.users(block)[s.tensor.name][1:]
            declared = visit.statements(_declare(s.tensor, ir.Seq(tuple(placed[k][-1] for k in users)), context))
            for k in users:
                first = next(i for i, c in enumerate(declared) if not isinstance(c, ir.Alloc)) + 1
                placed[k], declared = (*placed[k][:-1], *declared[:first]), declared[first:]
    body = ir.Seq(tuple(s for each in placed for s in each))
    return f if body == block else replace(f, body=body)


@dataclass(frozen=True)
class _Context:
    """ranges of the variables of loops around, whether one of these is parallel, and names of tensors, new ones included."""

    ranges: Ranges
    in_parallel: bool
    taken: set[str]

    def within(self, loop: ir.For) -> _Context:
        return replace(self, ranges=inside(loop, self.ranges), in_parallel=self.in_parallel or loop.kind is ir.LoopKind.parallel)

    def assuming(self, cond: ir.Expr, *, holds: bool) -> _Context:
        return replace(self, ranges=assume(cond, self.ranges, holds=holds))


def _uses(s: ir.Stmt, t: ir.Tensor) -> bool:
    return t.name in visit.tensor_names(s)


def _declare(t: ir.Tensor, s: ir.Stmt, context: _Context, accesses: Sequence[Access] = ()) -> ir.Stmt:
    """s, which has all uses of t, with t declared in the innermost block that has them all. accesses: those of t in s, where the caller
    knows them."""
    stmts = visit.statements(s)
    users = [k for k, names in enumerate(map(visit.tensor_names, stmts)) if t.name in names]
    if not users:
        return s
    first, uses = users[0], tuple(stmts[k] for k in users)  # only these few statements of a long block are analysed
    accesses = accesses or list(accesses_of(t.name, ir.Seq(uses), context.ranges))
    if len(users) > 1:
        redefinition = _redefinition(t, uses, context)
        if redefinition is not None:
            return _split(t, stmts, users[redefinition], context)
    else:
        deeper = _descend(t, stmts[first], context, accesses)
        if deeper is not None:
            return ir.Seq((*stmts[:first], deeper, *stmts[first + 1 :])) if len(stmts) > 1 else deeper
    shrunk, shift = _shrunk(t, ir.Seq(uses), context, accesses)
    moved = list(stmts)
    for k in users:
        moved[k] = _shifted(stmts[k], t.name, shrunk, shift, context.ranges)
    return ir.Seq((*moved[:first], ir.Alloc(shrunk), *moved[first:]))


def _redefinition(t: ir.Tensor, uses: Sequence[ir.Stmt], context: _Context) -> int | None:
    """The position, not 0, of the first of these statements from which on t is defined before it is used; None if there is none."""
    first = 1
    while first < len(uses):
        before = first_undefined_use(t, uses[first:], context.ranges)
        if before is None:
            return first
        first += before + 1  # an earlier start would keep this undefined use, with fewer stores before it
    return None


def _split(t: ir.Tensor, stmts: tuple[ir.Stmt, ...], at: int, context: _Context) -> ir.Stmt:
    """The block with t declared for the statements before `at` and another tensor for the rest."""
    other = _renamed(t, context)
    before = _declare(t, ir.Seq(stmts[:at]), context)
    after = _declare(other, visit.map_tensors(ir.Seq(stmts[at:]), {t.name: other}), context)
    return ir.Seq((*visit.statements(before), *visit.statements(after)))


def _descend(t: ir.Tensor, s: ir.Stmt, context: _Context, accesses: Sequence[Access]) -> ir.Stmt | None:
    """s with t declared inside; None if t must be declared outside."""
    if any(load.tensor.name == t.name for e in visit.exprs(s) for load in visit.loads_of(e)):
        return None
    match s:
        case ir.For() if s.kind is ir.LoopKind.parallel or _is_private(t, s, context, accesses):
            return visit.replaced(s, body=_declare(t, s.body, context.within(s), accesses))
        case ir.If():
            return _branches(t, s, context, accesses)
    return None


def _branches(t: ir.Tensor, s: ir.If, context: _Context, accesses: Sequence[Access]) -> ir.If:
    """s with t declared in the branches that use it, renamed in the second if both do."""
    then, orelse = context.assuming(s.cond, holds=True), context.assuming(s.cond, holds=False)
    if s.orelse is None or not _uses(s.orelse, t):
        return replace(s, then=_declare(t, s.then, then, accesses))
    if not _uses(s.then, t):
        return replace(s, orelse=_declare(t, s.orelse, orelse, accesses))
    other = _renamed(t, context)
    return replace(s, then=_declare(t, s.then, then), orelse=_declare(other, visit.map_tensors(s.orelse, {t.name: other}), orelse))


def _renamed(t: ir.Tensor, context: _Context) -> ir.Tensor:
    return replace(t, name=visit.claim(t.name, context.taken))


def _is_private(t: ir.Tensor, loop: ir.For, context: _Context, accesses: Sequence[Access]) -> bool:
    """Whether no iteration of a serial loop reads what another one wrote to t."""
    inner, ranges = visit.bound_names(loop.body), inside(loop, context.ranges)
    return is_partitioned(accesses, loop.var.name, inner) or first_undefined_use(t, [loop.body], ranges) is None


# ---- the new shape ---------------------------------------------------------------------------------------------------


def _shrunk(t: ir.Tensor, s: ir.Stmt, context: _Context, accesses: Sequence[Access]) -> tuple[ir.Tensor, tuple[Linear, ...]]:
    """The tensor with the shape that s needs, and what to subtract from each index."""
    inner = visit.bound_names(s)
    scope = ir.Scope.thread if context.in_parallel else ir.Scope.shared
    dims = [_range_of_dim(accesses, d, inner, t.shape[d]) for d in range(len(t.shape))]
    shape, shift = tuple(size for size, _ in dims), tuple(base for _, base in dims)
    if prod(shape) == 1 and _fits_register(t, s):
        return ir.Tensor(t.name, t.dtype, (), (), ir.Scope.register), shift
    if shape == t.shape:
        return replace(t, scope=scope), shift
    return ir.tensor(t.name, t.dtype, shape, scope), shift


def _range_of_dim(accesses: Sequence[Access], dim: int, inner: frozenset[str], size: int) -> tuple[int, Linear]:
    """(extent, base): all accesses are within base .. base + extent - 1 along this dim."""
    unchanged = size, Linear({})
    extents = [extent(a, dim, inner) for a in accesses]
    if any(base != extents[0][0] for base, _, _ in extents):
        return unchanged
    first, last = min(lo for _, lo, _ in extents), max(hi for _, _, hi in extents)
    if not (isfinite(first) and isfinite(last)) or last - first + 1 >= size:
        return unchanged
    return max(int(last - first) + 1, 1), Linear(extents[0][0].terms, int(first))


def _fits_register(t: ir.Tensor, s: ir.Stmt) -> bool:
    """Whether neither a microkernel or packing nor several threads access it."""
    for c in visit.walk(s):
        if isinstance(c, ir.Brgemm | ir.Pack) and any(t.name == o.slice.tensor.name for o in operands(c)):
            return False
        if isinstance(c, ir.For) and c.kind is ir.LoopKind.parallel and _uses(c, t):
            return False
    return True


def _shifted(s: ir.Stmt, name: str, new: ir.Tensor, shift: tuple[Linear, ...], ranges: Ranges) -> ir.Stmt:
    """s with accesses to the tensor of this name replaced by accesses to the new one."""
    if name not in visit.tensor_names(s):
        return s
    around = inside(s, ranges)
    s = visit.map_children(s, lambda c: _shifted(c, name, new, shift, around))

    def shifted(access: Any) -> Any:
        if access.tensor.name != name:
            return access
        is_register = new.scope is ir.Scope.register
        index = () if is_register else tuple(_minus_base(i, base, ranges) for i, base in zip(access.index, shift, strict=True))
        return visit.replaced(access, tensor=new, index=index)

    return visit.map_accesses(s, shifted)


def _minus_base(i: ir.Expr, base: Linear, ranges: Ranges) -> ir.Expr:
    if not base.terms and not base.constant:
        return i
    form = to_expr(position(i).minus(base), ranges)
    return replace(i, base=form) if isinstance(i, ir.Ramp) else form
