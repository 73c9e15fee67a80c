"""Several libraries on the same data: who is right where they differ, and that witnesses cannot fail a case."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import ExecutionFailed, Unavailable
from benchgraph.graph import save
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import check
from benchgraph.harness.contenders import contenders_of
from benchgraph.harness.timing import measure
from benchgraph.options.knobs import Globals
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.present.contender_outcomes import summary
from benchgraph.results.json_report import parse, render
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, ContenderOutcome, Result, ResultSet, Status
from tests.support.fake_library import Clock, FakeLibrary, fake_bench, two_ops

BOTH = ("benchgraph", "onednn")
OURS, THEIRS = "benchgraph:fused", "onednn:fused"


def off(by: float, where: int = 0) -> FakeLibrary:
    """A library whose ReLU is off at one element."""

    def spoil(kind: str, a: np.ndarray) -> np.ndarray:
        return a + by * (np.arange(a.size).reshape(a.shape) == where) if kind == "ReLU" else a

    return FakeLibrary(Clock(), spoil=spoil)


def spoilt(relu: Callable[[np.ndarray], np.ndarray]) -> FakeLibrary:
    """A library that makes something else of the results of ReLU."""
    return FakeLibrary(Clock(), spoil=lambda kind, a: relu(a).astype(a.dtype) if kind == "ReLU" else a)


def right() -> FakeLibrary:
    return FakeLibrary(Clock())


def bench_of(ours: FakeLibrary, theirs: FakeLibrary) -> Bench:
    return replace(fake_bench(ours), library=lambda name: {"benchgraph": ours, "onednn": theirs}[name])


def problem(**settings: object) -> Problem:
    driver = load_driver("graph")
    return Problem(0, driver, Globals(library=BOTH, **settings), driver.knobs(), Path())


def run(ours: FakeLibrary, theirs: FakeLibrary, **settings: object) -> Result:
    p = problem(**settings)
    return check(p, two_ops(), contenders_of(p, two_ops(), bench_of(ours, theirs)))


def told(result: Result) -> dict[str, Status]:
    return {t.label: t.status for t in result.outcomes}


def test_two_right_libraries_agree() -> None:
    result = run(right(), right())
    assert (result.status, result.differences) == (Status.PASSED, ())
    assert told(result) == {OURS: Status.PASSED, THEIRS: Status.PASSED}
    assert result.right == (OURS, THEIRS)
    assert {a.policy for a in result.accuracy} == {OURS, THEIRS}


def test_both_run_on_the_same_data() -> None:
    ours, theirs = right(), right()
    seen: dict[str, list[np.ndarray]] = {"ours": [], "theirs": []}
    for name, library in (("ours", ours), ("theirs", theirs)):
        library.spoil = lambda kind, a, name=name: seen[name].append(a.copy()) or a
    run(ours, theirs)
    for a, b in zip(seen["ours"], seen["theirs"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_wrong_witness_is_reported_and_does_not_fail_the_case() -> None:
    result = run(right(), off(0.5, where=21))
    assert (result.status, result.errors, result.right, result.wrong) == (Status.PASSED, 0, (OURS,), (THEIRS,))
    (d,) = result.differences
    assert (d.right, d.errors, d.index) == ((OURS,), {OURS: 0, THEIRS: 1}, (1, 5))
    assert d.values[THEIRS] - d.want == pytest.approx(0.5)
    assert str(d).startswith(f"tensor 3 f32: {OURS} is right, {THEIRS} off at 1 of 64 by up to 0.5; at [1, 5] reference ")


def test_a_wrong_library_under_test_fails_and_the_witness_is_still_reported() -> None:
    result = run(off(1.0), right())
    assert (result.status, result.errors, result.right) == (Status.FAILED, 1, (THEIRS,))
    assert told(result) == {OURS: Status.FAILED, THEIRS: Status.PASSED}
    assert result.reason.startswith(f"{OURS}: partition 0 (fake): tensor 3: 1 of 64 values differ")


def test_a_wrong_nan_is_reported_before_other_errors() -> None:
    result = run(spoilt(lambda a: a + 1), spoilt(lambda a: np.where(np.arange(a.size).reshape(a.shape) == 21, np.nan, a)))
    assert result.reason.startswith(f"{OURS}: partition 0 (fake): tensor 3: 64 of 64 values differ, by up to 1 (")
    (d,) = result.differences
    assert (d.index, d.nonfinite) == ((1, 5), {THEIRS: 1})
    assert f"{THEIRS} off at 1 of 64 (1 in NaN or infinity) by up to 0; at [1, 5] reference " in str(d)
    assert np.isnan(d.values[THEIRS])
    result = run(spoilt(lambda a: np.where(np.arange(a.size).reshape(a.shape) == 21, -np.inf, a + 0.5)), right())
    assert ": 64 of 64 values differ, 1 of them in NaN or infinity, first at [1, 5]: want " in result.reason
    assert ", got -inf; the others by up to 0.5 (" in result.reason
    assert "64 values, 1 wrong in NaN or infinity, max abs 0.5, " in str(result.accuracy[0])


def test_no_library_may_be_right() -> None:
    result = run(off(1.0), off(2.0, where=7))
    assert (result.right, result.wrong) == ((), (OURS, THEIRS))
    assert result.differences[0].max_abs == {OURS: pytest.approx(1.0), THEIRS: pytest.approx(2.0)}


def test_a_witness_that_cannot_run_is_reported_and_not_compared() -> None:
    lacking = FakeLibrary(Clock(), fails=Unavailable("needs oneDNN 3.5"))
    result = run(right(), lacking)
    assert (result.status, told(result)) == (Status.PASSED, {OURS: Status.PASSED, THEIRS: Status.SKIPPED})
    assert (result.right, result.wrong) == ((OURS,), ())


def test_a_witness_that_breaks_down_while_it_executes_leaves_the_data_as_they_were() -> None:
    class Breaking(FakeLibrary):
        def compile(self, partition):  # type: ignore[no-untyped-def]
            def breaks(kind: str, a: np.ndarray) -> np.ndarray:
                raise ExecutionFailed("killed")

            self.spoil = breaks
            return super().compile(partition)

    result = run(right(), Breaking(Clock()))
    assert (result.status, result.differences, told(result)[THEIRS]) == (Status.PASSED, (), Status.FAILED)
    assert (result.right, result.wrong) == ((OURS,), ())


def test_errors_of_the_library_under_test_are_raised() -> None:
    with pytest.raises(ExecutionFailed):
        run(FakeLibrary(Clock(), fails=ExecutionFailed("it broke")), right())


def test_the_expected_number_of_partitions_is_that_of_the_library_under_test() -> None:
    class Splitting(FakeLibrary):
        def partitions(self, graph, policy):  # type: ignore[no-untyped-def]
            return super().partitions(graph, type(policy).one_op_each)

    result = run(right(), Splitting(Clock()))
    assert result.n_partitions == {OURS: 1, THEIRS: 2}


def test_sides_are_the_policies_that_each_library_has() -> None:
    labels = [s.label for s in Globals(library=BOTH, mode=Mode.performance).contender_specs]
    ours = ["benchgraph:fused", "benchgraph:post_ops", "benchgraph:one_op_each"]
    assert labels == [*ours, "onednn:fused", "onednn:one_op_each"]
    assert [s.label for s in Globals(library=BOTH, policy=("post_ops",)).contender_specs] == ["benchgraph:post_ops"]
    assert [s.label for s in Globals(library=("onednn",), policy=("post_ops",)).contender_specs] == ["post_ops"]
    two = Globals(library=("onednn:/a/libdnnl.so.3", "onednn:/b/libdnnl.so.3"))
    assert [(s.label, s.is_witness) for s in two.contender_specs] == [("onednn@a:fused", False), ("onednn@b:fused", True)]


def test_libraries_are_measured_in_turns() -> None:
    ours, theirs = right(), right()
    theirs.clock = ours.clock
    p = problem(mode=Mode.performance, fix_times_per_prb=3)
    result = measure(p, two_ops(), contenders_of(p, two_ops(), bench_of(ours, theirs)), bench_of(ours, theirs))
    assert [t.policy for t in result.timings] == [s.label for s in p.globals.contender_specs]
    assert {len(t.timing.samples_s) for t in result.timings} == {3}
    assert set(told(result).values()) == {Status.EXECUTED}


def test_a_witness_that_cannot_be_measured_leaves_the_others_their_times() -> None:
    ours, theirs = right(), FakeLibrary(Clock(), unsupported="ReLU")
    p = problem(mode=Mode.performance, fix_times_per_prb=2)
    result = measure(p, two_ops(), contenders_of(p, two_ops(), bench_of(ours, theirs)), bench_of(ours, theirs))
    assert [t.policy for t in result.timings] == ["benchgraph:fused", "benchgraph:post_ops", "benchgraph:one_op_each"]
    assert told(result)["onednn:fused"] is Status.UNIMPLEMENTED


def test_a_witness_that_breaks_down_while_it_is_measured_leaves_the_others_their_times() -> None:
    class Breaking(FakeLibrary):
        def sequence(self, steps):  # type: ignore[no-untyped-def]
            chain = super().sequence(steps)

            def run(times: int) -> None:
                raise ExecutionFailed("killed")

            chain.run = run
            return chain

    ours, theirs = right(), Breaking(Clock())
    p = problem(mode=Mode.performance, fix_times_per_prb=2)
    result = measure(p, two_ops(), contenders_of(p, two_ops(), bench_of(ours, theirs)), bench_of(ours, theirs))
    assert [t.policy for t in result.timings] == ["benchgraph:fused", "benchgraph:post_ops", "benchgraph:one_op_each"]
    assert told(result)["onednn:fused"] is told(result)["onednn:one_op_each"] is Status.FAILED
    assert summary([CaseResult(0, "", 0.0, result)]) == "libraries timed in 1 cases, by all in 0; --mode=C compares their results"


def test_the_summary_counts_which_libraries_are_right() -> None:
    cases = [CaseResult(i, "", 0.0, r) for i, r in enumerate([
        run(right(), right()), run(right(), off(1.0)), run(right(), off(2.0)), run(off(1.0), right()), run(off(1.0), off(1.0)),
        run(right(), FakeLibrary(Clock(), fails=Unavailable("needs oneDNN 3.5"))),
    ])]  # fmt: skip
    want = f"libraries compared in 6 cases: 1 agree, {OURS} right: 2, nobody right: 1, {THEIRS} right: 1, not run by all: 1"
    assert summary(cases) == want
    assert summary([CaseResult(0, "", 0.0, Result(Status.PASSED))]) == ""


def test_outcomes_are_read_back_from_the_file() -> None:
    result = run(right(), off(0.5))
    kept = parse(render(ResultSet(Mode.correctness, None, (CaseResult(0, "--graph", 0.0, result),), 0.0)))
    expected = (ContenderOutcome(OURS, Status.PASSED), ContenderOutcome(THEIRS, Status.FAILED, result.outcomes[1].reason))
    assert kept.cases[0].result.outcomes == expected
    assert kept.cases[0].result.differences == result.differences


def test_the_command_prints_which_library_is_right(tmp_path: Path) -> None:
    save(two_ops(), tmp_path / "case.json")
    words = ["--library=benchgraph,onednn", "--graph", f"--case={tmp_path / 'case.json'}"]
    result = CliRunner().invoke(main, words, obj=bench_of(right(), off(0.5)), prog_name="benchgraph")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("0:PASSED (")
    assert lines[1].startswith(f"  {THEIRS}: FAILED: partition 0 (fake): tensor 3: 1 of 64 values differ")
    assert lines[2].startswith(f"  tensor 3 f32: {OURS} is right, {THEIRS} off at 1 of 64")
    assert f"libraries compared in 1 cases: 0 agree, {OURS} right: 1" in result.output
