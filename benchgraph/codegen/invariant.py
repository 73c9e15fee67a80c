"""What a loop reads again and again at one place, or divides again and again, for the emitter to do in front of it.

for i in 4096:                        x = bia[0]
    dst[i] = src[i] + bia[0]    ->    for i in 4096:
                                          dst[i] = src[i] + x
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.core.remember import remembered
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Binary, BinOp, Const, For, Load, Seq, Stmt
from benchgraph.tir.visit import bound_names, children, exprs, loads_of, reads_memory, variables, walk_expr


def fixed_loads(loop: For) -> Iterator[Load]:
    """Loads that happen in every iteration, each time at the same place. Whether something is written there is another question."""
    bound = bound_names(loop)
    return (load for load in _certain_loads(loop.body) if bound.isdisjoint(variables(load)))


def fixed_divisions(loop: For) -> Iterator[Binary]:
    """Quotients and remainders that are the same in every iteration. They cost several instructions, two of them in fixed registers, which
    instruction selection leaves where they are."""
    bound = bound_names(loop)
    return (e for e in _divisions(loop.body) if bound.isdisjoint(variables(e)))


@remembered
def _divisions(s: Stmt) -> tuple[Binary, ...]:
    """By numbers, of what reads no memory: they may be done too often."""
    own = (e for outer in exprs(s) for e in walk_expr(outer) if isinstance(e, Binary) and e.op in (BinOp.floordiv, BinOp.mod))
    return (*(e for e in own if isinstance(e.b, Const) and not reads_memory(e)), *(e for inner in children(s) for e in _divisions(inner)))


@remembered
def _certain_loads(s: Stmt) -> tuple[Load, ...]:
    """Loads that happen whenever s runs."""
    own = [load for e in exprs(s) for load in loads_of(e)]
    goes_on = isinstance(s, Seq) or (isinstance(s, For) and (constant(s.extent) or 0) > 0)
    return (*own, *(load for inner in children(s) for load in _certain_loads(inner))) if goes_on else tuple(own)
