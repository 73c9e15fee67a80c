"""Parallel loops, and their division into tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from benchgraph.tir.build import add, block_size, mul
from benchgraph.tir.ir import For, LoopKind, Stmt, Var
from benchgraph.tir.visit import map_children, substitute_all


def is_parallel(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and s.kind is LoopKind.parallel


def without_parallel_loops(s: Stmt) -> Stmt:
    """The statement with its parallel loops made serial."""
    s = map_children(s, without_parallel_loops)
    return replace(s, kind=LoopKind.serial) if is_parallel(s) else s


def iterations_of_task(loop: For, task: Var, count: int, each: int) -> For:
    """The serial loop of one task, which runs `each` of the loop's `count` iterations (the last task may run fewer)."""
    body = substitute_all(loop.body, {loop.var.name: add(mul(task, each), loop.var)})
    return For(loop.var, block_size(count, each, task), body)
