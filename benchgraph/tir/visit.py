"""Walk and rebuild Tensor IR. A rebuild returns the same object wherever nothing changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import TypeAlias

from benchgraph.core.memoise import memoised
from benchgraph.tir.ir import (
    Alloc,
    Binary,
    Brgemm,
    Broadcast,
    Cast,
    Const,
    Expr,
    FlatSlice,
    For,
    If,
    Load,
    Pack,
    PostOps,
    Prefetch,
    Ramp,
    Random,
    ReduceLanes,
    Select,
    Seq,
    Slice,
    Stmt,
    Store,
    Tensor,
    Unary,
    Var,
)

ExprMap: TypeAlias = Callable[[Expr], Expr]
StmtMap: TypeAlias = Callable[[Stmt], Stmt]


def map_tuple(items: tuple[Expr, ...], fn: ExprMap) -> tuple[Expr, ...]:
    new = [fn(i) for i in items]
    return items if all(map(is_, items, new)) else tuple(new)


def _map_optional(e: Expr | None, fn: ExprMap) -> Expr | None:
    return None if e is None else fn(e)


# Cases of a match are tried in order, so the most frequent class comes first.

# ---- expressions -----------------------------------------------------------------------------------------------------


def parts(e: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, in printing order."""
    match e:
        case Binary():
            return (e.a, e.b)
        case Var() | Const():
            return ()
        case Load():
            return e.index if e.mask is None else (*e.index, e.mask)
        case Select():
            return (e.cond, e.a, e.b)
        case Ramp():
            return (e.base,)
        case Unary() | Cast() | Broadcast() | ReduceLanes():
            return (e.a,)
        case Random():
            return (e.index, e.seed, e.offset)


def map_parts(e: Expr, fn: ExprMap) -> Expr:
    """e with fn applied to each direct subexpression."""
    match e:
        case Binary():
            a, b = fn(e.a), fn(e.b)
            return e if a is e.a and b is e.b else Binary(e.op, a, b)
        case Var() | Const():
            return e
        case Load():
            index, mask = map_tuple(e.index, fn), _map_optional(e.mask, fn)
            return e if index is e.index and mask is e.mask else Load(e.tensor, index, mask)
        case Select():
            cond, a, b = fn(e.cond), fn(e.a), fn(e.b)
            return e if cond is e.cond and a is e.a and b is e.b else Select(cond, a, b)
        case Ramp():
            base = fn(e.base)
            return e if base is e.base else replace(e, base=base)
        case Unary() | Cast() | Broadcast() | ReduceLanes():
            a = fn(e.a)
            return e if a is e.a else replace(e, a=a)
        case Random():
            old = parts(e)
            new = map_tuple(old, fn)
            return e if new is old else Random(*new)


def rewrite(e: Expr, fn: ExprMap) -> Expr:
    """Apply fn to every subexpression, leaves first."""
    return fn(map_parts(e, lambda p: rewrite(p, fn)))


def walk_expr(e: Expr) -> Iterator[Expr]:
    """e and every subexpression, outermost first."""
    left = [e]
    while left:
        e = left.pop()
        yield e
        left.extend(reversed(parts(e)))


@memoised
def variables(e: Expr) -> frozenset[str]:
    """Names of the loop variables e reads."""
    if isinstance(e, Var):
        return frozenset((e.name,))
    of_parts = [names for p in parts(e) if (names := variables(p))]
    return of_parts[0] if len(of_parts) == 1 else frozenset().union(*of_parts)


@memoised
def loads_of(e: Expr) -> tuple[Load, ...]:
    """The loads in e, itself included, in the order of `walk_expr`."""
    inner = tuple(load for p in parts(e) for load in loads_of(p))
    return (e, *inner) if isinstance(e, Load) else inner


def reads_memory(e: Expr) -> bool:
    return bool(loads_of(e))


# ---- statements ------------------------------------------------------------------------------------------------------


def slice_exprs(s: Slice | FlatSlice) -> tuple[Expr, ...]:
    return s.index if isinstance(s, Slice) else (s.offset,)


def _map_slice(s: Slice | FlatSlice, fn: ExprMap) -> Slice | FlatSlice:
    if isinstance(s, FlatSlice):
        offset = fn(s.offset)
        return s if offset is s.offset else replace(s, offset=offset)
    index = map_tuple(s.index, fn)
    return s if index is s.index else replace(s, index=index)


