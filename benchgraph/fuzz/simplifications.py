"""Simplifications of a graph: each yields candidates, the boldest first, which may be illegal.

Tensor and op ids stay, since the data of an input depend on its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.override import NewShape, with_shapes

Simplification = Callable[[Graph], Iterator[Graph]]


def without_ops(graph: Graph) -> Iterator[Graph]:
    """Runs of ops removed, half of them at once, then a quarter ...; results of theirs that are read become inputs."""
    order, length = graph.order, len(graph.ops) // 2
    while length:
        for start in reversed(range(0, len(order), length)):
            kept = (*order[:start], *order[start + length :])
            if kept:
                yield replace(graph, ops=kept)
        length //= 2


def bypassed(graph: Graph) -> Iterator[Graph]:
    """One op removed; readers of its output read one of its own inputs of the same type instead."""
    for op in graph.order:
        for dst in op.outputs:
            for src in op.inputs:
                if src.type == dst.type and dst.id in graph.consumers and len(graph.ops) > 1:
                    yield replace(graph, ops=tuple(_reading(other, dst.id, src) for other in graph.ops if other.id != op.id))


def _reading(op: Op, id: int, instead: LogicalTensor) -> Op:
    return replace(op, inputs=tuple(instead if t.id == id else t for t in op.inputs))


def merged(graph: Graph) -> Iterator[Graph]:
    """One input replaced by another of its type."""
    for i, t in enumerate(graph.inputs):
        for other in graph.inputs[:i]:
            if t.type == other.type:
                yield replace(graph, ops=tuple(_reading(op, t.id, other) for op in graph.ops))


def fewer_ports(graph: Graph) -> Iterator[Graph]:
    """Optional inputs and outputs removed."""
    for op in graph.ops:
        row = ops.spec(op.kind)
        if row.schema.num_inputs or row.schema.variadic_inputs:
            yield _with(graph, replace(op, inputs=op.inputs[:-1]))
            yield _with(graph, replace(op, inputs=op.inputs[1:]))
        if row.schema.num_outputs:
            yield _with(graph, replace(op, outputs=op.outputs[:-1]))


def default_attrs(graph: Graph) -> Iterator[Graph]:
    """Attributes reset to their defaults, all of an op's at once, then one by one; numbers set to 0 or 1."""
    for op in graph.ops:
        schema = ops.attrs_of(op.kind)
        optional = [name for name in op.attrs if not schema[name].required]
        if len(optional) > 1:
            yield _with(graph, replace(op, attrs=op.attrs.without(*optional)))
        for name in optional:
            yield _with(graph, replace(op, attrs=op.attrs.without(name)))
        for name in op.attrs:
            if (plain := _plain(op.attrs, name)) is not None:
                yield _with(graph, replace(op, attrs=op.attrs.updated(**{name: plain})))


def _plain(attrs: Attrs, name: str) -> object:
    """A simpler value of an attribute; None if there is none."""
    value = attrs[name]
    if isinstance(value, float):
        return 1.0 if value not in (0.0, 1.0) else None
    if isinstance(value, tuple) and value and all(isinstance(v, float) for v in value) and any(v != 1.0 for v in value):
        return (1.0,) * len(value)
    return None


def _with(graph: Graph, op: Op) -> Graph:
    return replace(graph, ops=tuple(op if o.id == op.id else o for o in graph.ops))


def row_major(graph: Graph) -> Iterator[Graph]:
    """Strides made dense: of all tensors, then of one."""
    strided = [t for t in graph.tensors.values() if t.strides != dense_strides(t.known_shape)]
    yield from _all_then_each(graph, [replace(t, strides=dense_strides(t.known_shape)) for t in strided])


def _all_then_each(graph: Graph, tensors: list[LogicalTensor]) -> Iterator[Graph]:
    """The graph with all these tensors, which replace those of the same ids, then with each of them."""
    if len(tensors) > 1:
        yield graph.with_tensors({t.id: t for t in tensors})
    for t in tensors:
        yield graph.with_tensors({t.id: t})


def without_properties(graph: Graph) -> Iterator[Graph]:
    """The properties of inputs (constant, host scalar) removed: from all inputs, then from one at a time."""
    undef = PropertyType.undef
    yield from _all_then_each(graph, [replace(t, property_type=undef) for t in graph.inputs if t.property_type is not undef])


def in_f32(graph: Graph) -> Iterator[Graph]:
    """Tensors of one float dtype made f32: all of them, then one."""
    narrow = [t for t in graph.tensors.values() if t.dtype.is_float and t.dtype is not DType.f32]
    for dtype in sorted({t.dtype for t in narrow}, key=lambda d: d.value):
        yield graph.with_tensors({t.id: replace(t, dtype=DType.f32) for t in narrow if t.dtype is dtype})
    for t in narrow:
        yield graph.with_tensors({t.id: replace(t, dtype=DType.f32)})


def smaller(graph: Graph) -> Iterator[Graph]:
    """A size reduced wherever an input has it, then along one axis of one input."""
    sizes = sorted({d for t in graph.inputs for d in t.known_shape if d > 1}, reverse=True)
    for old in sizes:
        for new in _less(old):
            yield from _resized(graph, {t.id: tuple(new if d == old else d for d in t.known_shape) for t in graph.inputs})
    for t in graph.inputs:
        for axis, old in enumerate(t.known_shape):
            for new in _less(old):
                yield from _resized(graph, {t.id: (*t.known_shape[:axis], new, *t.known_shape[axis + 1 :])})
        if len(t.known_shape) and t.known_shape[0] == 1:
            yield from _resized(graph, {t.id: t.known_shape[1:]})


def _less(size: int) -> list[int]:
    return sorted({n for n in (1, 2, size // 2, size - 1) if 0 < n < size})


def _resized(graph: Graph, shapes: dict[int, Shape]) -> Iterator[Graph]:
    """The graph with these inputs' dims and inferred shapes, if it is legal."""
    old = {t.id: t.known_shape for t in graph.inputs}
    with suppress(BenchgraphError):
        yield with_shapes(graph, {id: NewShape(shape) for id, shape in shapes.items() if shape != old[id]})


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    without_ops,
    bypassed,
    fewer_ports,
    smaller,
    row_major,
    without_properties,
    in_f32,
    default_attrs,
    merged,
)
