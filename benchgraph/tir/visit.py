"""Walk and rebuild Tensor IR. A rebuild returns the same object wherever nothing changed.

Which fields of a node hold expressions, statements, or slices and the like, is read off their types in ir.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from operator import is_
from typing import Any, TypeAlias, TypeVar, cast

from benchgraph.core.memoise import memoised
from benchgraph.tir import ir

ExprMap: TypeAlias = Callable[[ir.Expr], ir.Expr]
StmtMap: TypeAlias = Callable[[ir.Stmt], ir.Stmt]
Access: TypeAlias = ir.Load | ir.Store | ir.Alloc | ir.Slice | ir.Prefetch  # what names a tensor
Fields: TypeAlias = Mapping[type, tuple[str, ...]]
N = TypeVar("N")


def _fields_of(*types: str) -> Fields:
    """Class of node -> names of its fields that hold values of one of these types, alone, in tuples, or optionally."""
    nodes = [c for c in vars(ir).values() if is_dataclass(c) and isinstance(c, type)]
    return {c: tuple(f.name for f in fields(c) if set(types) & set(re.findall(r"\w+", str(f.type)))) for c in nodes}


_EXPRS, _STMTS, _PIECES = _fields_of("Expr"), _fields_of("Stmt"), _fields_of("Slice", "Prefetch", "PostOps")
_ALL: Fields = {c: tuple(f.name for f in fields(c)) for c in _EXPRS}


def _held(node: object, names: Fields) -> Iterator[Any]:
    """What these fields of a node hold, and those of its slices, prefetches and post-ops."""
    for name in names[type(node)]:
        value = getattr(node, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value
    if names is not _PIECES:
        for piece in _held(node, _PIECES):
            yield from _held(piece, names)


def _with_fields(node: N, names: Fields, fn: Callable[[Any], Any]) -> N:
    """The node with fn applied to what these fields of its own hold."""
    changed: dict[str, Any] = {}
    for name in names[type(node)]:
        old = getattr(node, name)
        if old is not None:
            new = map_tuple(old, fn) if isinstance(old, tuple) else fn(old)
            if new is not old:
                changed[name] = new
    return replaced(node, **changed) if changed else node


def replaced(node: N, **changed: Any) -> N:
    """`dataclasses.replace` of a node in a third of its time."""
    return type(node)(*[changed[name] if name in changed else getattr(node, name) for name in _ALL[type(node)]])


def _mapped(node: N, names: Fields, fn: Callable[[Any], Any]) -> N:
    """The node with fn applied to what these fields hold, its own and those of its slices, prefetches and post-ops."""
    if _PIECES[type(node)]:
        node = _with_fields(node, _PIECES, lambda piece: _with_fields(piece, names, fn))
    return _with_fields(node, names, fn)


def map_tuple(items: tuple[N, ...], fn: Callable[[N], N]) -> tuple[N, ...]:
    new = [fn(i) for i in items]
    return items if all(map(is_, items, new)) else tuple(new)


# ---- expressions -----------------------------------------------------------------------------------------------------


@memoised
def parts(e: ir.Expr) -> tuple[ir.Expr, ...]:
    """The direct subexpressions, in printing order."""
    return tuple(_held(e, _EXPRS))


def map_parts(e: ir.Expr, fn: ExprMap) -> ir.Expr:
    """e with fn applied to each direct subexpression."""
    if isinstance(e, ir.Binary):  # as the others, but faster: most expressions are sums and products
        a, b = fn(e.a), fn(e.b)
        return e if a is e.a and b is e.b else ir.Binary(e.op, a, b)
    return _with_fields(e, _EXPRS, fn)


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


def divisions_of(e: ir.Expr) -> Iterator[ir.Binary]:
    """The quotients and remainders in e."""
    return (d for d in walk_expr(e) if isinstance(d, ir.Binary) and d.op in (ir.BinOp.floordiv, ir.BinOp.mod))


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


@memoised
def exprs(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions of this statement alone (not of statements inside it)."""
    return tuple(_held(s, _EXPRS))


def map_exprs(s: ir.Stmt, fn: ExprMap) -> ir.Stmt:
    """This statement alone with fn applied to its expressions (see `exprs`)."""
    return _mapped(s, _EXPRS, fn)


