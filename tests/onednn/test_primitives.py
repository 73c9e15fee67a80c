"""The real oneDNN's primitives against the float64 reference. Skipped, with the reason, where there is no oneDNN."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unavailable
from benchgraph.graph.build import sample_graph
from benchgraph.graph.ir import Graph
from benchgraph.graph.text import parse_graph
from benchgraph.harness.buffers import allocate
from benchgraph.harness.case import check
from benchgraph.onednn import client
from benchgraph.onednn.primitives.execution import Chain
from benchgraph.onednn.primitives.library import OneDnnPrimitives
from benchgraph.onednn.primitives.table import FAMILIES
from benchgraph.ops import OPS, spec
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Policy
from benchgraph.reference import evaluate, fill
from benchgraph.results.result import Result, Status
from tests.onednn.graphs import line
from tests.onednn.test_primitive_plan import COPIES, MLP, QUANTISED, SWISH
from tests.support.fake_library import held

PROBLEM = parse(["--library=onednn:primitives", "--graph", "--expected-n-partitions=0", "--case=mlp.json"]).problems[0]

# Samples that oneDNN 3.2 computes with larger errors than allowed, alone and in its Graph API; and one that it sums in bf16.
WRONG = {("TanhBackward", 6), ("AvgPoolBackward", 19)}

TWO_CONVOLUTIONS = """
graph engine=cpu fpmath=strict {
  %3: f32[2,32,14,14] = Convolution#0(%0: f32[2,32,16,16], %1: f32[32,32,3,3] constant, %2: f32[32] constant) {ATTRS, pads_end=[0,0]}
  %4: f32[2,32,14,14] = ReLU#1(%3)
  %5: f32[2,32,7,7] = MaxPool#2(%4) {kernel=[2,2], strides=[2,2], pads_begin=[0,0], pads_end=[0,0], data_format="NCX"}
  %7: f32[2,32,5,5] = Convolution#3(%5, %6: f32[32,32,3,3] constant) {ATTRS, pads_end=[0,0]}
  %8: f32[2,32,5,5] = Abs#4(%7)
}
""".replace("ATTRS", 'strides=[1,1], dilations=[1,1], pads_begin=[0,0], data_format="NCX", weights_format="OIX"')

HOST_SCALAR = """
graph engine=cpu fpmath=strict {
  %3: f32[4,8] = MatMul#0(%0: f32[4,16], %1: f32[16,8])
  %4: f32[4,8] = Divide#1(%3, %2: f32[] host_scalar)
}
"""

ROWS = """
graph engine=cpu fpmath=strict {
  %3: f32[2,4,16] = LayerNorm#0(%0: f32[2,4,16], %1: f32[16] constant, %2: f32[16] constant) {keep_stats=false}
  %5: f32[2,4,8] = MatMul#1(%3, %4: f32[16,8] constant)
  %6: f32[8,8] = StaticReshape#2(%5) {shape=[8,8], special_zero=false}
  %7: f32[8,8] = SoftMax#3(%6) {axis=-1}
}
"""

WITH_NUMPY = """
graph engine=cpu fpmath=strict {
  %2: f32[4,8] = MatMul#0(%0: f32[4,16], %1: f32[16,8])
  %3: s32[4,8] = GenIndex#1(%2) {axis=1}
  %5: boolean[4,8] = GreaterEqual#2(%3, %4: s32[1,8])
  %6: f32[4,8] = Exp#3(%2)
}
"""


@pytest.fixture(scope="module")
def real() -> Iterator[OneDnnPrimitives]:
    try:
        found = OneDnnPrimitives()
    except BenchgraphError as bad:
        pytest.skip(str(bad))
    yield found
    client.close_all()


def checked(library: OneDnnPrimitives, graph: Graph) -> Result:
    """What mode C makes of a graph."""
    return held(check, PROBLEM, graph, library)


def kinds(library: OneDnnPrimitives, graph: Graph) -> list[str]:
    return [p.kind for p in library.partitions(graph, Policy.post_ops)]


def chain_of(library: OneDnnPrimitives, graph: Graph) -> tuple[Chain, dict[int, np.ndarray]]:
    """The graph bound as a chain on data, and its arrays."""
    parts = library.partitions(graph, Policy.post_ops)
    arrays = {t.id: allocate(t) for t in graph.tensors.values()}
    for id, values in fill(graph, 1).items():
        arrays[id][...] = values
    pairs = zip(parts, library.compile_all(parts), strict=True)
    bound = [c.bind([arrays[t.id] for t in p.inputs], [arrays[t.id] for t in p.outputs]) for p, c in pairs]
    return library.sequence(bound), arrays


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_every_family_agrees_with_the_reference(real: OneDnnPrimitives, kind: str) -> None:
    """All samples of the row that a primitive executes."""
    wrong = []
    for n, sample in enumerate(spec(kind).testing.samples):
        graph = sample_graph(OPS[kind], sample)
        if (kind, n) in WRONG or kinds(real, graph) == ["numpy"]:
            continue
        result = checked(real, graph)
        if result.status not in (Status.PASSED, Status.MISTRUSTED):
            wrong.append(f"sample {n}: {result.reason}")
    assert not wrong, "\n".join(wrong)


def test_most_kinds_have_a_primitive_for_some_sample(real: OneDnnPrimitives) -> None:
    lacking = {kind for kind in FAMILIES if all(kinds(real, sample_graph(OPS[kind], s)) == ["numpy"] for s in spec(kind).testing.samples)}
    assert lacking <= {"GroupNorm", "Select", "RMSNorm"}  # newer than 3.2


U8_WEIGHTS = QUANTISED.replace("%1: s8", "%1: u8")
PATTERNS = MLP, QUANTISED, U8_WEIGHTS, SWISH, COPIES, HOST_SCALAR, ROWS, TWO_CONVOLUTIONS, WITH_NUMPY


@pytest.mark.parametrize("source", PATTERNS)
def test_patterns_agree_with_the_reference(real: OneDnnPrimitives, source: str) -> None:
    result = checked(real, parse_graph(source))
    assert result.status in (Status.PASSED, Status.MISTRUSTED), result.reason


@pytest.mark.parametrize("source", [MLP, QUANTISED, COPIES, ROWS, TWO_CONVOLUTIONS, WITH_NUMPY])
def test_a_chain_computes_what_its_steps_do(real: OneDnnPrimitives, source: str) -> None:
    graph = parse_graph(source)
    chain, arrays = chain_of(real, graph)
    want = evaluate(graph, {t.id: arrays[t.id].copy() for t in graph.inputs})
    assert chain.run(3) > 0
    for each in chain._segments:
        each.get()
    for t in graph.outputs:
        np.testing.assert_allclose(arrays[t.id].astype(np.float64), want[t.id].astype(np.float64), rtol=1e-5, atol=1e-5)


def test_quantised_products_are_integer_primitives(real: OneDnnPrimitives) -> None:
    (part,) = real.partitions(parse_graph(QUANTISED), Policy.post_ops)
    assert part.kind == "matmul"
    assert all("ref" not in i.name for i in real.compile(part).implementations)


def test_host_scalars_are_operands(real: OneDnnPrimitives) -> None:
    assert kinds(real, parse_graph(HOST_SCALAR)) == ["matmul"]


def test_layouts_flow_from_one_primitive_to_the_next(real: OneDnnPrimitives) -> None:
    """Blocked between convolutions and the pool: no more reorders than one to enter and one to leave. Weights are packed once."""
    chain, _ = chain_of(real, parse_graph(TWO_CONVOLUTIONS))
    (note,) = chain.notes
    primitives, reorders, prepared = (int(word) for word in note.replace(";", "").split() if word.isdigit())
    assert primitives == 3
    assert reorders <= 2
    assert prepared == 2
    ran = [i.primitive for step in chain.implementations for i in step]
    assert [name for name in ran if name != "reorder"] == ["convolution", "pooling", "convolution"]


def test_what_numpy_executes_is_marked(real: OneDnnPrimitives) -> None:
    graph = parse_graph(WITH_NUMPY)
    result = checked(real, graph)
    assert [note.partition(": ")[2] for note in result.notes] == ["numpy executes op 1: GenIndex: no primitive computes it"]
    chain, _ = chain_of(real, graph)
    assert chain.notes[1].startswith("the time is that of oneDNN's and numpy's parts together")
    assert [i.name for step in chain.implementations for i in step].count("numpy:ref") >= 1


def test_constants_are_prepared_by_the_first_execution_alone(real: OneDnnPrimitives) -> None:
    graph = parse_graph(TWO_CONVOLUTIONS)
    chain, arrays = chain_of(real, graph)
    (segment,) = chain._segments
    chain.run(1)
    segment.get()
    before = {t.id: arrays[t.id].copy() for t in graph.outputs}
    for t in graph.inputs:
        if t.is_constant and len(t.known_shape) > 1:
            arrays[t.id][...] = 0
    segment.put()
    chain.run(1)
    segment.get()
    assert all(np.array_equal(arrays[id], value) for id, value in before.items())


def test_a_policy_that_primitives_lack_is_refused(real: OneDnnPrimitives) -> None:
    with pytest.raises(Unavailable, match="no policy fused"):
        real.partitions(line("ReLU"), Policy.fused)


def test_steps_of_another_library_are_refused(real: OneDnnPrimitives) -> None:
    with pytest.raises(InvalidArguments, match="another library"):
        real.sequence([lambda: None])


def test_a_file_that_is_not_there_is_named_as_it_was_given() -> None:
    with pytest.raises(InvalidArguments, match="--library=onednn:primitives:/nowhere"):
        OneDnnPrimitives("/nowhere")


def test_what_nothing_computes_is_unsupported(real: OneDnnPrimitives) -> None:
    graph = parse_graph("graph engine=cpu fpmath=strict {\n  %1: f32[4] = Wildcard#0(%0: f32[4])\n}\n")
    (part,) = real.partitions(graph, Policy.post_ops)
    assert "neither a primitive nor numpy computes Wildcard" in part.reason
