from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import NoSuchOpKind
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.graph.json import load
from benchgraph.graph.text import parse_graph
from benchgraph.ops import OPS, spec
from benchgraph.ops.spec import Role
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from tests.support.corpus import corpus_files

SHARED = Path(__file__).parents[2].parent / "shared"

# ---- random graphs ---------------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn, most: int = 14) -> Graph:
    """Ops drawn from the whole table on square tensors; any op may read any earlier tensor. Ops come in any order."""
    tensors = [LogicalTensor(i, DType.f32, (8, 8)) for i in range(3)]
    ops = list[Op]()
    for id in range(draw(st.integers(1, most))):
        row = OPS[draw(st.sampled_from(sorted(OPS)))]
        recent = st.sampled_from(tensors[-6:])
        ins = tuple(draw(recent) for _ in row.schema.inputs)
        dtypes = st.sampled_from((DType.f32, DType.u8)) if row.semantics.is_conversion else st.just(DType.f32)
        outs = tuple(LogicalTensor(len(tensors) + n, draw(dtypes), (8, 8)) for n in range(len(row.schema.outputs)))
        tensors += outs
        ops.append(Op(id, row.kind, inputs=ins, outputs=outs))
    ports = draw(st.none() | st.lists(st.sampled_from([t.id for t in tensors[3:]]), unique=True).map(tuple)) if tensors[3:] else None
    return Graph(tuple(draw(st.permutations(ops))), output_ports=ports)


def edges(graph: Graph) -> set[tuple[int, int]]:
    made = {t.id: op.id for op in graph.ops for t in op.outputs}
    return {(made[t.id], op.id) for op in graph.ops for t in op.inputs if t.id in made}