@memoised
def children(s: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statements directly inside this one."""
    return tuple(_held(s, _STMTS))


def map_children(s: ir.Stmt, fn: StmtMap) -> ir.Stmt:
    """s with fn applied to each statement directly inside it."""
    return _mapped(s, _STMTS, fn)


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
    yield from (access.tensor for access in accesses(s))


@memoised
def accesses(s: ir.Stmt) -> tuple[Access, ...]:
    """What this statement itself declares or accesses tensors by, loads first."""
    loaded = (load for e in exprs(s) for load in loads_of(e))
    own = (s,) if isinstance(s, ir.Alloc | ir.Store | ir.Prefetch) else ()
    return (*loaded, *own, *(piece for piece in _held(s, _PIECES) if not isinstance(piece, ir.PostOps)))


def map_accesses(s: ir.Stmt, fn: Callable[[Any], Any]) -> ir.Stmt:
    """This statement alone with fn applied to each of its `accesses`, loads inside others first."""

    def expr(e: ir.Expr) -> ir.Expr:
        if not loads_of(e):
            return e
        e = map_parts(e, expr)
        return cast(ir.Load, fn(e)) if isinstance(e, ir.Load) else e

    s = _with_fields(map_exprs(s, expr), _PIECES, lambda piece: piece if isinstance(piece, ir.PostOps) else fn(piece))
    return cast(ir.Stmt, fn(s)) if isinstance(s, ir.Alloc | ir.Store | ir.Prefetch) else s


def _everywhere(own: Callable[[ir.Stmt], Iterable[N]]) -> Callable[[ir.Stmt], frozenset[N]]:
    """A memoised function from what `own` finds in a statement alone to what is in all of it."""

    @wraps(own)
    def found(s: ir.Stmt) -> frozenset[N]:
        return frozenset(own(s)).union(*map(everywhere, children(s)))

    everywhere = memoised(found)
    return everywhere


@_everywhere
def tensor_names(s: ir.Stmt) -> Iterable[str]:
    """Names of the tensors that s declares or accesses."""
    return (t.name for t in own_tensors(s))


@_everywhere
def declared_names(s: ir.Stmt) -> Iterable[str]:
    """Names of the tensors that s declares."""
    return (s.tensor.name,) if isinstance(s, ir.Alloc) else ()


@_everywhere
def written(s: ir.Stmt) -> Iterable[ir.Tensor]:
    """The tensors that s writes, registers too."""
    match s:
        case ir.Store():
            return (s.tensor,)
        case ir.Brgemm():
            return (s.acc.tensor,)
        case ir.Pack():
            return (s.dst.tensor,)
    return ()


@_everywhere
def read(s: ir.Stmt) -> Iterable[ir.Tensor]:
    """The tensors that s loads from, and all operands of its microkernels and packings."""
    return (access.tensor for access in accesses(s) if isinstance(access, ir.Load | ir.Slice))


@_everywhere
def bound_names(s: ir.Stmt) -> Iterable[str]:
    """Names of the loop variables that loops, and post-ops, inside s define."""
    match s:
        case ir.For():
            return (s.var.name,)
        case ir.Brgemm(post_ops=ir.PostOps() as p):
            return p.row.name, p.vector.name
    return ()


@memoised
def users(s: ir.Seq) -> Mapping[str, tuple[int, ...]]:
    """Name of a tensor -> positions in a block of the statements that declare or access it, in order."""
    positions = defaultdict[str, list[int]](list)
    for at, c in enumerate(s.stmts):
        for name in tensor_names(c):
            positions[name].append(at)
    return {name: tuple(at) for name, at in positions.items()}


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
    s = map_children(s, lambda c: map_tensors(c, new))
    return map_accesses(s, lambda access: replaced(access, tensor=new[access.tensor.name]) if access.tensor.name in new else access)


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


def names_of(f: ir.Func) -> set[str]:
    """Names of a function's tensors and loop variables."""
    return {p.name for p in f.params}.union(tensor_names(f.body), bound_names(f.body))


def claim(wanted: str, taken: set[str]) -> str:
    """A fresh name, added to `taken`."""
    name = fresh(wanted, taken)
    taken.add(name)
    return name
