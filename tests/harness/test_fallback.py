"""Graphs with Wildcards that say what they compute: whole, on every library, right and timed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph import fallback
from benchgraph.cli import main
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.layers import CALLER
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.fallback import Function, Literal
from benchgraph.graph import Graph, GraphBuilder, dumps, loads, save
from benchgraph.graph.text import parse_graph, print_graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.buffers import plan
from benchgraph.harness.case import run_case
from benchgraph.harness.fallback import has_function, with_fallback
from benchgraph.harness.localise import localise
from benchgraph.library.own_library import Benchgraph
from benchgraph.onednn.library import OneDnn
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Policy
from benchgraph.reference import fill, uniform
from benchgraph.results.json_report import parse as parse_report
from benchgraph.results.result import CaseResult, Status
from tests.support.fake_library import CALL_S, OP_S, Clock, FakeLibrary, fake_bench
from tests.support.table import all_hold

SIZE = (8, 16)


def wild(
    b: GraphBuilder,
    kind: str,
    *ins: LogicalTensor | Literal | None,
    to: tuple[tuple[Shape, DType], ...] = ((SIZE, DType.f32),),
    **attrs: Any,
) -> tuple[LogicalTensor, ...]:
    """A Wildcard that computes this."""
    read = list(dict.fromkeys(t for t in ins if isinstance(t, LogicalTensor)))
    inputs = tuple(read.index(t) if isinstance(t, LogicalTensor) else t for t in ins)
    f = Function(kind, 18, attrs, inputs, (True,) * len(to))
    return b.append("Wildcard", tuple(read), Attrs(computes=f.text), tuple(d for _, d in to), shapes=tuple(s for s, _ in to))


def product(b: GraphBuilder, x: LogicalTensor) -> LogicalTensor:
    return b.op("MatMul", x, b.constant((x.known_shape[1], 16)))


def at_the_start() -> Graph:
    b = GraphBuilder()
    (rows,) = wild(b, "Gather", b.constant((100, 16)), b.input((8,), DType.s32))
    b.op("ReLU", product(b, rows))
    return b.graph()


def in_the_middle() -> Graph:
    """What would be one fusion."""
    b = GraphBuilder()
    (curved,) = wild(b, "Erf", product(b, b.input(SIZE)))
    b.op("ReLU", product(b, curved))
    return b.graph()


def at_the_end() -> Graph:
    b = GraphBuilder()
    wild(b, "ArgMax", b.op("SoftMax", b.input(SIZE), axis=1), axis=1, keepdims=0, to=(((8,), DType.s32),))
    return b.graph()


def several_outputs() -> Graph:
    b = GraphBuilder()
    count, both = Literal.of(np.array([5])), (((8, 5), DType.f32), ((8, 5), DType.s32))
    best, _ = wild(b, "TopK", b.op("Square", b.input(SIZE)), count, axis=1, to=both)
    b.op("Exp", best)
    return b.graph()


def beside_a_path() -> Graph:
    """The product and the sum would be one, if the sum did not wait for the Wildcard too, which waits for the product."""
    b = GraphBuilder()
    x = product(b, b.input(SIZE))
    (curved,) = wild(b, "Erf", x)
    b.op("ReLU", b.op("Add", x, curved))
    return b.graph()


def alone() -> Graph:
    b = GraphBuilder()
    wild(b, "CumSum", b.input(SIZE), Literal.of(np.array(1)))
    return b.graph()


def one_after_the_other() -> Graph:
    """Integers between them, of which a part is twice read."""
    b = GraphBuilder()
    (ids,) = wild(b, "Unsqueeze", b.input((8,), DType.s32), Literal.of(np.array([1])), to=(((8, 1), DType.s32),))
    (rows,) = wild(b, "Gather", b.constant((50, 16)), ids, to=(((8, 1, 16), DType.f32),))
    (hit,) = wild(b, "Less", ids, Literal.of(np.array(25)), to=(((8, 1), DType.boolean),))
    (picked,) = wild(b, "Where", hit, rows, Literal.of(np.float32([0.5])), to=(((8, 8, 16), DType.f32),))
    b.op("ReduceSum", picked, axes=(1,), keep_dims=False)
    return b.graph()


GRAPHS = {g.__name__: g for g in (at_the_start, in_the_middle, at_the_end, several_outputs, beside_a_path, alone, one_after_the_other)}


def ran(graph: Graph, folder: Path, *words: str, bench: Bench | None = None) -> CaseResult:
    """The case, from its file."""
    save(graph, folder / "case.json")
    (problem,) = parse([*words, "--graph", "--expected-n-partitions=0", f"--case={folder / 'case.json'}"]).problems
    return run_case(problem, bench or Bench(), print)


def test_they_run_in_their_place_and_are_right(tmp_path: Path) -> None:
    def passes(graph: Graph) -> None:
        assert loads(dumps(graph)) == graph
        assert parse_graph(print_graph(graph)) == graph
        for mode, status in {"C": Status.PASSED, "R": Status.EXECUTED, "B": Status.EXECUTED, "I": Status.INITIALIZED}.items():
            case = ran(graph, tmp_path, f"--mode={mode}", "--policy=fused,one_op_each")
            assert case.result.status is status, case.line
        assert sum(len(f.ops) for f in case.result.fallback) == sum(map(has_function, graph.ops))

    all_hold(passes, {name: (make(),) for name, make in GRAPHS.items()})


def test_reals_and_other_seeds_pass_too(tmp_path: Path) -> None:
    for words in (("--fill=reals",), ("--seed=7",)):
        for make in GRAPHS.values():
            case = ran(make(), tmp_path, *words)
            assert case.result.status is Status.PASSED, case.line


def test_they_cut_what_would_be_one_partition() -> None:
    for make, want in ((in_the_middle, [[0], [1], [2, 3]]), (beside_a_path, [[0], [1], [2, 3]])):
        graph = make()
        parts = with_fallback(Benchgraph(), graph).partitions(graph, Policy.fused)
        assert [[op.id for op in p.ops] for p in parts] == want
        assert [p.kind for p in parts if not p.id or p.kind.startswith("numpy")] == ["numpy Erf"]
        assert all(p.is_supported for p in parts)


def test_a_library_sees_plain_wildcards() -> None:
    seen = list[Graph]()

    class Watching(FakeLibrary):
        def partitions(self, graph: Graph, policy: Policy) -> Any:
            seen.append(graph)
            return super().partitions(graph, policy)

    graph = in_the_middle()
    with_fallback(Watching(Clock()), graph).partitions(graph, Policy.one_op_each)
    assert [dict(op.attrs) for op in seen[0].ops if op.kind == "Wildcard"] == [{}]


def test_what_they_read_shares_no_memory_with_other_values() -> None:
    """Else the indices are overwritten when a Gather is executed alone, after the whole graph."""
    b = GraphBuilder()
    (chosen,) = wild(b, "ArgMax", product(b, b.input(SIZE)), to=(((8,), DType.s32),), axis=1, keepdims=0)
    (rows,) = wild(b, "Gather", b.constant((100, 16)), chosen)
    b.op("ReLU", product(b, product(b, rows)))
    graph = b.graph()
    partitions = with_fallback(Benchgraph(), graph).partitions(graph, Policy.one_op_each)
    slot = plan(graph, partitions).slot
    assert slot
    assert not {t.id for op in graph.ops if has_function(op) for t in op.inputs} & slot.keys()


def test_without_a_function_it_is_as_before(tmp_path: Path) -> None:
    graph = in_the_middle()
    bare = replace(graph, ops=tuple(replace(op, attrs=op.attrs.without("computes")) for op in graph.ops))
    case = ran(bare, tmp_path)
    assert case.result.status is Status.UNIMPLEMENTED
    assert "a Wildcard stands for an unknown operation" in case.line
    assert with_fallback(library := Benchgraph(), bare) is library


def test_the_text_of_a_graph_with_one(golden: Any) -> None:
    golden(dumps(at_the_start()))


def test_a_text_that_does_not_fit_its_op_is_refused() -> None:
    text = dumps(at_the_start())
    for old, new, message in (
        ('\\"inputs\\": [0, 1]', '\\"inputs\\": [0, 2]', "op 0: Wildcard: Gather does not read each of the op's 2 inputs"),
        ('\\"outputs\\": [true]', '\\"outputs\\": [true, true]', "op 0: Wildcard: Gather has 2 results, the op 1; import the model again"),
        ('\\"opset\\": 18', '\\"opset\\": x', "op 0: Wildcard: attribute computes: it is no JSON"),
    ):
        assert old in text
        with pytest.raises(Exception, match=message.replace("(", r"\(")):
            loads(text.replace(old, new))


# ---- data -----------------------------------------------------------------------------------------------------------


def test_indices_lie_within_the_axis_that_they_are_of() -> None:
    for graph, rows in ((at_the_start(), 100), (one_after_the_other(), 50)):
        ids = next(t for t in graph.inputs if t.dtype is DType.s32)
        for arrays in (fill(graph, 0), uniform(graph, 0)):
            assert 0 <= arrays[ids.id].min() < arrays[ids.id].max() < rows


def test_data_beyond_it_are_refused_with_the_op(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **{"1": np.full(8, 100, np.int32)})
    case = ran(at_the_start(), tmp_path, f"--data={tmp_path / 'data.npz'}")
    assert case.result.status is Status.INVALID_ARGUMENTS
    assert "op 0: Wildcard: Gather does not take its operands: index 100 is beyond an axis of 100; give data in its range" in case.line


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_a_wrong_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx's reference judges the functions: one that judged itself would always be right."""
    pytest.importorskip("onnx", reason="needs the extra onnx")
    for make, kind in ((at_the_start, "Gather"), (in_the_middle, "Erf"), (several_outputs, "TopK"), (one_after_the_other, "Where")):
        row = fallback.ROWS[kind]

        def off(f: Function, ins: list[Any], compute: Any = row.compute) -> Any:
            found = compute(f, ins)
            return tuple(np.roll(x, 1, -1) for x in found) if isinstance(found, tuple) else np.roll(found, 1, -1)

        with monkeypatch.context() as m:
            m.setitem(fallback.ROWS, kind, replace(row, compute=off))
            case = ran(make(), tmp_path)
        assert case.result.status is Status.FAILED, case.line
        assert f"(numpy {kind})" in case.line