def _map_prefetch(s: Prefetch, fn: ExprMap) -> Prefetch:
    index = map_tuple(s.index, fn)
    return s if index is s.index else replace(s, index=index)


def exprs(s: Stmt) -> tuple[Expr, ...]:
    """The expressions of this statement alone (not of statements inside it)."""
    match s:
        case Store():
            return (*s.index, s.value) if s.mask is None else (*s.index, s.value, s.mask)
        case Seq() | Alloc():
            return ()
        case For():
            return (s.extent,)
        case If():
            return (s.cond,)
        case Brgemm():
            return (*slice_exprs(s.src), *slice_exprs(s.wei), *slice_exprs(s.acc), *(e for p in s.prefetches for e in p.index))
        case Pack():
            return (*slice_exprs(s.src), *slice_exprs(s.dst))
        case Prefetch():
            return s.index


def map_exprs(s: Stmt, fn: ExprMap) -> Stmt:
    """This statement alone with fn applied to its expressions (see `exprs`)."""
    match s:
        case Store():
            index, value, mask = map_tuple(s.index, fn), fn(s.value), _map_optional(s.mask, fn)
            return s if index is s.index and value is s.value and mask is s.mask else Store(s.tensor, index, value, mask)
        case Seq() | Alloc():
            return s
        case For():
            extent = fn(s.extent)
            return s if extent is s.extent else replace(s, extent=extent)
        case If():
            cond = fn(s.cond)
            return s if cond is s.cond else replace(s, cond=cond)
        case Brgemm():
            src, wei, acc = _map_slice(s.src, fn), _map_slice(s.wei, fn), _map_slice(s.acc, fn)
            prefetches = tuple(_map_prefetch(p, fn) for p in s.prefetches)
            is_same = src is s.src and wei is s.wei and acc is s.acc and all(a is b for a, b in zip(prefetches, s.prefetches, strict=True))
            return s if is_same else replace(s, src=src, wei=wei, acc=acc, prefetches=prefetches)
        case Pack():
            src, dst = _map_slice(s.src, fn), _map_slice(s.dst, fn)
            return s if src is s.src and dst is s.dst else replace(s, src=src, dst=dst)
        case Prefetch():
            return _map_prefetch(s, fn)


