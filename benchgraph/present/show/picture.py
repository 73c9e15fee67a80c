"""A partitioned graph ready to draw, the same for every format: ops with their partitions, tensors with labels and readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchgraph.core.attrs import Attrs
from benchgraph.core.formats import counted, ranges
from benchgraph.core.printable import printable, shortened
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition
from benchgraph.results.sketch import OpSketch, Sketch

LETTERS = "abcdefghijkl"


@dataclass(frozen=True)
class Box:
    """An op. reads: ids of its inputs, in port order. partition: its position in the order of execution, which selects its colour."""

    id: int
    kind: str
    name: str
    attrs: tuple[str, ...]
    reads: tuple[int, ...]
    partition: int


@dataclass(frozen=True)
class Wire:
    """A tensor. source: the op that makes it, None for an input of the graph; targets: the ops that read it, without duplicates.

    crosses: whether it is memory between partitions, or an input or output of the graph.
    """

    id: int
    label: str
    source: int | None
    targets: tuple[int, ...]
    is_output: bool
    crosses: bool


@dataclass(frozen=True)
class RepeatedBlock:
    """A block of ops that is drawn once for `count` equal ones. ids: of its ops; all: of all ops it stands for."""

    ids: tuple[int, ...]
    count: int
    all: tuple[int, ...]

    def __str__(self) -> str:
        return f"x{self.count}: ops {ranges(self.all)}"


@dataclass(frozen=True)
class Picture:
    """parts: a description of each partition, by number. folds: repeated blocks (repeated_blocks.py)."""

    title: str
    policy: str
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    partition_labels: tuple[str, ...]
    repeated_blocks: tuple[RepeatedBlock, ...] = ()

    def repeat_suffix(self, id: int) -> str:
        """` x12` after an op that stands for 12."""
        return next((f" x{fold.count}" for fold in self.repeated_blocks if id in fold.ids), "")

    def lines(self, box: Box) -> list[str]:
        """The text in an op's box."""
        return [f"p{box.partition}  {box.id}: {box.kind}{self.repeat_suffix(box.id)}", *box.attrs]


def draw(sketch: Sketch, partitions: Sequence[Sequence[int]], partition_labels: Sequence[str], title: str, policy: str) -> Picture:
    """partitions: the ids of their ops, in order of execution, which together are all ops of the graph; parts: their descriptions."""
    number = {id: i for i, ops in enumerate(partitions) for id in ops}
    boxes = tuple(Box(op.id, op.kind, op.name, op.attrs, op.reads, number[op.id]) for op in sketch.ops)
    source = {id: op.id for op in sketch.ops for id in op.makes}
    wires = []
    for id in (*sketch.inputs, *source):
        targets = tuple(op.id for op in sketch.ops if id in op.reads)
        ends = {number[op] for op in (*targets, *([source[id]] if id in source else []))}
        crosses = id not in source or id in sketch.outputs or len(ends) > 1
        wires.append(Wire(id, sketch.tensors[id], source.get(id), targets, id in sketch.outputs, crosses))
    return Picture(title, policy, boxes, tuple(wires), tuple(partition_labels))


def sketch(graph: Graph) -> Sketch:
    """The part of a shape-inferred graph that pictures need."""
    ops = tuple(OpSketch(o.id, o.kind, printable(shortened(o.name)), _attrs(o.attrs), _ids(o.inputs), _ids(o.outputs)) for o in graph.order)
    tensors = {t.id: label(t) for t in (*graph.inputs, *(t for op in graph.order for t in op.outputs))}
    return Sketch(ops, tensors, _ids(graph.inputs), _ids(graph.outputs))


def _ids(tensors: Iterable[LogicalTensor]) -> tuple[int, ...]:
    return tuple(t.id for t in tensors)


def partition_label(p: Partition) -> str:
    """The description of a partition: `post_ops, 3 ops`."""
    return f"{p.kind}, {counted(len(p.ops), 'op')}" + ("" if p.is_supported else f", unsupported: {p.reason}")


def _attrs(attrs: Attrs) -> tuple[str, ...]:
    return tuple(f"{name}={_value(value)}" for name, value in attrs.items())


def _value(value: object) -> str:
    if isinstance(value, tuple):
        shown = ",".join(_value(v) for v in value[:4])
        return f"{shown},... ({len(value)})" if len(value) > 4 else shown
    return f"{value:g}" if isinstance(value, float) else printable(shortened(str(value)))


def label(t: LogicalTensor) -> str:
    """Id, dtype, dims, layout: `%3 f32 8x64x56x56 acdb`, and `constant` for constants."""
    dims = "x".join(map(str, t.known_shape)) or "scalar"
    return " ".join(part for part in (f"%{t.id}", t.dtype.value, dims, _layout(t), "constant" if t.is_constant else "") if part)


def _layout(t: LogicalTensor) -> str:
    """The dims from the outermost to the innermost if the tensor is dense, else its strides; nothing for a scalar."""
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


# Colours readable on light and dark backgrounds: light boxes with dark text, mid-grey lines and labels
LINE = "#808890"  # about 4:1 against white and against black
INK = "#111111"
PARTITIONS = ("#a6cee3", "#fdd49e", "#b8e0b0", "#e0c3ec", "#f7b6b2", "#f3eca0", "#b3e2da", "#d9d2c5")


def colour(partition: int) -> str:
    """The colour of a partition's boxes; repeats after eight, where the number in the label distinguishes them."""
    return PARTITIONS[partition % len(PARTITIONS)]
