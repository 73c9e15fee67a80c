"""transpose-reads: tiles that loops read with a stride, and compute with, are transposed into temporaries first.

for r in 64 {                                       alloc x_transposed: u8[4096]
  for i in 64 {                                     for r_t in 64 {
    y[r*3136 + i] = f32(x[r + i*64]) * 0.1    ->      for i_t in 64 { x_transposed[r_t*64 + i_t] = x[r_t + i_t*64] }
  }                                                 }
}                                                   for r in 64 {
                                                      for i in 64 { y[r*3136 + i] = f32(x_transposed[r*64 + i]) * 0.1 }
                                                    }

transpose-copies makes a register transposition of the copy. Measurements: docs/measurements/transposition.md.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir import visit
from benchgraph.tir.affine import Ranges
from benchgraph.tir.build import add, mul, nest
from benchgraph.tir.ir import Alloc, Const, Expr, For, Func, Load, LoopKind, Seq, Stmt, Store, Tensor, Var, tensor
from benchgraph.tir.loops import is_straight_line, largest_extent, map_loops, only_statement, with_body
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, MOST_BYTES, as_transposition, is_strided_read


def transpose_reads(f: Func, target: Target) -> Func:
    names = visit.names_of(f)
    return with_body(f, map_loops(f.body, lambda loop, ranges: _tiled(loop, ranges, names)))


def _tiled(rows: For, ranges: Ranges, names: set[str]) -> Stmt | None:
    """The loops behind copies of tiles; None if no read is strided, or if the loops do nothing but transpose."""
    columns = only_statement(rows.body)
    if not isinstance(columns, For) or LoopKind.parallel in (rows.kind, columns.kind):
        return None
    height, width = largest_extent(rows.extent, ranges), largest_extent(columns.extent, ranges)
    if height is None or width is None or height < LEAST_ROWS:
        return None
    if as_transposition(replace(rows, extent=Const(height), body=replace(columns, extent=Const(width))), ranges) is not None:
        return None
    if not is_straight_line(columns.body):  # a guarded read may be outside its tensor
        return None
    stored, tiles = visit.written(columns.body), dict[Expr, Tensor]()
    for x in dict.fromkeys(visit.loads(columns.body)):
        nbytes = x.tensor.dtype.nbytes
        fits = nbytes(width) >= LEAST_BYTES and nbytes(height * width) <= MOST_BYTES
        if fits and x.tensor not in stored and is_strided_read(x, rows.var, columns.var):
            tiles[x] = tensor(visit.claim(f"{x.tensor.name}_transposed", names), x.tensor.dtype, (height * width,))
    if not tiles:
        return None
    at = add(mul(rows.var, width), columns.var)
    copies = (s for x, tile in tiles.items() for s in (Alloc(tile), _copy(Store(tile, (at,), x), names, rows, columns)))
    return Seq((*copies, visit.map_all_exprs(rows, lambda e: visit.rewrite(e, lambda x: Load(tiles[x], (at,)) if x in tiles else x))))


def _copy(store: Store, names: set[str], *loops: For) -> Stmt:
    """The store in a copy of these loops."""
    variables = {loop.var.name: Var(visit.fresh(f"{loop.var.name}_t", names)) for loop in loops}
    return nest(((variables[loop.var.name], loop.extent) for loop in loops), visit.substitute_all(store, variables))
