"""The table as plain text."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from benchgraph.core.formats import milliseconds, ranges
from benchgraph.options.plugins import load_report, shown
from benchgraph.present.layer_table import layer_table
from benchgraph.present.terminal import printed, text_console
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, ResultSet, Status, Timing
from tests.support.result_sets import LAYERED, LAYERED_RESULTS, LAYERS

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9}, {"f32": 8e9}, {"f32": 6e9}, memory_bandwidth=2e9)


def timing(*ms: float) -> Timing:
    return Timing(tuple(t * 1e-3 for t in ms), 1)


def parts(*ms: float) -> tuple[PartitionTiming, ...]:
    return tuple(PartitionTiming(i, "single", (i,), 4_000_000, 2_000_000, 0.010, timing(t)) for i, t in enumerate(ms))


RESULT = Result(
    Status.EXECUTED,
    flops=8_000_000,
    bytes=1_000_000,
    timings=(
        PolicyTiming("fused", timing(0.9, 1.0, 1.5), parts(1.0)),
        PolicyTiming("one_op_each", timing(2.0, 2.0, 2.5), parts(1.25, 1.0)),
    ),
    peak_samples=(14e9, 15e9, 16e9),
    bandwidth_samples={1_000_000: (4e9, 5e9), 2_000_000: (2e9,)},
    warnings=("noise",),
)
CASE = CaseResult(0, "--mode=P --graph --case=a.json", 1.0, RESULT)

TEXT = """\
Test CPU, 4 cores, avx2, 2 threads; python 3.11
f32 peak 8 GFLOP/s with 1 thread, 16 with 2; microkernel 256x256x256 6 GFLOP/s (75%)
memory is read at 2.0 GB/s with 2

--mode=P --graph --case=a.json
hot caches; f32 peak 16.0 GFLOP/s; bandwidth 5.0 GB/s (reading 1 MB over and over)
policy / partition         | min ms | median ms | GFLOP/s | % peak | GB/s |   % bw | FLOP/B | roof | compile ms | ratio
---------------------------+--------+-----------+---------+--------+------+--------+--------+------+------------+------
fused (1 partition)        | 0.9000 |    1.0000 |     8.0 |  50.0% |  1.0 |  20.0% |    8.0 | peak |       10.0 |  1.00
one_op_each (2 partitions) | 2.0000 |    2.0000 |     4.0 |  25.0% |  0.5 |  10.0% |    8.0 | peak |       20.0 |  2.00
  0 single: ops 0          | 1.2500 |    1.2500 |     3.2 |  20.0% |  1.6 |  80.0% |    2.0 |   bw |       10.0 |
  1 single: ops 1          | 1.0000 |    1.0000 |     4.0 |  25.0% |  2.0 | 100.0% |    2.0 |   bw |       10.0 |
