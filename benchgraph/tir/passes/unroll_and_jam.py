"""unroll-and-jam: several iterations of a loop that its schedule unrolls are computed together, and their inner loops fused.

    for i in 32 unroll_jam by 2 {                      for i in 16 {
      alloc m: f32 register                              alloc m: f32 register
      m = -inf                                           alloc m_1: f32 register
      for j in 64 { m = max(m, x[i, j]) }         ->     m = -inf
      y[i] = m                                           m_1 = -inf
    }                                                    for j in 64 { m = max(m, x[i*2, j])  m_1 = max(m_1, x[i*2 + 1, j]) }
                                                         y[i*2] = m
                                                         y[i*2 + 1] = m_1
                                                       }
    for r in 64 unroll_jam by 4 { for c in 100 {       for r in 16 { for c in 100 {
      acc[c] = acc[c] + x[r, c]                   ->     acc[c] = acc[c] + x[r*4, c] + x[r*4 + 1, c] + x[r*4 + 2, c] + x[r*4 + 3, c]
    } }                                                } }

A reduction along a row ends in a chain of dependent instructions, whose latency the work of other rows hides. Accumulators of many rows
are loaded and stored once for several of them. Elements are added in the same order, so results keep their bits.
Measurements: docs/measurements/loop-unrolling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import accesses_of, are_independent
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Binary, For, Func, LoopKind, Seq, Stmt, Store
from benchgraph.tir.loops import map_loops, unrolled, with_body
from benchgraph.tir.vector_loops import reduction
from benchgraph.tir.visit import children, declared_names, names_of, statements, tensor_names, variables, walk, written


def unroll_and_jam(f: Func, target: Target) -> Func:
    names = names_of(f)
    return f if f.runs_once else with_body(f, map_loops(f.body, lambda loop, ranges: _unrolled(loop, ranges, names)))


def _unrolled(loop: For, ranges: Ranges, names: set[str]) -> Stmt | None:
    count, extent = loop.unroll_jam, constant(loop.extent)
    is_short = extent is not None and extent < count
    if count == 1 or is_short or loop.kind is not LoopKind.serial or not _may_be_jammed(loop, ranges):
        return None
    return unrolled(replace(loop, unroll_jam=1), count, _jammed, names)


def _may_be_jammed(loop: For, ranges: Ranges) -> bool:
    """Whether iterations are independent, but for elements that all of them reduce into, one by one."""
    names = {t.name for t in written(loop)} - declared_names(loop)
    reductions = (r.store for s in walk(loop.body) if isinstance(s, Store) and (r := reduction(s)) is not None)
    common = {s.tensor.name for s in reductions if not any(loop.var.name in variables(i) for i in s.index)} & names
    return are_independent(loop, loop, ranges, names - common) and all(_is_per_element(name, loop, ranges) for name in common)


def _is_per_element(name: str, loop: For, ranges: Ranges) -> bool:
    """Whether a tensor is accessed by one reduction alone, each of whose elements belongs to one iteration of an inner loop."""
    around = inside(loop, ranges)
    inner = (s for s in statements(loop.body) if isinstance(s, For) and name in tensor_names(s))
    return len(list(accesses_of(name, loop.body, around))) == 2 and any(are_independent(s, s, around, {name}) for s in inner)


def _jammed(copies: Sequence[Stmt]) -> Stmt:
    """The same statement of several iterations, statement by statement; loops are fused, and reductions into one element are one."""
    first = copies[0]
    if isinstance(first, Seq):
        done: list[Stmt] = []
        for step in zip(*map(children, copies), strict=True):
            together = _jammed(step)
            done += together.stmts if isinstance(together, Seq) and not isinstance(step[0], Seq) else (together,)
        return Seq(tuple(done))
    loops = [s for s in copies if isinstance(s, For)]
    if isinstance(first, For) and all(s.extent == first.extent for s in loops):
        return replace(first, body=_jammed([s.body for s in loops]))
    reductions = [r for s in copies if isinstance(s, Store) and (r := reduction(s)) is not None]
    if isinstance(first, Store) and [(r.store.tensor, r.store.index) for r in reductions] == [(first.tensor, first.index)] * len(copies):
        return replace(first, value=reduce(lambda total, r: Binary(r.op, total, r.value), reductions[1:], first.value))
    return Seq(tuple(copies))
