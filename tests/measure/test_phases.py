"""Where a case's time goes."""

from contextlib import suppress
from pathlib import Path

import pytest

from benchgraph.graph import GraphBuilder, save
from benchgraph.harness.case import run_case
from benchgraph.measure.phases import phase, table, timed
from benchgraph.options.argv import parse
from benchgraph.results.result import CaseResult, Status
from tests.support.fake_library import CALL_S, COMPILE_S, OP_S, Clock, FakeLibrary, fake_bench


def test_a_nested_phase_counts_only_once() -> None:
    clock = Clock()
    with timed(clock) as spent:
        clock.advance(1)
        with phase("outer"):
            clock.advance(2)
            with phase("inner"):
                clock.advance(4)
            clock.advance(8)
        with phase("inner"):
            clock.advance(16)
    assert spent == {"other": 1, "outer": 10, "inner": 20}


def test_a_phase_that_fails_ends_there() -> None:
    clock = Clock()
    with timed(clock) as spent:
        with suppress(KeyError), phase("load"):
            clock.advance(1)
            raise KeyError
        clock.advance(2)
    assert spent == {"load": 1, "other": 2}


def test_outside_of_a_case_a_phase_is_nothing() -> None:
    with timed(Clock()) as spent:
        pass
    with phase("load"):
        assert spent == {"other": 0}


def case(tmp_path: Path, library: FakeLibrary, *words: str) -> CaseResult:
    b = GraphBuilder()
    b.op("ReLU", b.input((16,)))
    save(b.graph(), tmp_path / "case.json")
    (problem,) = parse([*words, "--graph", f"--case={tmp_path / 'case.json'}"]).problems
    return run_case(problem, fake_bench(library), print)


def test_a_checked_case_spends_its_time_in_these_phases(tmp_path: Path) -> None:
    found = case(tmp_path, FakeLibrary(Clock()))
    assert set(found.phases) == {"other", "load", "partition", "compile", "fill", "execute", "reference", "compare"}
    assert (found.phases["compile"], found.phases["execute"]) == (COMPILE_S, pytest.approx(2 * (CALL_S + OP_S)))
    assert sum(found.phases.values()) == pytest.approx(found.elapsed_s)


def test_sampling_is_execution(tmp_path: Path) -> None:
    found = case(tmp_path, FakeLibrary(Clock()), "--mode=P", "--fix-times-per-prb=3")
    assert found.phases["compile"] == pytest.approx(3 * COMPILE_S)
    assert found.phases["execute"] == pytest.approx(found.elapsed_s - 3 * COMPILE_S)


def test_a_failed_case_has_phases_too(tmp_path: Path) -> None:
    found = case(tmp_path, FakeLibrary(Clock(), fails=KeyError("bug")))
    assert found.result.status is Status.FAILED
    assert "compile" in found.phases
    assert "execute" not in found.phases


def test_the_table_adds_up_to_the_whole_run() -> None:
    assert table([{"load": 1.0, "compile": 2.0}, {"load": 0.5}], 5.0).splitlines() == [
        "compile        2.000 s  40.0%",
        "load           1.500 s  30.0%",
        "between        1.500 s  30.0%",
        "whole run      5.000 s 100.0%",
    ]


def test_the_table_of_nothing() -> None:
    assert table([], 0.0).splitlines() == ["between        0.000 s   0.0%", "whole run      0.000 s   0.0%"]