def closure(pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    reached = set(pairs)
    while more := {(a, d) for a, b in reached for c, d in pairs if b == c} - reached:
        reached |= more
    return reached


policies = st.sampled_from(Policy)


@given(graphs(), policies)
def test_partitions_are_complete_convex_connected_and_in_order(graph: Graph, policy: Policy) -> None:
    cut = partitions(graph, policy)
    ids = [op.id for p in cut for op in p.ops]
    assert sorted(ids) == sorted(op.id for op in graph.ops)

    flow, reaches = edges(graph), closure(edges(graph))
    for p in cut:
        members = {op.id for op in p.ops}
        outside = set(ids) - members
        leaving_and_back = [o for o in outside if any((m, o) in reaches for m in members) and any((o, m) in reaches for m in members)]
        assert not leaving_and_back, "a partition must be convex"
        inside = {(a, b) for a, b in flow if {a, b} <= members}
        linked = closure(inside | {(b, a) for a, b in inside})
        assert all(a == b or (a, b) in linked for a in members for b in members), "a partition must be connected"

    home = {op.id: n for n, p in enumerate(cut) for op in p.ops}
    assert all(home[a] <= home[b] for a, b in flow), "partitions must come in an order in which they can run"
    for p in cut:
        at = {op.id: n for n, op in enumerate(p.ops)}
        assert all(at[a] < at[b] for a, b in flow if a in at and b in at), "ops must come in topological order"


@given(graphs(), policies)
def test_ports_are_what_crosses_the_border(graph: Graph, policy: Policy) -> None:
    named = set(graph.output_ports or ())
    for p in partitions(graph, policy):
        members = {op.id for op in p.ops}
        made = {t.id for op in p.ops for t in op.outputs}
        read_inside = {t.id for op in p.ops for t in op.inputs}
        read_outside = {t.id for op in graph.ops if op.id not in members for t in op.inputs}
        read_at_all = read_inside | read_outside
        assert {t.id for t in p.inputs} == read_inside - made
        assert {t.id for t in p.outputs} == {t for t in made if t in read_outside or t not in read_at_all or t in named}
        assert len(p.inputs) == len({t.id for t in p.inputs})
        assert len(p.outputs) == len({t.id for t in p.outputs})


@given(graphs(), policies)
def test_the_same_graph_is_always_partitioned_alike_under_new_ids(graph: Graph, policy: Policy) -> None:
    first, second = partitions(graph, policy), partitions(graph, policy)
    assert [(p.kind, p.ops, p.inputs, p.outputs) for p in first] == [(p.kind, p.ops, p.inputs, p.outputs) for p in second]
    assert len({p.id for p in first + second}) == len(first + second)


@given(graphs())
def test_fused_has_fewest_partitions_and_one_op_each_one_op_in_each(graph: Graph) -> None:
    counts = {policy: len(partitions(graph, policy)) for policy in Policy}
    assert counts[Policy.fused] <= counts[Policy.post_ops] <= counts[Policy.one_op_each] == len(graph.ops)


@given(graphs(), policies)
def test_an_unsupported_op_is_a_partition_with_a_reason(graph: Graph, policy: Policy) -> None:
    for p in partitions(graph, policy):
        if any(spec(op.kind).lowering.unsupported for op in p.ops):
            assert len(p.ops) == 1
            assert not p.is_supported
            assert (p.kind == "end") == (p.ops[0].kind == END)
        else:
            assert p.is_supported


@given(graphs())
def test_post_ops_partitions_have_one_anchor_and_no_interior_outputs(graph: Graph) -> None:
    for p in partitions(graph, Policy.post_ops):
        anchors = [op for op in p.ops if spec(op.kind).lowering.role is Role.anchor]
        assert len(anchors) <= 1
        assert {t.id for t in p.outputs} <= {t.id for t in p.ops[-1].outputs} or len(p.ops) == 1


# ---- single facts ----------------------------------------------------------------------------------------------------


def kinds(cut: tuple[Partition, ...]) -> list[tuple[str, list[int]]]:
    return [(p.kind, [op.id for op in p.ops]) for p in cut]


WILDCARD = """
graph engine=cpu fpmath=strict {
  %2: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
  %3: f32[8,8] = Wildcard#1(%2)
  %4: f32[8,8] = Add#2(%2, %3)
}
"""


def test_a_wildcard_between_two_ops_keeps_them_apart() -> None:
    cut = partitions(parse_graph(WILDCARD), Policy.fused)
    assert kinds(cut) == [("chain", [0]), ("unsupported", [1]), ("pointwise_chain", [2])]
    assert cut[1].reason


def test_no_two_partitions_depend_on_each_other() -> None:
    text = """
    graph engine=cpu fpmath=strict {
      %10: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
      %11: f32[8,8] = Wildcard#1(%10)
      %12: f32[8,8] = MatMul#2(%0, %1)
      %13: f32[8,8] = Wildcard#3(%12)
      %14: f32[8,8] = Add#4(%10, %13)
      %15: f32[8,8] = Add#5(%12, %11)
    }
    """
    cut = partitions(parse_graph(text), Policy.fused)
    assert ("chain", [0, 4]) in kinds(cut)
    assert ("chain", [2, 5]) not in kinds(cut)


def test_end_on_an_interior_value_makes_an_extra_output_and_splits_nothing() -> None:
    text = """
    graph engine=cpu fpmath=strict {
      %2: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
      End#1(%2)
      %3: f32[8,8] = ReLU#2(%2)
      %4: f32[8,8] = MatMul#3(%3, %1)
      End#4(%4)
    }
    """
    cut = partitions(parse_graph(text), Policy.fused)
    assert [p.kind for p in cut] == ["chain", "end", "end"]
    assert [t.id for t in cut[0].outputs] == [2, 4]
    assert [t.id for t in cut[0].inputs] == [0, 1]
    assert not cut[1].outputs
    assert "marks a graph output" in cut[1].reason


def test_post_ops_cuts_attention_as_a_library_of_primitives_would() -> None:
    text = """
    graph engine=cpu fpmath=strict {
      %5: f32[2,8,8] = MatMul#0(%0: f32[2,8,16], %1: f32[2,16,8])
      %6: f32[2,8,8] = Divide#1(%5, %2: f32[1])
      %7: f32[2,8,8] = Add#2(%6, %3: f32[2,1,8])
      %8: f32[2,8,8] = SoftMax#3(%7) {axis=-1}
      %9: f32[2,8,16] = MatMul#4(%8, %4: f32[2,8,16])
      %10: f32[8,2,16] = StaticTranspose#5(%9) {order=[1,0,2]}
    }
    """
    graph = parse_graph(text)
    assert kinds(partitions(graph, Policy.post_ops)) == [("post_ops", [0, 1, 2]), ("row_post_ops", [3]), ("post_ops", [4]), ("single", [5])]
    assert kinds(partitions(graph, Policy.fused)) == [("chain", [0, 1, 2, 3, 4, 5])]


def test_post_ops_gives_quantize_to_the_layer_above_and_dequantize_to_the_one_below() -> None:
    text = """
    graph engine=cpu fpmath=strict {
      %2: f32[8,8] = Dequantize#0(%0: u8[8,8]) {qtype="per_tensor", scales=[0.5], zps=[1]}
      %3: f32[8,8] = MatMul#1(%2, %1: f32[8,8])
      %4: f32[8,8] = ReLU#2(%3)
      %5: u8[8,8] = Quantize#3(%4) {qtype="per_tensor", scales=[0.5], zps=[1]}
      %6: f32[8,8] = Dequantize#4(%5) {qtype="per_tensor", scales=[0.5], zps=[1]}
      %7: f32[8,8] = MatMul#5(%6, %1)
    }
    """
    assert kinds(partitions(parse_graph(text), Policy.post_ops)) == [("post_ops", [0, 1, 2, 3]), ("post_ops", [4, 5])]


def test_an_op_without_a_row_is_an_error_that_names_it() -> None:
    with pytest.raises(NoSuchOpKind, match=r"Convolutoin.*did you mean 'Convolution'"):
        partitions(Graph((Op(0, "Convolutoin"),)), Policy.fused)


def test_an_empty_graph_has_no_partitions() -> None:
    assert partitions(Graph(()), Policy.fused) == ()


def test_both_sides_of_a_border_see_the_producers_description() -> None:
    x, y, z = (LogicalTensor(i, DType.f32, (4, 4), strides) for i, strides in ((0, None), (1, (1, 4)), (2, None)))
    relu = next(
        k
        for k, row in OPS.items()
        if row.lowering.role is Role.pointwise and len(row.schema.inputs) == 1 and not row.semantics.is_conversion
    )
    graph = Graph((Op(0, relu, inputs=(x,), outputs=(y,)), Op(1, relu, inputs=(LogicalTensor(1, DType.f32, (4, 4)),), outputs=(z,))))
    first, second = partitions(graph, Policy.one_op_each)
    assert first.outputs == second.inputs == (y,)


def test_what_layout_ops_leave_unread_is_prepared_for_others() -> None:
    """Not what this graph reads itself, nor results of other ops."""
    t = [LogicalTensor(i, DType.f32, (8, 8)) for i in range(5)]
    ops = [Op(0, "Reorder", inputs=(t[0],), outputs=(t[1],)), Op(1, "Reorder", inputs=(t[1],), outputs=(t[2],))]
    ops.append(Op(2, "ReLU", inputs=(t[1],), outputs=(t[3],)))
    assert [p.prepared for p in partitions(Graph(tuple(ops)), Policy.one_op_each)] == [(), (2,), ()]


# ---- the corpus ------------------------------------------------------------------------------------------------------


def computing(path: Path) -> list[Partition] | None:
    """The fused partitions that compute something; None when some op has no row yet."""
    try:
        graph = load(path)
        cut = partitions(graph, Policy.fused)
    except NoSuchOpKind:
        return None
    return [p for p in cut if p.kind != "end"]


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside this checkout")
def test_each_graph_of_the_paper_is_one_partition() -> None:
    found = {path.stem: computing(path) for path in sorted((SHARED / "corpus" / "paper").glob("*.json"))}
    assert len(found) == 28
    assert {name: cut and len(cut) for name, cut in found.items() if not cut or len(cut) != 1} == {}


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside this checkout")
def test_each_onednn_graph_whose_ops_have_rows_is_one_supported_partition() -> None:
    found = {str(path): cut for path in corpus_files("onednn") if (cut := computing(path)) is not None}
    assert len(found) >= 109
    assert {name: len(cut) for name, cut in found.items() if len(cut) != 1 or not cut[0].is_supported} == {}