def test_a_result_that_is_not_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "execute", lambda f, arrays, types: tuple(np.full(t.shape, 7, t.dtype.numpy) for t in types))
    for name, make in GRAPHS.items():
        assert ran(make(), tmp_path).result.status is Status.FAILED, name


def test_localise_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    row = fallback.ROWS["Erf"]
    monkeypatch.setitem(fallback.ROWS, "Erf", replace(row, compute=lambda f, ins: ins[0]))
    graph = in_the_middle()
    save(graph, tmp_path / "case.json")
    (problem,) = parse(["--graph", f"--case={tmp_path / 'case.json'}"]).problems
    place = localise(problem, graph, with_fallback(Benchgraph(), graph), "fused")
    assert place.op is not None
    assert place.op.id == 1
    assert place.company == ()


# ---- times ----------------------------------------------------------------------------------------------------------


def test_mode_p_lists_them_with_their_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fake clock: a Wildcard takes three times as long as an op of the library."""
    clock, execute = Clock(), fallback.execute

    def slow(*arguments: Any) -> Any:
        clock.advance(3 * (OP_S + CALL_S))
        return execute(*arguments)

    monkeypatch.setattr(fallback, "execute", slow)
    words = ("--mode=P", "--policy=one_op_each", "--fix-times-per-prb=3")
    case = ran(in_the_middle(), tmp_path, *words, bench=fake_bench(FakeLibrary(clock)))
    assert case.result.status is Status.EXECUTED, case.line
    (kind,), (timing,) = case.result.fallback, case.result.timings
    assert (kind.kind, kind.by, kind.ops, kind.flops) == ("Erf", "numpy", (1,), 128)
    assert kind.share(timing.partitions) == pytest.approx(1 / 2)  # beside three ops
    assert timing.timing.median_s == pytest.approx(6 * (OP_S + CALL_S))


def test_reports_have_the_list(tmp_path: Path) -> None:
    save(in_the_middle(), tmp_path / "case.json")
    out = tmp_path / "out.json"
    words = ["-v1", f"--report=json:{out}", "--graph", "--expected-n-partitions=0", f"--case={tmp_path / 'case.json'}"]
    done = CliRunner().invoke(main, words)
    assert "1 op executed by numpy, between the partitions\n  Erf (1), 1.52% of the FLOPs\n" in done.output
    (case,) = json.loads(out.read_text())["cases"]
    assert case["fallback"] == [{"kind": "Erf", "by": "numpy", "ops": [1], "flops": 128, "time_shares": {}}]
    assert parse_report(out.read_text()).cases[0].result.fallback[0].ops == (1,)


def test_other_libraries_have_them_too(tmp_path: Path) -> None:
    try:
        OneDnn()
    except BenchgraphError as bad:
        pytest.skip(str(bad))
    for library in ("onednn:primitives", "onednn"):
        for make in (in_the_middle, several_outputs):
            case = ran(make(), tmp_path, f"--library={library}", *(("--policy=fused",) if library == "onednn" else ()))
            if case.result.status is Status.SKIPPED:
                pytest.skip(case.line)
            assert case.result.status is Status.PASSED, case.line


def test_layers_of_the_library_and_wildcards_are_told_together() -> None:
    graph = in_the_middle()
    library = with_fallback(Benchgraph(), graph)
    parts = [p for p in library.partitions(graph, Policy.fused) if any(op.kind != "End" for op in p.ops)]
    arrays = {t.id: np.zeros(t.known_shape, t.dtype.numpy) for p in parts for t in (*p.inputs, *p.outputs)}
    ins, outs = ([[arrays[t.id] for t in ports(p)] for p in parts] for ports in (lambda p: p.inputs, lambda p: p.outputs))
    found = library.profiled(parts, ins, outs)
    assert found is not None
    assert sorted({layer.partition for layer in found.layers}) == list(range(len(parts)))
    assert sorted(op for layer in found.layers for op in layer.ops) == sorted(op.id for op in graph.ops if op.kind != "End")
    (wildcard,) = [layer for layer in found.layers if layer.implementation == "numpy"]
    assert wildcard.ops == tuple(op.id for op in graph.ops if has_function(op))
    assert wildcard.kind
    spans = [s for s in found.run() if s.thread == CALLER]
    assert [s.layer for s in spans] == sorted(s.layer for s in spans)
    assert {s.layer for s in spans} == set(range(len(found.layers)))
    assert all(a.end_s <= b.begin_s for a, b in pairwise(spans))
    assert with_fallback(FakeLibrary(Clock()), graph).profiled(parts, ins, outs) is None
