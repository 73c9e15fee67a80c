"""explain: it reports what the compiler did."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.codegen.function_builder import ARENA_GAP_BYTES
from benchgraph.compile import compile_partition
from benchgraph.core.errors import Unimplemented
from benchgraph.core.options import Options
from benchgraph.core.record import recorded
from benchgraph.explain import Explanation, explain
from benchgraph.gir import passes as gir_passes
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.text import parse_graph
from benchgraph.machine.target import ISAS, Target
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes

TARGET = Target(ISAS["portable"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)


def mlp() -> Partition:
    b = GraphBuilder()
    x = b.op("ReLU", b.op("MatMul", b.input((64, 32)), b.constant((32, 48))))
    b.op("ReLU", b.op("MatMul", x, b.constant((48, 16))))
    (p,) = partitions(b.graph(), Policy.fused)
    return p


def off(p: Partition, *switches: str) -> Partition:
    return replace(p, options=Options(switches))


def main_nests(e: Explanation) -> list[str]:
    return [n.name for n in e.nests if n.when == "main"]


def step_bytes(e: Explanation, name: str) -> tuple[int | None, int | None]:
    return next((s.shared_bytes, s.thread_bytes) for s in e.passes if s.name == name)


def test_every_pass_is_told_in_order() -> None:
    e = explain(mlp(), TARGET)
    assert [s.name for s in e.passes] == [*(p.name for p in gir_passes.PIPELINE), "lower", *(p.name for p in tir_passes.PIPELINE)]
    assert not any(s.is_off for s in e.passes)
    assert all(s.seconds >= 0 for s in e.passes)


def test_products_come_with_their_parameters_and_a_reason_for_each() -> None:
    (nest,) = (n for n in explain(mlp(), TARGET).nests if n.when == "main")
    first, second = (s.chosen for s in nest.sections)
    assert first is not None
    assert second is not None
    assert first.problem == "f32:f32 64x32x48 constant"
    assert first.derived["tasks"] == -(-64 // int(first.parameters["mb"]))
    assert second.derived["KSN"] == 1
    for chosen in (first, second):
        assert {"mb", "nb", "anchor"} <= {r.parameter for r in chosen.reasons}
    assert [op.anchor for op in nest.sections[0].ops] == ["kernel", "tile"]


def test_why_nests_are_apart() -> None:
    fused, apart = explain(mlp(), TARGET), explain(off(mlp(), "coarse"), TARGET)
    assert (len(main_nests(fused)), len(main_nests(apart))) == (1, 2)
    first, second = (n for n in apart.nests if n.when == "main")
    assert first.apart == ((second.name, "fuse-coarse was left out"),)
    assert second.sections[0].ops[0].begins == "a product begins a nest"
    packing = next(n for n in fused.nests if n.when == "init")
    assert packing.apart == ((main_nests(fused)[0], "it is computed once, by init"),)


def test_rows_that_do_not_fit_are_told() -> None:
    """The second product reads the first one's result as its weight: every row of it."""
    b = GraphBuilder()
    b.op("MatMul", b.input((64, 32)), b.op("MatMul", b.input((32, 16)), b.input((16, 24))))
    (p,) = partitions(b.graph(), Policy.fused)
    first, _ = (n for n in explain(p, TARGET).nests if n.sections[0].chosen)
    assert "one has 32 rows, the other 64" in {why for _, why in first.apart}


def test_bytes_before_and_after_the_passes_are_those_of_the_executable() -> None:
    p = mlp()
    e, executable = explain(p, TARGET), compile_partition(p, TARGET)
    assert step_bytes(e, "lower") == (2 * 64 * 48 * 4 + 2 * 64 * 16 * 4 - 64 * 16 * 4, 0)
    shared, thread = step_bytes(e, "shrink-tensors")
    assert (shared, step_bytes(e, "plan-buffers")[0]) == (0, 0)
    assert thread is not None
    assert thread < 64 * 48 * 4
    arenas = next(a for a in e.arenas if a.function == "main")
    assert (arenas.shared_bytes, arenas.thread_bytes) == step_bytes(e, "plan-buffers")
    assert 0 < arenas.peak_bytes <= arenas.peak_bytes_without_reuse
    between = ARENA_GAP_BYTES * (arenas.threads - 1)
    assert abs(executable.scratchpad_bytes - between - arenas.peak_bytes) < 64 * (arenas.threads + 2)
    assert {b.scope for b in e.buffers} == {"thread"}
    assert all(b.nbytes <= b.full_bytes for b in e.buffers)


def test_without_shrinking_the_peak_is_that_of_whole_tensors() -> None:
    e = explain(off(mlp(), "shrink"), TARGET)
    assert step_bytes(e, "shrink-tensors") == step_bytes(e, "lower")
    assert next(s for s in e.passes if s.name == "shrink-tensors").is_off


