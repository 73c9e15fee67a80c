"""Shapes and types by onnx's own inference: what a file declares against them, sizes of the user's that do not fit the model,
and what one node makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.errors import ParseError, Unimplemented
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import Shape
from benchgraph.graph.override import BadOverride
from benchgraph.importers.onnx.draft import Misfit, Unmapped, one_line, type_name

SMALL = 1024  # elements of an initialiser that may say sizes, as the target of a reshape; of others the inference gets the shape alone
LONGEST_VECTOR = 1 << 20  # whose elements onnx's inference may follow: it keeps each of them
IR_VERSION = 10  # of the model of one node whose sizes are inferred; any will do


def check_declared(proto: Any, onnx: Any) -> None:
    """Raise ParseError where the file says another type or shape of a value than its nodes make. What cannot be inferred is not checked."""
    try:
        graph = _inferred(_bare(proto, {}, onnx), onnx).graph
    except Exception:  # its errors have no class in common; reading the nodes tells what is wrong
        return
    found = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.output) if v.type.HasField("tensor_type")}
    outputs = {v.name for v in proto.graph.output}
    for v in (*proto.graph.value_info, *proto.graph.output):
        if v.name in found and v.type.HasField("tensor_type") and not _agree(v.type.tensor_type, found[v.name]):
            what = f"the file says {_text(v.type.tensor_type, onnx)} of it, and its nodes make {_text(found[v.name], onnx)}"
            where = f"{'output' if v.name in outputs else 'value'} {quoted(v.name)}"
            raise ParseError(what, where=where, fix="export it again, or mend what it declares")


def check_sizes(proto: Any, inputs: Mapping[str, Shape], onnx: Any, why: Unimplemented) -> None:
    """Raise BadOverride if the model's nodes do not take inputs of these shapes. why: it cannot be expressed with them."""
    if isinstance(why, Misfit):
        raise _unfit(inputs, f"{why.where}: {why.what}") from why
    try:
        _inferred(_bare(proto, inputs, onnx), onnx, is_strict=True)
    except Exception as bad:  # as above
        raise _unfit(inputs, one_line(bad)) from bad


def _inferred(bare: Any, onnx: Any, *, is_strict: bool = False) -> Any:
    """With values of sizes that are computed, unless there are vectors too long for that: onnx would keep every element of each."""
    infer = onnx.shape_inference.infer_shapes
    found = infer(bare)
    vectors = [v.type.tensor_type.shape.dim for v in (*found.graph.value_info, *found.graph.output) if v.type.HasField("tensor_type")]
    if any(len(dims) == 1 and dims[0].dim_value > LONGEST_VECTOR for dims in vectors):
        return infer(bare, strict_mode=is_strict)
    return infer(bare, strict_mode=is_strict, data_prop=True)


def _unfit(inputs: Mapping[str, Shape], why: str) -> BadOverride:
    given = ", ".join(f"{quoted(name)} of {'x'.join(map(str, shape)) or 'rank 0'}" for name, shape in inputs.items())
    fix = "give the sizes that its weights are made for"
    return BadOverride(f"the model does not take {given}: {why}", where="--in-shapes, --mb", fix=fix)


def inferred_results(
    own: Any, opset: int, onnx: Any, values: Mapping[str, tuple[int, Shape]], known: Mapping[str, Array]
) -> dict[str, Any]:
    """The types of a node's results, as protos by name, by onnx's inference of this node alone. Raises Unmapped.

    own: its proto. values: data type and shape of operands; known: those that are known, large ones by their shape alone.
    """
    helper, inputs, data, in_vectors = onnx.helper, list[Any](), list[Any](), 0
    for name, times in Counter(filter(None, own.input)).items():
        if name in known and known[name].size <= SMALL:
            data.append(onnx.numpy_helper.from_array(_wide(known[name]), name))
        else:
            data_type, shape = values[name] if name in values else (helper.np_dtype_to_tensor_dtype(known[name].dtype), known[name].shape)
            inputs.append(helper.make_tensor_value_info(name, data_type, shape))
            in_vectors += times * shape[0] if len(shape) == 1 else 0
    made = [helper.make_empty_tensor_value_info(name) for name in own.output if name]
    graph = helper.make_graph([own], "node", inputs, made, data)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(own.domain, opset)], ir_version=IR_VERSION)
    try:
        found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=in_vectors <= LONGEST_VECTOR).graph
    except Exception as bad:  # its errors have no class in common
        raise Unmapped(f"its sizes cannot be inferred: {next(iter(str(bad).splitlines()), type(bad).__name__)}") from bad
    return {v.name: v.type for v in (*found.output, *found.value_info)}


def _wide(x: Any) -> Any:
    return x.astype(np.int64) if x.dtype == np.int32 else x


def _bare(proto: Any, inputs: Mapping[str, Shape], onnx: Any) -> Any:
    """The model without its large weights and all that it declares. inputs: shapes in place of the file's."""
    bare = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import, functions=proto.functions)
    graph, helper = bare.graph, onnx.helper
    graph.name = proto.graph.name
    graph.node.extend(proto.graph.node)
    given = {v.name for v in proto.graph.input}
    for v in proto.graph.input:
        shape = inputs.get(v.name)
        graph.input.append(v if shape is None else helper.make_tensor_value_info(v.name, v.type.tensor_type.elem_type, shape))
    for t in proto.graph.initializer:
        if prod(t.dims) <= SMALL and t.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(t)
        elif t.name not in given:
            graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    for s in proto.graph.sparse_initializer:
        graph.input.append(helper.make_tensor_value_info(s.values.name, s.values.data_type, s.dims))
    graph.output.extend(helper.make_empty_tensor_value_info(v.name) for v in proto.graph.output)
    return bare


def _agree(one: Any, other: Any) -> bool:
    """Whether two types can be the same: a dim or element type that is not told fits every other."""
    if one.elem_type and other.elem_type and one.elem_type != other.elem_type:
        return False
    if not (one.HasField("shape") and other.HasField("shape")):
        return True
    pairs = zip(one.shape.dim, other.shape.dim, strict=False)
    fit = all(a.dim_value == b.dim_value for a, b in pairs if a.HasField("dim_value") and b.HasField("dim_value"))
    return len(one.shape.dim) == len(other.shape.dim) and fit


def _text(kind: Any, onnx: Any) -> str:
    """As in FLOAT[2,N,?]."""
    name = type_name(kind.elem_type, onnx)
    if not kind.HasField("shape"):
        return name
    return f"{name}[{','.join(str(d.dim_value) if d.HasField('dim_value') else d.dim_param or '?' for d in kind.shape.dim)}]"
