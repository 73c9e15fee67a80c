"""Loops of a function: how passes find them, take them apart, copy and replace them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from benchgraph.tir.affine import Ranges, inside, linear, linear_bounds
from benchgraph.tir.build import add, binary, constant, floordiv, mod, mul
from benchgraph.tir.ir import Alloc, Binary, BinOp, Const, Expr, For, Func, LoopKind, Seq, Stmt, Store, Var
from benchgraph.tir.visit import claim, fresh, map_children, map_tensors, statements, substitute_all, walk


def with_body(f: Func, body: Stmt) -> Func:
    return f if body is f.body else replace(f, body=body)


def map_loops(s: Stmt, change: Callable[[For, Ranges], Stmt | None], ranges: Ranges | None = None) -> Stmt:
    """s with loops, outermost first, replaced by change(loop, ranges around it); inside those for which that is None, by others."""
    around = {} if ranges is None else ranges
    if isinstance(s, For):
        if (new := change(s, around)) is not None:
            return new
        around = inside(s, around)
    return map_children(s, lambda c: map_loops(c, change, around))


def is_parallel(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and s.kind is LoopKind.parallel


def without_parallel_loops(s: Stmt) -> Stmt:
    """The statement with its parallel loops made serial."""
    s = map_children(s, without_parallel_loops)
    return replace(s, kind=LoopKind.serial) if is_parallel(s) else s


# ---- nests -----------------------------------------------------------------------------------------------------------


def only_statement(s: Stmt) -> Stmt | None:
    """The only statement of a block; None if it has several or none."""
    stmts = statements(s)
    return stmts[0] if len(stmts) == 1 else None


def perfect_nest(s: Stmt | None) -> list[For]:
    """A loop, and those perfectly nested in it, outermost first; [] for any other statement."""
    return [s, *perfect_nest(only_statement(s.body))] if isinstance(s, For) else []


def is_straight_line(s: Stmt) -> bool:
    """Whether a statement consists of stores and declarations alone."""
    return all(isinstance(c, Seq | Alloc | Store) for c in walk(s))


def as_last_block(extent: Expr, ranges: Ranges) -> tuple[Expr, int, int] | None:
    """Of an extent like min(64, 77 - b*64): the condition of the last block, its extent, and that of others; None for any other extent."""
    match extent:
        case Binary(BinOp.min, Const(size), left):
            form = linear(left)
            fewest, _ = linear_bounds(form, ranges)
            if [-step >= size for step in form.terms.values()] == [True] and 0 < fewest < size:
                return binary(BinOp.lt, left, Const(size)), int(fewest), int(size)
    return None


def largest_extent(extent: Expr, ranges: Ranges) -> int | None:
    """The extent of a whole block; None if the extent is neither a constant nor that of a block."""
    last_block = as_last_block(extent, ranges)
    return constant(extent) if last_block is None else last_block[2]


# ---- copies ----------------------------------------------------------------------------------------------------------


def copy_of(s: Stmt, values: Mapping[str, Expr], names: set[str] | None) -> Stmt:
    """The statement with values for variables, and new names for its temporaries unless `names` is None."""
    body = substitute_all(s, values)
    if names is None:
        return body
    declared = [inner.tensor for inner in walk(body) if isinstance(inner, Alloc)]
    return map_tensors(body, {t.name: replace(t, name=claim(t.name, names)) for t in declared})


def unrolled(loop: For, count: int, combine: Callable[[Sequence[Stmt]], Stmt], names: set[str]) -> Stmt:
    """A loop of combine(`count` copies of the body), and a loop over the iterations left."""
    groups, rest = floordiv(loop.extent, count), mod(loop.extent, count)
    copies = [copy_of(loop.body, {loop.var.name: add(mul(loop.var, count), u)}, names if u else None) for u in range(count)]
    unrolled_loop = replace(loop, extent=groups, body=combine(copies))
    if constant(rest) == 0:
        return unrolled_loop
    var = Var(fresh(f"{loop.var.name}_last", names))
    return Seq((unrolled_loop, For(var, rest, copy_of(loop.body, {loop.var.name: add(mul(groups, count), var)}, names))))


def blocked(loop: For, block: Var, count: int) -> For:
    """The loop as one of `count` iterations, each of a block of its iterations; the extent is a multiple of `count`."""
    each = (constant(loop.extent) or 0) // max(count, 1)
    if each > 1:
        body = substitute_all(loop.body, {loop.var.name: add(mul(block, each), loop.var)})
        return For(block, Const(count), For(loop.var, Const(each), body), loop.kind)
    return loop if loop.var == block else replace(loop, var=block, body=substitute_all(loop.body, {loop.var.name: block}))
