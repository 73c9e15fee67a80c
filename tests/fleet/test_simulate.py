"""The simulation that docs/fleet.md measures with: a small one, on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import read
from benchgraph.results.json_report import render
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Result, ResultSet, Status

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from benchgraph.fleet.simulate import measure


def test_recorded_results_come_back_each_once_and_go_to_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorded = tuple(CaseResult(i, f"--graph --seed={i} --case=a.json", 0.1, Result(Status.PASSED)) for i in range(3))
    Path("recorded.json").write_text(render(ResultSet(Mode.correctness, Machine("Test CPU", 2, "avx2", {}, 2), recorded, 1.0)))
    figures = measure("recorded.json", workers=3, count=20, history="history.db")
    assert (figures.workers, figures.cases) == (3, 20)
    assert min(figures.run_s, figures.client_s, figures.reply_bytes, figures.report_bytes, figures.history_s or 0.0) > 0
    assert [case.repro for case in read(Database("history.db"), 1).cases[:4]] == [f"--graph --seed={i} --case=a.json" for i in (0, 1, 2, 0)]
