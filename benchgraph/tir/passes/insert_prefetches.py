"""insert-prefetches: loops prefetch what later iterations read sequentially of the function's prefetched parameters.

One of the later loops over a row prefetches the next row:

    for r in 3072 {                                        for r in 3072 {
      for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }     for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }
      m = max(m, reduce_max(m_v))                    ->      m = max(m, reduce_max(m_v))
      for i_v in 256 { y[..] = x[r*4096 + ...] - m }         for i_v in 256 {
    }                                                          y[..] = x[r*4096 + ...] - m
                                                               prefetch x[r*4096 + 4096 + i_v*16] 1 lines
                                                             } }

The longest loop (the last of several) prefetches what the loops before it read.

A loop that reduces several long streams of 16-bit floats prefetches each of them:

    for k_v in 128 {                                   for k_v in 128 {
      a_v = a_v + x[k_v*32] * f32(w[j*4096 + ...])       prefetch w[j*4096 + k_v*32 + 1024] 1 lines
      b_v = b_v + x[k_v*32] * f32(w[j*4096 + ...])  ->   prefetch w[j*4096 + 4096 + k_v*32 + 1024] 1 lines
    }                                                    a_v = ...
                                                         b_v = ... }

gir/passes/prefetch.py says which parameters these are, `Parameters.stream_bytes` how far ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil

from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES, Target
from benchgraph.tir.affine import Linear, Ranges, inside, linear, to_expr
from benchgraph.tir.build import add, constant, mul
from benchgraph.tir.groups import WIDENED
from benchgraph.tir.instructions import executed
from benchgraph.tir.ir import Brgemm, Expr, For, Func, Load, Prefetch, Ramp, Scope, Seq, Stmt, Store, Tensor
from benchgraph.tir.loops import map_loops, with_body
from benchgraph.tir.visit import block, bound_names, loads, statements, variables


def insert_prefetches(f: Func, target: Target) -> Func:
    if not f.prefetched:
        return f
    names, distance = frozenset(f.prefetched), f.stream_bytes

    def fetching(loop: For, ranges: Ranges) -> Stmt | None:
        return _with_next_row(loop, ranges, names) or (_with_streams(loop, ranges, names, distance) if distance else None)

    return with_body(f, map_loops(f.body, fetching))


def _with_next_row(rows: For, ranges: Ranges, names: Collection[str]) -> Stmt | None:
    within, stmts = inside(rows, ranges), list(_sequence(rows.body))
    loops = [s for s in stmts if isinstance(s, For)]
    if len(loops) < 2 or any(isinstance(s, Brgemm) for s in stmts):  # whose calls prefetch by themselves
        return None
    read = [list(_rows_read(loop, rows, within, names)) for loop in loops]
    k = max(reversed(range(1, len(loops))), key=lambda k: executed(loops[k]))
    host, fetched = loops[k], dict.fromkeys(chain(*read[:k]))
    new = replace(host, body=block(host.body, *(row.prefetch_in(host) for row in fetched)))
    return replace(rows, body=map_loops(rows.body, lambda loop, _: new if loop is host else loop)) if fetched else None


def _with_streams(loop: For, ranges: Ranges, names: Collection[str], distance: int) -> Stmt | None:
    if not all(isinstance(s, Store) and s.tensor.scope is Scope.register for s in statements(loop.body)):
        return None
    within = inside(loop, ranges)
    long = [x for x in _streams(loop, within, names) if x.tensor.dtype in WIDENED and x.nbytes >= 2 * distance]
    ahead = (x.shifted(distance * 8 // x.tensor.dtype.bits, within).prefetch_in(loop) for x in long)
    return replace(loop, body=block(*ahead, loop.body)) if len(long) > 1 else None


@dataclass(frozen=True)
class _Stream:
    """Contiguous memory of a tensor: index of the first element, and bytes."""

    tensor: Tensor
    begin: Expr
    nbytes: int

    def shifted(self, elements: int, ranges: Ranges) -> _Stream:
        """The stream that begins so many elements later."""
        form = linear(self.begin)
        return replace(self, begin=to_expr(replace(form, constant=form.constant + elements), ranges))

    def prefetch_in(self, loop: For) -> Prefetch:
        """A prefetch of the part of one iteration of a loop."""
        each = ceil(self.nbytes / (constant(loop.extent) or 1))
        step = ceil(each * 8 / self.tensor.dtype.bits)
        return Prefetch(self.tensor, (add(self.begin, mul(loop.var, step)),), ceil(each / LINE_BYTES))


def _streams(loop: For, ranges: Ranges, names: Collection[str]) -> Iterator[_Stream]:
    """The streams of parameters of these names that a loop reads without gaps."""
    read = dict[_Stream, dict[int, int]]()  # lanes of vectors, by their offset within what one iteration advances
    inner, extent = bound_names(loop), constant(loop.extent) or 0
    for tensor, at in _vectors(loads(loop.body)):
        form = linear(at.base)
        step = form.terms.get(loop.var, 0)
        others = Linear({atom: c for atom, c in form.terms.items() if atom != loop.var}, form.constant)
        if tensor.name in names and step > 0 and not any(inner & variables(atom) for atom in others.terms):
            offset = form.constant % step
            begin = to_expr(replace(others, constant=form.constant - offset), ranges)
            read.setdefault(_Stream(tensor, begin, tensor.dtype.nbytes(step * extent)), {})[offset] = at.lanes
    for stream, lanes in read.items():
        if stream.tensor.dtype.nbytes(sum(lanes.values()) * extent) >= stream.nbytes:
            yield stream


def _vectors(accesses: Iterable[Load | Store]) -> Iterator[tuple[Tensor, Ramp]]:
    """Tensor and index of the accesses that are contiguous or strided vectors."""
    for access in accesses:
        if access.index and isinstance(at := access.index[0], Ramp):
            yield access.tensor, at


def _rows_read(loop: For, rows: For, ranges: Ranges, names: Collection[str]) -> Iterator[_Stream]:
    """What a loop reads sequentially in the next iteration of the loop over rows, if a row is at least a page."""
    for row in _streams(loop, ranges, names):
        step = linear(row.begin).terms.get(rows.var, 0)
        if step > 0 and row.nbytes >= PAGE_BYTES:
            yield row.shifted(step, ranges)


def _sequence(s: Stmt) -> Iterator[Stmt]:
    """The statements of nested blocks, in order."""
    if isinstance(s, Seq):
        for c in s.stmts:
            yield from _sequence(c)
    else:
        yield s
