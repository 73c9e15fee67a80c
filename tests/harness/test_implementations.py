"""What a case ran on: kept in its result, in reports and comparisons; --check-ref-impl."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.implementation import Implementation, counted, names
from benchgraph.results.json_report import parse
from benchgraph.results.result import CaseResult, Status
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

FAST = (Implementation("matmul", "brg_matmul:avx2"), Implementation("reorder", "jit:uni", 2))
SLOW = (Implementation("matmul", "ref:any"),)
CASE = ("--graph", "--expected-n-partitions=0", "--case=mlp.json")


def case(ran: tuple[Implementation, ...], *words: str) -> tuple[CaseResult, str]:
    """The saved result of a case, and what the run printed."""
    bench = fake_bench(FakeLibrary(Clock(), implementations=ran))
    done = CliRunner().invoke(main, [*words, "--report=json:out.json", *CASE], obj=bench)
    return parse(Path("out.json").read_text()).cases[0], done.output


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_equal_ones_are_counted() -> None:
    assert counted([("matmul", "a"), ("reorder", "b"), ("matmul", "a")]) == (
        Implementation("matmul", "a", 2),
        Implementation("reorder", "b"),
    )
    assert names([*FAST, *FAST]) == "matmul brg_matmul:avx2 x2 + reorder jit:uni x4"


@pytest.mark.parametrize("mode", ["I", "C", "P"])
def test_results_keep_them(mode: str) -> None:
    saved, _ = case(FAST, f"--mode={mode}", "--policy=fused", "--fix-times-per-prb=1")
    assert saved.result.implementations == {"fused": (FAST,)}
    assert saved.result.status.is_pass


def test_tables_and_perf_lines_name_them() -> None:
    _, output = case(FAST, "--mode=P", "--policy=fused", "--fix-times-per-prb=1", "--perf-template=%impl%")
    assert "\nbrg_matmul:avx2+jit:uni\n" in output
    assert "fused runs on matmul brg_matmul:avx2 + reorder jit:uni x2\n" in output


def test_a_reference_implementation_is_flagged() -> None:
    saved, _ = case(SLOW)
    assert saved.result.status is Status.PASSED
    assert "fused: partition 0 runs on a reference implementation: matmul ref:any" in saved.result.notes
    assert case(FAST)[0].result.notes == ()
    saved, _ = case((replace(SLOW[0], why="jit:avx2: no such shape"),))
    assert saved.result.notes[0].endswith("matmul ref:any (jit:avx2: no such shape)")
    assert saved.result.implementations["fused"][0][0].why == "jit:avx2: no such shape"


@pytest.mark.parametrize("mode", ["C", "P"])
def test_a_reference_implementation_may_be_forbidden(mode: str) -> None:
    saved, output = case(SLOW, f"--mode={mode}", "--check-ref-impl", "--fix-times-per-prb=1")
    assert saved.result.status is Status.FAILED
    assert "Reference implementation used: partition 0 runs on a reference implementation: matmul ref:any" in saved.result.reason
    assert "--check-ref-impl=true" in saved.repro
    assert case(FAST, f"--mode={mode}", "--check-ref-impl", "--fix-times-per-prb=1")[0].result.status.is_pass
    assert "failed:1" in output


def test_a_comparison_names_partitions_that_changed_theirs() -> None:
    for file, ran in (("a.json", FAST), ("b.json", SLOW), ("c.json", ())):
        case(ran)
        Path("out.json").rename(file)
    output = CliRunner().invoke(main, ["compare", "a.json", "b.json"]).output
    assert "Implementations:" in output
    assert "fused: partition 0: matmul brg_matmul:avx2 + reorder jit:uni x2 -> matmul ref:any" in " ".join(output.split())
    assert "Implementations:" not in CliRunner().invoke(main, ["compare", "a.json", "a.json"]).output
    assert "Implementations:" not in CliRunner().invoke(main, ["compare", "a.json", "c.json"]).output


def test_the_names_decide() -> None:
    assert [replace(FAST[0], name=n).is_reference for n in ("ref:any", "ref_int8:any", "gemm:jit", "jit:avx512_core")] == [
        True,
        True,
        False,
        False,
    ]
