"""Physical layouts of tensors, and the ids of opaque ones in the programming model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, prod

from benchgraph.core import forks
from benchgraph.core.errors import InvalidArguments

BACKEND_ID = 1  # the low BACKEND_BITS of every layout id
BACKEND_BITS = 4


@dataclass(frozen=True)
class Layout:
    """The order of a tensor's elements in memory: outer axes in `order`, then inner blocks.

    order: logical axes, outermost first. blocks: (axis, size), outermost first; an axis with a block is split into ceil(dim/size)
    outer steps and `size` inner ones. Layout((0, 1)) is row-major; Layout((1, 0), ((1, 64),)) is [N/64][K][64] for a [K][N] weight.
    """

    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def rank(self) -> int:
        return len(self.order)

    @property
    def is_plain(self) -> bool:
        return not self.blocks and self.order == tuple(range(len(self.order)))

    def physical(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the buffer that holds a value of this logical shape; blocked axes are padded up."""
        size = dict(self.blocks)
        return tuple(ceil(shape[axis] / size.get(axis, 1)) for axis in self.order) + tuple(s for _, s in self.blocks)

    def elements(self, shape: tuple[int, ...]) -> int:
        """Elements of the buffer, padding included."""
        return prod(self.physical(shape))

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The strides of a tensor without blocks that takes the same memory, element by element; None when there is none.

        >>> Layout((1, 0), ((1, 64),)).strides((8, 64)), Layout((1, 0), ((1, 64),)).strides((8, 128))
        ((64, 1), None)
        """
        steps, step = [], 1
        for extent in reversed(self.physical(shape)):
            steps.append(step)
            step *= max(extent, 1)
        steps.reverse()
        stride_of = dict(zip(self.order, steps, strict=False))
        for position, (axis, size) in enumerate(self.blocks, start=len(self.order)):
            if shape[axis] > size and stride_of[axis] != size * steps[position]:
                return None
            stride_of[axis] = steps[position]
        strides = tuple(stride_of[axis] for axis in range(self.rank))
        last = sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
        return strides if 0 in shape or last == self.elements(shape) - 1 else None

    def __str__(self) -> str:
        """oneDNN's tag style: 'ab', 'ba', 'bA64a' ..."""
        blocked = dict(self.blocks)
        outer = "".join(chr(ord("A" if a in blocked else "a") + a) for a in self.order)
        return outer + "".join(f"{size}{chr(ord('a') + axis)}" for axis, size in self.blocks)


_TAG = re.compile(r"([A-La-l]*)((?:\d+[a-l])*)")


def parse_layout(tag: str) -> Layout | None:
    """The layout of a tag as `str` gives it; None for any other word.

    >>> parse_layout("Ba64b") == Layout((1, 0), ((1, 64),)), parse_layout("aa")
    (True, None)
    """
    if (parts := _TAG.fullmatch(tag)) is None:
        return None
    order = tuple(ord(letter) - ord("a") for letter in parts[1].lower())
    blocks = tuple((ord(axis) - ord("a"), int(size)) for size, axis in re.findall(r"(\d+)([a-l])", parts[2]))
    layout = Layout(order, blocks)
    return layout if sorted(order) == list(range(len(order))) and str(layout) == tag else None


def plain(rank: int) -> Layout:
    """Row-major."""
    return Layout(tuple(range(rank)))


class LayoutTable:
    """The layouts that have ids. Ids are valid for the life of the process. Thread-safe."""

    def __init__(self) -> None:
        self._layouts: list[Layout] = []
        self._ids: dict[Layout, int] = {}
        self._lock = forks.lock()

    def __len__(self) -> int:
        return len(self._layouts)

    def id(self, layout: Layout) -> int:
        """The id of a layout: the backend in the low four bits, its index in the table above them."""
        with self._lock:
            if layout not in self._ids:
                self._ids[layout] = len(self._layouts) << BACKEND_BITS | BACKEND_ID
                self._layouts.append(layout)
            return self._ids[layout]

    def all(self) -> tuple[Layout, ...]:
        """The layouts, in the order of their ids."""
        with self._lock:
            return tuple(self._layouts)

    def knows(self, id: int) -> bool:
        return id & (1 << BACKEND_BITS) - 1 == BACKEND_ID and 0 <= id >> BACKEND_BITS < len(self._layouts)

    def layout(self, id: int) -> Layout:
        """The layout of an id. Raises InvalidArguments for an unknown one."""
        if not self.knows(id):
            backend, fix = id & (1 << BACKEND_BITS) - 1, "use the id of a logical tensor that a compiled partition returned"
            what = f"no layout has the id {id}" if backend == BACKEND_ID else f"layout id {id} is of backend {backend}, not {BACKEND_ID}"
            raise InvalidArguments(what, where="opaque layout", fix=fix)
        return self._layouts[id >> BACKEND_BITS]


LAYOUTS = LayoutTable()


def layout_id(layout: Layout, shape: tuple[int, ...]) -> int:
    """The id of a layout for a tensor of this shape: that of row-major if both are the same for the shape."""
    strides, row_major = layout.strides(shape), plain(layout.rank).strides(shape)
    both = zip(shape, strides or (), row_major or (), strict=False)
    is_row_major = strides is not None and row_major is not None and all(d == 1 or s == r for d, s, r in both)
    return LAYOUTS.id(plain(layout.rank) if is_row_major else layout)