times over those of fused, with 95 % intervals within this run: one_op_each 2.00
warning: noise"""


def test_what_python_adds_stands_beside_the_table() -> None:
    first, *rest = RESULT.timings
    asked = replace(first, called=timing(0.9, 1.0021, 1.5))
    text = render(replace(CASE, result=replace(RESULT, timings=(asked, *rest))))
    assert "\nexecute from Python adds to these native calls, in microseconds: fused 2.1\n" in text


def test_what_python_adds_has_an_interval_after_enough_rounds() -> None:
    native = tuple(1.0 + i % 3 / 100 for i in range(24))
    asked = PolicyTiming("fused", timing(*native), (), timing(*(t * 1.002 for t in native)))
    text = render(replace(CASE, result=replace(RESULT, timings=(asked,))))
    assert "in microseconds: fused 2.0 (2.0 to 2.0)\n" in text


def test_what_python_may_not_add_is_not_said() -> None:
    native = tuple(1.0 + i % 3 / 100 for i in range(24))
    called = tuple(t * (1.002 if i % 2 else 0.997) for i, t in enumerate(native))
    asked = PolicyTiming("fused", timing(*native), (), timing(*called))
    assert "execute from Python" not in render(replace(CASE, result=replace(RESULT, timings=(asked,))))


def test_what_was_read_from_disk_is_not_shown_as_compiled() -> None:
    first, *rest = RESULT.timings
    warm = replace(first, partitions=tuple(replace(part, is_warm=True) for part in first.partitions))
    lines = render(replace(CASE, result=replace(RESULT, timings=(warm, *rest)))).splitlines()
    assert [line.split("|")[9].strip() for line in lines if line.startswith(("fused", "one_op_each"))] == ["10.0 warm", "20.0"]


def render(*cases: CaseResult, machine: Machine | None = MACHINE) -> str:
    return load_report("console")(ResultSet(Mode.performance, machine, cases, 1.0))


def test_the_whole_table_as_text() -> None:
    assert render(CASE) == TEXT


def test_long_names_are_not_cut_off() -> None:
    name = "x" * 100
    long = PolicyTiming(name, timing(1.0), parts(1.0))
    assert name in render(replace(CASE, result=replace(RESULT, timings=(long,))))


def test_ratios_have_intervals_where_there_are_rounds_enough() -> None:
    several = (PolicyTiming("fused", timing(*[1.0, 1.1] * 10), ()), PolicyTiming("other", timing(*[2.0, 2.2] * 10), ()))
    text = render(replace(CASE, result=replace(RESULT, timings=several)))
    assert "within this run: other 2.00 (2.00 to 2.00)\n" in text


def test_groups_of_cases_have_geometric_means() -> None:
    slower = replace(RESULT, timings=(RESULT.timings[0], PolicyTiming("one_op_each", timing(8.0), parts(8.0))))
    repros = ["--graph --mb=1 --case=p/a.json", "--graph --mb=2 --case=p/a.json", "--matmul 2x3:3x4"]
    cases = [CaseResult(i, repro, 1.0, r) for i, (repro, r) in enumerate(zip(repros, (RESULT, slower, RESULT), strict=True))]
    last = render(*cases).splitlines()[-2:]
    assert last[0] == "a (2 cases), geometric means of times over those of fused: fused 1.00, one_op_each 4.00"
    assert last[1] == "all (3 cases), geometric means of times over those of fused: fused 1.00, one_op_each 3.17"
    assert "geometric" not in render(CASE)


def test_a_case_without_timings_has_no_table() -> None:
    assert render(replace(CASE, result=Result(Status.SKIPPED)), machine=None) == ""


def first_row(result: Result) -> list[str]:
    line = next(line for line in render(replace(CASE, result=result)).splitlines() if line.startswith("fused"))
    return [cell.strip() for cell in line.split("|")]


def test_moves_of_data_have_no_flops_and_a_bandwidth() -> None:
    assert first_row(replace(RESULT, flops=0, timings=RESULT.timings[:1]))[3:9] == ["-", "-", "1.0", "20.0%", "-", "bw"]


def test_without_roofs_there_are_rates_alone() -> None:
    assert first_row(replace(RESULT, peak_samples=(), bandwidth_samples={}))[3:9] == ["8.0", "-", "1.0", "-", "8.0", "-"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"cold_cache": "all+tlb:1G"}, "cold caches (all+tlb:1G); f32 peak 16.0 GFLOP/s; bandwidth 5.0 GB/s (reading memory)"),
        ({"cold_cache": "wei"}, "cold caches (wei); f32 peak 16.0 GFLOP/s; bandwidth 5.0 GB/s (reading 1 MB over and over)"),
        (
            {"num_streams": 2},
            "hot caches; 2 streams: times are per execution finished; f32 peak 16.0 GFLOP/s; "
            "bandwidth 2.0 GB/s (reading 2 MB over and over)",
        ),
        ({"peak_samples": (), "bandwidth_samples": {}}, "hot caches"),
        (
            {"arithmetic": "int8", "arithmetic_samples": (64e9, 60e9)},
            "hot caches; int8 peak 64.0 GOP/s; bandwidth 5.0 GB/s (reading 1 MB over and over)",
        ),
    ],
)
def test_the_conditions_of_the_measurement_are_said(more: dict[str, object], line: str) -> None:
    assert line in render(replace(CASE, result=replace(RESULT, **more))).splitlines()


def test_a_single_execution_is_not_called_hot() -> None:
    results = ResultSet(Mode.simulation, None, (replace(CASE, result=replace(RESULT, peak_samples=(), bandwidth_samples={})),), 1.0)
    assert "a single execution, nothing warmed up" in load_report("console")(results).splitlines()


def test_the_table_fits_120_columns() -> None:
    fast = replace(RESULT, flops=10**12, bytes=10**9, peak_samples=(2e15,), bandwidth_samples={10**9: (2e12,)})
    text = render(replace(CASE, result=fast), machine=None)
    assert max(map(len, text.splitlines())) <= 120


# ---- on a terminal ---------------------------------------------------------------------------------------------------

NARROW = """\
Test CPU, 4 cores, avx2, 2 threads; python 3.11
f32 peak 8 GFLOP/s with 1 thread, 16 with 2; microkernel 256x256x256 6 GFLOP/s
(75%)
memory is read at 2.0 GB/s with 2

