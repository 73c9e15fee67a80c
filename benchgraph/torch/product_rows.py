"""Rows of the table: products of matrices, and attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.torch.draft import Draft, Row, Unmapped

aten = torch.ops.aten


def _addmm(d: Draft, src: LogicalTensor, mat1: LogicalTensor, mat2: LogicalTensor, beta: float, alpha: float) -> LogicalTensor:
    """beta * src + alpha * mat1 @ mat2."""
    if (beta, alpha) == (1, 1) and src.ndims == 1:
        return d.op("MatMul", mat1, mat2, src)
    product = d.op("MatMul", mat1, mat2)
    if alpha != 1:
        product = d.op("Multiply", product, d.literal(alpha))
    if beta == 0:  # src has no effect, even if it is NaN
        return product
    return d.op("Add", product, src if beta == 1 else d.op("Multiply", src, d.literal(beta)))


def _baddbmm(d: Draft, src: LogicalTensor, batch1: LogicalTensor, batch2: LogicalTensor, beta: float, alpha: float) -> LogicalTensor:
    return _addmm(d, src, batch1, batch2, beta, alpha)


def _attention(
    d: Draft,
    query: LogicalTensor,
    key: LogicalTensor,
    value: LogicalTensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: LogicalTensor | None = None,
    scale: float | None = None,
) -> tuple[LogicalTensor | None, ...]:
    """softmax(query @ key^T * scale + mask) @ value, without the logarithms of the sums. Zeros, as in eager, if all scores are -inf.

    Queries (batch, heads, rows, size) may share a head of keys and values in groups, which are then a dim of their own.
    """
    if dropout_p:
        raise Unmapped(f"dropout of {dropout_p}")
    if query.shape is None or (attn_mask is not None and not attn_mask.dtype.is_float):
        raise Unmapped("a mask that is not added")
    whole, groups = query.known_shape, key.known_shape[1:2]
    if groups != whole[1:2]:
        query, key, value = (_grouped(d, t, *groups) for t in (query, key, value))
        if attn_mask is not None and len(attn_mask.known_shape) == len(whole):
            attn_mask = _grouped(d, attn_mask, *groups)
    scores = d.op("MatMul", query, key, transpose_b=True)
    scores = d.op("Multiply", scores, d.literal(1 / math.sqrt(query.known_shape[-1]) if scale is None else scale))
    if attn_mask is not None:
        scores = d.op("Add", scores, attn_mask)
    if is_causal:
        row, column = (d.op("GenIndex", scores, axis=axis, dtype=DType.s32) for axis in (-2, -1))
        visible = d.op("GreaterEqual", row, column, dtype=DType.boolean)
        scores = d.op("Select", visible, scores, d.literal(-math.inf, scores.dtype), dtype=scores.dtype)
    found = d.op("MatMul", d.op("SoftMax", scores, axis=-1, mode="inf_as_zero"), value)
    if found.shape is not None and len(found.shape) != len(whole):
        found = d.op("StaticReshape", found, shape=(*whole[:-1], found.shape[-1]), special_zero=False)
    return found, None


def _grouped(d: Draft, t: LogicalTensor, groups: int) -> LogicalTensor:
    """(batch, heads, rows, columns) as (batch, groups, heads of a group, rows, columns); one head is for all."""
    batch, heads, *rest = t.known_shape
    shape = (batch, min(groups, heads), max(heads // groups, 1), *rest)
    return d.op("StaticReshape", t, shape=shape, special_zero=False)


PRODUCT_ROWS: Mapping[Any, Row] = {
    **dict.fromkeys((aten.mm.default, aten.bmm.default), lambda d, src, mat2: d.op("MatMul", src, mat2)),
    aten.mv.default: lambda d, src, vec: d.op("MatMul", src, vec),
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _baddbmm,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
}
