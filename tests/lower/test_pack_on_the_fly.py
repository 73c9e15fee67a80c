"""Weights that are converted block by block: right for every shape, with temporaries that do not grow with the weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.options import Options
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import load_inputs
from benchgraph.machine.target import ISAS, Target, host
from benchgraph.partition.ir import Partition
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.tir.ir import Brgemm
from benchgraph.tir.visit import walk
from tests.support.partitions import partition_of
from tests.support.targets import TARGET
from tests.support.tensor_ir import tir

Weights = Callable[[GraphBuilder, int, int, int], LogicalTensor]  # (builder, k, n, rows of a group) -> weights in f32 or f16
L2_BYTES = 1 << 20  # of a core
KINDS: dict[str, tuple[Weights, DType, bool]] = {}  # by name: how, the dtype of src, whether weights are transposed


def kind(dtype: DType = DType.f32, *, transposed: bool = False) -> Callable[[Weights], Weights]:
    def register(weights: Weights) -> Weights:
        KINDS[weights.__name__] = weights, dtype, transposed
        return weights

    return register


@kind(DType.f16)
def f16(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    return b.input((k, n), DType.f16)


@kind()
def f32(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    return b.input((k, n))


@kind(DType.bf16)
def bf16(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    return b.input((k, n), DType.bf16)


@kind(DType.bf16, transposed=True)
def bf16_transposed(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    return b.input((n, k), DType.bf16)


@kind()
def f8(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    return b.op("Dequantize", b.input((k, n), DType.f8_e4m3), qtype="per_tensor", scales=(0.5,))


@kind()
def s8_per_channel(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    scales, zps = tuple(0.25 * (1 + i % 3) for i in range(n)), tuple(i % 5 for i in range(n))
    return b.op("Dequantize", b.input((k, n), DType.s8), qtype="per_channel", axis=1, scales=scales, zps=zps)


@kind()
def u8_per_row(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    """Scales along k, which integer products do not support."""
    scales, zps = tuple(0.25 * (1 + i % 3) for i in range(k)), tuple(i % 5 for i in range(k))
    return b.op("Dequantize", b.input((k, n), DType.u8), qtype="per_channel", axis=0, scales=scales, zps=zps)


@kind()
def u4_groups(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    groups = (k // group, n)
    return b.op(
        "DynamicDequantize",
        b.input((k, n), DType.u4),
        b.input(groups),
        b.input(groups, DType.u4),
        qtype="per_group",
        group_shape=(group, 1),
    )


@kind(DType.f16, transposed=True)
def s4_groups_transposed(b: GraphBuilder, k: int, n: int, group: int) -> LogicalTensor:
    groups = (n, k // group)
    return b.op(
        "DynamicDequantize",
        b.input((n, k), DType.s4),
        b.input(groups, DType.f16),
        b.input(groups, DType.s4),
        dtype=DType.f16,
        qtype="per_group",
        group_shape=(1, group),
    )


class Constants(GraphBuilder):
    """Make every input but src a constant."""

    def input(self, *args: Any, **options: Any) -> LogicalTensor:
        return super().input(*args, **options, **({"property_type": PropertyType.constant} if self._tensors else {}))


def graph(name: str, m: int, groups: int, group: int, n: int, *, constant: bool = False) -> Graph:
    weights, dtype, transposed = KINDS[name]
    b = Constants() if constant else GraphBuilder()
    k = groups * group
    product = b.op("MatMul", b.input((m, k), dtype), weights(b, k, n, group), transpose_b=transposed)
    b.op("ReLU", product)
    return b.graph()


def with_options(g: Graph, off: tuple[str, ...] = ()) -> Partition:
    return replace(partition_of(g), options=Options(off=off))


def temporaries(g: Graph, off: tuple[str, ...] = ()) -> int:
    """Bytes of two threads together, on cores whose L2 fits a small part of the weights."""
    main = tir(with_options(g, off), target=replace(host(), cores=2, l2_bytes=L2_BYTES, llc_bytes=32 << 20))
    return main.shared_bytes + 2 * main.thread_bytes


def run(g: Graph, target: Target) -> dict[int, np.ndarray]:
    """Outputs by id."""
    p = partition_of(g)
    tensors = load_inputs(g, fill(g, seed=1))
    outs = {t.id: np.full(t.known_shape, 1, t.dtype.numpy) for t in p.outputs}
    compile_partition(with_options(g), target).bind([tensors[t.id] for t in p.inputs], list(outs.values()))()
    return outs


def assert_right(g: Graph, target: Target) -> None:
    found = run(g, target)
    want = evaluate(g, fill(g, seed=1))
    for t in g.outputs:
        assert compare(found[t.id], want[t.id], t.dtype, tolerance(g)).ok


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=4, deadline=None)
@given(
    m=st.sampled_from([1, 2, 7, 70, 257]),
    groups=st.integers(1, 9),
    group=st.sampled_from([1, 2, 8, 32, 48]),
    n=st.sampled_from([1, 16, 50, 64, 130, 600]),
    cores=st.sampled_from([1, 2, 3]),
)
def test_every_shape_is_right(name: str, m: int, groups: int, group: int, n: int, cores: int) -> None:
    assert_right(graph(name, m, groups, group, n), replace(host(), cores=cores))


BEYOND_CACHES = {  # of L2, which holds 256 bytes then
    "groups": st.integers(1, 9),
    "group": st.sampled_from([1, 2, 8, 48, 96]),
    "n": st.sampled_from([1, 16, 50, 64, 130, 600]),
    "cores": st.sampled_from([1, 2, 3]),
}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=3, deadline=None)
@given(m=st.sampled_from([1, 2, 7, 70]), **BEYOND_CACHES)
def test_constants_larger_than_caches_are_right(name: str, m: int, groups: int, group: int, n: int, cores: int) -> None:
    assert_right(graph(name, m, groups, group, n, constant=True), replace(host(), cores=cores, l2_bytes=256))


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=4, deadline=None)
@given(m=st.sampled_from([1, 9, 16, 70]), **BEYOND_CACHES)
def test_weights_larger_than_caches_are_right(name: str, m: int, groups: int, group: int, n: int, cores: int) -> None:
    small = replace(host(), cores=cores, l2_bytes=256, llc_bytes=256, emulated=frozenset({DType.bf16}))
    assert_right(graph(name, m, groups, group, n), small)


WHOLE = ("f16", 64)  # so many rows repay that all weights are packed before


@pytest.mark.parametrize(("name", "m"), [(name, m) for name in KINDS for m in (9, 64) if name != "f32" and (name, m) != WHOLE])
def test_temporaries_stay_in_l2(name: str, m: int) -> None:
    rows, scales = m * 64 * 32, 64 * 8192  # are converted, or transposed, as a whole
    assert temporaries(graph(name, m, 64, 32, 8192)) <= F32_BYTES * (rows + scales) + 2 * L2_BYTES, "of 64 MiB of weights in f32"


def test_sums_of_one_block_wait_for_no_other_panel() -> None:
    """Each call's sums become f32 right after it, so that a task keeps those of 64 columns, not of 1103."""
    b = GraphBuilder()
    src, wei = b.input((1644, 18), DType.u8), b.input((18, 1103), DType.s8)
    b.op("MatMul", *(b.op("Dequantize", x, qtype="per_tensor", scales=(0.5,)) for x in (src, wei)))
    main = tir(partition_of(b.graph()), target=replace(TARGET, isa=ISAS["avx512_core_vnni"]))
    rows = next(s.m for s in walk(main.body) if isinstance(s, Brgemm))
    assert max(main.thread_bytes, main.shared_bytes) < 2 * F32_BYTES * rows * 64


@pytest.mark.parametrize("name", ["f16", "f8", "s8_per_channel", "u8_per_row", "u4_groups"])
def test_temporaries_grow_without_the_pass(name: str) -> None:
    """Without the pass a temporary holds all weights, so the test above can fail."""
    assert temporaries(graph(name, 9, 64, 32, 8192), off=("pack-on-the-fly",)) > 8 * L2_BYTES
