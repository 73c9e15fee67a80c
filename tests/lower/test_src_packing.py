"""A column-major src is packed by each task, where dot products take groups of k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower.src_packing import PackedSrc
from benchgraph.machine.target import Target, current
from benchgraph.tir.ir import Brgemm, Pack
from benchgraph.tir.visit import walk
from tests.lower.attention_backward import assert_right, built
from tests.support.graph_ir import nests, scheduled
from tests.support.partitions import partition_of
from tests.support.score_blocks import in_score_blocks
from tests.support.tensor_ir import tir

BF16 = DType.bf16
VECTORS = ISAS["avx512_core_bf16"] if current().isa.has_amx else current().isa  # tile registers read rows of src as they lie
TARGET = replace(current(), isa=VECTORS, l2_bytes=1 << 20, cores=2, emulated=frozenset({BF16}))


def gradients(**options: object) -> Graph:
    return built(**{"d": 40, **options}, dtype=BF16)


def assert_close(graph: Graph, target: Target = TARGET) -> None:
    """To within the precision of bf16 between ops."""
    assert_right(graph, target, tolerance=0.03, spread=0.5)


def kernels(graph: Graph, target: Target = TARGET) -> Iterator[Brgemm]:
    return (s for s in walk(tir(graph, target=target).body) if isinstance(s, Brgemm))


def alone(m: int, k: int, n: int, batch: tuple[int, ...] = (3,)) -> Graph:
    """tanh(A B)^T C, where the second product reduces over the first one's rows: [k, m]."""
    b = GraphBuilder()
    made = b.op("Tanh", b.op("MatMul", b.input((*batch, k, 8), BF16), b.input((*batch, 8, m), BF16)))
    b.op("MatMul", made, b.input((*batch, k, n), BF16), transpose_a=True)
    return b.graph()


@pytest.mark.parametrize(
    "options",
    [
        {},  # 37 queries: the last task has an odd number
        {"queries": 128, "keys": 64},
        {"queries": 1, "keys": 5},
        {"queries": 131, "keys": 3},
        {"queries": 7, "keys": 16, "batch": (2,)},
        {"d": 70},
        {"batch": (2, 2, 3), "groups": (2, 2, 1)},
        {"dropped": True},
    ],
    ids=str,
)
def test_gradients_are_right(options: dict[str, object]) -> None:
    assert_close(gradients(**options))