def children(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside this one."""
    match s:
        case Store() | Alloc():
            return ()
        case Seq():
            return s.stmts
        case For():
            return (s.body,)
        case If():
            return (s.then,) if s.orelse is None else (s.then, s.orelse)
        case Brgemm():
            return () if s.post_ops is None else (s.post_ops.body,)
        case Pack() | Prefetch():
            return ()


def map_children(s: Stmt, fn: StmtMap) -> Stmt:
    """s with fn applied to each statement directly inside it."""
    match s:
        case Store() | Alloc():
            return s
        case For():
            body = fn(s.body)
            return s if body is s.body else For(s.var, s.extent, body, s.kind)
        case If():
            then = fn(s.then)
            orelse = None if s.orelse is None else fn(s.orelse)
            return s if then is s.then and orelse is s.orelse else If(s.cond, then, orelse)
        case Seq():
            new = [fn(c) for c in s.stmts]
            return s if all(map(is_, s.stmts, new)) else Seq(tuple(new))
        case Brgemm() if s.post_ops is not None:
            body = fn(s.post_ops.body)
            return s if body is s.post_ops.body else replace(s, post_ops=replace(s.post_ops, body=body))
        case Brgemm() | Pack() | Prefetch():
            return s


def walk(s: Stmt) -> Iterator[Stmt]:
    """s and every statement inside it, in program order, outermost first."""
    left = [s]
    while left:
        s = left.pop()
        yield s
        left.extend(reversed(children(s)))


def loads(s: Stmt) -> Iterator[Load]:
    """Every Load inside s."""
    for stmt in walk(s):
        for e in exprs(stmt):
            yield from loads_of(e)


def tensors(s: Stmt) -> Iterator[Tensor]:
    """Every tensor that s declares or accesses, in program order, with repetitions."""
    for stmt in walk(s):
        yield from own_tensors(stmt)


def own_tensors(s: Stmt) -> Iterator[Tensor]:
    """The tensors that this statement itself declares or accesses."""
    for e in exprs(s):
        yield from (load.tensor for load in loads_of(e))
    match s:
        case Alloc() | Store() | Prefetch():
            yield s.tensor
        case Brgemm():
            yield from (s.src.tensor, s.wei.tensor, s.acc.tensor, *(p.tensor for p in s.prefetches))
        case Pack():
            yield from (s.src.tensor, s.dst.tensor)


@memoised
def tensor_names(s: Stmt) -> frozenset[str]:
    """Names of the tensors that s declares or accesses."""
    return frozenset(t.name for t in own_tensors(s)).union(*map(tensor_names, children(s)))


@memoised
def declared_names(s: Stmt) -> frozenset[str]:
    """Names of the tensors that s declares."""
    own = frozenset([s.tensor.name]) if isinstance(s, Alloc) else frozenset[str]()
    return own.union(*map(declared_names, children(s)))


@memoised
def users(s: Seq) -> Mapping[str, tuple[int, ...]]:
    """Name of a tensor -> positions in a block of the statements that declare or access it, in order."""
    positions = defaultdict[str, list[int]](list)
    for at, c in enumerate(s.stmts):
        for name in tensor_names(c):
            positions[name].append(at)
    return {name: tuple(at) for name, at in positions.items()}


@memoised
def written(s: Stmt) -> frozenset[Tensor]:
    """The tensors that s writes, registers too."""
    match s:
        case Store():
            return frozenset([s.tensor])
        case Brgemm():
            return frozenset([s.acc.tensor]).union(*map(written, children(s)))
        case Pack():
            return frozenset([s.dst.tensor])
    return frozenset[Tensor]().union(*map(written, children(s)))


@memoised
def bound_names(s: Stmt) -> frozenset[str]:
    """Names of the loop variables that loops, and post-ops, inside s define."""
    own = frozenset[str]()
    match s:
        case For():
            own = frozenset([s.var.name])
        case Brgemm(post_ops=PostOps() as p):
            own = frozenset([p.row.name, p.vector.name])
    return own.union(*map(bound_names, children(s)))


def map_all_exprs(s: Stmt, fn: ExprMap) -> Stmt:
    """s with fn applied to the expressions of every statement in it."""
    return map_exprs(map_children(s, lambda c: map_all_exprs(c, fn)), fn)


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """e with loop variables replaced."""
    if variables(e).isdisjoint(values):
        return e
    return values[e.name] if isinstance(e, Var) else map_parts(e, lambda p: substitute(p, values))


def substitute_all(s: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """s with loop variables replaced. The values must not read variables that loops inside s define."""
    return map_all_exprs(s, lambda e: substitute(e, values))


def map_tensors(s: Stmt, new: Mapping[str, Tensor]) -> Stmt:
    """s with tensors replaced by name wherever they are declared or accessed; indices stay."""
    if tensor_names(s).isdisjoint(new):
        return s

    def expr(e: Expr) -> Expr:
        if not reads_memory(e):
            return e
        e = map_parts(e, expr)
        return replace(e, tensor=new[e.tensor.name]) if isinstance(e, Load) and e.tensor.name in new else e

    def piece(p: Slice | FlatSlice) -> Slice | FlatSlice:
        return replace(p, tensor=new.get(p.tensor.name, p.tensor))

    s = map_exprs(map_children(s, lambda c: map_tensors(c, new)), expr)
    match s:
        case Store() | Alloc() | Prefetch() if s.tensor.name in new:
            return replace(s, tensor=new[s.tensor.name])
        case Brgemm():
            prefetches = tuple(replace(p, tensor=new.get(p.tensor.name, p.tensor)) for p in s.prefetches)
            return replace(s, src=piece(s.src), wei=piece(s.wei), acc=piece(s.acc), prefetches=prefetches)
        case Pack():
            return replace(s, src=piece(s.src), dst=piece(s.dst))
    return s


def statements(s: Stmt) -> tuple[Stmt, ...]:
    """The statements of a block; any other statement itself."""
    return s.stmts if isinstance(s, Seq) else (s,)


def block(*stmts: Stmt) -> Stmt:
    """One statement from several. Nested blocks are inlined unless an Alloc would change its scope; a block of one is that statement."""
    flat: list[Stmt] = []
    for k, s in enumerate(stmts):
        inner = statements(s)
        keeps_scope = k == len(stmts) - 1 or not any(isinstance(c, Alloc) for c in inner)
        flat.extend(inner if keeps_scope else (s,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


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
