"""fetch-rows: the next row is fetched while one of the later loops over this row runs.

    for r in 3072 {                                        for r in 3072 {
      for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }     for i_v in 256 { m_v = max(m_v, x[r*4096 + ...]) }
      m = max(m, reduce_max(m_v))                    ->      m = max(m, reduce_max(m_v))
      for i_v in 256 { y[..] = x[r*4096 + ...] - m }         for i_v in 256 {
    }                                                          y[..] = x[r*4096 + ...] - m
                                                               prefetch x[r*4096 + 4096 + i_v*16] 1 lines
                                                             } }

Later loops find the row in a cache, so memory would rest meanwhile, and hardware that fetches ahead begins anew with every page. The loop
that works longest fetches, the last of equals. Times over those without, minima, one thread of a Zen 4 (two), rows of f32 in 32 MiB:

    columns         512          1024         2048         4096         8192
    SoftMax         0.99 (0.94)  1.06 (1.05)  0.74 (0.69)  0.65 (0.72)  0.83 (0.69)
    its gradient    0.95 (0.97)  0.88 (0.60)  1.01 (0.81)  0.95 (0.66)  1.05 (0.91)
    LayerNorm       0.95 (0.98)  0.87 (1.02)  0.47 (0.49)  0.83 (0.69)  1.05 (0.95)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.core.target import LINE_BYTES, PAGE_BYTES, Target
from benchgraph.tir.affine import Linear, Ranges, inside, linear, to_expr
from benchgraph.tir.build import add, constant, mul
from benchgraph.tir.ir import Brgemm, Expr, For, Func, Prefetch, Ramp, Scope, Seq, Stmt, Tensor
from benchgraph.tir.visit import block, bound_names, loads, map_children, variables
from benchgraph.tir.work import nanoseconds


def fetch_rows(f: Func, target: Target) -> Func:
    body = _stmt(f.body, {}, target)
    return f if body is f.body else replace(f, body=body)


def _stmt(s: Stmt, ranges: Ranges, target: Target) -> Stmt:
    if not isinstance(s, For):
        return map_children(s, lambda c: _stmt(c, ranges, target))
    within, stmts = inside(s, ranges), list(_in_turn(s.body))
    loops = [c for c in stmts if isinstance(c, For)]
    has_product = any(isinstance(c, Brgemm) for c in stmts)  # its calls fetch what is worth it
    read = [] if has_product or len(loops) < 2 else [row for loop in loops for row in _rows_read(loop, s, within, target)]
    if read:
        host = max(reversed(loops[1:]), key=lambda loop: nanoseconds(loop, target))
        return replace(s, body=_with(s.body, host, [row.fetched_in(host) for row in dict.fromkeys(read)]))
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


def _rows_read(loop: For, rows: For, ranges: Ranges, target: Target) -> Iterator[_Row]:
    """What a loop reads from end to end of each row that the loop around it goes to, in the next one: of memory, and of a page at least."""
    read = dict[_Row, dict[int, int]]()  # lanes, by where they lie in what one iteration reads
    names, extent = bound_names(loop), constant(loop.extent) or 0
    for load in loads(loop.body):
        if load.tensor.scope is not Scope.param or load.tensor.nbytes <= target.l2_bytes:
            continue
        if not isinstance(at := load.index[0], Ramp) or at.stride != 1:
            continue
        form = linear(at.base)
        by, step = form.terms.get(loop.var, 0), form.terms.get(rows.var, 0)
        others = Linear({atom: c for atom, c in form.terms.items() if atom != loop.var}, form.constant)
        if by > 0 and step > 0 and not any(names & variables(atom) for atom in others.terms):
            place = form.constant % by
            begin = to_expr(replace(others, constant=form.constant - place + step), ranges)
            read.setdefault(_Row(load.tensor, begin, load.tensor.dtype.nbytes(by * extent)), {})[place] = at.lanes
    for row, lanes in read.items():
        if row.tensor.dtype.nbytes(sum(lanes.values()) * extent) >= row.nbytes >= PAGE_BYTES:
            yield row


def _with(s: Stmt, host: For, fetched: list[Prefetch]) -> Stmt:
    if s is host:
        return replace(host, body=block(host.body, *fetched))
    return map_children(s, lambda c: _with(c, host, fetched)) if isinstance(s, Seq) else s
