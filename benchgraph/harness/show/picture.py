"""What there is to draw: ops with their partitions, tensors with their types, and who makes and reads them. The same for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition

LETTERS = "abcdefghijkl"


@dataclass(frozen=True)
class Box:
    """An op. reads: ids of its inputs, in port order. partition: its place in the order of execution, which it is also coloured by."""

    id: int
    kind: str
    name: str
    attrs: tuple[str, ...]
    reads: tuple[int, ...]
    partition: int


@dataclass(frozen=True)
class Wire:
    """A tensor. source: the op that makes it, None for an input of the graph; targets: the ops that read it, each once.

    crosses: it is memory between partitions, or at the graph's border.
    """

    id: int
    label: str
    source: int | None
    targets: tuple[int, ...]
    is_output: bool
    crosses: bool


@dataclass(frozen=True)
class Picture:
    """parts: what each partition is, by number."""

    title: str
    policy: str
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    parts: tuple[str, ...]


def draw(graph: Graph, partitions: Sequence[Partition], title: str, policy: str) -> Picture:
    """A shape-inferred graph and its partitions, in order of execution."""
    number = {op.id: i for i, p in enumerate(partitions) for op in p.ops}
    boxes = tuple(Box(op.id, op.kind, op.name, _attrs(op.attrs), tuple(t.id for t in op.inputs), number[op.id]) for op in graph.order)
    leaving = {t.id for t in graph.outputs}
    wires = []
    for t in (*graph.inputs, *(t for op in graph.order for t in op.outputs)):
        source = graph.producers[t.id].id if t.id in graph.producers else None
        targets = tuple(op.id for op in graph.consumers.get(t.id, ()))
        ends = {number[id] for id in (*targets, *([] if source is None else [source]))}
        crosses = source is None or t.id in leaving or len(ends) > 1
        wires.append(Wire(t.id, label(t), source, targets, t.id in leaving, crosses))
    return Picture(title, policy, boxes, tuple(wires), tuple(_part(p) for p in partitions))


def _part(p: Partition) -> str:
    return f"{p.kind}, {len(p.ops)} op{'s' if len(p.ops) != 1 else ''}" + ("" if p.is_supported else f", unsupported: {p.reason}")


def _attrs(attrs: Attrs) -> tuple[str, ...]:
    return tuple(f"{name}={_value(value)}" for name, value in attrs.items())


def _value(value: object) -> str:
    if isinstance(value, tuple):
        shown = ",".join(_value(v) for v in value[:4])
        return f"{shown},... ({len(value)})" if len(value) > 4 else shown
    return f"{value:g}" if isinstance(value, float) else str(value)


def label(t: LogicalTensor) -> str:
    """Id, dtype, dims, layout: `%3 f32 8x64x56x56 acdb`. A tensor that stays the same says so."""
    dims = "x".join(map(str, t.known_shape)) or "scalar"
    return " ".join(part for part in (f"%{t.id}", t.dtype.value, dims, _layout(t), "constant" if t.is_constant else "") if part)


def _layout(t: LogicalTensor) -> str:
    """The dims from the outermost to the innermost when the tensor is dense, else its strides; nothing for a single number."""
    if t.layout_type is not LayoutType.strided:
        return str(t.layout_type.value)
    shape, strides = t.known_shape, t.known_strides
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    step: int = 1
    for dim in reversed(order):
        if strides[dim] != step and shape[dim] > 1:
            return "strides " + "x".join(map(str, strides))
        step *= max(shape[dim], 1)
    return "".join(LETTERS[dim] for dim in order)
