"""transpose: two loops that transpose a matrix become one statement, and so do copies of what loops read with a stride.

for i in 56 {                          ->  transpose (56x64) t[0, 64] = x[0, 1, 3136]
  for j in 64 {
    t[i*64 + j] = x[i + j*3136]
  }
}

Code generation transposes tiles in registers, and converts them to f32 there if asked to; the loops would gather element by element. A copy
guarded by bounds is separated from its padding:

for i in 58 {                          ->  if row {
  if row and i >= 1 and i < 57 {             for i_first in 1 { pad }
    for j in 64 {                            transpose (56x64) t[64, 64] = x[0, 1, 3136]
      t[i*64 + j] = x[i + j*3136 - 1]        for i_last in 1 { pad }
    }                                      } else {
  } else {                                   for i in 58 { pad }
    pad                                    }
  }
}

The last of several blocks is separated if it has fewer rows or columns than the others:

for i in min(64, 77 - b*64) {          ->  if 77 - b*64 < 64 { transpose (13x64) ... } else { transpose (64x64) ... }
  for j in 64 { ... }
}

Tiles that loops read with a stride, and compute with, are transposed into temporaries first:

for r in 64 {                                       alloc x_transposed: u8[4096]
  for i in 64 {                                     transpose (64x64) x_transposed[64, 64] = x[0, 1, 64]
    y[r*3136 + i] = f32(x[r + i*64]) * 0.1    ->    for r in 64 {
  }                                                   for i in 64 { y[r*3136 + i] = f32(x_transposed[r*64 + i]) * 0.1 }
}                                                   }

Measurements: docs/measurements/transposition.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from benchgraph.machine.target import Target
from benchgraph.tir import visit
from benchgraph.tir.accesses import any_alias
from benchgraph.tir.affine import Ranges, inside, linear
from benchgraph.tir.build import add, binary, constant, mul, nest
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Alloc, Binary, BinOp, Const, Expr, For, Func, If, Load, LoopKind, Pack, Seq, Stmt, Store, Tensor, Var, tensor
from benchgraph.tir.loops import as_last_block, copy_of, is_straight_line, largest_extent, map_loops, only_statement, with_body
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, as_transposition, is_strided_read
from benchgraph.tir.visit import block, claim, fresh, variables


def transpose(f: Func, target: Target) -> Func:
    return with_body(f, map_loops(f.body, _Transposer(f, visit.names_of(f))))


@dataclass(frozen=True)
class _Transposer:
    f: Func
    names: set[str]

    def __call__(self, loop: For, ranges: Ranges) -> Stmt | None:
        return self.transposed(loop, ranges) or self.with_tiles(loop, ranges)

    def transposed(self, loop: For, ranges: Ranges) -> Stmt | None:
        """The loop if it copies; None if it does anything else."""
        if (copy := as_transposition(loop, ranges)) is not None:
            return None if any_alias(self.f, (copy.dst.tensor,), (copy.src.tensor,)) else copy
        return self.in_blocks(loop, ranges) or self.within_borders(loop, ranges)

    def in_blocks(self, loop: For, ranges: Ranges) -> If | None:
        """The loops over a whole block and over the last block, under a condition; None if neither can be transposed."""
        inner = only_statement(loop.body)
        for ragged in (loop, inner):
            if not isinstance(ragged, For) or (last_block := as_last_block(ragged.extent, ranges)) is None:
                continue
            is_last, *extents = last_block
            if loop.var.name in variables(is_last):
                return None  # the condition cannot stand outside of this loop; the inner loop is visited by itself
            blocks = [replace(ragged, extent=Const(extent)) for extent in extents]
            loops = blocks if ragged is loop else [replace(loop, body=block) for block in blocks]
            done = [map_loops(block, self.transposed, ranges) for block in loops]
            return If(is_last, *done) if done != loops else None
        return None

    def within_borders(self, loop: For, ranges: Ranges) -> Stmt | None:
        """A loop that copies if its variable is within bounds and else pads, split into these parts; None for any other loop."""
        branch, extent = only_statement(loop.body), constant(loop.extent)
        if not isinstance(branch, If) or branch.orelse is None or extent is None or loop.kind is LoopKind.parallel:
            return None
        terms = list(_terms(branch.cond))
        bounds = [t for t in terms if loop.var.name in variables(t)]
        if not bounds or not all(_bounds_alone(t, loop.var) for t in bounds):
            return None
        narrowed = inside(loop, ranges)
        for t in bounds:
            narrowed = assume(t, narrowed, holds=True)
        low, high = narrowed[loop.var.name]
        if not 0 <= low <= high < extent:
            return None
        first, beyond = int(low), int(high) + 1
        middle = For(loop.var, Const(beyond - first), copy_of(branch.then, {loop.var.name: add(loop.var, first)}, None))
        transposition = self.transposed(middle, ranges)
        if not isinstance(transposition, Pack):
            return None
        pads = [self.padded(loop, branch.orelse, *part) for part in (("first", 0, first), ("last", beyond, extent)) if part[1] < part[2]]
        done = block(*pads[: first > 0], transposition, *pads[first > 0 :])
        others = [t for t in terms if t not in bounds]
        if not others:
            return done
        cond = reduce(partial(binary, BinOp.and_), others)
        return simplified(If(cond, done, replace(loop, body=copy_of(branch.orelse, {}, self.names))), ranges)

    def padded(self, loop: For, pad: Stmt, name: str, start: int, end: int) -> For:
        """Iterations start to end of a loop, which all pad."""
        var = Var(fresh(f"{loop.var.name}_{name}", self.names))
        return For(var, Const(end - start), copy_of(pad, {loop.var.name: add(var, start)}, self.names))

    def with_tiles(self, rows: For, ranges: Ranges) -> Seq | None:
        """The loops behind transpositions of tiles; None if no read is strided, or if the loops do nothing but transpose."""
        columns = only_statement(rows.body)
        if not isinstance(columns, For) or LoopKind.parallel in (rows.kind, columns.kind) or not is_straight_line(columns.body):
            return None  # a guarded read may be outside its tensor
        height, width = largest_extent(rows.extent, ranges), largest_extent(columns.extent, ranges)
        if height is None or width is None or height < LEAST_ROWS:
            return None
        if as_transposition(replace(rows, extent=Const(height), body=replace(columns, extent=Const(width))), ranges) is not None:
            return None
        stored, tiles = visit.written(columns.body), dict[Expr, Tensor]()
        for x in dict.fromkeys(visit.loads(columns.body)):
            if x.tensor.dtype.nbytes(width) >= LEAST_BYTES and x.tensor not in stored and is_strided_read(x, rows.var, columns.var):
                tiles[x] = tensor(claim(f"{x.tensor.name}_transposed", self.names), x.tensor.dtype, (height * width,))
        if not tiles:
            return None
        at = add(mul(rows.var, width), columns.var)
        copies = (map_loops(self.copied(Store(tile, (at,), x), rows, columns), self.transposed, ranges) for x, tile in tiles.items())
        declared = (s for tile, copy in zip(tiles.values(), copies, strict=True) for s in (Alloc(tile), copy))
        return Seq((*declared, visit.map_all_exprs(rows, lambda e: visit.rewrite(e, lambda x: Load(tiles[x], (at,)) if x in tiles else x))))

    def copied(self, store: Store, *loops: For) -> Stmt:
        """The store in a copy of these loops."""
        copies = {loop.var.name: Var(fresh(f"{loop.var.name}_t", self.names)) for loop in loops}
        return nest(((copies[loop.var.name], loop.extent) for loop in loops), visit.substitute_all(store, copies))


def _terms(cond: Expr) -> Iterator[Expr]:
    """The operands of a conjunction."""
    match cond:
        case Binary(BinOp.and_, a, b):
            yield from _terms(a)
            yield from _terms(b)
        case _:
            yield cond


def _bounds_alone(cond: Expr, var: Var) -> bool:
    """Whether it only compares the variable to a constant, which `assume` captures in full."""
    if not isinstance(cond, Binary) or cond.op not in (BinOp.lt, BinOp.le, BinOp.gt, BinOp.ge):
        return False
    return set(linear(cond.a).minus(linear(cond.b)).terms) == {var}
