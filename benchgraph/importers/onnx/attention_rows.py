"""Rows of the table of rows.py: attention, and the rotation of its queries and keys."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.importers.onnx.draft import Draft, Node, Row, Unmapped, shape_of
from benchgraph.importers.onnx.idioms import ROTATION
from benchgraph.importers.onnx.layout_rows import reshaped

AFTER_SOFTMAX = 3  # of qk_matmul_output_mode; 0 is the scaled product
MASKED: dict[str, Any] = {"mode": "inf_as_zero"}  # a row without a visible key is 0


def _attention(d: Draft, node: Node) -> LogicalTensor:
    """softmax(query @ key^T * scale + mask) @ value. Heads are dim 1, or parts of the last of three dims."""
    q, k, v = (_heads(d, node, i) for i in range(3))
    is_flat = len(shape_of(d.tensor(node, 0))) == 3
    k, v = _with_past(d, node, 1, k), _with_past(d, node, 2, v)
    if node.has(6):
        raise Unmapped("numbers of keys that are known at run time alone")
    heads, groups = shape_of(q)[1], shape_of(k)[1]
    if heads != groups:
        q, k, v = (_grouped(d, t, groups) for t in (q, k, v))
    scores = _scores(d, node, q, k)
    hidden = _hidden(d, node, scores, shape_of(d.tensor(node, 4))[2] if node.has(4) else 0)
    weights = d.op("SoftMax", hidden, axis=-1, **({} if hidden is scores else MASKED))
    if len(node.outputs) > 3 and node.outputs[3]:
        _define_scores(d, node, scores if node.get("qk_matmul_output_mode", 0) == 0 else weights, heads)
    dst = d.op("MatMul", weights, v)
    batch, *_, rows, size = shape_of(dst)
    if heads != groups:
        dst = reshaped(d, dst, (batch, heads, rows, size))
    return reshaped(d, d.op("StaticTranspose", dst, order=(0, 2, 1, 3)), (batch, rows, heads * size)) if is_flat else dst


def _heads(d: Draft, node: Node, i: int) -> LogicalTensor:
    x = d.tensor(node, i)
    if len(shape_of(x)) == 4:
        return x
    batch, rows, size = shape_of(x)
    heads = node.get("q_num_heads" if i == 0 else "kv_num_heads")
    return d.op("StaticTranspose", reshaped(d, x, (batch, rows, heads, size // heads)), order=(0, 2, 1, 3))


def _with_past(d: Draft, node: Node, i: int, new: LogicalTensor) -> LogicalTensor:
    """Keys or values behind those of earlier calls, inputs 4 and 5; they are results 1 and 2."""
    whole = d.op("Concat", d.tensor(node, 3 + i), new, axis=2) if node.has(3 + i) else new
    _define(d, node, i, whole)
    return whole


def _grouped(d: Draft, x: LogicalTensor, groups: int) -> LogicalTensor:
    """Heads as groups that share a head of keys, and the heads of a group."""
    batch, heads, rows, size = shape_of(x)
    return reshaped(d, x, (batch, groups, heads // groups, rows, size))


def _scores(d: Draft, node: Node, q: LogicalTensor, k: LogicalTensor) -> LogicalTensor:
    scale = float(node.get("scale", 1 / sqrt(shape_of(q)[-1])))
    scores = d.op("Multiply", d.op("MatMul", q, k, transpose_b=True), d.literal(scale))
    if cap := float(node.get("softcap", 0.0)):
        if len(node.outputs) > 3 and node.outputs[3]:
            raise Unmapped("a bound of scores that are a result")
        scores = d.op("Multiply", d.op("Tanh", d.op("Multiply", scores, d.literal(1 / cap))), d.literal(cap))
    return scores


def _hidden(d: Draft, node: Node, scores: LogicalTensor, past: int) -> LogicalTensor:
    """The scores, -inf where the key is not to be seen. past: keys before the first query."""
    least = d.literal(-np.inf, scores.dtype)
    rows, columns = shape_of(scores)[-2:]
    if node.has(3):
        mask = _mask(d, node, scores)
        is_added = mask.dtype is not DType.boolean
        scores = d.op("Add", scores, mask) if is_added else d.op("Select", mask, scores, least, dtype=scores.dtype)
    visible = np.ones((rows, columns), np.bool_)
    ahead = past + np.arange(rows)[:, None] - np.arange(columns)[None, :]
    for name, distance in (("left_window_size", ahead), ("right_window_size", -ahead)):
        if (size := node.get(name, -1)) >= 0:
            visible &= distance <= size
    if node.get("is_causal", 0) and not past and rows == columns:
        row, column = (d.op("GenIndex", scores, axis=axis, dtype=DType.s32) for axis in (-2, -1))
        scores = d.op("Select", d.op("GreaterEqual", row, column, dtype=DType.boolean), scores, least, dtype=scores.dtype)
    elif node.get("is_causal", 0):
        visible &= ahead >= 0
    return scores if visible.all() else d.op("Select", d.literal(visible), scores, least, dtype=scores.dtype)


def _mask(d: Draft, node: Node, scores: LogicalTensor) -> LogicalTensor:
    """In as many dims as the scores, whose heads may be in groups."""
    mask, columns = d.tensor(node, 3), shape_of(scores)[-1]
    if (lack := columns - shape_of(mask)[-1]) > 0:
        given: Array = d.array(node, 3)
        hides: Any = False if given.dtype == np.bool_ else -np.inf
        mask = d.literal(np.pad(given, [(0, 0)] * (given.ndim - 1) + [(0, lack)], constant_values=hides))
    shape = (1,) * (4 - len(shape_of(mask))) + shape_of(mask)
    if len(shape_of(scores)) > 4:
        heads = (1, 1) if shape[1] == 1 else shape_of(scores)[1:3]
        shape = (shape[0], *heads, *shape[2:])
    if mask.id in d.data:
        return d.literal(d.data[mask.id].reshape(shape), mask.dtype)
    return reshaped(d, mask, shape)


def _define(d: Draft, node: Node, i: int, t: LogicalTensor) -> None:
    if i < len(node.outputs) and node.outputs[i]:
        d.define(node.outputs[i], t)


def _define_scores(d: Draft, node: Node, t: LogicalTensor, heads: int) -> None:
    if node.get("qk_matmul_output_mode", 0) not in (0, AFTER_SOFTMAX):
        raise Unmapped("masked scores as a result")
    batch, *_, rows, columns = shape_of(t)
    _define(d, node, 3, t if len(shape_of(t)) == 4 else reshaped(d, t, (batch, heads, rows, columns)))


# ---- rotation --------------------------------------------------------------------------------------------------------


def rotated(
    d: Draft, x: LogicalTensor, first: tuple[Array, Array], second: tuple[Array, Array], *, is_interleaved: bool = False
) -> LogicalTensor:
    """Pairs of elements of the last dim times matrices of 2 x 2. A pair is neighbours, or an element of either half.

    first, second: factors of both elements in the results. Of all dims of x, each of x's size or 1; the last is the number of pairs.
    """
    shape = shape_of(x)
    pairs = shape[-1] // 2
    if is_interleaved:  # (..., pair, 1, element) times (..., pair, result, element)
        matrices = np.stack([np.stack(first, -1), np.stack(second, -1)], -2)
        apart, axis = (*shape[:-1], pairs, 1, 2), -1
    else:  # (..., 1, element, pair) times (..., result, element, pair)
        matrices = np.stack([np.stack(first, -2), np.stack(second, -2)], -3)
        apart, axis = (*shape[:-1], 1, 2, pairs), -2
    products = d.op("Multiply", reshaped(d, x, apart), d.literal(np.ascontiguousarray(matrices)))
    return reshaped(d, d.op("ReduceSum", products, axes=(axis,), keep_dims=False), shape)


def _rotary_embedding(d: Draft, node: Node) -> LogicalTensor:
    """cos and sin by position; positions by token, or all of them in order. Heads are dim 1, or parts of the last of three dims."""
    x = d.tensor(node, 0)
    shape, is_flat = shape_of(x), len(shape_of(x)) == 3
    size = shape[2] // node.get("num_heads") if is_flat else shape[3]
    if node.get("rotary_embedding_dim", 0) not in (0, size):
        raise Unmapped("a rotation of the first elements of each head alone")
    cos, sin = d.array(node, 1), d.array(node, 2)
    if node.has(3):
        cos, sin = (a[d.array(node, 3).astype(np.int64)] for a in (cos, sin))
    if is_flat:
        x = reshaped(d, x, (*shape[:2], shape[2] // size, size))
    cos, sin = (np.expand_dims(a, 2 if is_flat else 1) for a in (cos, sin))
    turned = rotated(d, x, (cos, np.negative(sin)), (sin, cos), is_interleaved=bool(node.get("interleaved", 0)))
    return reshaped(d, turned, shape) if is_flat else turned


def _rotation(d: Draft, node: Node) -> LogicalTensor:
    """x * cos + concat(-x[half:], x[:half]) * sin."""
    cos, sin = (np.split(d.array(node, i), 2, axis=-1) for i in (1, 2))
    return rotated(d, d.tensor(node, 0), (cos[0], np.negative(sin[0])), (sin[1], cos[1]))


ATTENTION_ROWS: dict[str, Row] = {"Attention": _attention, "RotaryEmbedding": _rotary_embedding, ROTATION: _rotation}
