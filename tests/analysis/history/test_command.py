"""`benchgraph history` and `benchgraph regressions` as people call them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append, read
from benchgraph.cli import main
from benchgraph.results.json_report import render
from tests.analysis.history.made import DAY, MACHINE, START, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    __import__("time").tzset()
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), prog_name="benchgraph")


def commit(number: int) -> str:
    return f"{number:02d}" + "f" * 38


FILLED: dict[tuple[object, ...], bytes] = {}  # files of histories that several tests read


def fill(where: str = "benchgraph-history.db", *, slow: float = 1.0, runs: int = 40, at: int = 25, until: int = 99, seed: int = 0) -> None:
    """Runs of 30 cases with 2 % of noise; from run `at` on, case 7 takes `slow` times as long under fused."""
    key, is_file = (slow, runs, at, until, seed), "://" not in where
    if is_file and key in FILLED:
        Path(where).write_bytes(FILLED[key])
        return
    rng = np.random.default_rng(seed)
    database = Database(where)
    for i in range(runs):
        factor = {7: slow} if at <= i < until else {}
        times = {
            f"c{c}.json": {
                p: 1e-4 * (c + 1) * rng.normal(1, 0.02) * (factor.get(c, 1.0) if p == "fused" else 1) for p in ("fused", "post_ops")
            }
            for c in range(30)
        }
        machine = replace(MACHINE, versions={"python": "3.11", "numpy": "2.4.6" if i >= at else "2.4.5"})
        append(database, run(i, times, commit=commit(i), machine=machine))
    if is_file:
        FILLED[key] = Path(where).read_bytes()


# ---- regressions -----------------------------------------------------------------------------------------------------


def test_a_slowdown_of_ten_percent_is_found_with_its_commits(url: str) -> None:
    fill(url, slow=1.10)
    result = call("regressions", f"--history={url}", "--since", commit(20))
    assert result.exit_code == 1, result.output
    _, _, row, _, last = result.output.splitlines()
    case, policy, slower, interval, commits, date, note = (cell.strip() for cell in row.split("|"))
    assert (case, policy) == ("--mode=P --graph --case=c7.json", "fused")
    assert 7 < float(slower.strip("+%")) < 13
    assert interval.startswith("+")
    assert (commits, date, note) == ("24ffffffff..25ffffffff", "2026-10-16 14:13", "numpy 2.4.5 -> 2.4.6")
    assert last == "1 regression, 0 improvements beyond 5% in 60 series of 40 runs"


def reports(where: str, *numbers: int) -> str:
    """JSON reports of these runs, as compare takes them."""
    for n in numbers:
        Path(f"{where}-{n}.json").write_text(render(read(Database(where), n)))
    return ",".join(f"{where}-{n}.json" for n in numbers)


def test_compare_finds_the_same_slowdown_in_six_of_these_runs() -> None:
    for where, slow, code in (("slow.db", 1.10, 1), ("noise.db", 1.0, 0)):
        fill(where, slow=slow)
        result = call("compare", reports(where, 21, 22, 23), reports(where, 38, 39, 40), "--threshold=1%")
        assert result.exit_code == code, result.output
        assert call("regressions", f"--history={where}").exit_code == code
        assert code == 0 or "c7.json" in result.output.partition("Regressed:")[2]


def test_noise_alone_is_not_found() -> None:
    for seed in range(3):
        fill(f"{seed}.db", seed=seed)
        result = call("regressions", f"--history={seed}.db")
        assert (result.output, result.exit_code) == ("0 regressions, 0 improvements beyond 5% in 60 series of 40 runs\n", 0)


def test_changes_before_since_are_not_reported() -> None:
    fill(slow=1.10)
    assert call("regressions", "--since=26").exit_code == 0
    assert call("regressions", "--since=25").exit_code == 1
    assert call("regressions", "--since=2026-10-18").exit_code == 0


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))


def test_mended_regressions_are_reported_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    fill(slow=1.2, at=15, until=30)
    result = call("regressions")
    assert result.exit_code == 0
    assert "mended in 30ffffffff" in result.output
    assert result.output.endswith("0 regressions, 1 mended since, 1 improvement beyond 5% in 60 series of 40 runs\n")
    on_terminal(monkeypatch, 80)
    lines = call("regressions").output.splitlines()
    assert lines[0] == "--mode=P --graph --case=c7.json"
    assert lines[1].startswith("  fused +")
    assert " 14ffffffff..15ffffffff, " in lines[1]
    assert "mended in 30ffffffff" in " ".join(" ".join(lines[1:3]).split())
    assert max(map(len, lines)) <= 80


def test_the_threshold_and_the_choice_of_cases_count() -> None:
    fill(slow=1.10)
    assert call("regressions", "--threshold=20%").exit_code == 0
    assert call("regressions", "--threshold=0.05", "--match=c7").exit_code == 1
    assert call("regressions", "--match=c8").exit_code == 0
    assert call("regressions", "--policy=post_ops").exit_code == 0


def test_another_machine_is_another_series() -> None:
    """Twenty runs on one machine, then twenty on one that is twice as slow."""
    database = Database("benchgraph-history.db")
    rng = np.random.default_rng(1)
    for i in range(40):
        machine = replace(MACHINE, cpu="Slow CPU") if i >= 20 else MACHINE
        append(database, run(i, {"a": {"fused": (2.0 if i >= 20 else 1.0) * rng.normal(1, 0.01)}}, machine=machine))
    result = call("regressions")
    assert (result.output, result.exit_code) == ("0 regressions, 0 improvements beyond 5% in 2 series of 40 runs\n", 0)


def test_too_few_runs_are_reported() -> None:
    fill(runs=3)
    assert call("regressions").output == (
        "note: 60 of 60 series have fewer than 8 runs, too few to tell a change from noise; 'benchgraph compare' judges single runs\n"
        "0 regressions, 0 improvements beyond 5% in 60 series of 3 runs\n"
    )


def test_too_few_runs_since_are_reported() -> None:
    fill(runs=12)
    note = "note: 2 runs since then; a change can be detected only with at least 3 runs before and after it\n"
    assert note in call("regressions", "--since=10").output


# ---- history ---------------------------------------------------------------------------------------------------------


def test_the_runs() -> None:
    database = Database("h.db")
    append(database, run(1, {"a": {"fused": 1.0}}))
    append(database, replace(run(0, {"a": {"fused": 1.0}}), origin=replace(run(0, {}).origin, commit=commit(1), is_dirty=True)))  # type: ignore[type-var]
    assert call("history", "--history=h.db").output.splitlines()[:4] == [
        "run | date             | commit      | machine",
        "----+------------------+-------------+-----------------------------------",
        "  2 | 2026-09-21 14:13 | 01ffffffff+ | Test CPU, 4 cores, avx2, 2 threads",
        "  1 | 2026-09-22 14:13 |             | Test CPU, 4 cores, avx2, 2 threads",
    ]


def test_a_case_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database("benchgraph-history.db")
    for i in range(12):
        t = 1.0 if i < 6 else 1.5
        append(database, run(i, {"a.json": {"fused": t * (1 + i % 3 / 1000), "post_ops": 2.0}, "b.json": {"fused": 1.0}}, commit=commit(i)))
    result = call("history", "--case=a.json")
    lines = result.output.splitlines()
    assert lines[:3] == ["--mode=P --graph --case=a.json", "Test CPU, 4 cores, avx2, 2 threads", ""]
    assert lines[3] == "2000.0000 |++++++++++++"
    between = {line.partition("|")[2] for line in lines[4:14]}  # 1.5 s, which falls between two rows
    assert sorted("".join(column).strip() for column in zip(*(row.ljust(12) for row in between), strict=True)) == [""] * 6 + ["o"] * 6
    assert lines[14:17] == [
        "1000.0000 |oooooo",
        "       ms +------^-----",
        "           o fused   + post_ops   ^ another level from here on",
    ]
    assert "  7 | 2026-09-27 14:13 | 06ffffffff | 1500.0000 |   2000.0000 | fused +50.0%\n" in result.output
    assert "fused" in call("history", "--case=a.json", "--policy=fused,one_op_each").output
    assert "post_ops" not in call("history", "--case=a.json", "--policy=fused,one_op_each").output
    assert "b.json" not in result.output
    on_terminal(monkeypatch, 60)
    lines = call("history", "--case=a.json").output.splitlines()
    assert [cell.strip() for line in lines if line.startswith("run") for cell in line.split("|")][3::5] == ["fused ms", "post_ops ms"]
    assert "  7 | 2026-09-27 14:13 | 06ffffffff | 1500.0000 | fused" in "\n".join(lines)
    assert max(map(len, lines)) <= 60


def test_a_single_run_is_no_line() -> None:
    append(Database("benchgraph-history.db"), run(0, {"a.json": {"fused": 1.0}}))
    said = call("history", "--case=a.json").output
    assert "| 1000.0000 |" in said
    assert "|o" not in said


def test_since_narrows_the_picture() -> None:
    fill(runs=10)
    result = call("history", "--case=c7", "--since=9")
    assert [line.split("|")[0].strip() for line in result.output.splitlines() if "2026" in line] == ["9", "10"]


def test_each_machine_has_a_picture() -> None:
    database = Database("benchgraph-history.db")
    append(database, run(0, {"a": {"fused": 1.0}}))
    append(database, run(1, {"a": {"fused": 1.0}}, machine=replace(MACHINE, cpu="Other CPU")))
    output = call("history", "--case=a").output
    assert "Test CPU, 4 cores" in output
    assert "Other CPU, 4 cores" in output


# ---- bad words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["history", "mlp"], "history: mlp: a word that is not an option; there are --history, --case, "),
        (["history", "--caze=a"], "history: --caze: unknown option; did you mean '--case'?"),
        (["history", "--case"], "history: --case: a value is missing; write '--case=VALUE'"),
        (["history", "--case=("], "history: --case: bad value '('; "),
        (["history", "--policy=fast"], "history: --policy: bad value 'fast'; "),
        (["regressions", "--threshold=x"], "regressions: --threshold: bad value 'x'; give a share of at least 0, as in 5% or 0.05"),
        (["regressions", "--history=none.db"], "none.db: there is no history; a run with --history=URL begins one"),
        (["regressions", "--since=never"], "--since: 'never' is no date, no run and no commit of this history; give a date as"),
        (
            ["history", "--case=zzz"],
            "benchgraph-history.db: no times of a case that has 'zzz' in its line; 'benchgraph history' lists the runs",
        ),
    ],
)
def test_invalid_words(words: list[str], told: str) -> None:
    fill(runs=1)
    result = call(*words)
    assert result.stderr.startswith(f"benchgraph: {told}")
    assert result.stderr.count("\n") == 1
    assert (result.exit_code, result.stdout) == (2, "")
    assert not Path("none.db").exists()


def test_days_are_counted_from_the_first_run() -> None:
    """What the dates above rest on."""
    assert START + 25 * DAY == 1_792_160_000.0
