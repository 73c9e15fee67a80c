"""split-reductions: which reductions become two, that these compute the same, and which stay."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.passes.split_reductions import FEWEST, MOST, MOST_REMATERIALISED, split_reductions
from benchgraph.gir.verify import verify
from benchgraph.graph.build import GraphBuilder
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.tir.build import constant
from benchgraph.tir.ir import For, LoopKind
from benchgraph.tir.visit import walk
from tests.support.graph_ir import given_to, scheduled
from tests.support.partitions import Build, partition_of
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered

F32 = DType.f32


def last(n: int, c: int, *spatial: int) -> Shape:
    """Strides of (n, c, spatial...) where channels come last."""
    steps = [c * int(np.prod(spatial[i + 1 :])) for i in range(len(spatial))]
    return (c * int(np.prod(spatial)), 1, *steps)


def group_norm(
    b: GraphBuilder,
    shape: Shape = (2, 20, 6, 7),
    groups: int = 4,
    dtype: DType = F32,
    data_format: str = "NCX",
    *,
    stats: bool = False,
    dense: bool = False,
) -> None:
    channels = shape[1 if data_format == "NCX" else -1]
    x = b.input(shape, dtype, strides=None if dense or data_format == "NXC" else last(*shape))
    affine = (b.input((channels,)), b.input((channels,)))
    if stats:
        b.outs("GroupNorm", x, *affine, dtypes=(dtype, F32, F32), groups=groups, data_format=data_format)
    else:
        b.op("GroupNorm", x, *affine, groups=groups, data_format=data_format, keep_stats=False)


def before(build: Build) -> Graph:
    return given_to("split-reductions", build, TARGET)


def test_only_dst_has_the_size_of_src() -> None:
    g = scheduled(group_norm)
    elements = [g.value(v).type.elements for n in g.nodes if isinstance(n, FusedOp) for v in n.outs]
    assert sorted(elements)[-2:] == [2 * 20, 2 * 20 * 6 * 7]


def test_all_channels_of_a_pixel_are_one_loop() -> None:
    main = lowered(lambda b: group_norm(b, (2, 60, 48, 48), 6)).main
    loops = {constant(s.extent) for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.serial}
    assert {48 * 48, 10} < loops  # pixels; channels of a group, once
    assert 60 // 6 * 48 * 48 not in loops


def doubled(b: GraphBuilder, times: int) -> None:
    """The operand is computed by so many ops, each of which reads the one before twice, and has another reader."""
    x = b.op("Sigmoid", b.input((3, 40, 4, 5)))
    for _ in range(times - 1):
        x = b.op("Add", x, x)
    b.op("Subtract", x, b.op("ReduceMean", x, axes=(1, 3), keep_dims=True))


def normed(b: GraphBuilder, x: LogicalTensor) -> LogicalTensor:
    """x is constant, so init computes it and all values made of it."""
    x = b.op("Exp", x)
    return b.op("Subtract", x, b.op("ReduceMean", x, axes=(1, 3), keep_dims=True))


@pytest.mark.parametrize("times", [MOST_REMATERIALISED, MOST_REMATERIALISED + 1, 30])
def test_operands_of_few_ops_are_rematerialised(times: int) -> None:
    g = split_reductions(before(lambda b: doubled(b, times)), TARGET)
    verify(g)
    sums = sum(isinstance(op, Op) and op.kind in ("Sigmoid", "Add") for op in g.nodes)
    assert sums == (2 * times if times <= MOST_REMATERIALISED else times)


FORMS: dict[str, Build] = {
    "channels last by strides": group_norm,
    "channels last": lambda b: group_norm(b, (2, 6, 7, 20), 4, data_format="NXC"),
    "bf16": lambda b: group_norm(b, dtype=DType.bf16),
    "f16, one image": lambda b: group_norm(b, (1, 20, 9, 7), 5, DType.f16),
    "three spatial dims": lambda b: group_norm(b, (2, 12, 3, 4, 5), 3),
    "statistics": lambda b: group_norm(b, stats=True),
    "wide groups": lambda b: group_norm(b, (2, 96, 5, 5), 2),
    "a sum alone": lambda b: b.op("ReduceSum", b.input((3, 4, 5, 40), strides=(800, 5, 1, 20)), axes=(2, 3)),
    "of what is made": lambda b: b.op("ReduceMax", b.op("Exp", b.input((3, 40, 4, 5))), axes=(3, 1), keep_dims=True),
    "made in many ops": lambda b: doubled(b, 9),
    "constants": lambda b: b.op("Add", b.input((3, 1, 1, 1)), normed(b, b.constant((3, 40, 4, 5)))),
    "and read": lambda b: b.op("Add", x := b.op("Exp", b.input((3, 40, 4, 5))), b.op("ReduceMean", x, axes=(1, 3), keep_dims=True)),
}


@pytest.mark.parametrize("build", FORMS.values(), ids=FORMS)
def test_split_reductions_compute_what_one_does(build: Build) -> None:
    g = before(build)
    split = split_reductions(g, TARGET)
    verify(split)
    assert _folds(split) == 2 * _folds(g)
    p = partition_of(build)
    rng = np.random.default_rng(3)
    data = {t.id: _strided(rng.normal(2, 1, t.known_shape).astype(t.dtype.numpy), t.known_strides) for t in p.inputs}
    outs = [_strided(np.full(t.known_shape, 7, t.dtype.numpy), t.known_strides) for t in p.outputs]
    compile_partition(p).bind([data[t.id] for t in p.inputs], outs)()
    want = evaluate(p.graph, {id: array.astype(np.float64) for id, array in data.items()})
    for t, out in zip(p.outputs, outs, strict=True):
        assert compare(out, want[t.id], t.dtype, tolerance(p.graph)).ok


def _folds(g: Graph) -> int:
    return sum(isinstance(op, Op) and op.kind.startswith("Reduce") for op in g.nodes)


def _strided(array: np.ndarray, strides: Shape) -> np.ndarray:
    order = np.argsort([-s for s in strides], kind="stable")
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


STAYING: dict[str, Build] = {
    "images lie together": lambda b: b.op(
        "GroupNorm", b.input((2, 20, 6, 7)), groups=4, data_format="NCX", use_affine=False, keep_stats=False
    ),
    "one group": lambda b: group_norm(b, groups=1),
    "a group per channel": lambda b: group_norm(b, groups=20),
    "few pixels": lambda b: group_norm(b, (2, 20, 3, FEWEST // 3), 4),
    "very wide groups": lambda b: group_norm(b, (1, 2 * MOST, 4, 4), 2),
    "rows": lambda b: b.op("SoftMax", b.input((40, 8)), axis=1),
    "whole numbers": lambda b: b.op("MatMul", *(b.op("Dequantize", b.input((8, 8), DType.u8), scales=(0.1,), zps=(3,)) for _ in "ab")),
}


@pytest.mark.parametrize("build", STAYING.values(), ids=STAYING)
def test_other_reductions_stay(build: Build) -> None:
    g = before(build)
    assert split_reductions(g, TARGET) is g
