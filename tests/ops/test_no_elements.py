"""Every row on tensors without elements: each axis of a sample's first input in turn has size 0, and so has that axis of every other input
that it is as long as there. What the row still allows compiles, and is the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.errors import BenchgraphError
from benchgraph.graph.build import sample_graph
from benchgraph.ops import OPS, call_of
from benchgraph.ops.spec import OpSpec, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from tests.ops.samples import agrees, as_reference, filled, stored
from tests.support.table import by_row

SAMPLES_PER_ROW = 3


def emptied(sample: Sample) -> Iterator[tuple[int, Sample]]:
    first = sample.shapes[0] if sample.shapes else ()
    for axis, size in enumerate(first):
        shapes = (
            tuple(0 if i == axis and dim == size and len(shape) == len(first) else dim for i, dim in enumerate(shape))
            for shape in sample.shapes
        )
        yield axis, replace(sample, shapes=tuple(shapes))


def is_legal(row: OpSpec, sample: Sample) -> bool:
    try:
        sample_graph(row, sample)
    except BenchgraphError:
        return False
    return True


CASES = [
    (row.kind, f"{row.kind}-{i}-axis{axis}", (row, empty))
    for row in OPS.values()
    if not row.lowering.unsupported
    for i, sample in enumerate(row.testing.samples[:SAMPLES_PER_ROW])
    for axis, empty in emptied(sample)
    if is_legal(row, empty)
]


def test_most_rows_allow_empty_tensors() -> None:
    kinds = {kind for kind, _, _ in CASES}
    assert len(kinds) > len(OPS) * 0.8


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the mean of nothing
@by_row(CASES)
def test_tensors_without_elements(row: OpSpec, sample: Sample) -> None:
    call = call_of(row.kind, sample)
    ins = filled(row, call)
    (partition,) = partitions(sample_graph(row, sample), Policy.one_op_each)
    outs = [np.full(t.shape, 7).astype(t.dtype.numpy) for t in call.outs]
    compile_partition(partition).bind(stored(ins, call), outs)()
    for port, want in enumerate(row.semantics.reference(call, ins)):
        assert agrees(as_reference(outs[port], call.outs[port].dtype), want, row, call, port)
