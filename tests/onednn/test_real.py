"""The real oneDNN against the float64 reference. Skipped, with the reason, where there is none."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import ExecutionFailed, Unavailable
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph.check import validate
from benchgraph.graph.ir import Graph, Op
from benchgraph.harness.case import check
from benchgraph.machine.cpu_affinity import last_cpus
from benchgraph.onednn.library import OneDnn
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Policy
from benchgraph.results.result import Status
from tests.onednn.graphs import F32, line, one
from tests.support.fake_library import held

PROBLEM = parse(["--graph", "--expected-n-partitions=0", "--case=mlp.json"]).problems[0]


def verdict(library: OneDnn, graph: Graph) -> str:
    """What mode C makes of a graph."""
    result = held(check, PROBLEM, graph, library)
    return result.status.value + (f" ({result.reason})" if result.reason else "")


def tensor(id: int, *shape: int, dtype: DType = F32, strides: tuple[int, ...] | None = None) -> LogicalTensor:
    return LogicalTensor(id, dtype, shape, strides)


def matmul(dtype: DType = F32, *, constant: bool = False) -> Graph:
    wei = replace(tensor(1, 48, 40, dtype=dtype), property_type=PropertyType.constant if constant else PropertyType.undef)
    return one("MatMul", [tensor(0, 32, 48, dtype=dtype), wei], [tensor(2, 32, 40, dtype=dtype)])


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "graph",
    [
        matmul(),
        matmul(constant=True),
        one("MatMul", [tensor(0, 48, 32), tensor(1, 40, 48)], [tensor(2, 32, 40)], transpose_a=True, transpose_b=True),
        one("Elu", [tensor(0, 5, 7)], [tensor(1, 5, 7)], alpha=0.5),
        one("SoftMax", [tensor(0, 5, 7)], [tensor(1, 5, 7)], axis=-1),
        one("ReduceSum", [tensor(0, 5, 7, 3)], [tensor(1, 5, 1, 3)], axes=(1,), keep_dims=True),
        one("ReLU", [tensor(0, 5, 7, strides=(1, 5))], [tensor(1, 5, 7, strides=(1, 5))]),
        one("Concat", [tensor(0, 5, 2), tensor(1, 5, 3)], [tensor(2, 5, 5)], axis=1),
        one(
            "Dequantize",
            [tensor(0, 4, 6, dtype=DType.s8)],
            [tensor(1, 4, 6)],
            qtype="per_channel",
            axis=0,
            scales=(0.5, 0.25, 2.0, 1.0),
            zps=(0, 0, 0, 0),
        ),
        line("ReLU", "Tanh", "Sigmoid"),
    ],
    ids=lambda g: "-".join(op.kind for op in g.ops),
)
@pytest.mark.parametrize("policy", [Policy.fused, Policy.one_op_each], ids=lambda p: p.value)
def test_it_computes_the_same_as_the_reference(real: OneDnn, graph: Graph, policy: Policy) -> None:
    problem = replace(PROBLEM, globals=replace(PROBLEM.globals, policy=(policy.value,)))
    assert held(check, problem, graph, real).status in (Status.PASSED, Status.MISTRUSTED)


def test_the_fusion_policy_fuses_and_the_debug_policy_does_not(real: OneDnn) -> None:
    src, wei, acc, dst = tensor(0, 8, 8), tensor(1, 8, 8), tensor(2, 8, 8), tensor(3, 8, 8)
    graph = Graph((Op(5, "MatMul", inputs=(src, wei), outputs=(acc,)), Op(3, "ReLU", inputs=(acc,), outputs=(dst,))))
    assert [[op.id for op in p.ops] for p in real.partitions(graph, Policy.fused)] == [[5, 3]]
    alone = real.partitions(graph, Policy.one_op_each)
    assert [[op.id for op in p.ops] for p in alone] == [[5], [3]]
    assert [t.id for t in alone[0].inputs] == [0, 1]
    assert [t.id for t in alone[0].outputs] == [2]


def test_scalars_of_rank_0(real: OneDnn) -> None:
    graph = one("Multiply", [tensor(0, 4, 5), LogicalTensor(1, F32, ())], [tensor(2, 4, 5)])
    assert verdict(real, graph) == "PASSED"


def test_s4_two_to_a_byte(real: OneDnn) -> None:
    src, scales = tensor(0, 1, 4, 16, 8, dtype=DType.s4), tensor(1, 1, 4, 2, 8)
    graph = one("DynamicDequantize", [src, scales], [tensor(2, 1, 4, 16, 8)], qtype="per_group", group_shape=(1, 1, 8, 1), axis=2)
    if real.release >= (3, 7):
        assert verdict(real, graph) == "PASSED"
    else:
        with pytest.raises(Unavailable, match="needs oneDNN 3"):
            verdict(real, graph)


def test_host_scalars_are_passed_by_value(real: OneDnn) -> None:
    """The scale of an attention: alone, a Multiply by a host scalar ends a oneDNN 3.13 process."""
    scale = LogicalTensor(3, F32, (), property_type=PropertyType.host_scalar)
    q, k, v, mask = (tensor(id, 1, 2, 16, 8) for id in (0, 1, 8, 9))
    scores, scaled, probabilities = (tensor(id, 1, 2, 16, 16) for id in (2, 4, 6))
    ops = (
        Op(0, "MatMul", Attrs(transpose_b=True), (q, k), (scores,)),
        Op(1, "Multiply", Attrs(), (scores, scale), (scaled,)),
        Op(2, "SoftMax", Attrs(axis=-1), (scaled,), (probabilities,)),
        Op(3, "MatMul", Attrs(), (probabilities, v), (mask,)),
    )
    graph = validate(Graph(ops))
    if real.release < (3, 9):
        with pytest.raises(Unavailable, match="property host_scalar needs oneDNN"):
            verdict(real, graph)
        return
    try:
        assert verdict(real, graph) == "PASSED"
    except ExecutionFailed as bad:
        pytest.skip(str(bad))


def test_several_partitions_as_one_chain_give_what_they_give_one_by_one(real: OneDnn) -> None:
    """A chain computes on its own copies, with layouts and in-place pairs of oneDNN's choice; its outputs stay there."""
    first, second = [tensor(0, 64, 48), tensor(1, 48, 40)], [tensor(3, 64, 40), tensor(4, 40, 24)]
    ops = (
        Op(1, "MatMul", Attrs(), tuple(first), (tensor(2, 64, 40),)),
        Op(2, "ReLU", Attrs(), (tensor(2, 64, 40),), (tensor(3, 64, 40),)),
        Op(3, "MatMul", Attrs(), tuple(second), (tensor(5, 64, 24),)),
    )
    graph = validate(Graph(ops))
    rng = np.random.default_rng(0)
    arrays = {t.id: rng.standard_normal(t.known_shape, np.float32) for t in graph.tensors.values()}
    parts = real.partitions(graph, Policy.one_op_each)
    steps = [real.compile(p).bind([arrays[t.id] for t in p.inputs], [arrays[t.id] for t in p.outputs]) for p in parts]
    for step in steps:
        step()
    want = arrays[5].copy()
    np.testing.assert_allclose(want, np.maximum(arrays[0] @ arrays[1], 0) @ arrays[4], rtol=1e-4, atol=1e-4)
    chain = real.sequence(steps)
    assert chain.run(3) > 0
    arrays[5][...] = 0
    chain._buffers[5].get(arrays[5], graph.tensors[5])
    np.testing.assert_allclose(arrays[5], want, rtol=1e-5, atol=1e-5)


def test_threads_are_those_that_were_asked_for(real: OneDnn) -> None:
    with override(threads=1):
        library = OneDnn()
        parts = library.partitions(matmul(), Policy.fused)
        arrays = [np.ones(t.known_shape, np.float32) for t in (*parts[0].inputs, *parts[0].outputs)]
        library.compile(parts[0]).bind(arrays[:-1], arrays[-1:])()
        pid = library.process.pid
        assert "OMP" not in library.version or len(os.listdir(f"/proc/{pid}/task")) == 1
        assert os.sched_getaffinity(pid) == set(last_cpus(1)), "those that ours is timed on"


def test_a_death_during_a_run_is_reported_and_survived(real: OneDnn) -> None:
    parts = real.partitions(matmul(), Policy.fused)
    os.kill(real.process.pid, signal.SIGSEGV)
    with pytest.raises(ExecutionFailed, match="was killed by SIGSEGV in 'compile'"):
        real.compile(parts[0])
    assert verdict(OneDnn(), matmul()) == "PASSED"
