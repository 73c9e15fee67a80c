"""The meaning of a graph: how tensors connect ops, Wildcard and End, and properties of its partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph import UNKNOWN_DIM, DType, Engine, FpmathMode, Graph, LayoutType, LogicalTensor, Op, Policy, PropertyType, Status
from benchgraph import graph as api
from benchgraph.core.errors import InvalidArguments, InvalidDataType, InvalidGraph
from benchgraph.core.files import data_dir
from benchgraph.partition import partitioner
from benchgraph.reference import compare, evaluate, fill, tolerance
from tests.library.run import Arrays, built, execute

f32 = DType.f32
A, B, C, D, E = (LogicalTensor(i, f32, (6, 6)) for i in range(5))


def op(id: int, kind: str, ins: list[LogicalTensor], outs: list[LogicalTensor], **attrs: object) -> api.Op:
    return Op(id, kind, inputs=ins, outputs=outs, **attrs).described


def cut(*ops: api.Op, policy: Policy = Policy.fusion) -> list[tuple[int, ...]]:
    return [p.ops for p in built(ops).get_partitions(policy)]


def square(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((6, 6), np.float32) - np.float32(0.5)


# ---- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Policy.fusion, Policy.debug])
def test_one_producer_and_many_consumers(policy: Policy) -> None:
    """A diamond, connected by tensor ids alone, whatever order the ops come in."""
    ops = (op(3, "Add", [C, D], [E]), op(2, "Exp", [B], [D]), op(1, "ReLU", [B], [C]), op(0, "MatMul", [A, A], [B]))
    x = square(1)
    got = execute(built(ops).get_partitions(policy), {0: x})[4]
    np.testing.assert_allclose(got, np.maximum(x @ x, 0) + np.exp(x @ x), rtol=1e-5)


def test_two_producers_of_a_tensor_are_refused() -> None:
    with pytest.raises(InvalidGraph, match="op 1: Exp: ops 0 and 1 both produce tensor 1; give each output its own tensor id"):
        built((op(0, "ReLU", [A], [B]), op(1, "Exp", [A], [B])))


def test_op_ids_and_tensor_ids_are_different_worlds() -> None:
    assert cut(op(0, "ReLU", [A], [B]), op(1, "Exp", [B], [C])) == [(0, 1)]


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        (replace(B, shape=(5, 6)), False),
        (replace(B, shape=None), False),
        (replace(B, shape=(6, UNKNOWN_DIM)), False),
        (replace(B, dtype=DType.bf16), False),
        (replace(B, strides=(1, 6)), False),
        (replace(B, layout_type=LayoutType.any), False),
        (replace(B, property_type=PropertyType.constant), False),
        (replace(B, strides=(6, 1)), True),
        (replace(B, property_type=PropertyType.variable), True),
    ],
)
def test_logical_tensors_of_one_id_must_be_identical(other: LogicalTensor, is_alike: bool) -> None:
    """In dims, dtype, layout and property; strides that are not given are row-major, a property that is not given is variable."""
    g = Graph()
    g.add_op(op(0, "ReLU", [A], [B]))
    g.add_op(op(1, "TypeCast" if other.dtype is DType.bf16 else "Exp", [other], [C]))
    if is_alike:
        g.finalize()
        return
    with pytest.raises(
        InvalidGraph, match=r"op 1: .*: tensor 1 is described as .* here and as f32\[6,6\] elsewhere; use one logical tensor"
    ):
        g.finalize()


# ---- Wildcard and End ------------------------------------------------------------------------------------------------


def test_a_path_through_a_wildcard_keeps_its_ends_apart() -> None:
    """Fused, the two would wait for the Wildcard between them, which waits for one of them."""
    product = op(0, "MatMul", [A, A], [B])
    detour, joined = op(1, "Wildcard", [B], [C]), op(2, "Add", [B, C], [D])
    assert cut(product, detour, joined) == [(0,), (1,), (2,)]
    assert cut(product, replace(joined, inputs=(B, E))) == [(0, 2)], "without the Wildcard they are one"
    assert cut(product, replace(detour, inputs=(E,)), joined) in ([(1,), (0, 2)], [(0, 2), (1,)]), "and so with one that hangs elsewhere"


@pytest.mark.parametrize("ends", [0, 1, 2])
def test_end_makes_a_tensor_leave_the_graph(ends: int) -> None:
    """MatMul -> ReLU with End on the product, and with a second End on the result: both values come out."""
    ops = [op(0, "MatMul", [A, A], [B]), op(1, "ReLU", [B], [C]), op(2, "End", [B], []), op(3, "End", [C], [])][: 2 + ends]
    partitions = built(ops).get_partitions()
    shown = {t.id for p in partitions for t in p.output_ports}
    assert shown == ({1, 2} if ends else {2})
    x = square(2)
    live = execute(partitions, {0: x})
    np.testing.assert_allclose(live[2], np.maximum(x @ x, 0), rtol=1e-5, atol=1e-6)
    if ends:
        np.testing.assert_allclose(live[1], x @ x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["Wildcard", "End"])
def test_uncomputable_ops_are_partitions_of_their_own(kind: str) -> None:
    """It says so, and cannot be compiled."""
    outs = [C] if kind == "Wildcard" else []
    first, second = sorted(built((op(0, "MatMul", [A, A], [B]), op(1, kind, [B], outs))).get_partitions(), key=lambda p: p.ops)
    assert (first.ops, first.is_supported, second.ops, second.is_supported) == ((0,), True, (1,), False)
    assert second.reason
    with pytest.raises(InvalidArguments, match=rf"compile: op 1: {kind}: the partition is unsupported: "):
        second.compile([B], outs, Engine())


# ---- ports -----------------------------------------------------------------------------------------------------------

CASES = ("attention", "quantised_mlp", "pattern/mlp_residual", "pattern/two_islands", "pattern/matmul_interior_end")


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", Policy)
def test_ports_are_enough_to_wire_any_partitions_together(name: str, policy: Policy) -> None:
    """An executor that knows nothing but port ids computes what the reference computes."""
    source = api.infer_shapes(api.load(data_dir("inputs") / "graph" / f"{name}.json"))
    data: Arrays = fill(source, seed=4)
    want, live = evaluate(source, data), execute(built(source).get_partitions(policy), data)
    for t in source.outputs:
        assert compare(live[t.id], want[t.id], t.dtype, tolerance(source)).ok


def test_only_ports_are_shown() -> None:
    """MatMul + bias + ReLU + MatMul: four tensors come in, one goes out, three stay inside."""
    w, bias, w2 = (LogicalTensor(10 + i, f32, shape) for i, shape in enumerate([(6, 6), (6,), (6, 6)]))
    ops = (op(0, "MatMul", [A, w], [B]), op(1, "Add", [B, bias], [C]), op(2, "ReLU", [C], [D]), op(3, "MatMul", [D, w2], [E]))
    (partition,) = built(ops).get_partitions()
    assert [t.id for t in partition.input_ports] == [0, 10, 11, 12]
    assert [t.id for t in partition.output_ports] == [4]
    compiled = partition.compile(partition.input_ports, partition.output_ports, Engine())
    for inside in (1, 2, 3):
        with pytest.raises(InvalidArguments, match=f"tensor {inside} is no port of the partition; ports are 0, 10, 11, 12, 4"):
            compiled.query_logical_tensor(inside)


@pytest.mark.parametrize("engine_kind", ["cpu", "gpu"])
def test_partitions_inherit_the_graphs_engine_kind_and_math_mode(engine_kind: str) -> None:
    g = Graph(engine_kind, FpmathMode.tf32)
    assert g.add_op(op(0, "ReLU", [A], [B])) is Status.success
    g.finalize()
    (partition,) = g.get_partitions()
    assert (partition.engine_kind, partition.fpmath_mode) == (engine_kind, FpmathMode.tf32)


# ---- patterns --------------------------------------------------------------------------------------------------------


def test_new_patterns_need_no_new_user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that knew only single ops, and one that fuses: the same program, the same numbers, other partitions."""
    ops = (op(0, "MatMul", [A, A], [B]), op(1, "ReLU", [B], [C]), op(2, "SoftMax", [C], [D], axis=-1))
    data: Arrays = {0: square(3)}
    new = built(ops).get_partitions()
    got = execute(new, data)[3]
    monkeypatch.setitem(partitioner.RULES, Policy.fused, partitioner.RULES[Policy.one_op_each])
    old = built(ops).get_partitions()
    assert [len(p.ops) for p in new] == [3]
    assert [len(p.ops) for p in old] == [1, 1, 1]
    np.testing.assert_allclose(execute(old, data)[3], got, rtol=1e-5)


