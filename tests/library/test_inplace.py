"""In-place port pairs: results are right whether a reported pair is used or not."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph import Engine, Graph, LogicalTensor, Op, Stream, Tensor
from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.harness.buffers import load_inputs
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.fill import fill
from benchgraph.runtime.executable import Executable
from tests.support.lowering_graphs import GRAPHS

ENGINE = Engine()
SRC, WEI, RES = LogicalTensor(0, DType.f32, (70, 64)), LogicalTensor(1, DType.f32, (64, 64)), LogicalTensor(2, DType.f32, (70, 64))
ACC, DST = LogicalTensor(3, DType.f32), LogicalTensor(4, DType.f32, (70, 64))
MATMUL, ADD = Op(10, "MatMul", inputs=(SRC, WEI), outputs=(ACC,)), Op(11, "Add", inputs=(ACC, RES), outputs=(DST,))


def compiled(*ops: Op) -> CompiledPartition:
    g = Graph()
    for op in ops:
        g.add_op(op)
    g.finalize()
    (partition,) = g.get_partitions()
    return partition.compile(partition.input_ports, partition.output_ports, ENGINE)


def data(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, np.float32) - 0.5


def test_the_other_operand_of_a_post_op_may_be_overwritten() -> None:
    """And src, where a task has all columns of its rows in hand before it writes any: not where there are several panels of them."""
    for rows, columns, pairs in ((70, 16, ((0, 4), (2, 4))), (7, 256, ((2, 4),))):
        src, wei, res, dst = (LogicalTensor(i, DType.f32, (rows if i != 1 else columns, columns)) for i in (0, 1, 2, 4))
        matmul, add = Op(10, "MatMul", inputs=(src, wei), outputs=(ACC,)), Op(11, "Add", inputs=(ACC, res), outputs=(dst,))
        assert compiled(matmul, add).get_inplace_ports() == pairs


def test_both_ways_of_execution_agree() -> None:
    c, stream = compiled(MATMUL, ADD), Stream(ENGINE)
    src, wei = Tensor(SRC, ENGINE, data(0, 70, 64)), Tensor(WEI, ENGINE, data(1, 64, 64))
    alone, shared = Tensor(RES, ENGINE, data(2, 70, 64)), Tensor(RES, ENGINE, data(2, 70, 64))
    dst = Tensor(DST, ENGINE)
    c.execute(stream, [src, wei, alone], [dst])
    c.execute(stream, [src, wei, shared], [Tensor(DST, ENGINE, shared.array)])
    np.testing.assert_array_equal(shared.array, dst.array)
    np.testing.assert_array_equal(alone.array, data(2, 70, 64))


def test_a_constant_is_not_for_overwriting() -> None:
    """Later executions read it again."""
    bias = LogicalTensor(2, DType.f32, (70, 64), property_type=PropertyType.constant)
    add = Op(12, "Add", inputs=(SRC, bias), outputs=(DST,))
    assert compiled(add).get_inplace_ports() == ((0, 4),)


def test_other_overlaps_are_refused_by_the_tensors_ids() -> None:
    c, square = compiled(MATMUL, ADD), data(0, 70, 64)
    memory = np.zeros((71, 64), np.float32)
    wei, over = Tensor(WEI, ENGINE, data(1, 64, 64)), Tensor(WEI, ENGINE, square[:64])
    with pytest.raises(InvalidArguments, match=r"output 0 \(tensor 4\): it overlaps input 1 \(tensor 1\); give every output memory"):
        c.execute(
            Stream(ENGINE),
            [Tensor(SRC, ENGINE, data(0, 70, 64)), over, Tensor(RES, ENGINE, data(2, 70, 64))],
            [Tensor(DST, ENGINE, square)],
        )
    with pytest.raises(InvalidArguments, match=r"output 0 \(tensor 4\): it overlaps input 2 \(tensor 2\); give it exactly that memory"):
        c.execute(Stream(ENGINE), [Tensor(SRC, ENGINE, square), wei, Tensor(RES, ENGINE, memory[1:])], [Tensor(DST, ENGINE, memory[:-1])])


# ---- every pair of many partitions -----------------------------------------------------------------------------------


def same(v: NDArray[np.generic]) -> NDArray[np.generic]:
    """A copy with the same strides, gaps included."""
    reach = sum((d - 1) * s for d, s in zip(v.shape, v.strides, strict=True)) + v.itemsize
    copy = np.lib.stride_tricks.as_strided(np.empty(reach, np.uint8).view(v.dtype), v.shape, v.strides)
    copy[...] = v
    return copy


def run(e: Executable, values: list[NDArray[np.generic]], pair: tuple[int, int] | None = None) -> list[NDArray[np.generic]]:
    """The outputs, each in memory of its own but for the pair's."""
    ins = [same(v) for v in values]
    outs = [np.full(t.shape, 7, t.dtype.numpy) for t in e.signature.outputs]
    if pair is not None:
        outs[pair[1]] = ins[pair[0]].reshape(-1).view(outs[pair[1]].dtype).reshape(outs[pair[1]].shape)
    e.bind(ins, outs)()
    return outs


def differing(name: str, policy: Policy) -> tuple[list[str], int]:
    """(the pairs whose use changes a result, how many there are) over all partitions of a graph."""
    graph = GRAPHS[name]()
    tensors, wrong, count = load_inputs(graph, fill(graph, seed=1)), [], 0
    for p in partitions(graph, policy):
        if not p.is_supported:
            continue
        e, values = compile_partition(p), [tensors[t.id] for t in p.inputs]
        outs = run(e, values)
        for pair in sorted(e.inplace):
            count += 1
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(run(e, values, pair), outs, strict=True)):
                wrong.append(f"{p.kind} {pair}")
        tensors |= {t.id: out for t, out in zip(p.outputs, outs, strict=True)}
    return wrong, count


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", [Policy.fused, Policy.post_ops])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_reported_pair_gives_the_same_results(name: str, policy: Policy) -> None:
    assert differing(name, policy)[0] == []


def test_there_are_pairs_in_fused_graphs() -> None:
    assert sum(differing(name, Policy.fused)[1] for name in ("residual", "layernorm_by_hand", "gated_mlp", "select_and_compare")) >= 3


def test_a_wrong_pair_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault injection: an analysis that allows everything of the same size."""
    monkeypatch.setattr(sys.modules["benchgraph.tir.passes.mark_inplace"], "_loads_first", lambda *_: True)
    assert differing("residual", Policy.fused)[0]
    b = GraphBuilder()
    b.op("StaticTranspose", b.input((40, 40)), order=[1, 0])
    (p,) = partitions(b.graph(), Policy.fused)
    e = compile_partition(p)
    assert e.inplace == {(0, 0)}
    assert not np.array_equal(run(e, [data(3, 40, 40)], (0, 0))[0], run(e, [data(3, 40, 40)])[0])
