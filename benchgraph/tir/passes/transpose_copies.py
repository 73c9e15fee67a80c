"""transpose-copies: two loops that copy a matrix whose columns are dense to one whose rows are become one statement.

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

So is the last of several blocks that has fewer rows or columns than the others:

for i in min(64, 77 - b*64) {          ->  if 77 - b*64 < 64 { turn (13x64) ... } else { turn (64x64) ... }
  for j in 64 { ... }
}

One thread of a Granite Rapids, 5 images of 64 x 56 x 56, channels first, by 64 x 64 x 1 x 1, times with it over those without: u8 0.35,
bf16 0.40; by 3 x 3 with padding 0.42, 0.58; 128 channels of 28 x 28 by 3 x 3 with stride 2 0.30, 0.44. f32 0.96 to 1.05 there, but where
vectors are gathered element by element, as on a Zen 4, 0.21 to 0.49, and 0.08 to 0.38 where there are last blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

from benchgraph.core.target import Target
from benchgraph.tir.affine import Ranges, inside, linear
from benchgraph.tir.build import add, binary, constant
from benchgraph.tir.index import assume
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, Func, If, LoopKind, Pack, Stmt, Var
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.transposition import as_last_block, as_transposition, only_statement
from benchgraph.tir.unrolling import copy_of
from benchgraph.tir.vector_loops import may_meet
from benchgraph.tir.visit import block, bound_names, fresh, map_children, tensor_names, variables


def transpose_copies(f: Func, target: Target) -> Func:
    taken = {p.name for p in f.params} | tensor_names(f.body)
    body = _Turner(f, taken, bound_names(f.body))(f.body, {})
    return f if body is f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Turner:
    """taken: names of tensors, which grows; bound: names of variables."""

    f: Func
    taken: set[str]
    bound: frozenset[str]

    def __call__(self, s: Stmt, ranges: Ranges) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, lambda c: self(c, ranges))
        done = self.turned(s, ranges) or self.in_blocks(s, ranges) or self.within_borders(s, ranges)
        if done is not None:
            return done
        within = inside(s, ranges)
        return map_children(s, lambda c: self(c, within))

    def turned(self, loop: For, ranges: Ranges) -> Pack | None:
        found = as_transposition(loop, ranges)
        return None if found is None or may_meet(self.f, found.dst.tensor, found.src.tensor) else found

    def in_blocks(self, loop: For, ranges: Ranges) -> If | None:
        """A loop over a block, or the one within, told apart from that over the last block; None where neither can be turned."""
        inner = only_statement(loop.body)
        for ragged in (loop, inner):
            if not isinstance(ragged, For) or (found := as_last_block(ragged.extent, ranges)) is None:
                continue
            is_last, *extents = found
            if loop.var.name in variables(is_last):
                return None  # it means nothing in front of this loop; the one within is asked by itself
            blocks = [replace(ragged, extent=Const(extent)) for extent in extents]
            loops = blocks if ragged is loop else [replace(loop, body=block) for block in blocks]
            done = [self(block, ranges) for block in loops]
            return If(is_last, *done) if done != loops else None
        return None

    def within_borders(self, loop: For, ranges: Ranges) -> Stmt | None:
        """A loop that copies where its variable is within bounds, and pads elsewhere; None where it is something else."""
        branch, extent = only_statement(loop.body), constant(loop.extent)
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
        middle = For(loop.var, Const(beyond - first), copy_of(branch.then, {loop.var.name: add(loop.var, first)}, None))
        turned = self.turned(middle, ranges)
        if turned is None:
            return None
        pads = [self.padded(loop, branch.orelse, *part) for part in (("first", 0, first), ("last", beyond, extent)) if part[1] < part[2]]
        done = block(*pads[: first > 0], turned, *pads[first > 0 :])
        others = [t for t in terms if t not in own]
        if not others:
            return done
        cond = reduce(partial(binary, BinOp.and_), others)
        return simplified(If(cond, done, replace(loop, body=copy_of(branch.orelse, {}, self.taken))), ranges)

    def padded(self, loop: For, pad: Stmt, name: str, start: int, end: int) -> For:
        """The part of a loop that pads."""
        var = replace(loop.var, name=fresh(f"{loop.var.name}_{name}", self.bound))
        return For(var, Const(end - start), copy_of(pad, {loop.var.name: add(var, start)}, self.taken))


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
