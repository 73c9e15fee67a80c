"""Where values are stored: from logical coordinates, through views and layouts, to an element of a Tensor IR tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TypeAlias, TypeVar

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.memoise import memoised
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.domain import right_aligned
from benchgraph.gir.ir import Graph
from benchgraph.gir.views import root_index
from benchgraph.tir.build import add, cast, floordiv, mod, mul
from benchgraph.tir.ir import Const, Expr, Load, Scope, Store, Tensor, Var, tensor

T = TypeVar("T")

ZERO = Const(0)
Element: TypeAlias = tuple[Tensor, tuple[Expr, ...]]  # a tensor and an index


@dataclass(frozen=True)
class Coord:
    """A coordinate along one axis: outer * tile + inner, with 0 <= inner < tile. Knowing the split makes blocked indices exact."""

    inner: Expr
    outer: Expr = ZERO
    tile: int = 1

    @property
    @memoised
    def value(self) -> Expr:
        return add(mul(self.outer, self.tile), self.inner)

    def quotient(self, size: int) -> Expr:
        return self.outer if self.tile == size else floordiv(self.value, size)

    def remainder(self, size: int) -> Expr:
        return self.inner if self.tile == size else mod(self.value, size)


Coords: TypeAlias = tuple[Coord, ...]  # one per axis
ElementAt: TypeAlias = Callable[[Coords], Element]


def physical_index(layout: Layout, coords: Coords) -> tuple[Expr, ...]:
    """The index in the buffer of the value's element at coords."""
    size = dict(layout.blocks)
    outer = [coords[a].quotient(size[a]) if a in size else coords[a].value for a in layout.order]
    return (*outer, *(coords[a].remainder(s) for a, s in layout.blocks))


def stored_value(t: Tensor) -> int | None:
    """The value whose elements a tensor of `Storage` holds; None for scratch memory, and for tensors of passes."""
    return int(t.name[1:]) if t.name[:1] in _NAMES and t.name[1:].isdecimal() else None


_PARAMETER, _TEMPORARY = _NAMES = "v", "t"  # what tensors of values are called, before the value's id


class Storage:
    """The tensor of every value with a buffer, made on first use; and loads and stores of its elements.

    temporaries: what the function must Alloc, in order of first use. Parameters are given to `declare`. redirected: values whose elements
    are elsewhere for now. uncached: those that are stored past the caches.
    """

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.temporaries: dict[int, Tensor] = {}
        self.redirected: dict[int, ElementAt] = {}
        self.uncached = frozenset[int]()
        self._params: dict[int, Tensor] = {}
        self._numbers: Iterator[int] = iter(range(1 << 30))

    def declare(self, id: int) -> Tensor:
        """Make this value a parameter of the function."""
        if id not in self._params:
            v = self.g.value(id)
            self._params[id] = tensor(f"{_PARAMETER}{id}", v.dtype, v.layout.physical(v.shape), Scope.param, v.strides)
        return self._params[id]

    def tensor(self, root: int) -> Tensor:
        if root in self._params:
            return self._params[root]
        if root not in self.temporaries:
            v = self.g.value(root)
            self.temporaries[root] = tensor(f"{_TEMPORARY}{root}", v.dtype, v.layout.physical(v.shape))
        return self.temporaries[root]

    def temporary(self, dtype: DType, shape: Shape) -> Tensor:
        """A new temporary that belongs to no value."""
        number = -1 - next(self._numbers)
        self.temporaries[number] = tensor(f"s{-number}", dtype, shape)
        return self.temporaries[number]

    def var(self, stem: str) -> Var:
        """A loop variable with a unique name."""
        return Var(f"{stem}{next(self._numbers)}")

    def element(self, id: int, coords: Coords) -> Element:
        """A value's element; coordinates along dims of size 1 count as 0."""
        v = self.g.value(id)
        coords = tuple(Coord(ZERO) if extent == 1 else c for extent, c in zip(v.shape, coords, strict=True))
        if v.view is not None:
            coords = tuple(map(Coord, root_index(self.g, id, tuple(c.value for c in coords))))
            v = self.g.value(self.g.root(id))
        if v.id in self.redirected:
            return self.redirected[v.id](coords)
        return self.tensor(v.id), physical_index(v.layout, coords)

    @contextmanager
    def redirect(self, elements: Mapping[int, ElementAt]) -> Iterator[None]:
        """Code that is emitted meanwhile takes these values' elements from elsewhere."""
        self.redirected |= elements
        try:
            yield
        finally:
            for id in elements:
                del self.redirected[id]

    def load_raw(self, id: int, coords: Coords) -> Expr:
        """The element in the value's own dtype; compile-time scalars become literals."""
        v = self.g.value(self.g.root(id))
        if v.literal is not None and prod(v.shape) == 1:
            item = v.literal.array.reshape(()).item()
            return Const(float(item) if v.dtype.is_float else int(item), v.dtype)
        return Load(*self.element(id, coords))

    def load(self, id: int, coords: Coords) -> Expr:
        """The element as it is computed with: floats of any width as f32, everything else in its own dtype."""
        raw = self.load_raw(id, coords)
        if not self.g.value(id).dtype.is_float:
            return raw
        return Const(float(raw.value), DType.f32) if isinstance(raw, Const) else cast(raw, DType.f32)

    def store(self, id: int, coords: Coords, value: Expr) -> Store:
        where, index = self.element(id, coords)
        is_uncached = where.scope is Scope.param and self.g.root(id) in self.uncached
        return Store(where, index, cast(value, where.dtype), non_temporal=is_uncached)


def broadcast(shape: Shape, coords: Coords) -> Coords:
    """The coordinates of an operand of this shape, numpy-broadcast to a result at coords: right-aligned, 0 along dims of size 1."""
    tail = right_aligned(coords, len(shape), Coord(ZERO))
    return tuple(Coord(ZERO) if extent == 1 else c for extent, c in zip(shape, tail, strict=True))


def unravel(axes: Sequence[int], extents: Shape, number: Expr) -> dict[int, Coord]:
    """The coordinates along these axes of the element of this number, as numpy.unravel_index: the last axis varies fastest."""
    steps = dense_strides(tuple(extents[a] for a in axes))
    quotients = {axis: floordiv(number, step) for axis, step in zip(axes, steps, strict=True)}
    return {axis: Coord(q if axis == axes[0] else mod(q, extents[axis])) for axis, q in quotients.items()}
