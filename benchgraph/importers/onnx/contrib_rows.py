"""Rows of the table of rows.py: ops of the domain com.microsoft, which ONNX Runtime and its tools write."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchgraph.core.tensor import LogicalTensor
from benchgraph.importers.onnx.draft import Draft, Node, Row, Unmapped, shape_of


def gelu(mode: str) -> Row:
    """Of an input and a bias, if there is one."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        x, *bias = d.tensors(node)
        return d.op("GELU", d.op("Add", x, bias[0]) if bias else x, mode=mode)

    return row


def _quick_gelu(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    return d.op("Multiply", x, d.op("Sigmoid", d.op("Multiply", x, d.literal(float(node.get("alpha", 1.702))))))


def _fused_matmul(d: Draft, node: Node) -> LogicalTensor:
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        raise Unmapped("batch dims that are transposed")
    turned = {f"transpose_{x.lower()}": bool(node.get(f"trans{x}", 0)) for x in "AB"}
    product, alpha = d.op("MatMul", *d.tensors(node), **turned), float(node.get("alpha", 1.0))
    return product if alpha == 1 else d.op("Multiply", product, d.literal(alpha))


def _skipped(d: Draft, node: Node, bias: int) -> LogicalTensor:
    """The sum that is normalised, result 3. bias: the input that is added to it."""
    if any(node.outputs[1:3]):
        raise Unmapped("statistics as results")
    total = d.op("Add", d.tensor(node, 0), d.tensor(node, 1))
    total = d.op("Add", total, d.tensor(node, bias)) if node.has(bias) else total
    if len(node.outputs) > 3 and node.outputs[3]:
        d.define(node.outputs[3], total)
    return total


def _skip_layer_norm(d: Draft, node: Node) -> LogicalTensor:
    total, gamma = _skipped(d, node, bias=4), d.statistics(node, 2)
    beta = d.statistics(node, 3) if node.has(3) else d.literal(np.zeros(shape_of(gamma), np.float32))
    attrs: dict[str, Any] = {"begin_norm_axis": -1, "epsilon": float(node.get("epsilon", 1e-12)), "keep_stats": False}
    return d.op("LayerNorm", total, gamma, beta, **attrs, use_affine=True)


def _skip_rms_norm(d: Draft, node: Node) -> LogicalTensor:
    total = _skipped(d, node, bias=3)
    return d.op("RMSNorm", total, d.tensor(node, 2), begin_norm_axis=-1, epsilon=float(node.get("epsilon", 1e-12)))


CONTRIB_ROWS: dict[str, Row] = {
    "com.microsoft.Gelu": gelu("gelu_erf"),
    "com.microsoft.BiasGelu": gelu("gelu_erf"),
    "com.microsoft.FastGelu": gelu("gelu_tanh"),
    "com.microsoft.QuickGelu": _quick_gelu,
    "com.microsoft.FusedMatMul": _fused_matmul,
    "com.microsoft.SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_rms_norm,
}
