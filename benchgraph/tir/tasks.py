"""Parallel loops, and what becomes of one that is cut into tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from benchgraph.tir.build import add, mul, piece
from benchgraph.tir.ir import For, LoopKind, Stmt, Var
from benchgraph.tir.visit import map_children, substitute_all


def is_parallel(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and s.kind is LoopKind.parallel


def on_one_thread(s: Stmt) -> Stmt:
    """The statement without parallel loops."""
    s = map_children(s, on_one_thread)
    return replace(s, kind=LoopKind.serial) if is_parallel(s) else s


def part(loop: For, task: Var, count: int, each: int) -> For:
    """The iterations of a loop that one of its tasks does, on one thread: so many of count, fewer in the last."""
    body = substitute_all(loop.body, {loop.var.name: add(mul(task, each), loop.var)})
    return For(loop.var, piece(count, each, task), body)
