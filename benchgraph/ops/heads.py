"""Heads of attention in two layouts: merged in the columns of a matrix, [*B, M, H * n], and split, [*B, H, M, n]."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops.spec import Decomposer, Indices
from benchgraph.ops.steps import reshaped
from benchgraph.tir.build import add, mul
from benchgraph.tir.ir import Const, Var


def any_element(shape: Shape) -> Indices:
    """The index of any element of a tensor, 0 along dims of size 1."""
    return tuple(Const(0) if extent == 1 else Var(f"${dim}") for dim, extent in enumerate(shape))


def merged_index(shape: Shape) -> Indices:
    """The index in [*B, M, H * n] of that element of [*B, H, M, n]."""
    *batch, h, m, j = any_element(shape)
    return (*batch, m, add(mul(h, shape[-1]), j))


def split_head_axis(d: Decomposer, value: int, heads: int) -> int:
    """[*B, M, H * n] as [*B, H, M, n]."""
    *batch, m, columns = d.type(value).shape
    return _swapped(d, reshaped(d, value, (*batch, m, heads, columns // heads)))


def merge_head_axis(d: Decomposer, value: int) -> int:
    """[*B, H, M, n] as [*B, M, H * n]."""
    *batch, heads, m, n = d.type(value).shape
    return reshaped(d, _swapped(d, value), (*batch, m, heads * n))


def broadcast_over_heads(d: Decomposer, value: int) -> int:
    """[*B, M, K], the same for all heads, as [*B, 1, M, K]."""
    *batch, m, k = d.type(value).shape
    return reshaped(d, value, (*batch, 1, m, k))


def _swapped(d: Decomposer, value: int) -> int:
    """The two dims before the last one exchanged."""
    rank = len(d.type(value).shape)
    return d.op("StaticTranspose", value, attrs=Attrs(order=(*range(rank - 3), rank - 2, rank - 3, rank - 1)))
