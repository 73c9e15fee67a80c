"""Statuses, status lines, counters, statistics."""

import pytest

from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Result, ResultSet, Status, Timing, spread


def results(*statuses: Status) -> ResultSet:
    return ResultSet(Mode.correctness, None, tuple(CaseResult(i, "", 0.0, Result(s)) for i, s in enumerate(statuses)), 0.0)


def test_the_summary_counts_each_status_as_benchdnn_does() -> None:
    assert results(*Status).summary == ("tests:10 passed:3 skipped:1 mistrusted:1 unimplemented:1 invalid_arguments:1 failed:4 listed:1")


@pytest.mark.parametrize("status", Status)
def test_every_case_is_counted_exactly_once(status: Status) -> None:
    counts = dict(word.split(":") for word in results(status).summary.split())
    assert sum(int(counts[n]) for n in ("passed", "skipped", "mistrusted", "failed", "listed")) == 1


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((), 0),
        ((Status.PASSED, Status.SKIPPED, Status.MISTRUSTED), 0),
        ((Status.PASSED, Status.UNIMPLEMENTED), 1),
        ((Status.INVALID_ARGUMENTS,), 1),
        ((Status.UNTESTED,), 1),
        ((Status.FAILED,), 1),
    ],
)
def test_only_failures_change_the_exit_code(statuses: tuple[Status, ...], code: int) -> None:
    assert results(*statuses).exit_code == code


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (Result(Status.PASSED), "3:PASSED (12 ms) __REPRO: --graph --case=a.json"),
        (Result(Status.UNTESTED, "why"), "3:UNTESTED_FAILED (why) (12 ms) __REPRO: --graph --case=a.json"),
        (Result(Status.FAILED, "why", 3, 64), "3:FAILED (why) (errors:3 total:64) (12 ms) __REPRO: --graph --case=a.json"),
    ],
)
def test_the_status_line_is_benchdnns(result: Result, line: str) -> None:
    assert CaseResult(3, "--graph --case=a.json", 0.0121, result).line == line


def test_statistics_come_from_the_samples() -> None:
    t = Timing((5.0, 1.0, 3.0, 2.0, 4.0), 1)
    assert (t.min_s, t.median_s, t.spread) == (1.0, 3.0, pytest.approx(2 / 3))


def test_one_sample_has_no_spread() -> None:
    assert spread((1.0,)) == 0.0
