"""The short form of chaos.py: a few faults of each kind, while a small batch runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.chaos import Rates, run

pytest.importorskip("distributed", reason="the extra fleet is not installed")

RATES = Rates(kill_s=2.0, stop_s=0.0, scheduler_s=3.0, client_s=4.0)


def test_every_case_has_one_result_and_the_right_one(tmp_path: Path) -> None:
    faults, wrong, _ = run(seconds=4.5, cases=18, workers=2, rates=RATES, seed=1, folder=tmp_path)
    assert faults.keys() == {"kill_s", "scheduler_s", "client_s"}
    assert wrong == [], (tmp_path / "client.log").read_text()[-2000:]
