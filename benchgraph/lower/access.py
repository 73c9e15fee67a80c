"""Where a value's elements are: from logical coordinates, through views and layouts, to an element of a TIR tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TypeAlias, TypeVar

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.remember import remembered
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.ir import Graph, Value
from benchgraph.gir.views import root_index
from benchgraph.tir.build import add, cast, floordiv, mod, mul
from benchgraph.tir.ir import Const, Expr, Load, Scope, Store, Tensor, Var, tensor

T = TypeVar("T")

ZERO = Const(0)
Place: TypeAlias = tuple[Tensor, tuple[Expr, ...]]  # a tensor, and the index of an element of it


@dataclass(frozen=True)
class Coord:
    """A coordinate along one axis: outer * tile + inner, with 0 <= inner < tile. Knowing the split makes blocked indices exact."""

    inner: Expr
    outer: Expr = ZERO
    tile: int = 1

    @property
    @remembered
    def value(self) -> Expr:
        return add(mul(self.outer, self.tile), self.inner)


def physical_index(layout: Layout, coords: tuple[Coord, ...]) -> tuple[Expr, ...]:
    """The element of the buffer that holds the value's element at coords."""
    size = dict(layout.blocks)
    outer = [_quotient(coords[a], size[a]) if a in size else coords[a].value for a in layout.order]
    return (*outer, *(_remainder(coords[a], s) for a, s in layout.blocks))


def _quotient(c: Coord, size: int) -> Expr:
    return c.outer if c.tile == size else floordiv(c.value, size)


def _remainder(c: Coord, size: int) -> Expr:
    return c.inner if c.tile == size else mod(c.value, size)


class Storage:
    """The TIR tensor of every value with a buffer, made on first use; and loads and stores through it.

    temporaries: what the function must Alloc, in order of first use. Parameters are given to `declare`. moved: values that are read, for
    now, from another place than their own, and how that follows from their coordinates.
    """

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.temporaries: dict[int, Tensor] = {}
        self.moved: dict[int, Callable[[tuple[Coord, ...]], Place]] = {}
        self._params: dict[int, Tensor] = {}
        self._numbers: Iterator[int] = iter(range(1 << 30))

    def declare(self, id: int) -> Tensor:
        """Make this value a parameter of the function."""
        if id not in self._params:
            v = self.g.value(id)
            self._params[id] = tensor(f"v{id}", v.dtype, v.layout.physical(v.shape), Scope.param, v.strides)
        return self._params[id]

    def tensor(self, root: int) -> Tensor:
        if root in self._params:
            return self._params[root]
        if root not in self.temporaries:
            v = self.g.value(root)
            self.temporaries[root] = tensor(f"t{root}", v.dtype, v.layout.physical(v.shape))
        return self.temporaries[root]

    def scratch(self, like: Value, dtype: DType) -> Tensor:
        """A fresh temporary of the value's logical shape."""
        return self.extra(dtype, like.shape)

    def extra(self, dtype: DType, shape: Shape) -> Tensor:
        """A fresh temporary that stands for no value."""
        number = -1 - next(self._numbers)
        self.temporaries[number] = tensor(f"s{-number}", dtype, shape)
        return self.temporaries[number]

    def var(self, stem: str) -> Var:
        """A loop variable whose name no other has."""
        return Var(f"{stem}{next(self._numbers)}")

    def place(self, id: int, coords: tuple[Coord, ...]) -> Place:
        """Of a value's element; coordinates along dims of size 1 are taken as 0."""
        v = self.g.value(id)
        coords = tuple(Coord(ZERO) if extent == 1 else c for extent, c in zip(v.shape, coords, strict=True))
        if v.view is not None:
            coords = tuple(Coord(e) for e in root_index(self.g, id, tuple(c.value for c in coords)))
            v = self.g.value(self.g.root(id))
        if v.id in self.moved:
            return self.moved[v.id](coords)
        return self.tensor(v.id), physical_index(v.layout, coords)

    @contextmanager
    def elsewhere(self, places: Mapping[int, Callable[[tuple[Coord, ...]], Place]]) -> Iterator[None]:
        """What is emitted meanwhile finds these values at the places that their coordinates are given."""
        self.moved |= places
        try:
            yield
        finally:
            for id in places:
                del self.moved[id]

    def load_raw(self, id: int, coords: tuple[Coord, ...]) -> Expr:
        """The element in the value's own dtype; compile-time scalars become literals."""
        v = self.g.value(self.g.root(id))
        if v.literal is not None and prod(v.shape) == 1:
            item = v.literal.array.reshape(()).item()
            return Const(float(item) if v.dtype.is_float else int(item), v.dtype)
        where, index = self.place(id, coords)
        return Load(where, index)

    def load(self, id: int, coords: tuple[Coord, ...]) -> Expr:
        """The element as it is computed with: floats of any width as f32, everything else in its own dtype."""
        raw = self.load_raw(id, coords)
        if not self.g.value(id).dtype.is_float:
            return raw
        return Const(float(raw.value), DType.f32) if isinstance(raw, Const) else cast(raw, DType.f32)

    def store(self, id: int, coords: tuple[Coord, ...], value: Expr) -> Store:
        where, index = self.place(id, coords)
        return Store(where, index, cast(value, where.dtype))


def right_aligned(at: tuple[T, ...], rank: int, zero: T) -> tuple[T, ...]:
    """The last `rank` of a result's coordinates; zeros in front where an operand, one number then, has more dims than it."""
    return (zero,) * (rank - len(at)) + at[max(len(at) - rank, 0) :]


def aligned(shape: Shape, coords: tuple[Coord, ...]) -> tuple[Coord, ...]:
    """The coordinates of an operand of this shape, numpy-broadcast to a result at coords: right-aligned, 0 along dims of size 1."""
    tail = right_aligned(coords, len(shape), Coord(ZERO))
    return tuple(Coord(ZERO) if extent == 1 else c for extent, c in zip(shape, tail, strict=True))


def along(axes: Sequence[int], extents: Shape, number: Expr) -> dict[int, Coord]:
    """Where the element of this number is along each of the axes, which are run through as one, the last of them fastest."""
    steps = dense_strides(tuple(extents[a] for a in axes))
    quotients = {axis: floordiv(number, step) for axis, step in zip(axes, steps, strict=True)}
    return {axis: Coord(q if axis == axes[0] else mod(q, extents[axis])) for axis, q in quotients.items()}
