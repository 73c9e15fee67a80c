"""One op through the whole compiler, on arrays."""

from __future__ import annotations

import numpy as np

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions


def compiled(kind: str, attrs: Attrs, *srcs: Array) -> Reals:
    """dst of an op on f32 inputs, as float64."""
    b = GraphBuilder()
    b.append(kind, tuple(b.input(src.shape) for src in srcs), attrs)
    (p,) = partitions(b.graph(), Policy.one_op_each)
    dst = np.full(p.outputs[0].known_shape, np.nan, np.float32)
    compile_partition(p).bind([np.ascontiguousarray(src, np.float32) for src in srcs], [dst])()
    return dst.astype(np.float64)
