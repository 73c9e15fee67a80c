"""Rows of the op table of torch/rows.py: convolutions, pooling, normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.torch.draft import Draft, Row, Unmapped

aten = torch.ops.aten


def _per_axis(values: int | Sequence[int], axes: int) -> Shape:
    """One number per spatial axis; in PyTorch one may stand for all."""
    given = (values,) if isinstance(values, int) else tuple(values)
    return given * axes if len(given) == 1 else given


def _pads(padding: int | Sequence[int], axes: int) -> dict[str, Any]:
    pads = _per_axis(padding, axes)
    return {"pads_begin": pads, "pads_end": pads}


def _convolution(
    d: Draft,
    input: LogicalTensor,
    weight: LogicalTensor,
    bias: LogicalTensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> LogicalTensor:
    axes = input.ndims - 2
    ins = (input, weight) if bias is None else (input, weight, bias)
    steps = {"strides": _per_axis(stride, axes), "dilations": _per_axis(dilation, axes), **_pads(padding, axes)}
    kind, own = "Convolution", dict[str, Any](weights_format="OIX")
    if transposed:
        kind, own = "ConvTranspose", {"weights_format": "IOX", "output_padding": _per_axis(output_padding, axes)}
    return d.op(kind, *ins, **steps, **own, groups=groups, data_format="NCX")


def _pooled(
    d: Draft, kind: str, src: LogicalTensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool, **attrs: Any
) -> LogicalTensor:
    """src pooled by an op of this kind with these attributes besides those of every pooling op."""
    axes = len(kernel)
    if src.ndims != axes + 2:
        raise Unmapped("an input without a batch axis")
    attrs |= {"kernel": tuple(kernel), "strides": _per_axis(stride or kernel, axes), **_pads(padding, axes)}
    return d.op(kind, src, **attrs, rounding_type="ceil" if ceil else "floor", data_format="NCX")


def _max_pool(
    d: Draft,
    src: LogicalTensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[LogicalTensor | None, ...]:
    """The second result, the indices of the maxima, is not computed."""
    dilations = _per_axis(dilation, len(kernel_size))
    return _pooled(d, "MaxPool", src, kernel_size, stride, padding, ceil_mode, dilations=dilations), None


def _avg_pool(
    d: Draft,
    src: LogicalTensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> LogicalTensor:
    if divisor_override is not None:
        raise Unmapped(f"a divisor of {divisor_override}")
    if ceil_mode and count_include_pad:
        raise Unmapped("ceil_mode with count_include_pad: windows may extend beyond the padding")
    return _pooled(d, "AvgPool", src, kernel_size, stride, padding, ceil_mode, exclude_pad=not count_include_pad)


def _adaptive_avg_pool(d: Draft, src: LogicalTensor, output_size: Sequence[int]) -> LogicalTensor:
    """Adjacent windows, if they all have the same size."""
    sizes = src.known_shape[-len(output_size) :]
    if any(not parts or size % parts for size, parts in zip(sizes, output_size, strict=True)):
        raise Unmapped(f"windows of several sizes: {tuple(output_size)} of {sizes}")
    window = [size // parts for size, parts in zip(sizes, output_size, strict=True)]
    return _avg_pool(d, src, window, window, [0], ceil_mode=False, count_include_pad=True, divisor_override=None)


def _affine(d: Draft, weight: LogicalTensor | None, bias: LogicalTensor | None, like: Shape) -> tuple[LogicalTensor, ...]:
    """gamma and beta; () without either. If one is given, the other is the neutral constant."""
    given = weight or bias
    if given is None:
        return ()
    ones, zeros = (d.literal(np.full(like, value), given.dtype) if t is None else t for t, value in ((weight, 1.0), (bias, 0.0)))
    return ones, zeros


def _layer_norm(
    d: Draft, input: LogicalTensor, normalized_shape: Sequence[int], weight: LogicalTensor | None, bias: LogicalTensor | None, eps: float
) -> tuple[LogicalTensor | None, ...]:
    """The other results, mean and reciprocal deviation, are not computed."""
    affine = _affine(d, weight, bias, tuple(normalized_shape))
    first = -len(normalized_shape)
    made = d.op("LayerNorm", input, *affine, keep_stats=False, begin_norm_axis=first, use_affine=bool(affine), epsilon=float(eps))
    return made, None, None


def _group_norm(
    d: Draft,
    input: LogicalTensor,
    weight: LogicalTensor | None,
    bias: LogicalTensor | None,
    N: int,  # noqa: N803  # PyTorch's names
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    eps: float,
) -> tuple[LogicalTensor | None, ...]:
    affine = _affine(d, weight, bias, (C,))
    made = d.op("GroupNorm", input, *affine, groups=group, keep_stats=False, use_affine=bool(affine), epsilon=float(eps), data_format="NCX")
    return made, None, None


def _batch_norm(
    d: Draft,
    input: LogicalTensor,
    weight: LogicalTensor | None,
    bias: LogicalTensor | None,
    running_mean: LogicalTensor,
    running_var: LogicalTensor,
    momentum: float,
    eps: float,
) -> tuple[LogicalTensor | None, ...]:
    shape = running_mean.known_shape
    gamma, beta = _affine(d, weight, bias, shape) or _affine(d, d.literal(np.ones(shape), running_mean.dtype), None, shape)
    made = d.op("BatchNormInference", input, gamma, beta, running_mean, running_var, epsilon=float(eps), data_format="NCX")
    return made, None, None


NN_ROWS: Mapping[Any, Row] = {
    aten.convolution.default: _convolution,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.max_pool3d_with_indices.default: _max_pool,
    aten.avg_pool2d.default: _avg_pool,
    aten.avg_pool3d.default: _avg_pool,
    aten._adaptive_avg_pool2d.default: _adaptive_avg_pool,
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
}
