"""Walk and rebuild Tensor IR. A rebuild returns the same object wherever nothing changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import TypeAlias

from benchgraph.core.memoise import memoised
from benchgraph.tir import ir

ExprMap: TypeAlias = Callable[[ir.Expr], ir.Expr]
StmtMap: TypeAlias = Callable[[ir.Stmt], ir.Stmt]


def map_tuple(items: tuple[ir.Expr, ...], fn: ExprMap) -> tuple[ir.Expr, ...]:
    new = [fn(i) for i in items]
    return items if all(map(is_, items, new)) else tuple(new)


def _map_optional(e: ir.Expr | None, fn: ExprMap) -> ir.Expr | None:
    return None if e is None else fn(e)


# Cases of a match are tried in order, so the most frequent class comes first.

# ---- expressions -----------------------------------------------------------------------------------------------------


def parts(e: ir.Expr) -> tuple[ir.Expr, ...]:
    """The direct subexpressions, in printing order."""
    match e:
        case ir.Binary():
            return (e.a, e.b)
        case ir.Var() | ir.Const():
            return ()
        case ir.Load():
            return e.index if e.mask is None else (*e.index, e.mask)
        case ir.Select():
            return (e.cond, e.a, e.b)
        case ir.Ramp():
            return (e.base,)
        case ir.Unary() | ir.Cast() | ir.Broadcast() | ir.ReduceLanes():
            return (e.a,)
        case ir.Random():
            return (e.index, e.seed, e.offset)


def map_parts(e: ir.Expr, fn: ExprMap) -> ir.Expr:
    """e with fn applied to each direct subexpression."""
    match e:
        case ir.Binary():
            a, b = fn(e.a), fn(e.b)
            return e if a is e.a and b is e.b else ir.Binary(e.op, a, b)
        case ir.Var() | ir.Const():
            return e
        case ir.Load():
            index, mask = map_tuple(e.index, fn), _map_optional(e.mask, fn)
            return e if index is e.index and mask is e.mask else ir.Load(e.tensor, index, mask)
        case ir.Select():
            cond, a, b = fn(e.cond), fn(e.a), fn(e.b)
            return e if cond is e.cond and a is e.a and b is e.b else ir.Select(cond, a, b)
        case ir.Ramp():
            base = fn(e.base)
            return e if base is e.base else replace(e, base=base)
        case ir.Unary() | ir.Cast() | ir.Broadcast() | ir.ReduceLanes():
            a = fn(e.a)
            return e if a is e.a else replace(e, a=a)
        case ir.Random():
            old = parts(e)
            new = map_tuple(old, fn)
            return e if new is old else ir.Random(*new)


def rewrite(e: ir.Expr, fn: ExprMap) -> ir.Expr:
    """Apply fn to every subexpression, leaves first."""
    return fn(map_parts(e, lambda p: rewrite(p, fn)))


def walk_expr(e: ir.Expr) -> Iterator[ir.Expr]:
    """e and every subexpression, outermost first."""
    left = [e]
    while left:
        e = left.pop()
        yield e
        left.extend(reversed(parts(e)))


@memoised
def variables(e: ir.Expr) -> frozenset[str]:
    """Names of the loop variables e reads."""
    if isinstance(e, ir.Var):
        return frozenset((e.name,))
    of_parts = [names for p in parts(e) if (names := variables(p))]
    return of_parts[0] if len(of_parts) == 1 else frozenset().union(*of_parts)


@memoised
def loads_of(e: ir.Expr) -> tuple[ir.Load, ...]:
    """The loads in e, itself included, in the order of `walk_expr`."""
    inner = tuple(load for p in parts(e) for load in loads_of(p))
    return (e, *inner) if isinstance(e, ir.Load) else inner


# ---- statements ------------------------------------------------------------------------------------------------------


def slice_exprs(s: ir.Slice | ir.FlatSlice) -> tuple[ir.Expr, ...]:
    return s.index if isinstance(s, ir.Slice) else (s.offset,)


def _map_slice(s: ir.Slice | ir.FlatSlice, fn: ExprMap) -> ir.Slice | ir.FlatSlice:
    if isinstance(s, ir.FlatSlice):
        offset = fn(s.offset)
        return s if offset is s.offset else replace(s, offset=offset)
    index = map_tuple(s.index, fn)
    return s if index is s.index else replace(s, index=index)


def _map_prefetch(s: ir.Prefetch, fn: ExprMap) -> ir.Prefetch:
    index = map_tuple(s.index, fn)
    return s if index is s.index else replace(s, index=index)


def exprs(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions of this statement alone (not of statements inside it)."""
    match s:
        case ir.Store():
            return (*s.index, s.value) if s.mask is None else (*s.index, s.value, s.mask)
        case ir.Seq() | ir.Alloc():
            return ()
        case ir.For():
            return (s.extent,)
        case ir.If():
            return (s.cond,)
        case ir.Brgemm():
            return (*slice_exprs(s.src), *slice_exprs(s.wei), *slice_exprs(s.acc), *(e for p in s.prefetches for e in p.index))
        case ir.Pack():
            return (*slice_exprs(s.src), *slice_exprs(s.dst))
        case ir.Prefetch():
            return s.index


