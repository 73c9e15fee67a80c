"""Rematerialisation: a later phase of a region recomputes a value per element where that is cheaper than storing and loading it.

for i: t[i] = f32(x[i]); acc = max(acc, t[i])      ->   for i: acc = max(acc, f32(x[i]))
for i: y[i] = exp(t[i] - acc)                           for i: y[i] = exp(f32(x[i]) - acc)
"""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, Domain, right_aligned
from benchgraph.gir.ir import Op
from benchgraph.lower.storage import Coords, Storage, broadcast
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import cast
from benchgraph.tir.instructions import instructions
from benchgraph.tir.ir import Expr, Store


class Rematerialiser:
    """The private values of a region. at: a point of the region, by axes. most_instructions: on a vector, that recompute a value; with its
    store, which then is not needed."""

    def __init__(
        self, storage: Storage, domain: Domain, private: frozenset[int], at: Callable[[Axes], Coords], most_instructions: int
    ) -> None:
        self.storage, self.domain, self.private, self.at, self.most_instructions = storage, domain, private, at, most_instructions
        self.producer: dict[int, Op] = {}
        self._values: dict[int, Expr | None] = {}

    def record(self, op: Op) -> None:
        self.producer.update(dict.fromkeys(op.outs, op))

    def value(self, v: int) -> Expr | None:
        """The expression that recomputes a value of an earlier phase; None where it is to be loaded."""
        if not self._is_own(v, self.domain.axes.get(v, ())):
            return None
        if v not in self._values:
            value = self._recomputed(v, {})
            if value is not None:
                store = Store(*self.storage.element(v, self.at(self.domain.axes[v])), value)
                value = value if instructions(store) <= self.most_instructions else None
            self._values[v] = value
        return self._values[v]

    def _is_own(self, v: int, axes: Axes) -> bool:
        """Whether the region itself computes a value, per element."""
        return v in self.private and v in self.producer and not self.domain.reduced.isdisjoint(axes)

    def _recomputed(self, v: int, known: dict[int, Expr | None]) -> Expr | None:
        """The element at this point from the region's inputs and from values per row; None where that takes more than a few pointwise ops.

        known: values that have been recomputed on the way, None while they are not.
        """
        if v in known:
            return known[v]
        axes, g, op = self.domain.axes[v], self.storage.g, self.producer[v]
        form, at = op.lowering.form, self.at(axes)
        if not isinstance(form, Elementwise) or len(op.outs) > 1 or len(known) >= self.most_instructions:
            return None
        known[v] = None
        operands: list[Expr] = []
        for src in op.ins:
            shape = g.value(src).shape
            src_axes = tuple(a if extent != 1 else None for a, extent in zip(right_aligned(axes, len(shape), None), shape, strict=True))
            is_own = self._is_own(src, src_axes)
            operand = self._recomputed(src, known) if is_own else self.storage.load(src, broadcast(shape, at))
            if operand is None:
                return None
            operands.append(operand)
        dtype = g.value(v).dtype
        (value,) = form.values(op.attrs, g.value(v).shape, tuple(c.value for c in at), tuple(operands))
        known[v] = cast(cast(value, dtype), DType.f32) if dtype.is_float else cast(value, dtype)
        return known[v]