def test_backward_is_one_nest_of_bf16_products() -> None:
    graph = gradients(queries=128, keys=96)
    (nest,) = nests(scheduled(graph, TARGET))
    assert sum(stage.reduces_rows for stage in nest.stages) == 2
    assert {k.src.tensor.dtype for k in kernels(graph)} == {BF16}
    width, columns = TARGET.panel_width, 40
    calls = 2 if width < columns and columns % width else 1  # whole panels in a loop, and the ragged one
    assert [k.batch for k in kernels(graph) if k.accumulate] == [(nest.mb // 2,)] * 2 * calls


def test_scores_are_packed_not_copied() -> None:
    """Each task packs its rows of both column-major operands."""
    partition = partition_of(gradients(queries=128, keys=96))
    (nest,) = nests(scheduled(partition, TARGET))
    packs = [(p.k, p.n) for p in walk(tir(partition, target=TARGET).body) if isinstance(p, Pack)]
    assert packs.count((nest.mb, 96)) == 2


@pytest.mark.parametrize("queries", [5, 37, 131])
def test_tasks_have_full_groups_of_rows(queries: int) -> None:
    for target in (TARGET, replace(TARGET, cores=1), replace(TARGET, l2_bytes=20 << 10)):
        graph = gradients(queries=queries)
        (nest,) = nests(scheduled(graph, target))
        assert nest.mb % 2 == 0 or nest.mb == queries
        assert_close(graph, target)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("m", "k", "n"), [(48, 64, 64), (33, 31, 70), (64, 2, 64), (5, 3, 257), (200, 9, 64)])
@pytest.mark.parametrize("batch", [(3,), (1,)], ids=str)
def test_separate_products_pack_their_src_too(m: int, k: int, n: int, batch: tuple[int, ...]) -> None:
    """With one entry on two cores, no product reduces over rows of tasks."""
    graph = alone(m, k, n, batch)
    assert_close(graph)
    if batch == (1,):
        assert not any(stage.reduces_rows for nest in nests(scheduled(graph, TARGET)) for stage in nest.stages)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution_groups_read_their_own_channels(groups: int) -> None:
    """A channels-first result that both gradients of a grouped convolution read."""
    b, wei = GraphBuilder(), (16, 32 // groups, 1)
    made = b.op("Multiply", b.input((2, 16, 8), BF16), b.input((2, 16, 8), BF16))
    form = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NCX", "weights_format": "OIX"}
    b.op("ConvolutionBackwardData", made, b.input(wei, BF16), dst_shape=[2, 32, 8], groups=groups, **form)
    b.op("ConvolutionBackwardWeights", b.input((2, 32, 8), BF16), made, weights_shape=wei, groups=groups, **form)
    assert_close(b.graph())


def test_interleaved_phases_read_packed_src() -> None:
    """A transposed convolution of another convolution's channels-first result."""
    b = GraphBuilder()
    form = {"pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "data_format": "NCX"}
    made = b.op("Convolution", b.input((1, 8, 8, 8), BF16), b.constant((16, 8, 1, 1), BF16), strides=[1, 1], weights_format="OIX", **form)
    b.op("ConvTranspose", made, b.constant((16, 8, 2, 2), BF16), strides=[2, 2], weights_format="IOX", **form)
    assert_close(b.graph())


def test_flash_attention_reads_packed_src() -> None:
    """Queries that a nest stores column-major, and another product reads by rows."""
    b = GraphBuilder()
    queries = b.op("Tanh", b.input((2, 3, 32, 64), BF16))
    scores = b.op("MatMul", queries, b.input((2, 3, 32, 513), BF16), transpose_a=True, dtype=DType.f32)
    b.op("MatMul", b.op("SoftMax", scores, axis=-1, dtype=BF16), b.input((2, 3, 513, 32), BF16))
    b.op("MatMul", queries, b.input((2, 3, 64, 8), BF16))
    partition = in_score_blocks(partition_of(b.graph()), TARGET)
    assert any(nest.score_columns for nest in nests(scheduled(partition, TARGET)))
    assert_right(b.graph(), TARGET, tolerance=0.03, spread=0.5, partition=partition)


def test_column_tasks_pack_for_themselves() -> None:
    """Few rows by many columns."""
    target = replace(TARGET, cores=4)
    graph = alone(3, 64, 640, (1,))
    assert any(stage.parameters.split_n for nest in nests(scheduled(graph, target)) for stage in nest.stages if stage.parameters)
    assert_close(graph, target)


def test_column_major_inputs_are_copied_once() -> None:
    b = GraphBuilder()
    b.op("MatMul", b.input((3, 64, 48), BF16), b.input((3, 64, 70), BF16), transpose_a=True)
    assert {k.batch for k in kernels(b.graph())} == {()}


def test_tile_registers_read_rows_of_src() -> None:
    """Their gradients stay in f32, whose products read columns unpacked."""
    tiles = replace(TARGET, isa=ISAS["avx512_core_amx"])
    found: list[FusedOp] = nests(scheduled(gradients(queries=128, keys=96), tiles))
    assert sum(stage.reduces_rows for nest in found for stage in nest.stages) == 2


def test_missing_rest_of_k_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd rows are multiplied after the full groups; without them gradients are wrong."""
    multiply = PackedSrc.multiply

    def whole_groups(self: PackedSrc, *args: object, **kwargs: object) -> object:
        *most, size = args
        return multiply(self, *most, size - size % 2, **kwargs)

    monkeypatch.setattr(PackedSrc, "multiply", whole_groups)
    with pytest.raises(AssertionError):
        assert_close(gradients())


def test_packing_the_wrong_rows_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = PackedSrc.pack

    def of_the_first_rows(self: PackedSrc, start: object, rows: int, k: object, size: int) -> object:
        return pack(self, start, rows, replace(k, outer=type(k)(k.inner).value), size)

    monkeypatch.setattr(PackedSrc, "pack", of_the_first_rows)
    with pytest.raises(AssertionError):
        assert_close(gradients(queries=128))


def test_elements_beyond_k_do_not_matter() -> None:
    """Elements of wei beyond an odd k may be NaN."""
    graph = alone(16, 3, 16)
    partition = partition_of(graph)
    rng = np.random.default_rng(0)
    data = [rng.normal(size=t.known_shape).astype(t.dtype.numpy) for t in partition.inputs]
    outs = [np.full(t.known_shape, np.nan, t.dtype.numpy) for t in partition.outputs]
    compile_partition(partition, TARGET).bind(data, outs)()
    assert not any(np.isnan(o.astype(np.float32)).any() for o in outs)
