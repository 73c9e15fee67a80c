"""Unrolling of a loop by a factor, with a remainder loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchgraph.tir.build import add, constant, floordiv, mod, mul
from benchgraph.tir.ir import Alloc, Expr, For, Seq, Stmt
from benchgraph.tir.visit import claim, fresh, map_tensors, substitute_all, walk


def unrolled(loop: For, count: int, combine: Callable[[Sequence[Stmt]], Stmt], taken: set[str], variables: frozenset[str]) -> Stmt:
    """A loop of combine(`count` copies of the body), and a loop over the iterations left.

    taken: names of tensors, new ones included; variables: names of loop variables.
    """
    groups, rest = floordiv(loop.extent, count), mod(loop.extent, count)
    copies = [copy_of(loop.body, {loop.var.name: add(mul(loop.var, count), u)}, taken if u else None) for u in range(count)]
    parts: list[Stmt] = [replace(loop, extent=groups, body=combine(copies))]
    if constant(rest) != 0:
        var = replace(loop.var, name=fresh(f"{loop.var.name}_last", variables))
        parts.append(For(var, rest, copy_of(loop.body, {loop.var.name: add(mul(groups, count), var)}, taken)))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def copy_of(s: Stmt, values: Mapping[str, Expr], taken: set[str] | None) -> Stmt:
    """The statement with values for variables, and new names for its temporaries unless `taken` is None."""
    body = substitute_all(s, values)
    if taken is None:
        return body
    new = {}
    for inner in walk(body):
        if isinstance(inner, Alloc):
            new[inner.tensor.name] = replace(inner.tensor, name=claim(inner.tensor.name, taken))
    return map_tensors(body, new)
