"""A partition whose executable has constants to compute, a literal table and a chain of post-ops, and its result."""

from __future__ import annotations

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Executable


def partition(columns: int = 40, negative: float = 0.5) -> Partition:
    """A product with a constant weight (so there is an init), a table (so there is a literal), and a chain."""
    b = GraphBuilder()
    product = b.op("MatMul", b.input((6, 24)), b.constant((24, columns)))
    quantised = b.op(
        "Quantize",
        b.op("LeakyReLU", product, alpha=negative),
        dtype=DType.u8,
        scales=[0.1] * columns,
        zps=[3] * columns,
        qtype="per_channel",
    )
    b.op("Dequantize", quantised, scales=[0.1] * columns, zps=[3] * columns, qtype="per_channel", axis=1)
    (found,) = partitions(b.graph(), Policy.fused)
    return found


def result(e: Executable, p: Partition) -> np.ndarray:
    rng = np.random.default_rng(1)
    ins = [rng.standard_normal(t.known_shape).astype(np.float32) for t in p.inputs]
    out = np.full(p.outputs[0].known_shape, np.nan, np.float32)
    e.bind(ins, [out])()
    return out
