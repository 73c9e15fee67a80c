"""vectorise-random: contiguous random numbers are generated before the loops that use them, in vectors of whole Philox blocks.

for i in 4 {                                        alloc drawn: s32[128]
  for j in 24 {                                     for d in 2 {
    y[j*4 + i] = f32(random(i*24 + j + 8,             drawn[d*64:+64] = random(d*64 + 8:+64, x64(seed[0]), x64(0))
                            seed[0], 0))      ->    }
  }                                                 for i in 4 {
}                                                     for j in 24 { y[j*4 + i] = f32(drawn[i*24 + j]) }
                                                    }

A block has four numbers, so a vector of 16 lanes would compute only four blocks; one of 64 numbers computes sixteen, one per lane.
Measurements: docs/measurements/random-numbers.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.core.philox import BLOCK
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir import visit
from benchgraph.tir.accesses import any_alias
from benchgraph.tir.affine import Linear, Ranges, inside, linear, to_expr
from benchgraph.tir.build import add, mul, seq
from benchgraph.tir.ir import Alloc, Broadcast, Const, Expr, For, Func, Load, LoopKind, Ramp, Random, Stmt, Store, Var, tensor
from benchgraph.tir.loops import largest_extent, map_loops, only_statement, with_body


def vectorise_random(f: Func, target: Target) -> Func:
    return with_body(f, map_loops(f.body, _Generator(f, target))) if _randoms(f.body) else f


@memoised
def _randoms(s: Stmt) -> tuple[Random, ...]:
    """The distinct random numbers inside s."""
    own = (e for whole in visit.exprs(s) for e in visit.walk_expr(whole) if isinstance(e, Random))
    return tuple(dict.fromkeys((*own, *(e for c in visit.children(s) for e in _randoms(c)))))


class _Generator:
    def __init__(self, f: Func, target: Target) -> None:
        self.f, self.lanes, self.fewest, self.most = f, BLOCK * target.lanes, 2 * target.lanes, table(target).generated_numbers
        self.taken = {p.name for p in f.params} | visit.tensor_names(f.body) | visit.bound_names(f.body)

    def __call__(self, loop: For, ranges: Ranges) -> Stmt | None:
        """The loop behind the generation of the numbers that it uses; None if none can be generated before it."""
        if loop.kind is LoopKind.parallel:
            return None
        draws, drawn = list[Stmt](), dict[Expr, Expr]()
        for e in _randoms(loop):
            if (numbers := self.contiguous(e, loop, ranges)) is not None:
                generation, drawn[e] = self.generate(e, *numbers, ranges)
                draws += generation
        if not drawn:
            return None
        new = visit.map_all_exprs(loop, lambda e: visit.rewrite(e, lambda x: drawn.get(x, x)))
        return seq(*draws, visit.map_children(new, lambda c: map_loops(c, self, inside(loop, ranges))))

    def contiguous(self, e: Random, s: For, ranges: Ranges) -> tuple[Linear, Linear, int] | None:
        """(first number, offset of each in terms of loop variables, count) of numbers that s uses without gaps; None if it does not."""
        first, place = linear(e.index).split(visit.bound_names(s))
        extents, count = _extents(s, ranges), 1
        for atom, step in sorted(place.terms.items(), key=lambda term: term[1]):
            if step != count or atom not in extents:
                return None
            count *= extents[atom]
        stands = visit.variables(e.seed).union(visit.variables(e.offset)).isdisjoint(visit.bound_names(s))
        read = [load.tensor for part in (e.seed, e.offset) for load in visit.loads_of(part)]
        if not stands or any_alias(self.f, read, visit.written(s)):
            return None
        return (first, place, count) if first.is_multiple(BLOCK) and self.fewest <= count <= self.most else None

    def generate(self, e: Random, first: Linear, place: Linear, count: int, ranges: Ranges) -> tuple[Sequence[Stmt], Expr]:
        """Statements that generate the numbers, and the load that takes the place of the expression."""
        lanes, rounds, d = self.lanes, -(-count // self.lanes), Var(visit.claim("d", self.taken))
        drawn = tensor(visit.claim("drawn", self.taken), DType.s32, (rounds * lanes,))
        index = Ramp(add(to_expr(first, ranges), mul(d, lanes)), 1, lanes)
        numbers = Random(index, Broadcast(e.seed, lanes), Broadcast(e.offset, lanes))
        store = Store(drawn, (Ramp(mul(d, lanes), 1, lanes),), numbers)
        return (Alloc(drawn), For(d, Const(rounds), store)), Load(drawn, (to_expr(place, ranges),))


def _extents(s: Stmt | None, ranges: Ranges) -> dict[Expr, int]:
    """Largest extents of perfectly nested loops, by variable."""
    if not isinstance(s, For) or (extent := largest_extent(s.extent, ranges)) is None:
        return {}
    return {s.var: extent, **_extents(only_statement(s.body), inside(s, ranges))}