--mode=P --graph --case=a-case-with-a-name-that-is-longer-than-the-terminal-is-wide.json
hot caches; f32 peak 16.0 GFLOP/s; bandwidth 5.0 GB/s (reading 1 MB over and
over)
policy / partition             min ms   median ms   GFLOP/s   % peak   ratio
────────────────────────────────────────────────────────────────────────────
fused (1 partition)            0.9000      1.0000       8.0    50.0%    1.00
one_op_each (2 partitions)     2.0000      2.0000       4.0    25.0%    2.00
  0 single: ops 0-59 (60)    0.125 us    0.125 us         -        -
  1 single: ops 1              1.0000      1.0000       4.0    25.0%
no room for GB/s, % bw, FLOP/B, roof, compile ms: in a wider terminal, and in
--report=console:FILE
times over those of fused, with 95 % intervals within this run: one_op_each 2.00
warning: noise"""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def screen(results: ResultSet, *, is_verbose: bool = False) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", shown("console", results, is_verbose=is_verbose))


def test_the_whole_table_on_a_terminal_of_80_columns(terminal: None) -> None:
    first, second = RESULT.timings
    quick = replace(second.partitions[0], ops=tuple(range(60)), flops=0, timing=timing(0.000125))
    result = replace(RESULT, timings=(first, replace(second, partitions=(quick, second.partitions[1]))))
    repro = "--mode=P --graph --case=a-case-with-a-name-that-is-longer-than-the-terminal-is-wide.json"
    results = ResultSet(Mode.performance, MACHINE, (replace(CASE, repro=repro, result=result),), 1.0)
    assert screen(results) == NARROW


def test_what_holds_for_every_table_is_said_once(terminal: None) -> None:
    two = ResultSet(Mode.performance, MACHINE, (CASE, replace(CASE, index=1)), 1.0)
    assert screen(two).count("no room for") == 1


def many(count: int) -> ResultSet:
    """A policy of so many partitions, of which every third takes ten times as long."""
    policy = PolicyTiming("one_op_each", timing(20.0), parts(*(1.0 if i % 3 == 0 else 0.1 for i in range(count))))
    return ResultSet(Mode.performance, None, (replace(CASE, result=replace(RESULT, timings=(policy,))),), 1.0)


@pytest.mark.parametrize("count", [12, 13, 30])
def test_of_more_than_twelve_partitions_the_slowest_are_shown(count: int) -> None:
    rows = [line.split("|") for line in screen(many(count)).splitlines() if line.startswith("  ")]
    places = [int(cells[0].split()[0]) for cells in rows if "single" in cells[0]]
    assert len(places) == 12
    assert places == sorted(places)
    slow = [i for i in range(count) if i % 3 == 0][:12]
    assert set(slow) <= set(places)
    others = [cells for cells in rows if "other" in cells[0]]
    assert len(others) == (count > 12)
    if others:
        total = sum(p.timing.median_s for p in many(count).cases[0].result.timings[0].partitions)
        rest = float(others[0][2]) * 1e-3
        shown_s = sum(float(cells[2]) for cells in rows if "single" in cells[0]) * 1e-3
        assert rest + shown_s == pytest.approx(total)
        assert others[0][0].strip() == f"{count - 12} other{'' if count == 13 else 's'}, {rest / total:.0%} of the time"


def test_all_partitions_are_there_with_v_and_in_a_report() -> None:
    results = many(30)
    for text in (screen(results, is_verbose=True), render(*results.cases)):
        assert len([line for line in text.splitlines() if "single" in line]) == 30
        assert "others" not in text
    assert "all of them with -v, and in --report=console:FILE" in screen(results)


def test_what_is_piped_is_neither_wrapped_nor_cut() -> None:
    ops = tuple(range(0, 900, 2))
    odd = PolicyTiming("fused", timing(1.0), tuple(replace(p, ops=ops) for p in parts(1.0, 2.0)))
    text = screen(ResultSet(Mode.performance, MACHINE, (replace(CASE, result=replace(RESULT, timings=(odd,))),), 1.0))
    assert f"  0 single: ops {' '.join(map(str, ops))} |" in text


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (range(60), "0-59 (60)"),
        ((0,), "0"),
        ((0, 1), "0 1"),
        ((3, 1, 2), "1-3 (3)"),
        ((0, 1, 5, 6, 7, 9), "0 1 5-7 9 (6)"),
        ((), ""),
    ],
)
def test_ops_are_said_as_ranges(ids: Iterable[int], said: str) -> None:
    assert ranges(ids) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1e-7, "0.100 us"), (9.9e-7, "0.990 us"), (1e-6, "0.0010"), (1.5e-3, "1.5000"), (0.0, "0.0000")],
)
def test_what_milliseconds_say_nothing_of_is_said_in_microseconds(seconds: float, said: str) -> None:
    assert milliseconds(seconds) == said
    assert milliseconds(seconds, 1).endswith(".0") or seconds > 1e-3


def test_intervals_that_say_nothing_are_dashes() -> None:
    wild = timing(*(1.0 * 8**i for i in range(-3, 4)))
    noisy = replace(RESULT.timings[1], timing=wild, called=None)
    first = replace(RESULT.timings[0], timing=timing(*[1.0, 1.1, 1.0, 1.2, 1.0, 1.1, 1.0]))
    asked = replace(first, called=timing(*[1.1, 1.0, 1.2, 1.0, 1.1, 1.0, 1.0]))
    text = render(replace(CASE, result=replace(RESULT, timings=(asked, noisy))))
    assert "within this run: one_op_each 1.00 (–)\n" in text
    assert "execute from Python" not in text  # it may as well add nothing


LAYER_TEXT = """\
fused: 2 layers of 1 partition on fast, together 337.5000 ms; an execution takes 337.5000 ms profiled, 375.0000 ms otherwise
layer     | x |       ms | % time |           each ms | FLOP | bytes |  % roof | % busy
----------+---+----------+--------+-------------------+------+-------+---------+-------
a.*.fc +1 | 2 | 337.5000 | 100.0% | 112.5000-225.0000 |  120 |    40 | 0.0% bw |  75.0%
alike layers of repeated blocks are one row; all of them with -v, and in --report=console:FILE"""

LAYERS_APART = """\
layer     |       ms | % time | FLOP | bytes |  % roof | % busy
----------+----------+--------+------+-------+---------+-------
a.0.fc +1 | 225.0000 |  66.7% |   60 |    20 | 0.0% bw |  75.0%
a.1.fc +1 | 112.5000 |  33.3% |   60 |    20 | 0.0% bw |      -"""


def test_layers_stand_below_the_times_of_their_case() -> None:
    assert LAYER_TEXT in shown("console", LAYERED_RESULTS, is_verbose=False)
    assert LAYERS_APART in shown("console", LAYERED_RESULTS, is_verbose=True)
    assert LAYERS_APART in load_report("console")(LAYERED_RESULTS)


def test_layers_fit_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "encoder.layer.0.attention.self.query"
    wide = replace(LAYERS, layers=tuple(replace(layer, name=name, implementation=name * 3) for layer in LAYERS.layers))
    profile = replace(LAYERED.timings[0], layers=wide)
    out = text_console(80)
    for part in layer_table(LAYERED, profile, wide, out, is_folded=True):
        out.print(part)
    assert max(map(len, printed(out).splitlines())) <= 80
    assert "% time" in printed(out)
