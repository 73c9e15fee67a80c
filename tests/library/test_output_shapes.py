"""Shapes at compile: outputs of unknown rank or dims get the shapes that the float64 reference computes, for every row of the op table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchgraph import (
    UNKNOWN_DIM,
    UNKNOWN_NDIMS,
    DType,
    Engine,
    LogicalTensor,
    Op,
    Partition,
    get_compiled_partition_cache_capacity,
    set_compiled_partition_cache_capacity,
)
from benchgraph import graph as api
from benchgraph.core.errors import InvalidShape
from benchgraph.ops import OPS, call_of
from benchgraph.ops.spec import Call, OpSpec, Sample
from benchgraph.partition import ir
from tests.library.run import built

ENGINE = Engine()
ROWS = [row for row in OPS.values() if not row.lowering.unsupported]
TOLD = ("ConvolutionBackwardWeights", "ConvTransposeBackwardWeights", "AvgPoolBackward")  # several shapes may have led to their inputs


class Described(Exception):
    """Raised in place of a compilation, with what would have been compiled: the shapes are settled by then."""

    def __init__(self, partition: ir.Partition) -> None:
        super().__init__()
        self.partition = partition


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever was compiled before, by whichever test, is not to be had from the cache."""

    def describe(partition: ir.Partition, *rest: object) -> None:
        raise Described(partition)

    monkeypatch.setattr("benchgraph.library.partition.compile_partition", describe)
    capacity = get_compiled_partition_cache_capacity()
    set_compiled_partition_cache_capacity(0)
    yield
    set_compiled_partition_cache_capacity(capacity)


def opened(t: LogicalTensor, ndims: int) -> LogicalTensor:
    return LogicalTensor.of_rank(t.id, t.dtype, ndims)


def op_of(call: Call, sample: Sample) -> Op:
    ins = [LogicalTensor(i, t.dtype, t.shape) for i, t in enumerate(call.ins)]
    outs = [LogicalTensor(100 + i, t.dtype, t.shape) for i, t in enumerate(call.outs)]
    return Op(7, call.kind, inputs=ins, outputs=outs, **sample.attrs)


def settled(op: Op, ins: list[LogicalTensor], outs: list[LogicalTensor]) -> tuple[tuple[int, ...], ...]:
    """The output shapes that compile arrives at. The graph is built with even less: no rank of anything."""
    bare = replace(op.described, inputs=tuple(opened(t, -1) for t in ins), outputs=tuple(opened(t, -1) for t in outs))
    (partition,) = built([bare]).get_partitions()
    with pytest.raises(Described) as seen:
        partition.compile(ins, outs, ENGINE)
    return tuple(t.known_shape for t in seen.value.partition.outputs)


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize("row", ROWS, ids=[row.kind for row in ROWS])
def test_unknown_ranks_and_dims_of_outputs_are_inferred(row: OpSpec) -> None:
    """From the inputs' dims alone, for every sample."""
    for sample in row.testing.samples:
        call = call_of(row.kind, sample)
        rng = np.random.default_rng(1)
        want = tuple(
            o.shape for o in row.semantics.reference(call, tuple(row.testing.domain(call, port, rng) for port in range(len(call.ins))))
        )
        op = op_of(call, sample)
        for outs in ([opened(t, UNKNOWN_NDIMS) for t in op.outputs], [opened(t, t.ndims) for t in op.outputs]):
            assert settled(op, op.inputs, outs) == want, sample
        if want[0]:
            partly = replace(op.outputs[0], shape=(UNKNOWN_DIM, *want[0][1:]))
            assert settled(op, op.inputs, [partly, *op.outputs[1:]]) == want, sample


@pytest.mark.parametrize("row", [row for row in ROWS if not row.schema.shape_attr], ids=lambda row: row.kind)
def test_a_wrong_dim_of_an_output_is_refused(row: OpSpec) -> None:
    """Not for ops that take their output's dims as told."""
    for sample in row.testing.samples:
        op = op_of(call_of(row.kind, sample), sample)
        shape = op.outputs[0].get_dims()
        if not shape:
            continue
        wrong = replace(op.outputs[0], shape=(shape[0] + 97, *shape[1:]))
        bare = replace(op.described, inputs=tuple(opened(t, -1) for t in op.inputs), outputs=tuple(opened(t, -1) for t in op.outputs))
        (partition,) = built([bare]).get_partitions()
        with pytest.raises(InvalidShape, match=rf"op 7: {row.kind}: "):
            partition.compile(op.inputs, [wrong, *op.outputs[1:]], ENGINE)


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize("kind", TOLD)
def test_dims_that_cannot_be_inferred_are_an_error_with_a_remedy(kind: str) -> None:
    """The shape comes from the attribute, or from the output; told by neither, compile says so."""
    row, sample = OPS[kind], OPS[kind].testing.samples[0]
    call = call_of(kind, sample)
    untold = op_of(call, replace(sample, attrs=sample.attrs.without(row.schema.shape_attr)))
    shape = untold.outputs[0].get_dims()
    assert settled(untold, untold.inputs, untold.outputs) == (shape,)
    (partition,) = built([replace(untold.described, outputs=(opened(untold.outputs[0], -1),))]).get_partitions()
    with pytest.raises(InvalidShape, match=rf"op 7: {kind}: .*{row.schema.shape_attr}"):
        partition.compile(untold.inputs, [opened(untold.outputs[0], -1)], ENGINE)


def test_shapes_pass_from_op_to_op_inside_a_partition() -> None:
    """The shapes between the ops of a partition are nobody's business."""
    f32 = DType.f32
    ops = (
        api.Op(0, "MatMul", inputs=(LogicalTensor(0, f32), LogicalTensor(1, f32)), outputs=(LogicalTensor(2, f32),)),
        api.Op(1, "ReLU", inputs=(LogicalTensor(2, f32),), outputs=(LogicalTensor(3, f32),)),
        api.Op(2, "MatMul", inputs=(LogicalTensor(3, f32), LogicalTensor(4, f32)), outputs=(LogicalTensor(5, f32),)),
    )
    (partition,) = built(ops).get_partitions()
    given = [LogicalTensor(i, f32, shape) for i, shape in ((0, (5, 7)), (1, (7, 3)), (4, (3, 11)))]
    compiled = partition.compile(given, [LogicalTensor(5, f32)], ENGINE)
    assert compiled.query_logical_tensor(5) == LogicalTensor(5, f32, (5, 11), (11, 1))
    assert Partition(Op(9, "ReLU", inputs=[given[0]], outputs=[LogicalTensor(9, f32)])).compile(
        [given[0]], [LogicalTensor(9, f32)], ENGINE
    ).query_logical_tensor(9).shape == (5, 7)
