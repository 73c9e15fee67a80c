"""unroll-and-interleave: rows that are folded are worked on several at a time, so that one row's latencies hide behind the other's work.

    for i in 32 {                                      for i in 16 {        (two at a time, to be short)
      alloc m: f32 register                              alloc m: f32 register
      m = -inf                                           m = -inf
      for j in 64 { m = max(m, x[i, j]) }                alloc m_1: f32 register
      for j in 64 { y[i, j] = exp(x[i, j] - m) }   ->    m_1 = -inf
    }                                                    for j in 64 { m = max(m, x[i*2, j])  m_1 = max(m_1, x[i*2 + 1, j]) }
                                                         for j in 64 { y[i*2, j] = exp(x[i*2, j] - m)  y[i*2 + 1, j] = ... }
                                                       }

Each fold of a row ends in a chain of dependent steps: the lanes of a vector are added up, a reciprocal is taken. A row of few vectors has
nothing else to do meanwhile. Only where the machine has registers for the accumulators of several rows, and rows are independent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.tir.accesses import accesses_of, inner_names, is_partitioned, pitch
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.cost import instructions, nanoseconds
from benchgraph.tir.ir import Alloc, Brgemm, For, Func, If, LoopKind, Pack, Scope, Seq, Stmt, Store
from benchgraph.tir.unrolling import unrolled
from benchgraph.tir.visit import bound_names, children, loads, map_children, tensor_names, walk

# Attention of the paper in int8 (MHA_1, batch 32, one thread of a Cascade Lake server that others used too, minimum of 200 executions in
# turns): 12.6 ms by single rows, 10.8 with 2, 10.5 with 3, 10.1 with 4.
ROWS = 4
MOST_FOLDS = 4  # in one loop of a row; more are enough to do by themselves, and four times as many do not fit in registers
REGISTERS = 32  # from which on two rows' accumulators, their operands and the constants of an exponential fit
# Instructions of one vector in a loop of a row beyond which they are enough to do. Training attention with dropout, of 215 (next are
# those of an exponential, 20), two Zen 4 cores, single rows over four: times in f32 1.02 and in bf16 1.03, first compile 93 ms and 141.
MOST_STEPS = 100
LONGEST = 1024  # elements of a row beyond which its own vectors are enough to do
# Elements of a row of f32 from which on that is so where it is all read from the second-level cache: hardware fetches one row ahead better
# than four. Single rows' times over those of four, products by one column, two Zen 5 CPUs: 256 and 512 rows of 256 0.85, 256 rows of 512
# 0.86, of 1024 0.61, 100 of 1000 0.72; 512 of 192 0.98, 1024 of 128 1.05; from L1, 32 of 256, 1.5; from L3, 4096 of 256, 1.13; in bf16, 256
# of 512, 1.39.
STREAMED = 256
# Bytes of a row from which on that is so of rows that come from memory, whatever is done with them: four at a time are jumps within a page.
# One Zen 4 core, times of single rows over those of four: LayerNorm of 64x64x112x112 in f32 0.44, its gradients 0.54; bf16 131072x512 by
# one column 0.43; SoftMax of 64x512x14x14 1.23, of 64x128x28x28 1.26.
FAR_BYTES = 256
# Rows that take less than this share of what those do that take longest are not worth the code for several of them, as in attention's last
# step, which has fewer columns: 1000 by steps of 64, bf16, two Zen 5 cores, first compile 130 ms instead of 149, executions alike.
LEAST = 0.1


def unroll_and_interleave(f: Func, target: Target) -> Func:
    if target.isa.registers < REGISTERS:
        return f
    found = list(_rows(f.body, {}, 1, target))
    least = LEAST * max((spent for _, spent in found), default=0.0)
    worth = {id(loop) for loop, spent in found if spent >= least}
    taken = {p.name for p in f.params} | tensor_names(f.body)
    return replace(f, body=_grouped(f.body, worth, taken, bound_names(f.body))) if worth else f


def _rows(s: Stmt, ranges: Ranges, times: int, target: Target) -> Iterator[tuple[For, float]]:
    """Loops over rows that may go several at a time, and the time that each takes. times: how often s runs."""
    if isinstance(s, For):
        ranges = inside(s, ranges)
        if s.kind is LoopKind.serial and _folds_rows(s) and not _streams(s, target) and _are_independent(s, ranges):
            yield s, times * nanoseconds(s, target)
            return
        times *= constant(s.extent) or 1
    for c in children(s):
        yield from _rows(c, ranges, times, target)


def _grouped(s: Stmt, loops: Collection[int], taken: set[str], names: frozenset[str]) -> Stmt:
    """loops: by their id()."""
    if isinstance(s, For) and id(s) in loops:
        return unrolled(s, ROWS, _together, taken, names)
    return map_children(s, lambda c: _grouped(c, loops, taken, names))


def _folds_rows(loop: For) -> bool:
    """There are rows enough, of a known number. Its body folds into registers in inner loops, short ones, and has no large steps."""
    rows = constant(loop.extent)
    if rows is None or rows < ROWS or any(isinstance(s, Brgemm | Pack | If) for s in walk(loop.body)):
        return False
    inner = [s for s in walk(loop.body) if isinstance(s, For)]
    if not inner or any(_lies_across(loop, s) or any(isinstance(c, For) for c in walk(s.body)) for s in inner):
        return False
    is_short = all((n := constant(s.extent)) is not None and n <= LONGEST and s.kind is LoopKind.serial for s in inner)
    own = {s.tensor.name for s in children(loop.body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}
    stores = [[c for c in walk(s.body) if isinstance(c, Store)] for s in inner]
    folds = [sum(c.tensor.name in own for c in found) for found in stores]
    return is_short and 0 < max(folds) <= MOST_FOLDS and all(sum(map(instructions, found)) <= MOST_STEPS for found in stores)


def _lies_across(rows: For, loop: For) -> bool:
    """Whether rows are elements side by side, of which a loop reads those farther apart, as one over taps of windows does: vectors of rows
    will do."""
    reads = [load for load in loads(loop.body) if load.index]
    return any(pitch(load, rows.var) == 1 and abs(pitch(load, loop.var)) > 1 for load in reads)


def _streams(loop: For, target: Target) -> bool:
    """Whether a row waits for what it reads of the largest parameter more than for its own folds: rows that come from memory, and f32 that
    has its place in the second-level caches alone, if all that a row does is to fold it."""
    folds = [s for s in walk(loop.body) if isinstance(s, For)]
    read = {load.tensor: constant(s.extent) or 0 for s in folds for load in loads(s.body) if load.tensor.scope is not Scope.register}
    given = [t for t in read if t.scope is Scope.param]
    if not given:
        return False
    largest = max(given, key=lambda t: t.nbytes)
    if target.is_far(largest.nbytes) and largest.dtype.nbytes(read[largest]) >= FAR_BYTES:
        return True
    if len(folds) > 1 or not isinstance(folds[0].body, Store) or (constant(folds[0].extent) or 0) < STREAMED:
        return False
    is_given = given == [*read] and all(t.dtype is DType.f32 for t in read)
    return is_given and target.l1_bytes < largest.nbytes <= target.cores * target.l2_bytes


def _are_independent(loop: For, ranges: Ranges) -> bool:
    """Whatever the rows store outlives them in pieces that no two share."""
    own = {s.tensor.name for s in walk(loop.body) if isinstance(s, Alloc)}
    stored = {s.tensor.name for s in walk(loop.body) if isinstance(s, Store)} - own
    inner = inner_names(loop)
    return all(is_partitioned(list(accesses_of(name, loop.body, ranges)), loop.var.name, inner) for name in stored)


def _together(rows: Sequence[Stmt]) -> Stmt:
    """The same statement for several rows: statement by statement, and one loop for the loops of all."""
    if all(isinstance(s, Seq) for s in rows):
        done: list[Stmt] = []
        for step in zip(*(children(s) for s in rows), strict=True):
            both = _together(step)
            done += both.stmts if isinstance(both, Seq) and not isinstance(step[0], Seq) else (both,)
        return Seq(tuple(done))
    first = rows[0]
    if isinstance(first, For):
        return replace(first, body=_together([child for s in rows for child in children(s)]))
    return Seq(tuple(rows))
