"""Nodes without a row, or refused by theirs, as Wildcards that say what they compute (fallback/), so that the whole model still executes.

Sizes and types of the results are onnx's shape inference of the node alone: all sizes before it are known. What does not depend on the
model's inputs and is small becomes part of the Wildcard, as the bounds of a Slice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchgraph import fallback
from benchgraph.core.arrays import Array
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.fallback.by_onnx import evaluator
from benchgraph.fallback.function import Function, Input, Literal, Value
from benchgraph.graph.model import Fallen
from benchgraph.importers.onnx.draft import Draft, Node, Unmapped, type_name
from benchgraph.importers.onnx.inferred import inferred_results
from benchgraph.ops.structural import COMPUTES, WILDCARD

EXPORT = "export the model without it"
IDENTITY = "Identity"
DRAWS = frozenset(["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"])


def wildcard(d: Draft, node: Node, own: Any, opset: int, onnx: Any, used: Collection[str], why: str) -> None:
    """Append the Wildcard of a node, and define its results. own: the node's proto. used: names that nodes or outputs read. why: it has no
    row, or what its row refuses. Raises Unmapped, with that reason too, for what cannot be executed.
    """
    try:
        if draws(d, node):
            raise Unmapped("it draws random numbers, so that no two runs agree", fix="export the model for inference (in eval mode)")
        if tuple(own.input) != node.inputs:
            raise Unmapped("it stands for several nodes of the file, which are one op here")
        ins, inputs = _operands(d, node)
        kept = tuple(bool(name) and name in used for name in node.outputs)
        function = Function(own.op_type, opset, attributes(own, onnx), inputs, kept, own.domain if own.domain != "ai.onnx" else "")
        if fallback.row_of(function) is None:
            evaluator(function.text, tuple("" if i is None else f"i{n}" for n, i in enumerate(inputs)))
        types = _results(d, node, own, opset, onnx, kept)
    except Unimplemented as lack:
        raise Unmapped(f"{why}, and it cannot be executed by numpy either: {lack.what}", fix=lack.fix or EXPORT) from lack
    shapes, dtypes = tuple(shape for shape, _ in types), tuple(dtype for _, dtype in types)
    outs = d.b.append(WILDCARD, ins, Attrs({COMPUTES: function.text}), dtypes, d.name, shapes)
    for name, t in zip((n for n, is_kept in zip(node.outputs, kept, strict=True) if is_kept), outs, strict=True):
        d.define(name, t)
    d.fallen.append(Fallen(node.label, node.kind, why))


def draws(d: Draft, node: Node) -> bool:
    """Whether a node makes random numbers. A Dropout does in training mode, which may be known at run time alone."""
    if node.kind == "Dropout" and node.has(2):
        return not d.is_known(node.inputs[2]) or bool(d.array(node, 2).any())
    return node.kind in DRAWS


def copied(d: Draft, t: LogicalTensor, label: str, opset: int, why: str) -> LogicalTensor:
    """The Wildcard that copies a tensor which Reorder does not take. label: of what is copied; why: what Reorder refuses."""
    function = Function(IDENTITY, opset, {}, (0,))
    (made,) = d.b.append(WILDCARD, (t,), Attrs({COMPUTES: function.text}), (t.dtype,), d.name, (t.known_shape,))
    d.fallen.append(Fallen(label, IDENTITY, why))
    return made


def computed(own: Any, opset: int, onnx: Any, known: Mapping[str, Array]) -> tuple[Array, ...] | None:
    """The results of a node whose operands are known, by numpy's function; None if there is none, or it does not take them."""
    names = [name for name in own.input if name]
    places = tuple(names.index(name) if name else None for name in own.input)
    function = Function(
        own.op_type, opset, attributes(own, onnx), places, (True,) * len(own.output), own.domain if own.domain != "ai.onnx" else ""
    )
    row = fallback.row_of(function)
    try:
        found = None if row is None else row.compute(function, function.operands(tuple(known[name] for name in names)))
    except Exception:  # as numpy raises
        return None
    return found if found is None or isinstance(found, tuple) else (found,)


def attributes(own: Any, onnx: Any) -> dict[str, Value]:
    """The attributes of a node as a function has them. Raises Unmapped for graphs and for what text cannot hold."""
    return {a.name: _attribute(a, onnx) for a in own.attribute}