def test_a_composite_op_is_spelled_out_and_fused() -> None:
    """Channel shuffle is Reshape, Transpose, Reshape, and one partition."""
    x = LogicalTensor(0, f32, (2, 6, 4, 4))
    cut_up, turned, y = LogicalTensor(1, f32, (2, 3, 2, 4, 4)), LogicalTensor(2, f32, (2, 2, 3, 4, 4)), LogicalTensor(3, f32, (2, 6, 4, 4))
    ops = (
        op(0, "StaticReshape", [x], [cut_up], shape=[2, 3, 2, 4, 4], special_zero=False),
        op(1, "StaticTranspose", [cut_up], [turned], order=[0, 2, 1, 3, 4]),
        op(2, "StaticReshape", [turned], [y], shape=[2, 6, 4, 4], special_zero=False),
    )
    (partition,) = built(ops).get_partitions()
    data = np.arange(2 * 6 * 16, dtype=np.float32).reshape(2, 6, 4, 4)
    want = data.reshape(2, 3, 2, 4, 4).transpose(0, 2, 1, 3, 4).reshape(2, 6, 4, 4)
    np.testing.assert_array_equal(execute([partition], {0: data})[3], want)


def test_int8_comes_in_by_quantize_and_dequantize_with_zero_points() -> None:
    """No op takes int8 by itself; a product between Dequantize and Quantize is one partition."""
    s8 = DType.s8
    xq, wq, yq = LogicalTensor(0, DType.u8, (4, 8)), LogicalTensor(1, s8, (8, 5)), LogicalTensor(5, s8, (4, 5))
    x, w, y = LogicalTensor(2, f32, (4, 8)), LogicalTensor(3, f32, (8, 5)), LogicalTensor(4, f32, (4, 5))
    ops = (
        op(0, "Dequantize", [xq], [x], scales=[0.1], zps=[120]),
        op(1, "Dequantize", [wq], [w], scales=[0.02], zps=[0]),
        op(2, "MatMul", [x, w], [y]),
        op(3, "Quantize", [y], [yq], scales=[0.05], zps=[-3]),
    )
    (partition,) = built(ops).get_partitions()
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 256, (4, 8), dtype=np.uint8), rng.integers(-128, 128, (8, 5), dtype=np.int8)
    real = (a.astype(np.float64) - 120) * 0.1 @ (b * 0.02)
    want = np.clip(np.rint(real / 0.05) - 3, -128, 127)
    assert np.abs(execute([partition], {0: a, 1: b})[5] - want).max() <= 1
    with pytest.raises(InvalidDataType, match="op 9: ReLU: input src has dtype s8"):
        Graph().add_op(op(9, "ReLU", [wq], [replace(wq, id=9)]))
