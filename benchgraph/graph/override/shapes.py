"""Dims and layouts of graph inputs and outputs (--in-shapes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.core.remarks import remark
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.graph.override.draft import Draft, settle
from benchgraph.graph.override.layout import NewShape


def row_major(graph: Graph) -> Graph:
    """The graph with layouts any (the library's choice) and opaque (another library's) replaced by row-major."""
    foreign = [t for t in graph.tensors.values() if t.layout_type in (LayoutType.any, LayoutType.opaque)]
    changed = {t.id: replace(t, layout_type=LayoutType.strided, strides=None, layout_id=0) for t in foreign}
    return graph.with_tensors(changed) if changed else graph


def with_shapes(graph: Graph, shapes: Mapping[int, NewShape]) -> Graph:
    """The graph with these inputs and outputs changed, by tensor id, and all other shapes inferred again.

    An input without a layout becomes row-major. The dims of an output must be the inferred ones; only its layout can be chosen, or its
    shape if the op's output shape is free (gradients of convolution weights). An id that the graph does not have is ignored with a remark,
    since batch files written for benchdnn have such ids. Raises InvalidArguments for an id inside the graph, and for a layout that does not
    fit the dims.
    """
    return settle(set_shapes(Draft(graph), shapes))


def set_shapes(draft: Draft, shapes: Mapping[int, NewShape]) -> Draft:
    graph = draft.graph
    inputs, outputs = {t.id: t for t in graph.inputs}, {t.id: t for t in graph.outputs}
    for id in shapes:
        if id in inputs or id in outputs:
            continue
        if id in graph.tensors:
            what = "it is computed inside the graph, so its shape follows from others"
            raise InvalidArguments(what, where=f"tensor {id}", fix=f"set inputs ({_ids(inputs)}) or outputs ({_ids(outputs)})")
        remark(f"--in-shapes: there is no tensor {id}: ignored, as benchdnn does; inputs are {_ids(inputs)}, outputs {_ids(outputs)}")
    new = {id: _changed(inputs[id], change) for id, change in shapes.items() if id in inputs}
    new_outputs = {id: change for id, change in shapes.items() if id in outputs and id not in inputs}
    return replace(draft, inputs={**draft.inputs, **new}, outputs={**draft.outputs, **new_outputs}, relaid=draft.relaid or bool(shapes))


def _ids(tensors: Mapping[int, LogicalTensor]) -> str:
    return ", ".join(map(str, sorted(tensors)))


def _changed(t: LogicalTensor, change: NewShape) -> LogicalTensor:
    """The changed input."""
    if change.dims is None and not t.has_known_shape:
        raise InvalidArguments("a layout without dims, which the graph leaves open", where=f"tensor {t.id}", fix="give the dims too")
    dims = t.known_shape if change.dims is None else change.dims
    try:
        return replace(t, shape=dims, strides=change.strides_of(t.id, dims), layout_type=LayoutType.strided)
    except BenchgraphError as bad:
        raise bad if bad.where else bad.inside(f"tensor {t.id}") from bad
