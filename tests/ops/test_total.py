"""Sums of bytes are exact, also beyond the exact integers of f32."""

from __future__ import annotations

import numpy as np

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import INTERNAL
from benchgraph.ops.quantisation.quantised_product import TOTAL
from benchgraph.ops.spec import Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from tests.ops.samples import graph_of


def test_an_odd_total_beyond_the_exact_integers_of_f32() -> None:
    count = 70001  # times 255 is odd, and more than 2**24
    graph = graph_of(INTERNAL[TOTAL], Sample(((count,),), Attrs(axes=(0,), keep_dims=True), (DType.u8,), (DType.s32,)))
    (partition,) = partitions(graph, Policy.one_op_each)
    dst = np.zeros(1, np.int32)
    compile_partition(partition).bind([np.full(count, 255, np.uint8)], [dst])()
    assert dst.tolist() == [255 * count]
