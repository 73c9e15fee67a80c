"""Rows of the table of rows.py: convolutions, pooling, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.importers.onnx.draft import Draft, Node, Row, Unmapped, axes_of, shape_of
from benchgraph.importers.onnx.quantised_rows import BYTES, convolution_of_integers, qlinear_convolution

AS_IT_IS: dict[str, Any] = {"scales": (1.0,), "qtype": "per_tensor"}
LEAST_DEVIATION = 1e-9  # of MeanVarianceNormalization
NO_AUTO_PAD = b"NOTSET"  # oneDNN Graph's is None; the others are spelt alike


def _windows(node: Node, axes: int) -> dict[str, Any]:
    """strides, pads, dilations and auto_pad, which are spelt alike by ONNX and oneDNN Graph."""
    auto_pad = node.get("auto_pad", NO_AUTO_PAD)
    pads = tuple(node.get("pads", (0,) * 2 * axes))
    return {
        "strides": tuple(node.get("strides", (1,) * axes)),
        "pads_begin": pads[:axes],
        "pads_end": pads[axes:],
        "dilations": tuple(node.get("dilations", (1,) * axes)),
        "auto_pad": "None" if auto_pad == NO_AUTO_PAD else auto_pad.decode(),
        "data_format": "NCX",
    }


def _convolution(d: Draft, node: Node) -> LogicalTensor:
    ins = d.tensors(node)
    attrs = _windows(node, len(shape_of(ins[0])) - 2)
    return d.op("Convolution", *ins, **attrs, groups=node.get("group", 1), weights_format="OIX")


def _transposed_convolution(d: Draft, node: Node) -> LogicalTensor:
    ins = d.tensors(node)
    axes = len(shape_of(ins[0])) - 2
    added = tuple(node.get("output_padding", (0,) * axes))
    attrs = _windows(node, axes)
    if "output_shape" in node.attrs:
        attrs |= _pads_of_result(node, shape_of(ins[0])[2:], shape_of(ins[1])[2:], attrs, added)
    return d.op("ConvTranspose", *ins, **attrs, output_padding=added, groups=node.get("group", 1), weights_format="IOX")


def _pads_of_result(node: Node, sizes: Shape, kernel: Shape, attrs: dict[str, Any], added: Shape) -> dict[str, Any]:
    """The padding that makes the result as large as the attribute output_shape says; the odd one is at the begin, unless SAME_UPPER."""
    begin, end = list[int](), list[int]()
    for i, size in enumerate(node.get("output_shape")[-len(sizes) :]):
        whole = attrs["strides"][i] * (sizes[i] - 1) + added[i] + (kernel[i] - 1) * attrs["dilations"][i] + 1
        if whole < size:
            raise Unmapped(f"a result of {size} along axis {i + 2}, where its windows make {whole}")
        half = (whole - size) // 2
        less, more = half, whole - size - half
        begin.append(less if attrs["auto_pad"] == "SAME_UPPER" else more)
        end.append(more if attrs["auto_pad"] == "SAME_UPPER" else less)
    return {"pads_begin": tuple(begin), "pads_end": tuple(end), "auto_pad": "None"}


def _max_pool(d: Draft, node: Node) -> LogicalTensor:
    """The second result, the indices of the maxima, has no op."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Unmapped("the indices of the maxima are a result")
    return _pooled(d, node, "MaxPool", _windows(node, len(node.get("kernel_shape"))))


def _average_pool(d: Draft, node: Node) -> LogicalTensor:
    attrs = _windows(node, len(node.get("kernel_shape")))
    includes = bool(node.get("count_include_pad", 0))
    if set(attrs.pop("dilations")) != {1}:
        raise Unmapped("dilations of an average")
    if includes and node.get("ceil_mode", 0):
        raise Unmapped("ceil_mode with count_include_pad: windows may reach beyond the padding")
    return _pooled(d, node, "AvgPool", attrs, exclude_pad=not includes)


def _pooled(d: Draft, node: Node, kind: str, attrs: dict[str, Any], **own: Any) -> LogicalTensor:
    x, kernel = d.tensor(node, 0), tuple(node.get("kernel_shape"))
    if x.dtype in BYTES:  # floats hold them all
        floats = d.op("Dequantize", x, dtype=DType.f32, **AS_IT_IS)
        return d.op("Quantize", _pooled_floats(d, node, floats, kernel, kind, attrs, **own), dtype=x.dtype, **AS_IT_IS)
    return _pooled_floats(d, node, x, kernel, kind, attrs, **own)


def _pooled_floats(d: Draft, node: Node, x: LogicalTensor, kernel: Shape, kind: str, attrs: dict[str, Any], **own: Any) -> LogicalTensor:
    if node.get("ceil_mode", 0) and attrs["auto_pad"] == "None":
        attrs["pads_end"] = _ceiled(shape_of(x)[2:], kernel, attrs)
    return d.op(kind, x, **attrs, **own, kernel=kernel)


