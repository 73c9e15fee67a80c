"""turn-copies: two loops that copy a matrix whose columns are dense to one whose rows are become one statement.

for i in 56 {                          ->  turn (56x64) t[0, 64] = x[0, 1, 3136]
  for j in 64 {
    t[i*64 + j] = x[i + j*3136]
  }
}

As loops they gather one element after the other where these have 8 or 16 bits; as a statement, tiles are turned in registers, and become
f32 there if they are to. What is copied within borders alone is told apart from these:

for i in 58 {                          ->  if row {
  if row and i >= 1 and i < 57 {             for i_first in 1 { pad }
    for j in 64 {                            turn (56x64) t[64, 64] = x[0, 1, 3136]
      t[i*64 + j] = x[i + j*3136 - 1]        for i_last in 1 { pad }
    }                                      } else {
  } else {                                   for i in 58 { pad }
    pad                                    }
  }
}

One thread of a Granite Rapids, 5 images of 64 x 56 x 56, channels first, by 64 x 64 x 1 x 1, times with it over those without: u8 0.35,
bf16 0.40; by 3 x 3 with padding 0.42, 0.58; 128 channels of 28 x 28 by 3 x 3 with stride 2 0.30, 0.44. f32 0.96 to 1.05.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.tir.affine import Linear, Ranges, inside, linear, to_expr
from benchgraph.tir.build import add, binary, constant
from benchgraph.tir.copies import copied
from benchgraph.tir.groups import PACKED_FROM
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Binary, BinOp, Cast, Const, Expr, Flat, For, Func, If, Load, LoopKind, Pack, Scope, Stmt, Store, Var
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.visit import block, bound_names, fresh, map_children, statements, tensor_names, variables

LEAST_BYTES = 16  # of a row of dst; rows of fewer are stored in less than a vector of the smallest kind
LEAST_ROWS = 4
TILE_ROWS = 16  # of 32 bits, in AVX-512


def turn_copies(f: Func, target: Target) -> Func:
    together = frozenset(frozenset((pair.dst, pair.src)) for pair in f.inplace)
    taken = {p.name for p in f.params} | tensor_names(f.body)
    body = _Turner(together, taken, bound_names(f.body))(f.body, {})
    return f if body is f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Turner:
    """together: pairs of parameters that may lie over each other. taken: names of tensors, which grows; bound: names of variables."""

    together: frozenset[frozenset[str]]
    taken: set[str]
    bound: frozenset[str]

    def __call__(self, s: Stmt, ranges: Ranges) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, lambda c: self(c, ranges))
        done = self.turned(s, ranges) or self.within_borders(s, ranges)
        if done is not None:
            return done
        within = inside(s, ranges)
        return map_children(s, lambda c: self(c, within))

    def turned(self, loop: For, ranges: Ranges) -> Pack | None:
        found = _turned(loop, ranges)
        is_apart = found is not None and frozenset((found.dst.tensor.name, found.src.tensor.name)) not in self.together
        return found if is_apart else None

    def within_borders(self, loop: For, ranges: Ranges) -> Stmt | None:
        """A loop that copies where its variable is within bounds, and pads elsewhere; None where it is something else."""
        branch, extent = _only(loop.body), constant(loop.extent)
        if not isinstance(branch, If) or branch.orelse is None or extent is None or loop.kind is LoopKind.parallel:
            return None
        terms = list(_terms(branch.cond))
        own = [t for t in terms if loop.var.name in variables(t)]
        if not own or not all(_bounds_alone(t, loop.var) for t in own):
            return None
        known = inside(loop, ranges)
        for t in own:
            known = assume(t, known, holds=True)
        low, high = known[loop.var.name]
        if not 0 <= low <= high < extent:
            return None
        first, beyond = int(low), int(high) + 1
        middle = For(loop.var, Const(beyond - first), copied(branch.then, {loop.var.name: add(loop.var, first)}, None))
        turned = self.turned(middle, ranges)
        if turned is None:
            return None
        pads = [self.padded(loop, branch.orelse, *part) for part in (("first", 0, first), ("last", beyond, extent)) if part[1] < part[2]]
        done = block(*pads[: first > 0], turned, *pads[first > 0 :])
        others = [t for t in terms if t not in own]
        if not others:
            return done
        cond = reduce(partial(binary, BinOp.and_), others)
        return simplified(If(cond, done, replace(loop, body=copied(branch.orelse, {}, self.taken))), ranges)

    def padded(self, loop: For, pad: Stmt, name: str, start: int, end: int) -> For:
        """The part of a loop that pads."""
        var = replace(loop.var, name=fresh(f"{loop.var.name}_{name}", self.bound))
        return For(var, Const(end - start), copied(pad, {loop.var.name: add(var, start)}, self.taken))


def _terms(cond: Expr) -> Iterator[Expr]:
    """What must hold together."""
    match cond:
        case Binary(BinOp.and_, a, b):
            yield from _terms(a)
            yield from _terms(b)
        case _:
            yield cond


def _bounds_alone(cond: Expr, var: Var) -> bool:
    """Whether it compares nothing but the variable to a number: then `assume` knows all that it says."""
    if not isinstance(cond, Binary) or cond.op not in (BinOp.lt, BinOp.le, BinOp.gt, BinOp.ge):
        return False
    return set(linear(cond.a).minus(linear(cond.b)).terms) == {var}


def _turned(outer: For, ranges: Ranges) -> Pack | None:
    """The loops as one statement, None where they are something else."""
    inner = _only(outer.body)
    if not isinstance(inner, For) or LoopKind.parallel in (outer.kind, inner.kind):
        return None
    store = _only(inner.body)
    if not isinstance(store, Store) or store.mask is not None or store.past_caches:
        return None
    load = _copied(store.value, store)
    if load is None or Scope.register in (store.tensor.scope, load.tensor.scope) or store.tensor == load.tensor:
        return None
    for k, n in ((outer, inner), (inner, outer)):
        src, dst = (_flat(index, k.var, n.var) for (index,) in (load.index, store.index))
        if src is None or dst is None or src[1] != 1 or dst[2] != 1 or src[2] <= 1:
            continue
        rows, columns = constant(k.extent), constant(n.extent)
        if rows is None or columns is None or dst[1] < columns or not _pays(rows, columns, load.tensor.dtype, store.tensor.dtype):
            continue
        pieces = Flat(load.tensor, to_expr(src[0], ranges), src[1:]), Flat(store.tensor, to_expr(dst[0], ranges), dst[1:])
        return Pack(*pieces, rows, columns, turns=load.tensor.dtype.bits == store.tensor.dtype.bits)
    return None


def _pays(rows: int, columns: int, src: DType, dst: DType) -> bool:
    """Vectors of 32 bits are gathered in the time that tiles take, and in less where rows fill no tiles: 57 x 57 by 128 0.86."""
    if src.bits == 32 and rows % TILE_ROWS:
        return False
    return rows >= LEAST_ROWS and dst.nbytes(columns) >= LEAST_BYTES


def _only(s: Stmt) -> Stmt | None:
    found = statements(s)
    return found[0] if len(found) == 1 else None


def _copied(e: Expr, store: Store) -> Load | None:
    """What is stored as it was loaded, or as f32, or s8 as u8, 128 more; without a mask. 8 or 16 bits may be f32 in between."""
    dtype = store.tensor.dtype
    match e:
        case Cast(Cast(Load() as load, DType.f32), _) if dtype.bits < DType.f32.bits:
            pass
        case Cast(Binary(BinOp.add, Cast(Load() as load, DType.s32), Const(128)), DType.u8) if load.tensor.dtype is DType.s8:
            return load if load.mask is None else None
        case Cast(Load() as load, DType.f32) if dtype is DType.f32 and load.tensor.dtype in PACKED_FROM[dtype]:
            return load if load.mask is None else None
        case Load() as load:
            pass
        case _:
            return None
    is_same = load.mask is None and load.tensor.dtype is dtype and not dtype.is_packed and dtype.bits in (8, 16, 32)
    return load if is_same else None


def _flat(index: Expr, k: Var, n: Var) -> tuple[Linear, int, int] | None:
    """Where it is for k and n 0, and its steps along them; None where it does not move evenly."""
    start, moving = linear(index).split(frozenset((k.name, n.name)))
    if not set(moving.terms) <= {k, n}:
        return None
    return start, moving.terms.get(k, 0), moving.terms.get(n, 0)
