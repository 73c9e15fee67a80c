"""Every schedule of a nest without a product and without a window gives the results of the reference, and which ones are chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.elements import element_nest
from benchgraph.gir.ir import FusedOp
from benchgraph.gir.ir import Graph as Nests
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import Target
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill, uniform
from benchgraph.schedule.elements import CONVERSION, space
from benchgraph.schedule.elements_cost import ElementCosts
from benchgraph.schedule.primitives import parse
from benchgraph.tir.interpret import interpret
from tests.support.graph_ir import scheduled
from tests.support.partitions import partition_of, with_strides
from tests.support.targets import TARGET

SMALL = replace(TARGET, l1_bytes=1 << 10, l2_bytes=1 << 13)  # so that small nests have many schedules


def op(kind: str, *shapes: tuple[int, ...], dtype: DType = DType.f32, strides: tuple[int, ...] | None = None, **attrs: object) -> Graph:
    b = GraphBuilder()
    b.op(kind, *(b.input(shape, dtype, strides=strides) for shape in shapes), **attrs)
    return b.graph()


NESTS = {
    "pointwise": op("Exp", (3, 7, 90)),
    "pointwise, with a row": op("Add", (9, 70), (70,)),
    "transposed": with_strides(op("ReLU", (2, 24, 5, 10)), t1=(1200, 1, 240, 24)),
    "softmax of rows": op("SoftMax", (5, 3, 33), axis=2),
    "softmax of columns": op("SoftMax", (2, 9, 6, 25), axis=1),
    "softmax of columns, bf16": op("SoftMax", (2, 9, 6, 25), dtype=DType.bf16, axis=1),
    "softmax of the first axis": op("SoftMax", (9, 150), axis=0),
    "maximum of rows": op("ReduceMax", (3, 4, 5, 7), axes=[2, 3], keep_dims=True),
    "maximum of short rows": op("ReduceMax", (20, 9, 3), axes=[2]),
    "sum of everything": op("ReduceSum", (3, 12000), axes=[0, 1]),
    "sum of everything, in strides": op("ReduceL2", (1500, 60), strides=(70, 1), axes=[0, 1]),
    "sums of channels": op("ReduceMean", (2, 40, 9, 50), axes=[0, 1, 2]),
    "groups of channels": op("GroupNorm", (2, 8, 5, 6), (8,), (8,), groups=2, keep_stats=False, data_format="NCX"),
}


def with_schedule(g: Nests, name: str, text: str) -> Nests:
    nodes = (replace(n, schedule=parse(text)) if isinstance(n, FusedOp) and n.name == name else n for n in g.nodes)
    return replace(g, nodes=tuple(nodes))


def texts(graph: Graph, target: Target = SMALL) -> list[tuple[str, str]]:
    """Nests by name, with each of the schedules they can have."""
    g = scheduled(graph, target)
    nodes = (n for n in g.nodes if isinstance(n, FusedOp) and n.schedule is not None)
    return [(n.name, str(s)) for n in nodes for s in space(element_nest(g, n), target)]


@pytest.mark.parametrize("graph", NESTS.values(), ids=NESTS)
def test_every_schedule_is_right(graph: Graph) -> None:
    """On the interpreter, by its text."""
    g, p = scheduled(graph, SMALL), partition_of(graph)
    data, want = fill(graph, seed=1), evaluate(graph, fill(graph, seed=1))
    every = texts(graph)
    assert len(every) > 1
    for name, text in every:
        main = lower(with_schedule(g, name, text)).main
        outs = [np.zeros(t.shape, t.dtype.numpy) for t in p.outputs]
        interpret(main, [*(data[t.id].astype(t.dtype.numpy) for t in p.inputs), *outs])
        right = (compare(out, want[t.id], t.dtype, tolerance(graph)).ok for t, out in zip(p.outputs, outs, strict=True))
        assert all(right), text


def test_spaces_are_not_trivial() -> None:
    """The nests above have all primitives among their schedules."""
    every = [text for graph in NESTS.values() for _, text in texts(graph)]
    loops = "fuse d2, d3;", "tile d3 by ", "unroll_jam d1 by 4;", "unroll_jam d2 by 4;", "split_reduce d", "parallel d0, d1;"
    for part in (*loops, "vectorize d2.1", "recompute 3", "recompute 15"):
        assert any(part in text for text in every), part
    assert max(len(texts(graph)) for graph in NESTS.values()) <= 60


CHOSEN = {
    "rows": (op("SoftMax", (64, 512, 512), axis=2), "order d0, d1, d2; parallel d0, d1; vectorize d2"),
    "columns": (
        op("SoftMax", (64, 512, 28, 28), axis=1),
        "fuse d2, d3; tile d3 by 64; unroll_jam d1 by 4 in phase 0; order d0, d3.0, d1, d3.1; parallel d0, d3.0; vectorize d3.1; "
        "recompute 3",
    ),
    "long columns": (
        op("ReduceMin", (64, 512, 28, 28), axes=[0]),
        "fuse d1, d2, d3; tile d3 by 2048; unroll_jam d0 by 4; order d3.0, d0, d3.1; parallel d3.0; vectorize d3.1; recompute 3",
    ),
    "a few rows": (op("SoftMax", (30, 40), axis=1), "unroll_jam d0 by 4; order d0, d1; vectorize d1"),
    "a few rows of much work": (op("ReduceSum", (8, 4096), axes=[1]), "order d0, d1; vectorize d1"),
    "channels": (
        op("ReduceSum", (64, 56, 56, 64), axes=[0, 1, 2]),
        "fuse d0, d1, d2; split_reduce d2 by 3136; unroll_jam d2.1 by 4; order d2.0, d2.1, d3; parallel d2.0; vectorize d3; recompute 15",
    ),
    "chunks": (op("GELU", (4096, 4096)), "fuse d0, d1; tile d1 by 4096; order d1.0, d1.1; parallel d1.0; vectorize d1.1"),
    "tiles": (
        with_strides(op("ReLU", (8, 192, 24, 24)), t1=(110592, 1, 4608, 192)),
        "fuse d2, d3; tile d3 by 64; tile d1 by 64; order d0, d3.0, d1.0, d3.1, d1.1; parallel d0, d3.0, d1.0; vectorize d1.1",
    ),
    "a short nest": (op("ReLU", (40, 100)), "fuse d0, d1; tile d1 by 4000; order d1.0, d1.1; vectorize d1.1"),
}


@pytest.mark.parametrize(("graph", "text"), CHOSEN.values(), ids=CHOSEN)
def test_chosen_schedules(graph: Graph, text: str) -> None:
    assert [str(n.schedule) for n in scheduled(graph).nodes if isinstance(n, FusedOp)] == [text]


@pytest.mark.parametrize(
    ("columns", "dtype", "machine", "together"),
    [
        (196, DType.bf16, "", 1),
        (196, DType.f32, "", 4),
        (196, DType.f32, "zen4", 1),
        (784, DType.f32, "zen4", 4),
    ],
    ids=["half a line at a time", "a line", "a line in two passes", "in pages of their own"],
)
def test_rows_of_a_page_of_memory_are_added_one_by_one(columns: int, dtype: DType, machine: str, together: int) -> None:
    """What caches hold needs no stream."""
    graph = op("ReduceMin", (64, 1024, columns), axes=[1], dtype=dtype)
    held, far = (scheduled(graph, replace(TARGET, llc_bytes=llc, machine=machine)).nodes[0] for llc in (0, 32 << 20))
    jams = [n.schedule.jam.count for n in (held, far) if isinstance(n, FusedOp) and n.schedule is not None]
    assert jams == [4, together]


@pytest.mark.parametrize("graph", NESTS.values(), ids=NESTS)
def test_results_do_not_depend_on_the_number_of_cores(graph: Graph) -> None:
    """Bit by bit, though schedules do."""
    p, data = partition_of(graph), uniform(graph, seed=1)

    def results(cores: int) -> bytes:
        outs = [np.zeros(t.shape, t.dtype.numpy) for t in p.outputs]
        main = lower(scheduled(graph, replace(SMALL, cores=cores))).main
        interpret(main, [*(data[t.id].astype(t.dtype.numpy) for t in p.inputs), *outs])
        return b"".join(out.tobytes() for out in outs)

    assert results(1) == results(2) == results(7)


def test_one_core_has_schedules_of_its_own() -> None:
    """Rows together, where they are no tasks."""
    graph = op("SoftMax", (8, 128, 128), axis=2)
    one, two = (str(scheduled(graph, replace(TARGET, cores=cores)).nodes[0].schedule) for cores in (1, 2))
    assert "unroll_jam d1 by 4" in one
    assert "parallel d0, d1" in two


def test_what_is_computed_again_is_not_stored() -> None:
    """Softmax of bf16 columns: the second phase reads src again, converts it and stores exponentials, which the third one reads."""
    g = scheduled(op("SoftMax", (2, 9, 6, 25), dtype=DType.bf16, axis=1), SMALL)
    (node,) = (n for n in g.nodes if isinstance(n, FusedOp))
    nest = element_nest(g, node)
    assert nest is not None
    stored = [a for a in nest.accesses if a.name in nest.stored and a.is_store]
    assert [(a.instructions <= CONVERSION, a.source_bits) for a in stored] == [(True, 16), (False, 16)]
    again, kept = (ElementCosts(nest, SMALL)(parse(f"order d0, d2, d3, d1; vectorize d1{end}"), 1).passes for end in ("; recompute 3", ""))
    assert again < kept


def test_nests_that_share_an_input_have_the_same_loops() -> None:
    """So that they are one loop in the end: the second finds in L2 what the first has read."""
    b = GraphBuilder()
    b.op("GroupNorm", b.input((2, 48, 48, 320)), *(b.input((320,)) for _ in range(2)), groups=32, keep_stats=False, data_format="NXC")
    nests = [n for n in scheduled(b.graph()).nodes if isinstance(n, FusedOp) and n.ops[-1].kind == "ReduceMean"]
    assert len(nests) == 2
    assert nests[0].schedule == nests[1].schedule
