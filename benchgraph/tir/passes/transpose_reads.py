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

from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir import visit
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import add, mul, nest
from benchgraph.tir.ir import Alloc, Const, Expr, For, Func, Load, LoopKind, Scope, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, as_transposition, is_strided_read, largest_extent, only_statement


def transpose_reads(f: Func, target: Target) -> Func:
    taken = {p.name for p in f.params} | visit.tensor_names(f.body)
    body = _Transposer(taken, visit.bound_names(f.body), table(target).transposed_tile_bytes)(f.body, {}, Scope.shared)
    return f if body is f.body else replace(f, body=body)


class _Transposer:
    """taken: names of tensors, new ones included; bound: names of loop variables; tile_bytes: of a tile at most."""

    def __init__(self, taken: set[str], bound: frozenset[str], tile_bytes: int) -> None:
        self.taken, self.bound, self.tile_bytes = taken, bound, tile_bytes

    def __call__(self, s: Stmt, ranges: Ranges, scope: Scope) -> Stmt:
        """scope: that of new temporaries."""
        if not isinstance(s, For):
            return visit.map_children(s, lambda c: self(c, ranges, scope))
        if new := self.tiled(s, ranges, scope):
            return new
        within, scope = inside(s, ranges), Scope.thread if s.kind is LoopKind.parallel else scope
        return visit.map_children(s, lambda c: self(c, within, scope))

    def tiled(self, rows: For, ranges: Ranges, scope: Scope) -> Stmt | None:
        """The loops behind copies of tiles; None if no read is strided, or if the loops do nothing but transpose."""
        columns = only_statement(rows.body)
        if not isinstance(columns, For) or LoopKind.parallel in (rows.kind, columns.kind):
            return None
        height, width = largest_extent(rows.extent, ranges), largest_extent(columns.extent, ranges)
        if height is None or width is None or height < LEAST_ROWS:
            return None
        if as_transposition(replace(rows, extent=Const(height), body=replace(columns, extent=Const(width))), ranges) is not None:
            return None
        if not all(isinstance(s, Seq | Alloc | Store) for s in visit.walk(columns.body)):  # a guarded read may be outside its tensor
            return None
        stored, tiles = visit.written(columns.body), dict[Expr, Tensor]()
        for x in dict.fromkeys(visit.loads(columns.body)):
            nbytes = x.tensor.dtype.nbytes
            fits = nbytes(width) >= LEAST_BYTES and nbytes(height * width) <= self.tile_bytes
            if fits and x.tensor not in stored and is_strided_read(x, rows.var, columns.var):
                tiles[x] = self.tile(x.tensor, height * width, scope)
        if not tiles:
            return None
        at = add(mul(rows.var, width), columns.var)
        copies = (s for x, tile in tiles.items() for s in (Alloc(tile), self.copy(Store(tile, (at,), x), rows, columns)))
        return Seq((*copies, visit.map_all_exprs(rows, lambda e: visit.rewrite(e, lambda x: Load(tiles[x], (at,)) if x in tiles else x))))

    def tile(self, x: Tensor, elements: int, scope: Scope) -> Tensor:
        return Tensor(visit.claim(f"{x.name}_transposed", self.taken), x.dtype, (elements,), (1,), scope)

    def copy(self, store: Store, *loops: For) -> Stmt:
        """The store in a copy of these loops."""
        variables = {loop.var.name: Var(visit.fresh(f"{loop.var.name}_t", self.bound)) for loop in loops}
        return nest(((variables[loop.var.name], loop.extent) for loop in loops), visit.substitute_all(store, variables))
