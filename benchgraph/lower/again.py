"""Values per element that a later phase of a region reads again: kept in memory meanwhile, or computed anew where that is cheaper.

for i: t[i] = f32(x[i]); acc = max(acc, t[i])      ->   for i: acc = max(acc, f32(x[i]))
for i: y[i] = exp(t[i] - acc)                           for i: y[i] = exp(f32(x[i]) - acc)
"""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, Domain
from benchgraph.gir.ir import Op
from benchgraph.lower.access import Coord, Storage, aligned, right_aligned
from benchgraph.ops import spec
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import cast
from benchgraph.tir.cost import instructions
from benchgraph.tir.ir import Expr, Store

MOST_READ = 2  # values per element that one is computed from: a value that is kept would be written and read


class Again:
    """The values `inside` a region, which it makes for itself alone.

    at: a point of the region. most_steps: instructions on a vector up to which a value is computed anew, its store, then saved, included.
    """

    def __init__(
        self, storage: Storage, domain: Domain, inside: frozenset[int], at: Callable[[Axes], tuple[Coord, ...]], most_steps: int
    ) -> None:
        self.storage, self.domain, self.inside, self.at, self.most_steps = storage, domain, inside, at, most_steps
        self.maker: dict[int, Op] = {}
        self._known: dict[int, Expr | None] = {}

    def made_by(self, op: Op) -> None:
        self.maker.update(dict.fromkeys(op.outs, op))

    def value(self, v: int) -> Expr | None:
        """One that an earlier phase made, computed anew; None where it is to be read."""
        if v not in self.inside or v not in self.maker or not self._varies(self.domain.axes.get(v, ())):
            return None
        if v not in self._known:
            read: set[int] = set()
            value = self._computed(v, read, {})
            is_cheap = value is not None and len(read) <= MOST_READ and self._steps(v, value) <= self.most_steps
            self._known[v] = value if is_cheap else None
        return self._known[v]

    def _steps(self, v: int, value: Expr) -> int:
        return instructions(Store(*self.storage.place(v, self.at(self.domain.axes[v])), value))

    def _varies(self, axes: Axes) -> bool:
        """Per element, not per row."""
        return bool(self.domain.reduced.intersection(axes))

    def _computed(self, v: int, read: set[int], made: dict[int, Expr | None]) -> Expr | None:
        """The element at this point from values at the border and per row, None where it is not made by few pointwise ops.

        read: grows by the values per element among these. made: by what ops make on the way, None while it is not known.
        """
        if v in made:
            return made[v]
        axes, g, op = self.domain.axes[v], self.storage.g, self.maker[v]
        how, at = spec(op.kind).lowering.form, self.at(axes)
        if not isinstance(how, Elementwise) or len(op.outs) > 1 or len(made) >= self.most_steps:
            return None
        made[v] = None
        operands: list[Expr] = []
        for src in op.ins:
            shape = g.value(src).shape
            along = tuple(a if extent != 1 else None for a, extent in zip(right_aligned(axes, len(shape), None), shape, strict=True))
            is_inside = src in self.inside and src in self.maker and self._varies(along)
            found = self._computed(src, read, made) if is_inside else self.storage.load(src, aligned(shape, at))
            if found is None:
                return None
            if not is_inside and self._varies(along):
                read.add(src)
            operands.append(found)
        dtype = g.value(v).dtype
        (value,) = how.values(op.attrs, g.value(v).shape, tuple(c.value for c in at), tuple(operands))
        made[v] = cast(cast(value, dtype), DType.f32) if dtype.is_float else cast(value, dtype)
        return made[v]
