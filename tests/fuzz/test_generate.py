"""What `benchgraph fuzz` generates: legal graphs of all kinds of ops, always the same, on which code can be held against the reference."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from random import Random

import numpy as np
import pytest

from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.tensor import PropertyType, dense_strides
from benchgraph.fuzz.draw import ANYTHING, MAX_ELEMENTS, MAX_FLOPS, MAX_RANK, Tally, draw
from benchgraph.fuzz.generate import DATA_SEED, MAX_OPS, generate
from benchgraph.fuzz.sensitivity import too_sensitive
from benchgraph.graph import Graph, dumps, loads, parse_graph, validate
from benchgraph.graph.ir import END
from benchgraph.graph.text import print_graph
from benchgraph.onednn.encode import has
from benchgraph.onednn.table import FPMATH_OF_INTEGERS, Version
from benchgraph.ops import OPS, spec
from benchgraph.reference import call_of, domain

COUNT = 40
ROUND = "%3: f32[99,99] = Round#1(%2)"
TALLY = Tally()


@cache
def graphs() -> tuple[Graph, ...]:
    return tuple(generate(3, index, tally=TALLY) for index in range(COUNT))


every_graph = pytest.mark.parametrize("index", range(COUNT))


@every_graph
def test_a_graph_is_legal_with_every_shape_inferred_and_loads_back(index: int) -> None:
    graph = graphs()[index]
    assert validate(graph) == graph
    assert loads(dumps(graph)) == graph
    assert parse_graph(print_graph(graph)) == graph


@every_graph
def test_the_work_is_bounded(index: int) -> None:
    graph = graphs()[index]
    assert 1 <= len(graph.ops) <= MAX_OPS
    for t in graph.tensors.values():
        assert t.type.elements <= MAX_ELEMENTS
        assert len(t.known_shape) <= MAX_RANK
    for op in graph.ops:
        assert op.kind == END or spec(op.kind).semantics.flops(call_of(op)) <= MAX_FLOPS


def test_results_are_fair_whatever_the_noise() -> None:
    """Noise that the generator has not seen may come upon one graph or another; upon few."""
    bad = [
        index for index, graph in enumerate(graphs()) if too_sensitive(graph, domain(graph, DATA_SEED), "other noise than the generator's")
    ]
    assert len(bad) <= COUNT // 10


def test_the_graphs_differ_and_have_everything() -> None:
    assert len(set(graphs())) == COUNT
    ops = [op for graph in graphs() for op in graph.ops]
    tensors = [t for graph in graphs() for t in graph.tensors.values()]
    assert len({op.kind for op in ops}) > 50
    assert len({spec(op.kind).lowering.role for op in ops}) == 5
    assert {t.dtype for t in tensors} >= set(GRAPH_DTYPES) - {DType.undef, DType.s64, DType.f8_e4m3, DType.f8_e5m2}
    assert {t.property_type for t in tensors} == set(PropertyType)
    assert {len(t.known_shape) for t in tensors} >= {0, 1, 2, 3, 4, 5}
    assert {0, 1, 2, 7, 17, 33} <= {d for t in tensors for d in t.known_shape}
    strange = [t for t in tensors if t.strides != dense_strides(t.known_shape)]
    assert any(t.storage_elements > t.type.elements for t in strange), "gaps"
    assert any(t.storage_elements == t.type.elements for t in strange), "permuted"
    assert any(len(readers) > 1 for graph in graphs() for readers in graph.consumers.values()), "fan-out"
    assert any(len(graph.outputs) > 1 for graph in graphs())
    assert any(op.kind == END for op in ops)
    given = {name for op in ops for name in op.attrs}
    assert len(given) > 20


def test_most_of_what_is_drawn_is_legal() -> None:
    graphs()
    assert TALLY.legal > 0.3 * TALLY.tried


def test_a_graph_depends_on_seed_index_and_size_alone() -> None:
    assert generate(3, 7) == graphs()[7]
    assert generate(3, 7, max_ops=5) != graphs()[7]
    assert generate(4, 7) != graphs()[7]
    code = "from benchgraph.fuzz.generate import generate; from benchgraph.graph import dumps; print(dumps(generate(3, 7)), end='')"
    for hash_seed in ("1", "2"):
        env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert done.stdout == dumps(graphs()[7])


def test_math_modes_are_drawn() -> None:
    assert len({graph.fpmath_mode for graph in graphs()}) > 2
    assert sum(graph.fpmath_mode == "strict" for graph in graphs()) > COUNT / 2


@pytest.mark.parametrize("release", [(3, 2), (3, 7)])
def test_what_a_release_of_onednn_lacks_is_not_drawn(release: Version) -> None:
    made = [generate(3, index, max_ops=8, release=release) for index in range(12)]
    assert all(has(op, release) for graph in made for op in graph.ops)
    assert not all(has(op, release) for graph in graphs() for op in graph.ops), "otherwise this would prove nothing"
    assert all(not graph.fpmath_apply_to_int or release >= FPMATH_OF_INTEGERS for graph in made)
    assert len({op.kind for graph in made for op in graph.ops}) > 15


def test_one_op_is_the_least() -> None:
    assert {len(generate(5, index, max_ops=1).ops) for index in range(5)} == {1}


def test_every_kind_that_computes_can_be_drawn() -> None:
    """Each row on its own, so that none is left out for want of legal draws."""
    for row in OPS.values():
        if not row.lowering.unsupported:
            assert any(draw(Random(f"{row.kind}{i}"), row, ANYTHING, Tally()) for i in range(5)), row.kind


# ---- fairness --------------------------------------------------------------------------------------------------------


def judged(body: str) -> set[int]:
    graph = validate(parse_graph(f"graph engine=cpu fpmath=strict {{ {body} }}"))
    return too_sensitive(graph, domain(graph, 0), "noise")


@pytest.mark.parametrize(
    "body",
    [
        "%2: f32[16,32] = MatMul#0(%0: f32[16,8], %1: f32[8,32]) %3: f32[16,32] = ReLU#1(%2) %4: f32[16,32] = SoftMax#2(%3) {axis=-1}",
        "%2: bf16[16,32] = MatMul#0(%0: bf16[16,8], %1: bf16[8,32]) %4: bf16[16,32] = Add#1(%2, %3: bf16[16,32])",
        "%1: f32[64] = Round#0(%0: f32[64])",
        "%2: boolean[64] = GreaterEqual#0(%0: f32[64], %1: f32[64]) %4: f32[64] = Select#1(%2, %0, %3: f32[64])",
        "%1: u8[64] = Quantize#0(%0: f32[64]) {scales=[0.1]} %2: f32[64] = Dequantize#1(%1) {scales=[0.1]}",
        "%1: f32[0,4] = Exp#0(%0: f32[0,4])",
    ],
)
def test_good_graphs_are_fair(body: str) -> None:
    assert not judged(body)


@pytest.mark.parametrize(
    ("body", "bad"),
    [
        ("%1: f32[64] = Tanh#0(%0: f32[64]) %2: f32[64] = Log#1(%1)", 1),  # of negative numbers
        ("%1: f32[64] = Exp#0(%0: f32[64]) %2: f32[64] = Exp#1(%1) %3: f32[64] = Exp#2(%2)", 1),  # 50 times the error, then an overflow
        (
            "%1: f32[64] = Exp#0(%0: f32[64]) %2: f32[64] = Log#1(%1) %3: f32[64] = Subtract#2(%2, %0)",
            1,
        ),  # of what may be off by a sum's rounding
        ("%1: f32[64] = GELU#0(%0: f32[64]) %2: f32[64] = Reciprocal#1(%1)", 1),  # of 1 + erf(x), which cancels
        ("%1: bf16[999] = Exp#0(%0: bf16[999]) %2: bf16[999] = Round#1(%1)", 1),  # at half a number it goes either way
        ("%2: f32[999] = Add#0(%0: f32[999], %1: f32[999]) %3: f32[999] = Subtract#1(%2, %1) %4: boolean[999] = GreaterEqual#2(%3, %0)", 2),
        ("%1: f32[64] = Clamp#0(%0: f32[64]) {min=0.0, max=0.0} %2: f32[64] = Add#1(%1, %1)", 0),  # all zeros prove nothing
        ("%1: f32[64] = ReLU#0(%0: f32[64]) %3: f32[64] = Multiply#1(%1, %2: f32[64])", 1),  # half zeros, if its partition has no ReLU
    ],
)
def test_an_op_that_multiplies_errors_is_named(body: str, bad: int) -> None:
    assert judged(body) == {bad}


@pytest.mark.parametrize(("mode", "bad"), [("strict", set()), ("tf32", {1}), ("bf16", {1})])
def test_an_op_that_multiplies_what_a_math_mode_may_round_is_not_fair(mode: str, bad: set[int]) -> None:
    """At the middle between two numbers Round goes either way; data on a grid of 1/8 have products that f32 holds."""
    graph = validate(parse_graph(f"graph engine=cpu fpmath={mode} {{ %2: f32[99,99] = MatMul#0(%0: f32[99,9], %1: f32[9,99]) {ROUND} }}"))
    data = {id: np.round(array * 8 + 0.3) / 8 + 0.001 for id, array in domain(graph, 0).items()}
    assert too_sensitive(graph, data, "noise") == bad


@pytest.mark.parametrize(("apart", "bad"), [(6.0, set()), (30.0, {0})])
def test_a_result_that_f32_cannot_tell_from_zero_counts_as_one(apart: float, bad: set[int]) -> None:
    """-log(1 + e**-30) is -1e-13, and comes out as 0: more than what a LogSoftmax of two columns is trusted with."""
    graph = validate(parse_graph("graph engine=cpu fpmath=strict { %1: f32[9,2] = LogSoftmax#0(%0: f32[9,2]) }"))
    assert too_sensitive(graph, {0: apart * np.eye(9, 2)}, "noise") == bad
