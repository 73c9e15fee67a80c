"""Floats that graphs make of quantised operands."""

from __future__ import annotations

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder


def quantised(b: GraphBuilder, x: LogicalTensor, scale: float, zp: int) -> LogicalTensor:
    """Dequantised with one scale and one zero point."""
    return b.op("Dequantize", x, scales=[scale], zps=[zp], qtype="per_tensor")


def per_column(b: GraphBuilder, wei: LogicalTensor, n: int, zp: int = 0) -> LogicalTensor:
    """A matrix of n columns, dequantised with a scale for each."""
    return b.op("Dequantize", wei, scales=[0.5 + i for i in range(n)], zps=[zp] * n, qtype="per_channel", axis=1)