def map_exprs(s: ir.Stmt, fn: ExprMap) -> ir.Stmt:
    """This statement alone with fn applied to its expressions (see `exprs`)."""
    match s:
        case ir.Store():
            index, value, mask = map_tuple(s.index, fn), fn(s.value), _map_optional(s.mask, fn)
            return s if index is s.index and value is s.value and mask is s.mask else ir.Store(s.tensor, index, value, mask)
        case ir.Seq() | ir.Alloc():
            return s
        case ir.For():
            extent = fn(s.extent)
            return s if extent is s.extent else replace(s, extent=extent)
        case ir.If():
            cond = fn(s.cond)
            return s if cond is s.cond else replace(s, cond=cond)
        case ir.Brgemm():
            src, wei, acc = _map_slice(s.src, fn), _map_slice(s.wei, fn), _map_slice(s.acc, fn)
            prefetches = tuple(_map_prefetch(p, fn) for p in s.prefetches)
            is_same = src is s.src and wei is s.wei and acc is s.acc and all(a is b for a, b in zip(prefetches, s.prefetches, strict=True))
            return s if is_same else replace(s, src=src, wei=wei, acc=acc, prefetches=prefetches)
        case ir.Pack():
            src, dst = _map_slice(s.src, fn), _map_slice(s.dst, fn)
            return s if src is s.src and dst is s.dst else replace(s, src=src, dst=dst)
        case ir.Prefetch():
            return _map_prefetch(s, fn)


