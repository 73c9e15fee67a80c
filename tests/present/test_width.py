"""Tables of commands on a terminal of 80 columns."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.commands.compile_times import _table
from benchgraph.commands.ops import in_full, overview
from benchgraph.core.options import Forced
from benchgraph.ops import OPS
from benchgraph.present.terminal import WIDE, fitting
from benchgraph.schedule.space import Tiling
from benchgraph.tune.result_table import Outcome, case_line, heading, line, summary
from benchgraph.tune.search import Measured, SearchResult


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def widest(text: str) -> int:
    return max(map(len, re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()))


def outcome() -> Outcome:
    choice = Forced("p", str(Tiling(32, 64).schedule((), ())))
    return Outcome("--matmul 128x479:479x1024", SearchResult(*(Measured(choice, (s,)) for s in (2e-3, 1e-3, 1e-3)), 4, (1e9,)), 40, 10**6)


TUNED = """\
chosen          | best            | ratio | by cost | case
32 x 64         | 32 x 64         | 2.000 |   1.000 | --matmul 128x479:479x1024"""
WHOLE = """\
chosen          | best            | ratio | median | by cost | GFLOP/s | % peak |     tried | case
32 x 64         | 32 x 64         | 2.000 |  2.000 |   1.000 |     0.5 |    50% |      4/40 | --matmul 128x479:479x1024"""


@pytest.mark.parametrize(("width", "text"), [(80, TUNED), (WIDE, WHOLE)])
def test_tune_leaves_columns_out_for_the_case(width: int, text: str) -> None:
    assert f"{heading('machine', width).splitlines()[-1]}\n{line(outcome(), width)}" == text


def test_nests_of_a_case_stand_below_it_with_the_schedules_that_no_column_holds() -> None:
    texts = "order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3", "unroll t0, t1; order d0, d1; parallel d0; vectorize d1"
    chosen, best = (Measured(Forced("p", text), (s,)) for text, s in zip(texts, (2e-3, 1e-3), strict=True))
    outcome = Outcome("--graph --case=a.json", SearchResult(chosen, chosen, best, 4, ()), 40, 10**6, "f32[8,8] = MaxPool(f32[8,8])")
    assert case_line("--graph --case=a.json", [40, 2], 4, 80).splitlines() == [
        "--graph --case=a.json: 2 nests, 42 schedules, of which 4 of each are tried"
    ]
    assert line(outcome, 80).splitlines() == [
        "below           | below           | 2.000 |   2.000 | f32[8,8] = MaxPool(f32[8,8])",
        "  chosen: order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3",
        "  best: unroll t0, t1; order d0, d1; parallel d0; vectorize d1",
    ]
    assert line(replace(outcome, found=replace(outcome.found, best=chosen)), WIDE).splitlines()[1:] == [f"  chosen, best: {texts[0]}"]
    assert "\n1 nest of 1 case: " in summary([outcome], 80)


TIMES = {"--graph --case=mlp.json fused 0: MatMul Add ReLU MatMul Add ReLU MatMul Add": ([0.2, 0.1], [0.001, 0.002])}
NARROW = """\
first min  median  warm min  median  ms, of 2 runs
    100.0   150.0       1.0     1.5  --graph --case=mlp.json fused 0: MatMul Add
                                       ReLU MatMul Add ReLU MatMul Add"""


def test_compile_times_hang_what_is_too_long(terminal: None) -> None:
    assert _table(TIMES, 2) == NARROW


def test_compile_times_are_one_line_each_where_there_is_no_terminal() -> None:
    assert _table(TIMES, 2).splitlines()[1] == "    100.0   150.0       1.0     1.5  " + next(iter(TIMES))


AT_60 = """\
first min  median  warm min  median  ms, of 2 runs
--graph --case=mlp.json fused 0: MatMul Add ReLU MatMul Add
  ReLU MatMul Add
    100.0   150.0       1.0     1.5"""


def test_compile_times_stand_below_their_case_at_60_columns(monkeypatch: pytest.MonkeyPatch, terminal: None) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert _table(TIMES, 2) == AT_60


def test_output_of_tune_is_wrapped_between_words() -> None:
    machine = "Intel(R) Xeon(R) Processor, avx512_core_amx, 2 threads, L1 48 KiB, L2 2048 KiB"
    said = heading(machine, 60), summary([outcome()], 60)
    assert max(map(widest, said)) <= 60
    assert " ".join(said[0].split()).startswith(f"{machine} ratio: minimum time of the schedule's choice")
    schedule, by_cost = summary([outcome()], WIDE).splitlines()[1:]
    assert ("0 of 1 within" in schedule, "1 of 1 within" in by_cost) == (True, True)


def test_the_op_table_is_as_wide_as_the_terminal(terminal: None) -> None:
    assert widest(overview()) <= 80


def test_shapes_are_whole_where_attributes_have_no_column(monkeypatch: pytest.MonkeyPatch, terminal: None) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    said = CliRunner().invoke(main, ["show", "--case=attention.json"]).output
    assert widest(said) <= 70
    assert "4x8x128x128" in said
    assert "kind; attributes" in said
    monkeypatch.setenv("COLUMNS", "200")
    assert "| attributes" in CliRunner().invoke(main, ["show", "--case=attention.json"]).output


def test_explain_cuts_no_name_off_at_60_columns(monkeypatch: pytest.MonkeyPatch, terminal: None) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = CliRunner().invoke(main, ["explain", "--case=attention.json", "--policy=post_ops"]).output
    assert widest(said) <= 60
    assert "…" not in said
    assert "mark-runtime-constants" in said


@pytest.mark.parametrize("command", ["show", "explain"])
def test_an_explanation_fits_80_columns(terminal: None, command: str) -> None:
    result = CliRunner().invoke(main, [command, "--case=attention.json", "--policy=post_ops"], color=True)
    assert result.exit_code == 0, result.output
    assert widest(result.output) <= 80


def test_columns_make_way_in_their_order() -> None:
    rows = [("x" * 40, "a" * 10, "b" * 10, "c" * 10), ("", "", "", "")]
    assert fitting(rows, 79, (2, 1), 20) == [0, 1, 2, 3]
    assert fitting(rows, 58, (2, 1), 20) == [0, 1, 3]
    assert fitting(rows, 40, (2, 1), 20) == [0, 3]


def test_ops_folds_between_words(terminal: None) -> None:
    text = overview()
    assert widest(text) <= 80
    words = {
        word for row in OPS.values() for word in (row.kind, *row.schema.attrs, *(p.name for p in (*row.schema.inputs, *row.schema.outputs)))
    }
    lines = text.splitlines()[2:-1]
    assert {word for line in lines for word in line.replace("|", " ").split()} - {"->"} == words


def test_a_row_in_full_is_folded_between_words(terminal: None) -> None:
    assert widest(in_full("Convolution")) <= 80
