"""Graph IR: the compiler's own graph. DNN ops on values with layouts; later, ops grouped into fused ops with anchors. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from math import ceil, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType


class Constness(IntEnum):
    """variable: known at each execution. runtime: the same in every execution, seen at the first. compile: known now."""

    variable = 0
    runtime = 1
    compile = 2


@dataclass(frozen=True)
class Layout:
    """How a value's elements are laid out: outer axes in `order`, then inner blocks.

    order: logical axes, outermost first. blocks: (axis, size), outermost first; an axis with a block is split into ceil(dim/size)
    outer steps and `size` inner ones. Layout((0, 1)) is row-major; Layout((1, 0), ((1, 64),)) is [N/64][K][64] for a [K][N] weight.
    """

    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def is_plain(self) -> bool:
        return not self.blocks and self.order == tuple(range(len(self.order)))

    def physical(self, shape: Shape) -> Shape:
        """The shape of the buffer that holds a value of this logical shape; blocked axes are padded up."""
        size = dict(self.blocks)
        return tuple(ceil(shape[axis] / size.get(axis, 1)) for axis in self.order) + tuple(s for _, s in self.blocks)

    def __str__(self) -> str:
        """oneDNN's tag style: 'ab', 'ba', 'bA64a' ..."""
        blocked = dict(self.blocks)
        outer = "".join(chr(ord("A" if a in blocked else "a") + a) for a in self.order)
        return outer + "".join(f"{size}{chr(ord('a') + axis)}" for axis, size in self.blocks)


def plain(rank: int) -> Layout:
    return Layout(tuple(range(rank)))


@dataclass(frozen=True)
class Literal:
    """Compile-time constant data, hashable by content."""

    dtype: DType
    shape: Shape
    raw: bytes

    @property
    def array(self) -> NDArray[np.generic]:
        return np.frombuffer(self.raw, self.dtype.numpy).reshape(self.shape)


@dataclass(frozen=True)
class Value:
    """What flows between ops. strides: set for the partition's border tensors, whose buffers belong to the user."""

    id: int
    dtype: DType
    shape: Shape
    layout: Layout
    constness: Constness = Constness.variable
    strides: Shape | None = None
    literal: Literal | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(prod(self.layout.physical(self.shape)))


@dataclass(frozen=True)
class Op:
    """A basic (or, before decompose, complex) op; ins and outs are value ids."""

    kind: str
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    attrs: Attrs = Attrs()


@dataclass(frozen=True)
class Fused:
    """Ops that share one loop nest. stages: each is at most one tunable op and the ops at its anchors, in order.

    rows: domain axes that are split into parallel tasks; mb: rows of one task along the last of them.
    """

    name: str
    ops: tuple[Op, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]


Node: TypeAlias = Op | Fused


@dataclass(frozen=True)
class Graph:
    """nodes in topological order. ins, outs: the partition's border values."""

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    facts: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def by_id(self) -> dict[int, Value]:
        return {v.id: v for v in self.values}

    def value(self, id: int) -> Value:
        return self.by_id[id]

    @cached_property
    def producer(self) -> dict[int, Node]:
        return {v: node for node in self.nodes for v in node.outs}

    @cached_property
    def uses(self) -> dict[int, int]:
        """Value id -> how many nodes read it, plus one when it leaves the graph."""
        count = {v.id: 0 for v in self.values}
        for node in self.nodes:
            for v in set(node.ins):
                count[v] += 1
        for v in self.outs:
            count[v] += 1
        return count

    def with_values(self, changed: dict[int, Value]) -> Graph:
        return replace(self, values=tuple(changed.get(v.id, v) for v in self.values)) if changed else self
