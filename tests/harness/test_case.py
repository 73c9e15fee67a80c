"""What is in force while a case runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.config import Config, config, override
from benchgraph.core.errors import CompilerFault, ExecutionFailed, InvalidArguments, InvalidGraph, InvalidShape, OutOfMemory, Unimplemented
from benchgraph.graph import GraphBuilder, save
from benchgraph.harness.case import run_all, run_case
from benchgraph.machine.target import current
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Partition
from benchgraph.present.page.view import accuracy
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.result import CaseResult, Status
from benchgraph.results.sketch import OpSketch, Sketch
from tests.support.fake_library import Clock, Compiled, FakeLibrary, fake_bench


class Watching(FakeLibrary):
    """Notes the configuration at every compilation."""

    def compile(self, partition: Partition) -> Compiled:
        self.seen = [*getattr(self, "seen", []), (config(), current().cores)]
        return super().compile(partition)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    b = GraphBuilder()
    b.op("ReLU", b.input((16,)))
    save(b.graph(), tmp_path / "case.json")
    return tmp_path / "case.json"


def seen(*words: str) -> list[tuple[Config, int]]:
    library = Watching(Clock())
    for problem in parse(list(words)).problems:
        assert run_case(problem, fake_bench(library), print).result.status is Status.PASSED
    return library.seen


def test_threads_hold_during_the_case_only(case: Path) -> None:
    before = config()
    assert [cores for _, cores in seen("--graph", "--threads=1,3", f"--case={case}")] == [1, 3]
    assert config() == before


def test_without_threads_the_environment_decides(case: Path) -> None:
    with override(threads=5):
        assert [cores for _, cores in seen("--graph", f"--case={case}")] == [5]


def test_text_dumps_go_to_a_folder_per_case_and_policy(case: Path) -> None:
    found = seen("--graph", "--dump-dir=out", "--policy=fused,one_op_each", f"--case={case}", f"--case={case}")
    assert [c.dump_dir for c, _ in found] == [
        "out/0000-graph-case/fused",
        "out/0000-graph-case/one_op_each",
        "out/0001-graph-case/fused",
        "out/0001-graph-case/one_op_each",
    ]


def test_the_instruction_set_holds_during_the_case_only(case: Path) -> None:
    with override(isa="avx2"):
        assert [c.isa for c, _ in seen("--graph", "--isa=auto,portable", f"--case={case}")] == ["avx2", "portable"]
        assert config().isa == "avx2"


def run(*words: str, library: FakeLibrary | None = None, free_bytes: int = 1 << 40) -> tuple[list[CaseResult], list[str]]:
    """The results, and what -v said."""
    said: list[str] = []
    bench = fake_bench(library or FakeLibrary(Clock()), free_bytes)
    return list(run_all(parse(list(words)).problems, bench, said.append)), said


def statuses(results: list[CaseResult]) -> list[tuple[str, str]]:
    return [(c.result.status.value, c.result.reason) for c in results]


def test_cases_before_the_start_are_skipped(case: Path) -> None:
    results, _ = run("--start=2", "--graph", "--mb=1,2,3", f"--case={case}")
    skipped = ("SKIPPED", "Skip-start option hit")
    assert statuses(results) == [skipped, skipped, ("PASSED", "")]


def test_cases_in_the_memory_of_a_device_are_skipped(case: Path) -> None:
    results, _ = run("--graph", f"--case={case}", "--memory-kind=usm_device", f"--case={case}")
    skipped = ("SKIPPED", "memory of kind usm_device is a device's, and the CPU has none; use --memory-kind=usm")
    assert statuses(results) == [("PASSED", ""), skipped]


def test_nothing_is_measured_of_a_graph_that_computes_nothing(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.outs("End", b.input((4,)), dtypes=())
    file = tmp_path / "end.json"
    save(b.graph(), file)
    results, _ = run("--mode=P", "--graph", "--expected-n-partitions=0", f"--case={file}")
    assert statuses(results) == [("SKIPPED", "nothing to measure: no op of the graph computes anything")]


def test_fail_fast_ends_at_the_first_failure(case: Path) -> None:
    words = ["--graph", f"--case={case}", "--case=nowhere.json", f"--case={case}"]
    assert [s for s, _ in statuses(run(*words)[0])] == ["PASSED", "INVALID_ARGUMENTS", "PASSED"]
    assert [s for s, _ in statuses(run("--fail-fast", *words)[0])] == ["PASSED", "INVALID_ARGUMENTS"]


class Flaky(FakeLibrary):
    """Wrong from the n-th compilation on."""

    def compile(self, partition: Partition) -> Compiled:
        self.count = getattr(self, "count", 0) + 1
        self.spoil = lambda kind, a: a + (self.count >= 3)
        return super().compile(partition)


def test_repeats_end_at_the_first_that_is_not_a_pass(case: Path) -> None:
    library = Flaky(Clock())
    ((result,), _) = run("--repeats-per-prb=2", "--graph", f"--case={case}", library=library)
    assert (result.result.status, library.count) == (Status.PASSED, 2)
    library = Flaky(Clock())
    ((result,), _) = run("--repeats-per-prb=9", "--graph", f"--case={case}", library=library)
    assert (result.result.status, library.count) == (Status.FAILED, 3)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Unimplemented("no kernel"), "UNIMPLEMENTED", "{case}: no kernel"),
        (InvalidShape("dims"), "SKIPPED", "Invalid case: dims"),
        (InvalidGraph("loop"), "SKIPPED", "Invalid case: loop"),
        (InvalidArguments("order"), "INVALID_ARGUMENTS", "{case}: order"),
        (OutOfMemory("full"), "SKIPPED", "{case}: full"),
        (ExecutionFailed("pool"), "FAILED", "{case}: pool"),
        (CompilerFault("shapes"), "FAILED", "{case}: shapes"),
        (MemoryError(), "SKIPPED", "not enough memory; try a smaller --mb"),
        (ZeroDivisionError("oh"), "FAILED", "ZeroDivisionError: oh; run with -v for the traceback"),
    ],
)
def test_errors_of_the_library_have_benchdnns_status(case: Path, error: Exception, status: str, reason: str) -> None:
    results, _ = run("--graph", f"--case={case}", library=FakeLibrary(Clock(), fails=error))
    assert statuses(results) == [(status, reason.format(case=case))]


def test_a_case_that_does_not_fit_into_memory_is_skipped(case: Path) -> None:
    words = ["--graph", f"--case={case}"]
    need = 16 * (4 + 4) + 8 * (16 + 16 + 16)  # src and dst; the reference's, and the result once more
    assert [s for s, _ in statuses(run(*words, free_bytes=int(need / 0.85) + 1)[0])] == ["PASSED"]
    ((status, reason),) = statuses(run(*words, free_bytes=int(need / 0.85) - 1)[0])
    assert status == "SKIPPED"
    assert reason.startswith("Not enough RAM: ")
    assert [s for s, _ in statuses(run("--mode=I", *words, free_bytes=0)[0])] == ["INITIALIZED"]
    assert [s for s, _ in statuses(run("--mode=R", *words, free_bytes=int(128 / 0.85) + 1)[0])] == ["EXECUTED"]
    timed = ("--mode=P", "--fix-times-per-prb=1", "--threads=3")
    assert [s for s, _ in statuses(run(*timed, *words, free_bytes=int(128 / 0.85) + 1)[0])] == ["EXECUTED"]
    streams = ("--num-streams=3", *words)
    assert [s for s, _ in statuses(run(*timed, *streams, free_bytes=3 * int(128 / 0.85))[0])] == ["SKIPPED"]
    assert [s for s, _ in statuses(run(*timed, *streams, free_bytes=3 * int(128 / 0.85) + 3)[0])] == ["EXECUTED"]


def test_a_system_that_does_not_report_its_memory_is_trusted(case: Path) -> None:
    def unknown() -> int:
        raise OutOfMemory("who knows")

    bench = replace(fake_bench(FakeLibrary(Clock())), free_bytes=unknown)
    (problem,) = parse(["--graph", f"--case={case}"]).problems
    assert run_case(problem, bench, print).result.status is Status.PASSED


def test_every_level_of_v_prints_more(case: Path) -> None:
    def said(level: int) -> list[str]:
        return run(f"-v{level}", "--graph", f"--case={case}")[1]

    assert said(0) == []
    start, metrics = said(1)
    assert start == f"run: --graph --case={case}"
    assert metrics.startswith("[COMPARE]: fused: partition 0 (fake): tensor 1 f32: 16 values, max abs 0, max rel 0, 0 ulp, L2 0, ")
    assert metrics.endswith(" zeros; abs allowed 0")
    assert "[INFO]: fused: n_partitions:1; ops_in_partitions: {0}" in said(3)
    assert any(line.startswith("graph engine=cpu") for line in said(7))
    assert not any(line.startswith("graph engine=cpu") for line in said(6))


@pytest.mark.parametrize(
    ("dtype", "rtol", "allowed"),
    [
        ("f32", 2e-5, "2e-05 * max(|value|, rms)"),
        ("bf16", 1e-3, "0.001 * max(|value|, rms) + rounding to bf16"),
        ("s8", 1e-3, "1 in few points"),
        ("f32", 0.0, "0"),
    ],
)
def test_the_comparison_has_the_tolerance(dtype: str, rtol: float, allowed: str) -> None:
    found = Accuracy("whole graph", 3, dtype, 8, 0, 1e-4, 5e-4, 4e3, 1e-7, 0.5, "fused", rtol=rtol)
    assert str(found).endswith(f"max rel 0.0005, 4e+03 ulp, L2 1e-07, 50% zeros; abs allowed {allowed}")
    assert accuracy(found)[-1] == allowed


def test_no_dumps_unless_asked_for(case: Path) -> None:
    assert [c.dump_dir for c, _ in seen("--graph", f"--case={case}")] == [""]


def test_a_result_holds_the_sketch_of_the_graph(case: Path) -> None:
    (problem,) = parse(["--graph", f"--case={case}"]).problems
    graph = run_case(problem, fake_bench(FakeLibrary(Clock())), print).result.graph
    assert graph == Sketch((OpSketch(0, "ReLU", "", (), (0,), (1,)),), {0: "%0 f32 16 a", 1: "%1 f32 16 a"}, (0,), (1,))


def test_results_without_partitions_have_no_graph(case: Path) -> None:
    (problem,) = parse(["--graph", "--mode=L", f"--case={case}"]).problems
    assert run_case(problem, fake_bench(FakeLibrary(Clock())), print).result.graph is None