def _attribute(a: Any, onnx: Any) -> Value:
    value = onnx.helper.get_attribute_value(a)
    kinds = onnx.AttributeProto
    if a.type in (kinds.GRAPH, kinds.GRAPHS):
        raise Unmapped(f"its attribute {a.name} is a graph, which only onnx could run", fix="export it with control flow unrolled")
    if a.type == kinds.TENSOR:
        literal = Literal.of(onnx.numpy_helper.to_array(value))
        if literal is None:
            raise Unmapped(f"its attribute {a.name} is a large tensor", fix=EXPORT)
        return literal
    if a.type in (kinds.STRING, kinds.STRINGS):
        texts = [_text(a.name, value)] if a.type == kinds.STRING else [_text(a.name, v) for v in value]
        return texts[0] if a.type == kinds.STRING else tuple(texts)
    if a.type in (kinds.INT, kinds.FLOAT):
        found: int | float = value
        return found
    if a.type in (kinds.INTS, kinds.FLOATS):
        return tuple(value)
    raise Unmapped(f"its attribute {a.name} is of type {kinds.AttributeType.Name(a.type)}", fix=EXPORT)


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as bad:
        raise Unmapped(f"its attribute {name} is no text", fix=EXPORT) from bad


def _operands(d: Draft, node: Node) -> tuple[tuple[LogicalTensor, ...], tuple[Input, ...]]:
    """The tensors that a Wildcard reads, each once, and where the function finds its inputs."""
    tensors, inputs = dict[int, LogicalTensor](), list[Input]()
    for i, name in enumerate(node.inputs):
        literal = Literal.of(d.known[name]) if name in d.known else None
        if not name or literal is not None:
            inputs.append(literal)
            continue
        t = d.tensor(node, i)
        tensors[t.id] = t
        inputs.append(list(tensors).index(t.id))
    return tuple(tensors.values()), tuple(inputs)


def _results(d: Draft, node: Node, own: Any, opset: int, onnx: Any, kept: Sequence[bool]) -> list[tuple[Shape, DType]]:
    """Shape and dtype of each result that is kept, by onnx's shape inference. Raises Unmapped."""
    values = dict[str, tuple[int, Shape]]()
    for name in filter(None, node.inputs):
        if name not in d.known:
            t = d.named(name)
            if t.dtype not in ONNX_TYPES:
                raise Unmapped(f"its operand {name!r} is {t.dtype.value}")
            values[name] = ONNX_TYPES[t.dtype](onnx.TensorProto), t.known_shape
    found = inferred_results(own, opset, onnx, values, d.known)
    return [_described(name, found[name], onnx) for name, is_kept in zip(node.outputs, kept, strict=True) if is_kept]


def _described(name: str, kind: Any, onnx: Any) -> tuple[Shape, DType]:
    if not kind.WhichOneof("value") or (kind.HasField("tensor_type") and not kind.tensor_type.elem_type):
        raise Unmapped(f"onnx cannot tell the type of its result {name!r}", fix=EXPORT)
    if not kind.HasField("tensor_type"):
        raise Unmapped(f"its result {name!r} is no tensor", fix=EXPORT)
    dtype = dtype_of(kind.tensor_type.elem_type, onnx)
    if dtype is None:
        data_type = type_name(kind.tensor_type.elem_type, onnx)
        raise Unmapped(f"its result {name!r} is of type {data_type}, which no tensor of a graph has", fix="export it in f32")
    dims = kind.tensor_type.shape.dim
    if not kind.tensor_type.HasField("shape") or any(not dim.HasField("dim_value") for dim in dims):
        raise Unmapped(f"the size of its result {name!r} depends on the data", fix="export the model with fixed sizes")
    return tuple(dim.dim_value for dim in dims), dtype


# The graph has no integers of 64 bits: int64 values are s32 in it, and the functions of Wildcards compute with int64.
ONNX_TYPES: dict[DType, Any] = {
    DType.f32: lambda types: types.FLOAT,
    DType.f16: lambda types: types.FLOAT16,
    DType.bf16: lambda types: types.BFLOAT16,
    DType.s32: lambda types: types.INT64,
    DType.s8: lambda types: types.INT8,
    DType.u8: lambda types: types.UINT8,
    DType.boolean: lambda types: types.BOOL,
}


def dtype_of(data_type: int, onnx: Any) -> DType | None:
    """The dtype of the graph's tensors for a type of ONNX's."""
    if data_type == onnx.TensorProto.INT32:
        return DType.s32
    return next((dtype for dtype, of in ONNX_TYPES.items() if of(onnx.TensorProto) == data_type), None)
