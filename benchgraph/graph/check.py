"""Checks that a graph is legal: ids, producers, order, one dtype per tensor, every op."""

from __future__ import annotations

from dataclasses import replace

from benchgraph import ops
from benchgraph.core.errors import InvalidDataType, InvalidGraph, InvalidShape, within
from benchgraph.core.printable import listed
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType, Shape
from benchgraph.graph.infer import agreed, dims_text, infer_shapes
from benchgraph.graph.ir import Graph, Op


def check(graph: Graph) -> None:
    """Raise for an inconsistent graph (`check_consistent`), and for an op that its row does not allow. Shapes may be unknown."""
    check_consistent(graph)
    for op in graph.ops:
        check_one(op)


def check_consistent(graph: Graph) -> None:
    """Raise for errors that no change of ops can correct: a duplicate op id, a tensor with two producers, a cycle, ports that do not exist,
    and incompatible descriptions of a tensor by two ops (`_contradiction`).
    """
    graph.check_ids()
    _ = graph.producers, graph.order  # each raises InvalidGraph if it cannot be computed
    _check_ports(graph)
    _check_views(graph)


def validate(graph: Graph) -> Graph:
    """`check`, then infer every shape, as partitioning and compilation need."""
    check(graph)
    return infer_shapes(graph)


def _check_ports(graph: Graph) -> None:
    """Ports must be tensors of the graph, and input ports must have no producer in it.

    If op ids of a dump have gaps, an op was removed, as in some of oneDNN's own inputs, and its output may still be listed.
    """
    for key, ports in (("input_ports", graph.input_ports), ("output_ports", graph.output_ports)):
        for port in dict.fromkeys(ports or ()):
            if port in graph.tensors:
                if key == "input_ports" and port in graph.producers:
                    what = f"{key} has tensor {port}, which op {graph.producers[port].id} produces"
                    raise InvalidGraph(what, fix="leave it out, or take the op out")
                continue
            known = [t.id for t in (graph.inputs if key == "input_ports" else graph.outputs)]
            what, fix = f"{key} has tensor {port}, which no op has", f"name tensors of the graph, such as {listed(known)}"
            ids = [op.id for op in graph.ops]
            if key == "input_ports" or max(ids) - min(ids) < len(ids):
                raise InvalidGraph(what, fix=fix)


def _check_views(graph: Graph) -> None:
    """Producers first: consumers must agree with them, and with each other on what producers leave open."""
    known: dict[int, tuple[LogicalTensor, Op]] = {}
    uses = [(op, t, False) for op in graph.ops for t in op.outputs] + [(op, t, True) for op in graph.ops for t in op.inputs]
    for op, t, is_read in uses:
        if t.id not in known:
            known[t.id] = t, op
            continue
        first, where = known[t.id]
        is_broadcast = is_read and op.full_attrs.get("auto_broadcast") == "numpy" and any(out.shape == first.shape for out in op.outputs)
        difference = _contradiction(first, t, spread=is_broadcast)
        if difference is not None:
            name, here, there = difference
            what = f"tensor {t.id} {'is' if name == 'dtype' else f'has {name}'} {here} here but {there} in {where.label}"
            kind = InvalidDataType if name == "dtype" else InvalidShape if name == "shape" else InvalidGraph
            raise kind(what, where=op.label, fix=f"describe a tensor with the same {name} at every use")
        both = _both(first, t)
        known[t.id] = both, where if both == first else op


def _contradiction(a: LogicalTensor, b: LogicalTensor, *, spread: bool) -> tuple[str, str, str] | None:
    """A property in which two descriptions of a tensor are incompatible: its name, b's value, a's value. None if they are compatible.

    Unknown dims and strides agree with any, a stride of a dim of 1 is ignored, and layouts undef, any and opaque have no strides. A
    property may be missing on one side, and constant and variable may be mixed; but a host scalar has no memory. spread: b describes a
    broadcast of a, with dims of 1 where a has more.
    """
    if a.dtype is not b.dtype:
        return "dtype", b.dtype.value, a.dtype.value
    if spread and _broadcasts_to(b.shape, a.shape):
        return None
    shape = agreed(a.shape, b.shape)
    if shape is None and a.shape is not None and b.shape is not None:
        return "shape", dims_text(b.shape), dims_text(a.shape)
    if a.is_host_scalar != b.is_host_scalar and PropertyType.undef not in (a.property_type, b.property_type):
        return "property", b.property_type.value, a.property_type.value
    if a.layout_type is b.layout_type is LayoutType.opaque and a.layout_id != b.layout_id:
        return "layout id", str(b.layout_id), str(a.layout_id)
    if shape is None or a.strides is None or b.strides is None or 0 in shape:
        return None
    if any(x != y and d != 1 for x, y, d in zip(a.strides, b.strides, shape, strict=True)):
        return "strides", dims_text(b.strides), dims_text(a.strides)
    return None


def _broadcasts_to(part: Shape | None, full: Shape | None) -> bool:
    is_known = part is not None and full is not None and len(part) == len(full)
    return is_known and all(d in (1, size) for d, size in zip(part or (), full or (), strict=True))


def _both(a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
    """The combination of two compatible descriptions."""
    shape = agreed(a.shape, b.shape)
    if shape is None:
        return a
    strides = a.strides if a.strides is not None else b.strides
    kind = b.property_type if a.property_type is PropertyType.undef else a.property_type
    return replace(a, shape=shape, strides=strides, property_type=kind)


def check_one(op: Op) -> None:
    """Raise the errors of the op's row, naming the op."""
    with within(op.label):
        ops.check_op(op.kind, op.attrs, tuple((t.dtype, t.shape) for t in op.inputs), tuple(t.dtype for t in op.outputs))
