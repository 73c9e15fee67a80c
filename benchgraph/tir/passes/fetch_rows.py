"""fetch-rows: the next row is fetched while one of the later loops over this row runs.

    for r in 3072 {                                        for r in 3072 {
      for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }     for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }
      m = max(m, reduce_max(m_v))                    ->      m = max(m, reduce_max(m_v))
      for i_v in 256 { y[..] = x[r*4096 + ...] - m }         for i_v in 256 {
    }                                                          y[..] = x[r*4096 + ...] - m
                                                               prefetch x[r*4096 + 4096 + i_v*16] 1 lines
                                                             } }

Later loops find the row in a cache, so memory would rest meanwhile, and hardware that fetches ahead begins anew with every page. The loop
that works longest, the last of equals, fetches what loops in front of it read; what it reads first itself comes in as it runs. Bytes that a
row's loops touch, and times over those without, minima, rows of f32 in 32 MiB, one thread of a Zen 4 with 32 KiB of L1 (two):

    columns               1024                2048                4096                8192
    SoftMax         12 K  1.10 (1.18)   24 K  0.74 (0.74)   48 K  0.60 (0.64)   96 K  0.63 (0.73)
    LayerNorm       16 K  1.07 (1.08)   32 K  0.51 (0.77)   64 K  0.83 (0.89)  128 K  0.92 (1.02)
    its gradients   32 K  0.86 (0.76)   64 K  1.04 (0.96)  128 K  0.99 (1.03)  256 K  0.98 (0.96)

Hardware keeps up with rows whose loops touch less than most of L1, which are left to it; of gradients of rows without weights, 20 K, 1.13.
So are rows that L1 does not hold: gradients of 28 weights, whose sums go over 200 KB of each image, 1.31.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil

from benchgraph.core.target import LINE_BYTES, PAGE_BYTES, Target
from benchgraph.tir.affine import Linear, Ranges, inside, linear, to_expr
from benchgraph.tir.build import add, constant, mul
from benchgraph.tir.ir import Brgemm, Expr, For, Func, Load, Prefetch, Ramp, Scope, Seq, Stmt, Store, Tensor
from benchgraph.tir.visit import block, bound_names, loads, map_children, variables, walk
from benchgraph.tir.work import nanoseconds

MOST_OF_L1 = 0.7


def fetch_rows(f: Func, target: Target) -> Func:
    body = _stmt(f.body, {}, target)
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target))
    within, stmts = inside(s, ranges), list(_in_turn(s.body))
    loops = [c for c in stmts if isinstance(c, For)]
    has_product = any(isinstance(c, Brgemm) for c in stmts)  # its calls fetch what is worth it
    read = [] if has_product or len(loops) < 2 else [list(_rows_read(loop, s, within, target)) for loop in loops]
    if any(read) and _touched(loops) > target.l1_bytes * MOST_OF_L1:
        k = max(reversed(range(1, len(loops))), key=lambda k: nanoseconds(loops[k], target))
        host, rows = loops[k], dict.fromkeys(chain(*read[:k]))
        if rows:
            return replace(s, body=_with(s.body, host, [row.fetched_in(host) for row in rows]))
    return map_children(s, lambda c: _stmt(c, within, target))


@dataclass(frozen=True)
class _Row:
    """The next row of a tensor that lies in memory: where it begins, and bytes of it."""

    tensor: Tensor
    begin: Expr
    nbytes: int

    def fetched_in(self, loop: For) -> Prefetch:
        """An iteration's part."""
        each = ceil(self.nbytes / (constant(loop.extent) or 1))
        step = ceil(each * 8 / self.tensor.dtype.bits)
        return Prefetch(self.tensor, (add(self.begin, mul(loop.var, step)),), ceil(each / LINE_BYTES))


def _in_turn(s: Stmt) -> Iterator[Stmt]:
    """What runs one after the other."""
    if isinstance(s, Seq):
        for c in s.stmts:
            yield from _in_turn(c)
    else:
        yield s


def _touched(loops: list[For]) -> int:
    """Bytes of what these loops read and write from end to end."""
    lengths = dict[Tensor, int]()
    for loop in loops:
        stores = (c for c in walk(loop.body) if isinstance(c, Store))
        for tensor, at in _vectors(chain(loads(loop.body), stores)):
            elements = linear(at.base).terms.get(loop.var, 0) * (constant(loop.extent) or 0)
            lengths[tensor] = max(lengths.get(tensor, 0), tensor.dtype.nbytes(elements))
    return sum(lengths.values())


def _vectors(accesses: Iterable[Load | Store]) -> Iterator[tuple[Tensor, Ramp]]:
    for access in accesses:
        if access.index and isinstance(at := access.index[0], Ramp):
            yield access.tensor, at


def _rows_read(loop: For, rows: For, ranges: Ranges, target: Target) -> Iterator[_Row]:
    """What a loop reads from end to end of each row that the loop around it goes to, in the next one: of memory, a page to all of L1."""
    read = dict[_Row, dict[int, int]]()  # lanes, by where they lie in what one iteration reads
    names, extent = bound_names(loop), constant(loop.extent) or 0
    for tensor, at in _vectors(loads(loop.body)):
        if tensor.scope is not Scope.param or tensor.nbytes <= target.l2_bytes:
            continue
        form = linear(at.base)
        by, step = form.terms.get(loop.var, 0), form.terms.get(rows.var, 0)
        others = Linear({atom: c for atom, c in form.terms.items() if atom != loop.var}, form.constant)
        if by > 0 and step > 0 and not any(names & variables(atom) for atom in others.terms):
            place = form.constant % by
            begin = to_expr(replace(others, constant=form.constant - place + step), ranges)
            read.setdefault(_Row(tensor, begin, tensor.dtype.nbytes(by * extent)), {})[place] = at.lanes
    for row, lanes in read.items():
        if PAGE_BYTES <= row.nbytes <= target.l1_bytes and row.tensor.dtype.nbytes(sum(lanes.values()) * extent) >= row.nbytes:
            yield row


def _with(s: Stmt, host: For, fetched: list[Prefetch]) -> Stmt:
    if s is host:
        return replace(host, body=block(host.body, *fetched))
    return map_children(s, lambda c: _with(c, host, fetched)) if isinstance(s, Seq) else s
