"""Loop-invariant code motion: loads and values that are the same in every iteration, which the emitter computes before the loop.

for i in 4096:                        x = bia[0]
    dst[i] = src[i] + bia[0]    ->    for i in 4096:
                                          dst[i] = src[i] + x
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.core.memoise import memoised
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, Load, Seq, Stmt
from benchgraph.tir.visit import bound_names, children, exprs, loads_of, parts, variables


def invariant_loads(loop: For) -> Iterator[Load]:
    """Loads that every iteration does from the same address. The caller checks that the loop does not write there."""
    bound = bound_names(loop)
    return (load for load in _certain_loads(loop.body) if bound.isdisjoint(variables(load)))


def invariant_values(loop: For) -> Iterator[Expr]:
    """Quotients, remainders and floats that are the same in every iteration: several instructions each, which LLVM does not hoist
    (docs/measurements/codegen.md)."""
    bound = bound_names(loop)
    return (e for e in _values(loop.body) if bound.isdisjoint(variables(e)))


@memoised
def _values(s: Stmt) -> tuple[Expr, ...]:
    """Quotients by constants, and floats, that read no memory, so that they may be computed even where s does not run."""
    return (*(value for e in exprs(s) for value in _values_of(e)), *(value for inner in children(s) for value in _values(inner)))


@memoised
def _values_of(e: Expr) -> tuple[Expr, ...]:
    if not variables(e):
        return ()
    inner = tuple(value for part in parts(e) for value in _values_of(part))
    is_division = isinstance(e, Binary) and e.op in (BinOp.floordiv, BinOp.mod) and isinstance(e.b, Const)
    return (e, *inner) if (is_division or type_of(e)[0].is_float) and not loads_of(e) else inner


@memoised
def _certain_loads(s: Stmt) -> tuple[Load, ...]:
    """Loads that happen whenever s runs."""
    here = [load for e in exprs(s) for load in loads_of(e)]
    runs_children = isinstance(s, Seq) or (isinstance(s, For) and (constant(s.extent) or 0) > 0)
    return (*here, *(load for inner in children(s) for load in _certain_loads(inner))) if runs_children else tuple(here)