def test_the_peak_of_attention_does_not_grow_with_batch_and_sequence() -> None:
    def peak(batch: int, sequence: int) -> int:
        b = GraphBuilder()
        s = b.op("MatMul", b.input((batch, 2, sequence, 64)), b.input((batch, 2, 64, sequence)))
        b.op("MatMul", b.op("SoftMax", s, axis=3), b.input((batch, 2, sequence, 64)))
        (p,) = partitions(b.graph(), Policy.fused)
        return next(a.peak_bytes for a in explain(p, TARGET).arenas if a.function == "main")

    assert peak(4, 64) == peak(16, 64)
    assert peak(4, 256) < 4 * peak(4, 64) * 2  # rows of scores, not rows times rows


def test_constants_and_in_place_pairs_are_told() -> None:
    e = explain(mlp(), TARGET)
    assert {(k.nbytes, k.maker) for k in e.constants} == {(32 * 48 * 4, "init"), (48 * 16 * 4, "init")}
    b = GraphBuilder()
    b.op("ReLU", b.input((8, 8)))
    (p,) = partitions(b.graph(), Policy.fused)
    assert explain(p, TARGET).inplace == ((p.inputs[0].id, p.outputs[0].id),)


def test_nothing_is_recorded_for_nobody() -> None:
    with recorded() as outer:
        with recorded() as inner:
            explain(mlp(), TARGET)
        assert (outer.steps, inner.steps) == ([], [])
    compile_partition(mlp(), TARGET)
    assert outer.steps == []


def test_what_cannot_be_compiled_is_not_explained() -> None:
    graph = parse_graph("graph engine=cpu fpmath=strict {\n  %1: f32[4] = Wildcard#7(%0: f32[4])\n}")
    with pytest.raises(Unimplemented, match="op 7: Wildcard"):
        explain(partitions(graph, Policy.fused)[0], TARGET)


# ---- the command -----------------------------------------------------------------------------------------------------


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["explain", *words])


@pytest.mark.parametrize("words", [["--case=mlp.json"], ["--case", "attention.json", "--policy=one_op_each"], ["--matmul", "4x8:8x3"]])
def test_text_fits_100_columns_and_names_what_was_asked(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("--")
    assert (words[1] if words[0] in ("--case", "--matmul") else words[0].removeprefix("--case=")) in lines[0]
    assert any(line.startswith("partition 0: ") for line in lines)
    assert "peak of main: " in result.output


def test_several_cases_and_policies_are_told_one_after_another() -> None:
    found = json.loads(run("--json", "--mb=4,8", "--policy=fused,fused:no-coarse", "--case=mlp.json").output)
    assert [(f["policy"], "--mb=8" in f["repro"]) for f in found] == [
        ("fused", False), ("fused:no-coarse", False), ("fused", True), ("fused:no-coarse", True),
    ]  # fmt: skip


def test_json_says_what_text_says(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    assert run("--case=mlp.json", "--json", "-o", str(file)).output == f"explanation: {file}\n"
    ((found,), text) = json.loads(file.read_text()), run("--case=mlp.json").output
    (partition,) = found["partitions"]
    main_arenas = next(a for a in partition["arenas"] if a["function"] == "main")
    assert f"peak of main: {main_arenas['peak_bytes'] / 1024:.1f} KiB" in text
    for nest in partition["nests"]:
        for section in nest["sections"]:
            if section["chosen"]:
                assert f"MB={section['chosen']['parameters']['mb']} NB={section['chosen']['parameters']['nb']}" in text
                assert all(reason["text"] for reason in section["chosen"]["reasons"])


def test_the_instruction_set_and_threads_asked_for_are_explained() -> None:
    found = json.loads(run("--json", "--isa=portable", "--threads=3", "--case=mlp.json").output)[0]["partitions"][0]
    assert (found["isa"], found["threads"]) == ("portable", 3)


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        ([], "explain: no case to explain; add --case FILE", 2),
        (["--case=no_such.json"], "no_such.json", 1),
        (["--case=mlp.json", "--polcy=fused"], "--polcy", 2),
        (["--case=mlp.json", "--json=x"], "explain: --json takes no value, and 'x' is one; write '--json'", 2),
        (["--case=mlp.json", "-o"], "explain: -o: a value is missing; write '-o FILE'", 2),
        (["--case=mlp.json", "--library=onednn"], "explain: --library: only our own compiler can be asked; leave it out", 2),
        (["--case=mlp.json", "-o", f"{os.devnull}/x"], "cannot write the file", 2),
    ],
)
def test_what_cannot_be_explained_is_one_line(words: list[str], message: str, code: int) -> None:
    result = run(*words)
    assert (result.exit_code, result.output.count("\n")) == (code, 1)
    assert message in result.output
