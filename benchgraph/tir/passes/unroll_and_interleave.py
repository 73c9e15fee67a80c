"""unroll-and-interleave: loops over rows that are reduced are unrolled, and the statements of the rows interleaved.

    for i in 32 {                                      for i in 16 {        (by two here; by four in fact)
      alloc m: f32 register                              alloc m: f32 register
      m = -inf                                           m = -inf
      for j in 64 { m = max(m, x[i, j]) }                alloc m_1: f32 register
      for j in 64 { y[i, j] = exp(x[i, j] - m) }   ->    m_1 = -inf
    }                                                    for j in 64 { m = max(m, x[i*2, j])  m_1 = max(m_1, x[i*2 + 1, j]) }
                                                         for j in 64 { y[i*2, j] = exp(x[i*2, j] - m)  y[i*2 + 1, j] = ... }
                                                       }

Each reduction ends in a chain of dependent instructions (adding up lanes, a reciprocal), during which a short row has no other work: work
of other rows hides the latency. Rows must be independent, and the machine must have registers for several accumulators.
Measurements: docs/measurements/loop-unrolling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import MachineTable, table
from benchgraph.machine.target import Target
from benchgraph.tir.accesses import has_independent_iterations, stride_along
from benchgraph.tir.affine import Ranges
from benchgraph.tir.build import constant
from benchgraph.tir.index import within
from benchgraph.tir.instructions import executed, instructions
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, LoopKind, Pack, Scope, Seq, Stmt, Store
from benchgraph.tir.loops import Names, map_loops, unrolled, with_body
from benchgraph.tir.visit import children, loads, walk

LEAST_SHARE = 0.1  # of the instructions of the longest rows, below which rows are not worth the code


def unroll_and_interleave(f: Func, target: Target) -> Func:
    machine = table(target)
    if target.isa.registers <= machine.interleaved_rows * machine.interleaved_reductions:
        return f
    loops = list(_rows(f.body, {}, 1, target))
    least = LEAST_SHARE * max((count for _, count in loops), default=0.0)
    worth = {id(loop) for loop, count in loops if count >= least}
    names, rows = Names.of(f), machine.interleaved_rows
    return with_body(f, map_loops(f.body, lambda loop, _: unrolled(loop, rows, _interleaved, names) if id(loop) in worth else None))


def _rows(s: Stmt, ranges: Ranges, times: int, target: Target) -> Iterator[tuple[For, float]]:
    """Loops over rows that can be unrolled, and the instructions of each in all. times: how often s runs."""
    if isinstance(s, For):
        if _reduces_rows(s, table(target)) and not _is_memory_bound(s, target) and has_independent_iterations(s, ranges):
            yield s, times * executed(s)
            return
        times *= constant(s.extent) or 1
    for c, narrowed in within(s, ranges):
        yield from _rows(c, narrowed, times, target)


def _reduces_rows(loop: For, machine: MachineTable) -> bool:
    """Whether a loop has a constant number of rows, enough to unroll, and reduces each into registers by short and cheap inner loops."""
    rows = constant(loop.extent) if loop.kind is LoopKind.serial else None
    if rows is None or rows < machine.interleaved_rows or any(isinstance(s, Brgemm | Pack | If) for s in walk(loop.body)):
        return False
    inner = [s for s in walk(loop.body) if isinstance(s, For)]
    if not inner or any(_is_vectorised_over_rows(loop, s) or any(isinstance(c, For) for c in walk(s.body)) for s in inner):
        return False
    longest = machine.interleaved_row_elements
    is_short = all((n := constant(s.extent)) is not None and n <= longest and s.kind is LoopKind.serial for s in inner)
    registers = {s.tensor.name for s in children(loop.body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}
    stores = [[c for c in walk(s.body) if isinstance(c, Store)] for s in inner]
    reductions = [sum(c.tensor.name in registers for c in group) for group in stores]
    is_cheap = all(sum(map(instructions, group)) <= machine.interleaved_instructions for group in stores)
    return is_short and is_cheap and 0 < max(reductions) <= machine.interleaved_reductions


def _is_vectorised_over_rows(rows: For, loop: For) -> bool:
    """Whether rows are contiguous, and an inner loop moves along them too, as one over taps of a window: vectors of rows are better."""
    reads = [load for load in loads(loop.body) if load.index]
    return any(stride_along(load, rows.var) == 1 and stride_along(load, loop.var) != 0 for load in reads)


def _is_memory_bound(loop: For, target: Target) -> bool:
    """Whether a row waits longer for loads of the largest parameter than for its reductions.

    That holds for long rows that come from memory, and for f32 rows of a single reduction that come from L2.
    """
    inner = [s for s in walk(loop.body) if isinstance(s, For)]
    read = {load.tensor: constant(s.extent) or 0 for s in inner for load in loads(s.body) if load.tensor.scope is not Scope.register}
    params = [t for t in read if t.scope is Scope.param]
    if not params:
        return False
    machine, largest = table(target), max(params, key=lambda t: t.nbytes)
    if target.is_far(largest.nbytes) and largest.dtype.nbytes(read[largest]) >= machine.far_row_bytes:
        return True
    if len(inner) > 1 or not isinstance(inner[0].body, Store) or (constant(inner[0].extent) or 0) < machine.streamed_row_elements:
        return False
    is_f32_params = params == [*read] and all(t.dtype is DType.f32 for t in read)
    return is_f32_params and target.l1_bytes < largest.nbytes <= target.cores * target.l2_bytes


def _interleaved(rows: Sequence[Stmt]) -> Stmt:
    """The same statement of several rows, interleaved statement by statement; loops are fused."""
    if all(isinstance(s, Seq) for s in rows):
        done: list[Stmt] = []
        for step in zip(*(children(s) for s in rows), strict=True):
            both = _interleaved(step)
            done += both.stmts if isinstance(both, Seq) and not isinstance(step[0], Seq) else (both,)
        return Seq(tuple(done))
    first = rows[0]
    if isinstance(first, For):
        return replace(first, body=_interleaved([child for s in rows for child in children(s)]))
    return Seq(tuple(rows))