def children(s: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements directly inside this one."""
    match s:
        case ir.Store() | ir.Alloc():
            return ()
        case ir.Seq():
            return s.stmts
        case ir.For():
            return (s.body,)
        case ir.If():
            return (s.then,) if s.orelse is None else (s.then, s.orelse)
        case ir.Brgemm():
            return () if s.post_ops is None else (s.post_ops.body,)
        case ir.Pack() | ir.Prefetch():
            return ()


def map_children(s: ir.Stmt, fn: StmtMap) -> ir.Stmt:
    """s with fn applied to each statement directly inside it."""
    match s:
        case ir.Store() | ir.Alloc():
            return s
        case ir.For():
            body = fn(s.body)
            return s if body is s.body else ir.For(s.var, s.extent, body, s.kind)
        case ir.If():
            then = fn(s.then)
            orelse = None if s.orelse is None else fn(s.orelse)
            return s if then is s.then and orelse is s.orelse else ir.If(s.cond, then, orelse)
        case ir.Seq():
            new = [fn(c) for c in s.stmts]
            return s if all(map(is_, s.stmts, new)) else ir.Seq(tuple(new))
        case ir.Brgemm() if s.post_ops is not None:
            body = fn(s.post_ops.body)
            return s if body is s.post_ops.body else replace(s, post_ops=replace(s.post_ops, body=body))
        case ir.Brgemm() | ir.Pack() | ir.Prefetch():
            return s


def walk(s: ir.Stmt) -> Iterator[ir.Stmt]:
    """s and every statement inside it, in program order, outermost first."""
    left = [s]
    while left:
        s = left.pop()
        yield s
        left.extend(reversed(children(s)))


def loads(s: ir.Stmt) -> Iterator[ir.Load]:
    """Every Load inside s."""
    for stmt in walk(s):
        for e in exprs(stmt):
            yield from loads_of(e)


def tensors(s: ir.Stmt) -> Iterator[ir.Tensor]:
    """Every tensor that s declares or accesses, in program order, with repetitions."""
    for stmt in walk(s):
        yield from own_tensors(stmt)


def own_tensors(s: ir.Stmt) -> Iterator[ir.Tensor]:
    """The tensors that this statement itself declares or accesses."""
    for e in exprs(s):
        yield from (load.tensor for load in loads_of(e))
    match s:
        case ir.Alloc() | ir.Store() | ir.Prefetch():
            yield s.tensor
        case ir.Brgemm():
            yield from (s.src.tensor, s.wei.tensor, s.acc.tensor, *(p.tensor for p in s.prefetches))
        case ir.Pack():
            yield from (s.src.tensor, s.dst.tensor)


@memoised
def tensor_names(s: ir.Stmt) -> frozenset[str]:
    """Names of the tensors that s declares or accesses."""
    return frozenset(t.name for t in own_tensors(s)).union(*map(tensor_names, children(s)))


@memoised
def declared_names(s: ir.Stmt) -> frozenset[str]:
    """Names of the tensors that s declares."""
    own = frozenset([s.tensor.name]) if isinstance(s, ir.Alloc) else frozenset[str]()
    return own.union(*map(declared_names, children(s)))


@memoised
def users(s: ir.Seq) -> Mapping[str, tuple[int, ...]]:
    """Name of a tensor -> positions in a block of the statements that declare or access it, in order."""
    positions = defaultdict[str, list[int]](list)
    for at, c in enumerate(s.stmts):
        for name in tensor_names(c):
            positions[name].append(at)
    return {name: tuple(at) for name, at in positions.items()}


@memoised
def written(s: ir.Stmt) -> frozenset[ir.Tensor]:
    """The tensors that s writes, registers too."""
    match s:
        case ir.Store():
            return frozenset([s.tensor])
        case ir.Brgemm():
            return frozenset([s.acc.tensor]).union(*map(written, children(s)))
        case ir.Pack():
            return frozenset([s.dst.tensor])
    return frozenset[ir.Tensor]().union(*map(written, children(s)))


@memoised
def bound_names(s: ir.Stmt) -> frozenset[str]:
    """Names of the loop variables that loops, and post-ops, inside s define."""
    own = frozenset[str]()
    match s:
        case ir.For():
            own = frozenset([s.var.name])
        case ir.Brgemm(post_ops=ir.PostOps() as p):
            own = frozenset([p.row.name, p.vector.name])
    return own.union(*map(bound_names, children(s)))


def map_all_exprs(s: ir.Stmt, fn: ExprMap) -> ir.Stmt:
    """s with fn applied to the expressions of every statement in it."""
    return map_exprs(map_children(s, lambda c: map_all_exprs(c, fn)), fn)


def substitute(e: ir.Expr, values: Mapping[str, ir.Expr]) -> ir.Expr:
    """e with loop variables replaced."""
    if variables(e).isdisjoint(values):
        return e
    return values[e.name] if isinstance(e, ir.Var) else map_parts(e, lambda p: substitute(p, values))


def substitute_all(s: ir.Stmt, values: Mapping[str, ir.Expr]) -> ir.Stmt:
    """s with loop variables replaced. The values must not read variables that loops inside s define."""
    return map_all_exprs(s, lambda e: substitute(e, values))


def map_tensors(s: ir.Stmt, new: Mapping[str, ir.Tensor]) -> ir.Stmt:
    """s with tensors replaced by name wherever they are declared or accessed; indices stay."""
    if tensor_names(s).isdisjoint(new):
        return s

    def expr(e: ir.Expr) -> ir.Expr:
        if not loads_of(e):
            return e
        e = map_parts(e, expr)
        return replace(e, tensor=new[e.tensor.name]) if isinstance(e, ir.Load) and e.tensor.name in new else e

    def piece(p: ir.Slice | ir.FlatSlice) -> ir.Slice | ir.FlatSlice:
        return replace(p, tensor=new.get(p.tensor.name, p.tensor))

    s = map_exprs(map_children(s, lambda c: map_tensors(c, new)), expr)
    match s:
        case ir.Store() | ir.Alloc() | ir.Prefetch() if s.tensor.name in new:
            return replace(s, tensor=new[s.tensor.name])
        case ir.Brgemm():
            prefetches = tuple(replace(p, tensor=new.get(p.tensor.name, p.tensor)) for p in s.prefetches)
            return replace(s, src=piece(s.src), wei=piece(s.wei), acc=piece(s.acc), prefetches=prefetches)
        case ir.Pack():
            return replace(s, src=piece(s.src), dst=piece(s.dst))
    return s


def statements(s: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements of a block; any other statement itself."""
    return s.stmts if isinstance(s, ir.Seq) else (s,)


def block(*stmts: ir.Stmt) -> ir.Stmt:
    """One statement from several. Nested blocks are inlined unless an Alloc would change its scope; a block of one is that statement."""
    flat: list[ir.Stmt] = []
    for k, s in enumerate(stmts):
        inner = statements(s)
        keeps_scope = k == len(stmts) - 1 or not any(isinstance(c, ir.Alloc) for c in inner)
        flat.extend(inner if keeps_scope else (s,))
    return flat[0] if len(flat) == 1 else ir.Seq(tuple(flat))


def fresh(wanted: str, taken: frozenset[str] | set[str]) -> str:
    """wanted, or wanted_1, wanted_2 ... : the first that is not taken."""
    if wanted not in taken:
        return wanted
    return next(name for name in (f"{wanted}_{k}" for k in range(1, len(taken) + 2)) if name not in taken)


def claim(wanted: str, taken: set[str]) -> str:
    """A fresh name, added to `taken`."""
    name = fresh(wanted, taken)
    taken.add(name)
    return name
