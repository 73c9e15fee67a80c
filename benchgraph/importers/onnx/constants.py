"""Arrays of the model that are known beforehand: initialisers, sparse ones too, and what nodes make of them, if there is room for it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.errors import OutOfMemory, ParseError, within
from benchgraph.importers.onnx.draft import MORE_MEMORY, Node, Unmapped, need_room, one_line, type_name
from benchgraph.importers.onnx.inferred import inferred_results
from benchgraph.importers.onnx.wildcards import computed

AGAIN = "export it again"
SPARSE = "sparse_value"  # attribute of a Constant


def initialisers(graph: Any, onnx: Any) -> dict[str, Array]:
    """By name. Raises ParseError for data that are not of their type and sizes, OutOfMemory for sparse ones that are too large."""
    return {t.name: _array(t, onnx) for t in graph.initializer} | {
        s.values.name: _dense(s, f"initialiser {s.values.name!r}", onnx) for s in graph.sparse_initializer
    }


def _array(t: Any, onnx: Any) -> Array:
    with within(f"initialiser {t.name!r}"):
        if t.data_type not in onnx.TensorProto.DataType.values():
            raise ParseError(f"its type is {type_name(t.data_type, onnx)}, which ONNX does not have", fix=AGAIN)
        try:
            return np.asarray(onnx.numpy_helper.to_array(t))
        except Exception as bad:  # as numpy and protobuf raise
            raise ParseError(f"no data of its sizes: {one_line(bad)}", fix=AGAIN) from bad


def _dense(sparse: Any, where: str, onnx: Any) -> Array:
    """All elements of a sparse tensor: indices are those of the flat array, or a row of coordinates for each value."""
    with within(where):
        if onnx.TensorProto.EXTERNAL in (sparse.values.data_location, sparse.indices.data_location):
            raise Unmapped("it is sparse, with data in a file of its own", fix="save the model with its data inside")
        values, indices = _array(sparse.values, onnx), _array(sparse.indices, onnx)
        need_room(prod(sparse.dims) * values.itemsize)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        try:
            dense[np.unravel_index(indices.astype(np.int64), dense.shape) if indices.ndim == 1 else tuple(indices.T)] = values
        except (ValueError, IndexError) as bad:
            raise ParseError(f"its indices are not those of its sizes: {one_line(bad)}", fix=AGAIN) from bad
        return dense


def results(node: Node, own: Any, opset: int, onnx: Any, known: Mapping[str, Array]) -> dict[str, Array]:
    """Those of a node whose inputs are known, by name. own: its proto. Raises Unmapped where neither onnx's reference nor numpy's function
    can compute them (the former fails at GatherElements of more than 32 elements), OutOfMemory where they do not fit into memory.
    """
    with within(node.label):
        if node.kind == "Constant" and SPARSE in node.attrs:
            return {node.outputs[0]: _dense(node.attrs[SPARSE], SPARSE, onnx)}
        need_room(_bytes(own, opset, onnx, known))
        try:
            run = onnx.reference.ReferenceEvaluator(own, opsets={"": opset})
            found = run.run(None, {name: known[name] for name in node.inputs if name})
        except MemoryError as bad:
            raise OutOfMemory(f"not enough RAM: {one_line(bad)}", fix=MORE_MEMORY) from bad
        except Exception as bad:  # whatever its numpy code raises
            found = computed(own, opset, onnx, known)
            if found is None:
                raise Unmapped(f"it cannot be computed beforehand: {one_line(bad)}") from bad
        return {name: np.asarray(x) for name, x in zip(node.outputs, found, strict=False) if name}


def _bytes(own: Any, opset: int, onnx: Any, known: Mapping[str, Array]) -> int:
    """Of the results, as far as onnx's inference tells their sizes."""
    try:
        types = inferred_results(own, opset, onnx, {}, known)
    except Unmapped:
        return 0
    kinds = [kind.tensor_type for kind in types.values() if kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")]
    return sum(prod(dim.dim_value for dim in kind.shape.dim) * _itemsize(kind.elem_type, onnx) for kind in kinds)


def _itemsize(data_type: int, onnx: Any) -> int:
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
    except (KeyError, ValueError, TypeError):  # of strings, and of types that ONNX does not have
        return 1