def _ceiled(sizes: Shape, kernel: Shape, attrs: dict[str, Any]) -> Shape:
    """Padding behind that makes room for a last window that is not whole, unless it would begin behind the input: ONNX leaves that out."""
    pads = list(attrs["pads_end"])
    dilations = attrs.get("dilations", (1,) * len(sizes))
    for i, (size, taps, step, dilation) in enumerate(zip(sizes, kernel, attrs["strides"], dilations, strict=True)):
        window, front = (taps - 1) * dilation + 1, attrs["pads_begin"][i]
        begin = ((size + front + pads[i] - window) // step + 1) * step  # of the window behind the last whole one
        if begin < size + front and (size + front + pads[i] - window) % step:
            pads[i] = begin + window - size - front
    return tuple(pads)


def global_pool(kind: str) -> Row:
    def row(d: Draft, node: Node) -> LogicalTensor:
        x = d.tensor(node, 0)
        return d.op(kind, x, axes=tuple(range(2, len(shape_of(x)))), keep_dims=True)

    return row


def _batch_norm(d: Draft, node: Node) -> LogicalTensor:
    if node.get("training_mode", 0):
        raise Unmapped("training mode")
    x, *statistics = d.tensor(node, 0), *(d.statistics(node, i) for i in range(1, 5))
    return d.op("BatchNormInference", x, *statistics, epsilon=float(node.get("epsilon", 1e-5)), data_format="NCX")


def _layer_norm(d: Draft, node: Node) -> LogicalTensor:
    x, affine = d.tensor(node, 0), [d.statistics(node, i) for i in (1, 2) if node.has(i)]
    begin = _begin(node, shape_of(x))
    if any(node.outputs[1:]):
        _define_statistics(d, node, x, begin)
    normed = shape_of(x)[begin:]
    if any(shape_of(t) != normed for t in affine):
        raise Unmapped(f"scale or bias of another shape than {normed}, that of what is normalised")
    if len(affine) == 1:
        affine.append(d.literal(np.zeros(normed), affine[0].dtype))
    attrs = {"begin_norm_axis": begin, "epsilon": float(node.get("epsilon", 1e-5)), "keep_stats": False}
    return d.op("LayerNorm", x, *affine, **attrs, use_affine=bool(affine))


def _define_statistics(d: Draft, node: Node, x: LogicalTensor, begin: int) -> None:
    """The other results: the mean, and the reciprocal of the deviation. They are f32."""
    x = d.cast(x, DType.f32)
    axes = tuple(range(begin, len(shape_of(x))))
    mean = d.op("ReduceMean", x, axes=axes, keep_dims=True)
    variance = d.op("ReduceMean", d.op("SquaredDifference", x, mean), axes=axes, keep_dims=True)
    deviation = d.op("Sqrt", d.op("Add", variance, d.literal(float(node.get("epsilon", 1e-5)))))
    for name, t in zip(node.outputs[1:], (mean, d.op("Reciprocal", deviation)), strict=False):
        d.define(name, t)


def _rms_norm(d: Draft, node: Node) -> LogicalTensor:
    x, gamma = d.tensors(node)
    begin = _begin(node, shape_of(x))
    if shape_of(gamma) != shape_of(x)[begin:]:
        raise Unmapped("a scale of another shape than that of what is normalised")
    return d.op("RMSNorm", x, gamma, begin_norm_axis=begin, epsilon=float(node.get("epsilon", 1e-5)))


def _begin(node: Node, shape: Shape) -> int:
    return axes_of((node.get("axis", -1),), len(shape))[0]


def _mean_variance_norm(d: Draft, node: Node) -> LogicalTensor:
    """(x - mean) / (deviation + 1e-9), along the axes."""
    x = d.tensor(node, 0)
    axes = axes_of(node.get("axes", (0, 2, 3)), len(shape_of(x)))
    centred = d.op("Subtract", x, d.op("ReduceMean", x, axes=axes, keep_dims=True))
    deviation = d.op("Sqrt", d.op("ReduceMean", d.op("Square", centred), axes=axes, keep_dims=True))
    return d.op("Divide", centred, d.op("Add", deviation, d.literal(LEAST_DEVIATION)))


def _instance_norm(d: Draft, node: Node) -> LogicalTensor:
    """Groups of one channel."""
    x, gamma, beta = d.tensor(node, 0), d.statistics(node, 1), d.statistics(node, 2)
    return _grouped(d, node, (x, gamma, beta), shape_of(x)[1])


def _group_norm(d: Draft, node: Node) -> LogicalTensor:
    """Since opset 21 scale and bias are by channel."""
    x, gamma, beta = d.tensor(node, 0), d.statistics(node, 1), d.statistics(node, 2)
    if shape_of(gamma) != shape_of(x)[1:2]:
        raise Unmapped("scale and bias by group, as before opset 21")
    return _grouped(d, node, (x, gamma, beta), node.get("num_groups"))


def _grouped(d: Draft, node: Node, ins: tuple[LogicalTensor, ...], groups: int) -> LogicalTensor:
    attrs = {"epsilon": float(node.get("epsilon", 1e-5)), "keep_stats": False, "use_affine": True, "data_format": "NCX"}
    return d.op("GroupNorm", *ins, groups=groups, **attrs)


NN_ROWS: dict[str, Row] = {
    "Conv": _convolution,
    "ConvInteger": convolution_of_integers(_convolution),
    "QLinearConv": qlinear_convolution(_convolution),
    "ConvTranspose": _transposed_convolution,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": global_pool("ReduceMean"),
    "GlobalMaxPool": global_pool("ReduceMax"),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
}
