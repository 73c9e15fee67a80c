"""Shape inference over a whole graph: every tensor gets known dims and strides, and the same description at every use."""

from __future__ import annotations

from dataclasses import replace

from benchgraph import ops
from benchgraph.core.errors import InvalidShape, within
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType, Shape, check_memory
from benchgraph.graph.ir import Graph, Op


def infer_shapes(graph: Graph) -> Graph:
    """The graph with every dim known; the same object if nothing changed.

    A tensor's producer describes it; the uses of a graph input are merged (known dims override unknown ones, a property overrides undef).
    Unknown strides become row-major, layout undef becomes strided. Raises InvalidShape if dims disagree or stay unknown, and
    InvalidArguments for strides that no memory can have.
    """
    tensors = {t.id: _filled(t) for t in merged_inputs(graph).values()}
    for op in graph.order:
        ins = tuple(tensors[t.id] for t in op.inputs)
        tensors |= {t.id: _filled(t) for t in infer_outputs(op, ins)}
    for op in graph.ops:
        with within(op.label):
            for t, is_written in (*((t, False) for t in op.inputs), *((t, True) for t in op.outputs)):
                check_memory(tensors[t.id], is_written=is_written)
    same = all(t == tensors[t.id] for op in graph.ops for t in (*op.inputs, *op.outputs))
    return graph if same else graph.with_tensors(tensors)


def merged_inputs(graph: Graph) -> dict[int, LogicalTensor]:
    """Tensor id -> the merged description of a graph input. Raises InvalidShape if uses disagree or the dims stay unknown."""
    merged: dict[int, LogicalTensor] = {}
    for op in graph.ops:
        for t in op.inputs:
            if t.id not in graph.producers:
                merged[t.id] = _merged(merged.get(t.id, t), t, op)
    for t in merged.values():
        if not t.has_known_shape:
            user = graph.consumers[t.id][0]
            what = f"graph input {t.id} has unknown dims {dims_text(t.shape)}"
            raise InvalidShape(what, where=user.label, fix="give the input a shape, for example with --in-shapes")
    return merged


def _merged(seen: LogicalTensor, use: LogicalTensor, op: Op) -> LogicalTensor:
    """The merged description of a graph input and a further use of it."""
    if use == seen:
        return seen
    shape = agreed(seen.shape, use.shape)
    if shape is None and seen.shape is not None and use.shape is not None:
        what = f"input {use.id} has shape {dims_text(use.shape)} here but {dims_text(seen.shape)} where it was used before"
        raise InvalidShape(what, where=op.label, fix="describe a tensor with the same shape at every use")
    described = seen if seen.strides is not None or use.strides is None else use
    properties = [t.property_type for t in (seen, use) if t.property_type is not PropertyType.undef]
    kind = PropertyType.constant if PropertyType.constant in properties else (*properties, PropertyType.undef)[0]
    return replace(described, shape=shape, property_type=kind)


def agreed(a: Shape | None, b: Shape | None) -> Shape | None:
    """The dims of two descriptions combined; None if they are incompatible, or both unknown."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x != y and UNKNOWN_DIM not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(y if x == UNKNOWN_DIM else x for x, y in zip(a, b, strict=True))


def infer_outputs(op: Op, ins: tuple[LogicalTensor, ...]) -> tuple[LogicalTensor, ...]:
    """The op's outputs with the shapes that its row infers from these inputs, whose shapes are known."""
    with within(op.label):
        ops.check_form(op.kind, op.attrs, len(ins), len(op.outputs))
        row, attrs = ops.spec(op.kind), op.full_attrs
        if row.schema.shape_attr and op.outputs[0].has_known_shape:
            attrs = attrs.updated(**{row.schema.shape_attr: op.outputs[0].known_shape})
        shapes = row.semantics.infer(attrs, tuple(t.type for t in ins))
    return tuple(_output(op, t, shapes[i] if i < len(shapes) else None) for i, t in enumerate(op.outputs))


def _output(op: Op, declared: LogicalTensor, inferred: Shape | None) -> LogicalTensor:
    shape = agreed(declared.shape, inferred)
    if shape is None and declared.shape is not None and inferred is not None:
        what = f"output {declared.id} has shape {dims_text(declared.shape)}, but its inputs give {dims_text(inferred)}"
        raise InvalidShape(what, where=op.label, fix="correct one of the shapes, or leave the output's unknown")
    if shape is None or UNKNOWN_DIM in shape:
        what = f"the shape of output {declared.id} cannot be inferred from the inputs"
        raise InvalidShape(what, where=op.label, fix="give its dims in the graph")
    with within(op.label):
        return declared if shape == declared.shape else declared.with_shape(shape, declared.strides)


def _filled(t: LogicalTensor) -> LogicalTensor:
    """With strides, and so of layout strided; layouts any and opaque are left to the library."""
    if t.layout_type in (LayoutType.any, LayoutType.opaque) or (t.strides is not None and t.layout_type is LayoutType.strided):
        return t
    return replace(t, strides=t.known_strides, layout_type=LayoutType.strided)


def dims_text(shape: Shape | None) -> str:
    """Dims for messages: `2x?x3`."""
    if shape is None:
        return "unknown"
    return "x".join("?" if d == UNKNOWN_DIM else str(d) for d in shape) or "()"
