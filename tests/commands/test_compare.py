"""`benchgraph compare`: reading files, pairing cases, reported changes, and the exit code."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.compare.differences import Comparison, compare, interval
from benchgraph.analysis.compare.sides import Side, read
from benchgraph.analysis.inference.verdicts import Judgement, Verdict
from benchgraph.cli import main
from benchgraph.commands import compare as command
from benchgraph.present.compare import markdown, table
from benchgraph.results import result as r
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.json_report import parse, render
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from tests.support.written_reports import cells

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2)
OK, FAILED, SKIPPED = r.Result(r.Status.PASSED), r.Result(r.Status.FAILED, "wrong"), r.Result(r.Status.SKIPPED, "no memory")


def timed(*ms: float, compile_s: float = 0.1, policies: tuple[str, ...] = ("fused",), rounds: int = 12, is_warm: bool = False) -> r.Result:
    """Policies of these medians, with noise of a tenth of a per cent. The peak stands still."""

    def samples(t: float) -> tuple[float, ...]:
        return tuple(t * 1e-3 * (1 + 1e-3 * ((7 * i) % 5 - 2)) for i in range(rounds))

    times = [(policy, r.Timing(samples(t), 1)) for policy, t in zip(policies, ms, strict=True)]
    timings = tuple(r.PolicyTiming(p, t, (r.PartitionTiming(0, "chain", (0,), 1, 1, compile_s, t, is_warm),)) for p, t in times)
    return r.Result(r.Status.EXECUTED, flops=10**6, timings=timings, peak_samples=(16e9,) * rounds)


def in_parts(result: r.Result, parts: int) -> r.Result:
    """The last policy in so many partitions, which were sampled in 5 rounds of their own when there are several."""
    *others, last = result.timings
    (part,) = last.partitions
    alone = tuple(replace(part, id=i, timing=r.Timing((1e-4,) * 5, 1)) for i in range(parts))
    return replace(result, timings=(*others, last if parts == 1 else replace(last, partitions=alone)))


def save(path: Path, cases: dict[str, r.Result], mode: Mode = Mode.performance, machine: Machine | None = MACHINE) -> str:
    """A report of these cases, by repro line."""
    found = tuple(r.CaseResult(i, repro, 1.0, result) for i, (repro, result) in enumerate(cases.items()))
    path.write_text(render(r.ResultSet(mode, machine, found, 2.0)), encoding="utf-8")
    return str(path)


def line(i: int) -> str:
    return f"--mode=P --graph --mb={i} --case=mlp.json"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words], prog_name="benchgraph")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _saved(name: str, cases: dict[str, r.Result], mode: Mode) -> Side:
    save(Path(name), cases, mode)
    return read(name, "")


def both(here: Path, before: dict[str, r.Result], after: dict[str, r.Result], mode: Mode = Mode.performance) -> Comparison:
    return compare(_saved("a.json", before, mode), _saved("b.json", after, mode), 0.05)


# ---- what is told ----------------------------------------------------------------------------------------------------

QUIET = {line(i): timed(1.0 + i) for i in range(8)}


def test_a_slower_case_is_a_regression_and_exit_code_1(here: Path) -> None:
    save(here / "a.json", QUIET)
    save(here / "b.json", {**QUIET, line(3): timed(6.0)})
    result = run("a.json", "b.json")
    assert result.exit_code == 1
    assert re.search(r"Regressed:\n  --graph --mb=3 --case=mlp.json: fused: 1\.500 times as long \[1\.\d+ \.\. 1\.\d+\]\n", result.output)
    assert result.output.splitlines()[-1] == "1 regressed, 7 same, 0 newly failing"
    assert run("a.json", "b.json", "--threshold=60%").exit_code == 0
    assert run("a.json", "b.json", "--match", "mb=[0-2]").output.splitlines()[-1] == "0 regressed, 3 same, 0 newly failing"
    back = run("b.json", "a.json")
    assert back.exit_code == 0
    assert back.output.splitlines()[-1] == "0 regressed, 1 improved, 7 same, 0 newly failing"


def test_a_file_compared_with_itself_is_the_same_with_a_caveat(here: Path) -> None:
    save(here / "a.json", QUIET)
    result = run("a.json", "a.json")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "0 regressed, 8 same, 0 newly failing"
    assert "note: a file stands here twice" in result.output


def test_several_files_are_runs_of_one_side(here: Path) -> None:
    for name, factor in (("a", 1.0), ("a2", 1.001), ("b", 1.002), ("b2", 1.003)):
        save(here / f"{name}.json", {line(i): timed(factor * (1 + i)) for i in range(4)})
    two, one = run("a.json,a2.json", "b.json,b2.json"), run("a.json", "b.json")
    assert "each side has one run" in one.output
    assert "each side has one run" not in two.output
    assert two.output.startswith("A = a.json,a2.json, B = b.json,b2.json, mode P\n")
    assert two.output.splitlines()[-1] == "0 regressed, 4 same, 0 newly failing"


def test_statuses(here: Path) -> None:
    names = [f"--graph --case={c}.json" for c in "abcdef"]
    before = dict(zip(names, (OK, FAILED, OK, FAILED, OK, OK), strict=True))
    after = dict(zip([*names[:5], "--graph --case=g.json"], (FAILED, OK, SKIPPED, FAILED, OK, OK), strict=True))
    found = both(here, before, after, Mode.correctness)
    assert [str(c) for c in found.broken] == ["--graph --case=a.json: PASSED -> FAILED (wrong)"]
    assert [str(c) for c in found.mended] == ["--graph --case=b.json: FAILED -> PASSED"]
    assert [str(c) for c in found.statuses] == ["--graph --case=c.json: PASSED -> SKIPPED (no memory)"]
    assert (found.missing, found.added) == (("--graph --case=f.json",), ("--graph --case=g.json",))
    assert found.exit_code == 1
    assert found.summary == "0 regressed, 1 newly failing, 1 mended, 1 missing, 1 added".removeprefix("0 regressed, ")
    assert both(here, after, before, Mode.correctness).exit_code == 1  # b fails again
    assert both(here, {names[0]: FAILED}, {names[0]: OK}, Mode.correctness).exit_code == 0


def test_one_failing_run_of_a_side_is_a_failure(here: Path) -> None:
    for name, result in (("a", OK), ("b", OK), ("b2", FAILED)):
        save(here / f"{name}.json", {"--graph --case=a.json": result}, Mode.correctness)
    assert run("a.json", "b.json").exit_code == 0
    assert run("a.json", "b.json,b2.json").exit_code == 1


def test_cases_are_paired_by_what_they_mean(here: Path) -> None:
    slow = "--mode=P --max-ms-per-prb=500 --policy=fused --graph --case=a.json"
    found = both(here, {slow: timed(1.0)}, {"--mode=P --graph --case=a.json": timed(1.0)})
    assert [str(row.key) for row in found.rows] == ["--graph --case=a.json"]
    assert not found.missing
    other = both(here, {"--graph --case=a.json": timed(1.0)}, {"--threads=2 --graph --case=a.json": timed(1.0)})
    assert (len(other.missing), len(other.added)) == (1, 1)


def test_equal_lines_are_paired_in_their_order(here: Path) -> None:
    again = {"--mode=P --graph --case=a.json": timed(1.0), "--mode=P --max-ms-per-prb=99 --graph --case=a.json": timed(5.0)}
    found = both(here, again, again)
    assert [(str(row.key), round(row.b_s * 1e3)) for row in found.rows] == [
        ("--graph --case=a.json", 1),
        ("--graph --case=a.json (no. 2)", 5),
    ]


def test_a_policy_of_one_side_is_reported(here: Path) -> None:
    two = timed(1.0, 2.0, policies=("fused", "post_ops"))
    found = both(here, {line(1): two}, {line(1): timed(1.0)})
    assert [row.policy for row in found.rows] == ["fused"]
    assert found.missing == ("--graph --mb=1 --case=mlp.json: post_ops",)


SLOW = 16e9 / 1.3


@pytest.mark.parametrize(
    "peaks",
    [
        ((16e9,) * 12, (SLOW,) * 12),
        ((16e9,) * 12, (SLOW,) * 12, (9e9,) * 5),  # 5 rounds of the single partitions of the second policy
    ],
)
def test_policies_measured_one_after_another_have_their_own_peaks(here: Path, peaks: tuple[tuple[float, ...], ...]) -> None:
    """The second policy met a slower clock; its time is corrected, the first one's is not."""
    names, parts = ("fused", "post_ops"), len(peaks) - 1
    one = replace(in_parts(timed(1.0, 1.0, policies=names), parts), flops=10**12, peak_samples=(16e9,) * (24 + 5 * (parts - 1)))
    two = replace(in_parts(timed(1.0, 1.3, policies=names), parts), flops=10**12, peak_samples=sum(peaks, ()))
    ratios = [row.judged.ratio for row in both(here, {line(1): one}, {line(1): two}).rows]
    assert ratios == pytest.approx([1.0, 1.0])


def test_peaks_of_single_partitions_are_not_those_of_the_whole_graph(here: Path) -> None:
    names = ("fused", "post_ops")
    one = replace(in_parts(timed(1.0, 1.0, policies=names), 2), flops=10**12, peak_samples=(16e9,) * 12 + (9e9,) * 5)
    two = replace(in_parts(timed(1.3, 1.3, policies=names), 2), flops=10**12, peak_samples=(SLOW,) * 12 + (16e9,) * 5)
    assert [row.judged.ratio for row in both(here, {line(1): one}, {line(1): two}).rows] == pytest.approx([1.0, 1.0])
    unknown = replace(two, peak_samples=(SLOW,) * 7)  # of no rounds that we know: times are taken as they are
    assert [row.judged.ratio for row in both(here, {line(1): one}, {line(1): unknown}).rows] == pytest.approx([1.3, 1.3])


def test_a_busy_machine_leaves_no_verdict_and_says_so(here: Path) -> None:
    found = both(here, {line(1): timed(1.0)}, {line(1): replace(timed(9.0), peak_samples=(2e9,) * 12)})
    assert "other programs ran; no verdict on --graph --mb=1" in found.notes[-1]
    assert (found.exit_code, found.means) == (0, {})
    assert found.summary == "0 regressed, 1 not enough data, 0 newly failing"


def test_too_few_samples_are_not_enough_data(here: Path) -> None:
    found = both(here, {line(1): timed(1.0, rounds=1)}, {line(1): timed(9.0, rounds=1)})
    assert (found.summary, found.exit_code) == ("0 regressed, 1 not enough data, 0 newly failing", 0)


def test_compile_times_and_accuracy_are_reported_and_fail_nothing(here: Path) -> None:
    def off(l2: float) -> r.Result:
        return replace(OK, accuracy=(Accuracy("whole graph", 5, "f32", 64, 0, 0.5, 0.25, 2.0, l2, 0.0, "fused"),))

    slow = both(here, {line(1): timed(1.0, compile_s=0.1)}, {line(1): timed(1.0, compile_s=0.3)})
    assert [str(c) for c in slow.compile] == ["--graph --mb=1 --case=mlp.json: fused: compile time: 100 ms -> 300 ms"]
    assert slow.exit_code == 0
    assert not both(here, {line(1): timed(1.0, compile_s=0.001)}, {line(1): timed(1.0, compile_s=0.009)}).compile
    warm = timed(1.0, compile_s=0.3, is_warm=True)
    assert not both(here, {line(1): timed(1.0, compile_s=0.1)}, {line(1): warm}).compile, "one compiled, the other read"
    (told,) = both(here, {line(1): timed(1.0, compile_s=0.1, is_warm=True)}, {line(1): warm}).compile
    assert "fused: compile time from disk: 100 ms -> 300 ms" in str(told)
    far = both(here, {"--graph --case=a": off(1e-7)}, {"--graph --case=a": off(4e-7)}, Mode.correctness)
    assert [str(c) for c in far.accuracy] == ["--graph --case=a: fused: whole graph: tensor 5 f32: L2 1e-07, 2 ulp -> L2 4e-07, 2 ulp"]
    assert far.exit_code == 0
    for before, after, count in ((1e-7, 1.9e-7, 0), (4e-7, 1e-7, 1), (0.0, 1e-9, 1), (0.0, 0.0, 0), (1e-7, float("nan"), 1)):
        found = both(here, {"--graph --case=a": off(before)}, {"--graph --case=a": off(after)}, Mode.correctness)
        assert len(found.accuracy) == count, (before, after)


def test_wrong_nan_or_infinity_is_reported_without_a_change_of_distance(here: Path) -> None:
    def off(*nonfinite: int) -> r.Result:
        accuracy = (Accuracy("whole graph", 5, "f32", 64, n, 0.5, 0.25, 2.0, 1e-7, 0.0, "fused", nonfinite=n) for n in nonfinite)
        return replace(FAILED, accuracy=tuple(accuracy))

    found = both(here, {"--graph --case=a": off(0)}, {"--graph --case=a": off(3, 0)}, Mode.correctness)
    where = "--graph --case=a: fused: whole graph: tensor 5 f32"
    assert [str(c) for c in found.accuracy] == [f"{where}: L2 1e-07, 2 ulp -> 3 wrong in NaN or infinity, L2 1e-07, 2 ulp"]
    assert not both(here, {"--graph --case=a": off(3)}, {"--graph --case=a": off(3)}, Mode.correctness).accuracy


def test_different_versions_are_reported(here: Path) -> None:
    save(here / "a.json", QUIET)
    save(here / "b.json", QUIET, machine=replace(MACHINE, versions={"python": "3.12", "numpy": "2"}))
    assert "note: versions differ: python 3.11 -> 3.12, numpy none -> 2" in run("a.json", "b.json").output


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"machine": replace(MACHINE, cpu="Other CPU")}, "CPU Test CPU and Other CPU"),
        ({"machine": replace(MACHINE, cores=8)}, "cores 4 and 8"),
        ({"machine": replace(MACHINE, threads=1)}, "threads 2 and 1"),
        ({"machine": replace(MACHINE, isa="avx512", cores=8)}, "cores 4 and 8, instruction set avx2 and avx512"),
        ({"machine": None}, "an unknown one"),
    ],
)
def test_other_machines_are_refused_without_the_option(here: Path, other: dict, said: str) -> None:
    save(here / "a.json", QUIET)
    save(here / "b.json", QUIET, **other)
    for words in (["a.json", "b.json"], ["a.json", "a.json,b.json"]):
        result = run(*words)
        fix = "measure both on one machine, or say --other-machine"
        assert (result.output, result.exit_code) == (f"benchgraph: compare: different machines: {said} in a.json and b.json; {fix}\n", 2)
        assert run(*words, "--other-machine").exit_code == 0


TWO = "write 'benchgraph compare A.json B.json'; runs of one side are joined by commas: A.json,A2.json"
SHARE = "give a share of at least 0, as in 5% or 0.05"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], f"compare: 0 sides to compare; {TWO}"),
        (["a.json"], f"compare: 1 side to compare; {TWO}"),
        (["a.json", "a.json", "a.json"], f"compare: 3 sides to compare; {TWO}"),
        (["a.json", "no.json"], "compare: no.json: cannot read the file: No such file or directory; name a JSON report"),
        (["a.json", "a.json,"], "compare: an empty file name; join the runs of a side by commas: A.json,A2.json"),
        (["a.json", "f.json"], "compare: different modes: mode P in a.json, F in f.json; compare runs of one mode"),
        (["a.json", "text"], "compare: text: not a JSON report of benchgraph; give a file that --report=json:FILE wrote"),
        (["a.json", "empty.json"], "compare: no cases in empty.json; widen --match, or measure more"),
        (["a.json", "a.json", "--match=nothing"], "compare: no cases in a.json; widen --match, or measure more"),
        (["a.json", "a.json", "--match=("], "compare: --match: bad value '('"),
        (["a.json", "a.json", "--threshold=x"], f"compare: --threshold: bad value 'x'; {SHARE}"),
        (["a.json", "a.json", "--threshold=-1%"], f"compare: --threshold: bad value '-1%'; {SHARE}"),
        (["a.json", "a.json", "--threshold=nan"], f"compare: --threshold: bad value 'nan'; {SHARE}"),
        (["a.json", "a.json", "--threshold=5"], f"compare: --threshold: bad value '5'; {SHARE}, and below 1"),
        (["a.json", "a.json", "--treshold=5%"], "compare: --treshold: unknown option; did you mean '--threshold'?"),
        (["a.json", "a.json", "--threshold"], "compare: --threshold: a value is missing; write '--threshold=VALUE'"),
        (["a.json", "a.json", "--report=html"], "compare: --report: bad value 'html'; choose one of console, markdown, csv"),
        (["a.json", "a.json", "--report=csv:text/x"], "compare: --report=csv:text/x: cannot write the file"),
    ],
)
def test_refusals(here: Path, words: list[str], message: str) -> None:
    save(here / "a.json", QUIET)
    save(here / "f.json", QUIET, Mode.fast_performance)
    save(here / "empty.json", {})
    (here / "text").write_text("no report")
    result = run(*words)
    assert result.output.startswith(f"benchgraph: {message}")
    assert (result.output.count("\n"), result.exit_code) == (1, 2)


def test_another_schema_is_refused(here: Path) -> None:
    old = json.loads(Path(save(here / "a.json", QUIET)).read_text()) | {"schema_version": 1}
    (here / "old.json").write_text(json.dumps(old))
    result = run("old.json", "a.json")
    assert re.fullmatch(
        r"benchgraph: compare: old\.json: schema version 1; this benchgraph reads versions? .*; measure anew with --report=json:FILE\n",
        result.output,
    )
    assert result.exit_code == 2


def test_the_cases_of_an_incomplete_file_count(here: Path) -> None:
    whole = Path(save(here / "a.json", QUIET)).read_text()
    (here / "cut.json").write_text(whole[: whole.index('{"index": 3') + 20])
    result = run("a.json", "cut.json")
    assert "note: cut.json: cut short after 3 cases; run the rest with --resume=cut.json\n" in result.output
    assert result.output.splitlines()[-1] == "0 regressed, 3 same, 0 newly failing, 5 missing"
    (here / "one.json").write_text(whole[: whole.index('{"index": 1')])
    assert "cut short after 1 case;" in run("a.json", "one.json").output
    (here / "none.json").write_text(whole[: whole.index('{"index": 0')])
    result = run("a.json", "none.json")
    assert result.output == "benchgraph: compare: none.json: no cases: cut short after 0 cases; run the rest with --resume=none.json\n"
    assert result.exit_code == 2


# ---- what only CI may mind -------------------------------------------------------------------------------------------

MISTRUSTED = r.Result(r.Status.MISTRUSTED, "zeros")


@pytest.mark.parametrize(
    ("after", "bad"),
    [
        ({"x": OK, "y": OK, "s": SKIPPED}, set()),  # s was skipped before
        ({"x": OK, "s": SKIPPED}, {"missing"}),
        ({"x": SKIPPED, "y": OK, "s": SKIPPED}, {"skipped"}),
        ({"x": OK, "y": MISTRUSTED, "s": SKIPPED}, {"mistrusted"}),
        ({"x": OK, "y": SKIPPED}, {"missing", "skipped"}),
    ],
)
def test_fail_on_fails_what_is_otherwise_only_reported(here: Path, after: dict[str, r.Result], bad: set[str]) -> None:
    save(here / "a.json", {f"--graph --case={c}.json": OK if c != "s" else SKIPPED for c in "xys"}, Mode.correctness)
    save(here / "b.json", {f"--graph --case={c}.json": found for c, found in after.items()}, Mode.correctness)
    assert run("a.json", "b.json").exit_code == 0
    for name in ("missing", "skipped", "mistrusted"):
        result = run("a.json", "b.json", f"--fail-on={name}")
        assert result.exit_code == (name in bad), name
        assert result.output.endswith(f"; --fail-on: 1 {name}\n") == (name in bad)
    assert run("a.json", "b.json", "--fail-on", "mistrusted,missing,skipped").exit_code == bool(bad)


def test_a_failure_that_is_now_skipped_is_newly_skipped(here: Path) -> None:
    found = both(here, {"--graph --case=a.json": FAILED}, {"--graph --case=a.json": SKIPPED}, Mode.correctness)
    assert found.exit_code == 0
    assert replace(found, fail_on=("skipped",)).exit_code == 1


# ---- drift -----------------------------------------------------------------------------------------------------------


def slowed(result: r.Result, factor: float) -> r.Result:
    """The same on a machine whose clock is slower by that factor."""
    timings = tuple(replace(t, timing=r.Timing(tuple(s * factor for s in t.timing.samples_s), 1)) for t in result.timings)
    return replace(result, timings=timings, peak_samples=tuple(p / factor for p in result.peak_samples), flops=16 * 10**6)


def test_a_ratio_that_is_corrected_for_drift_stands_beside_the_measured_one(here: Path) -> None:
    save(here / "a.json", {line(i): slowed(timed(1.0 + i), 1.0) for i in range(6)})
    save(here / "b.json", {line(i): slowed(timed(1.0 + i), 1.04) for i in range(6)})
    result = run("a.json", "b.json")
    assert (
        "the machine's peak changed by -3.8% from A to B: 6 of 6 ratios are corrected for it, round by round; both are shown"
        in result.output
    )
    heads, *rows = [[cell.strip() for cell in text.split("|")] for text in result.output.splitlines() if "|" in text]
    assert heads == ["case / policy", "A ms", "B ms", "B / A", "corrected", "95 % interval", "verdict"]
    assert rows[1][3] == "1.040"
    assert 0.99 < float(rows[1][4]) < 1.02
    mean = next(row for row in rows if row[0] == "geometric mean, fused")
    assert mean[3] == "1.040"
    assert 0.99 < float(mean[4]) < 1.02
    assert "corrected: freed from the drift of the machine's peak" in result.output
    row = run("a.json", "b.json", "--report=csv").output.splitlines()[1].split(",")
    assert row[-3:] == ["1.04", "True", ""]
    assert float(row[4]) < 1.02
    assert "(1.040 as measured, before the correction for drift)" in run("a.json", "b.json", "--report=markdown").output


def test_a_regression_with_drift_has_both_ratios(here: Path) -> None:
    save(here / "a.json", {line(i): slowed(timed(1.0 + i), 1.0) for i in range(8)})
    save(here / "b.json", {line(i): slowed(timed((1.0 + i) * (1.5 if i == 3 else 1)), 1.04) for i in range(8)})
    result = run("a.json", "b.json")
    assert re.search(r"fused: 1\.5\d\d times as long \[.*\], 1\.560 as measured, before the correction for drift\n", result.output)


def test_without_drift_there_is_one_ratio(here: Path) -> None:
    save(here / "a.json", QUIET)
    output = run("a.json", "a.json").output
    assert "corrected" not in output


# ---- how it looks ----------------------------------------------------------------------------------------------------

LOOK = """\
A = a.json, B = b.json, mode P
note: each side has one run: how runs differ is judged by how cases differ; only A.json,A2.json
shows what a run's cases share

case / policy                            |   A ms |   B ms | B / A | 95 % interval | verdict
-----------------------------------------+--------+--------+-------+---------------+----------------
--graph --mb=1                           |        |        |       |               |
--case=a-name-that-is-really-too-long-fo |        |        |       |               |
r-a-hundred-columns.json                 |        |        |       |               |
  fused                                  | 0.9980 | 8.9820 | 9.000 |             – | not enough data
  post_ops                               | 1.9960 | 2.0958 | 1.050 |             – | not enough data
"""


def test_the_table_at_a_hundred_columns(here: Path) -> None:
    name = "--graph --mb=1 --case=a-name-that-is-really-too-long-for-a-hundred-columns.json"
    before, after = (timed(*ms, policies=("fused", "post_ops"), rounds=1) for ms in ((1.0, 2.0), (9.0, 2.1)))
    found = both(here, {name: before}, {name: after})
    text = table.render(found, 100)
    assert text.startswith(LOOK)
    assert max(map(len, text.splitlines())) <= 100
    assert f"\n{name} " in table.render(found, 160)


def drifted(here: Path, width: int) -> tuple[str, list[str]]:
    """The table of four cases on a machine that became slower, no wider than it may be, and its heads."""
    before = {line(i): slowed(timed(1.0 + i), 1.0) for i in range(4)}
    found = both(here, before, {name: slowed(result, 1.04) for name, result in before.items()})
    text = table.render(found, width)
    assert max(map(len, text.splitlines())) <= width
    heads = next(line for line in text.splitlines() if "verdict" in line)
    return text, [cell.strip() for cell in heads.split("|")]


def test_at_sixty_columns_the_verdicts_are_whole(here: Path) -> None:
    text, heads = drifted(here, 60)
    assert heads == ["case / policy", "B / A", "corrected", "verdict"]
    verdicts = [cells[-1].strip() for row in text.splitlines() if len(cells := row.split("|")) == 4]
    assert set(verdicts[1:]) <= {"", *(verdict.value for verdict in Verdict)}
    assert "no room for the 95 % interval" in text


def test_at_eighty_columns_the_times_make_way(here: Path) -> None:
    text, heads = drifted(here, 80)
    assert heads == ["case / policy", "B / A", "corrected", "95 % interval", "verdict"]
    assert "geometric mean, fused" in " ".join(text.split())


def test_a_missing_interval_is_a_dash(here: Path) -> None:
    for low, high, said in ((0.5, 1.9, "0.500 .. 1.900"), (0.5, 2.0, "–"), (0.0, 1.0, "–"), (1.0, float("inf"), "–")):
        assert interval(Judgement(1.0, low, high, Verdict.unknown)) == said


def test_markdown_shows_what_changed_and_folds_the_rest(here: Path) -> None:
    save(here / "a.json", {**QUIET, "--graph --case=x|y.json": timed(1.0)})
    save(here / "b.json", {**QUIET, line(3): timed(6.0), "--graph --case=x|y.json": FAILED})
    result = run("a.json", "b.json", "--report=markdown:out.md", "--report=markdown")
    assert result.exit_code == 1
    text = (here / "out.md").read_text()
    assert result.output == f"{text.rstrip()}\nmarkdown report: out.md\n"
    assert text.startswith("**benchgraph compare**: 1 regressed, 7 same, 1 newly failing")
    visible = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert cells(visible)[0][:5] == ["--graph --mb=3 --case=mlp.json", "fused", "regressed", "4.0000", "6.0000"]
    assert len(cells(visible)) == 1
    assert "#### Newly failing (1)" in visible
    assert "<details><summary>Same (7)</summary>" in text
    assert [row[2] for row in cells(text)] == ["regressed"] + ["same"] * 7


def test_csv(here: Path) -> None:
    save(here / "a.json", {line(1): timed(1.0, rounds=1)})
    save(here / "b.json", {line(1): timed(2.0, rounds=1)})
    head = "case,policy,a_ms,b_ms,ratio,low,high,verdict,raw_ratio,is_corrected,machine\n"
    row = "--graph --mb=1 --case=mlp.json,fused,0.998,1.996,2,,,not enough data,2,False,\n"
    assert run("a.json", "b.json", "--report", "csv").output == head + row


def test_the_reports_are_those_of_the_help() -> None:
    help = " ".join(CliRunner().invoke(main, ["compare", "--help"]).output.split())
    assert f"--report {'|'.join(command.REPORTS)}[:FILE]" in help
    assert all(option in help for option in (*command.OPTIONS, command.OTHER_MACHINE))
    assert markdown.render in command.REPORTS.values()


# ---- several machines ------------------------------------------------------------------------------------------------

MILAN, GENOA = (Machine("AMD EPYC", 2, "avx2", {}, 2, host=f"h{n}", identity={"cpuid": f"AuthenticAMD 25-{n}-1"}) for n in (1, 17))
ON_MILAN, ON_GENOA = (f"AMD EPYC (AuthenticAMD 25-{n}-1), 2 cores, avx2, 2 threads" for n in (1, 17))


def save_fleet(name: str, factor: float, on_genoa: tuple[int, ...]) -> None:
    """Eight cases on Milan, but for some on Genoa, where they take `factor` times as long as usual."""
    save(Path(name), {line(i): timed((1.0 + i) * (factor if i in on_genoa else 1.0)) for i in range(8)})
    whole = parse(Path(name).read_text())
    cases = tuple(replace(c, machine=GENOA if n in on_genoa else None) for n, c in enumerate(whole.cases))
    Path(name).write_text(render(replace(whole, machine=MILAN, cases=cases)))


def test_times_are_compared_on_each_kind_of_machine(here: Path) -> None:
    save_fleet("a.json", 1.0, (0, 1, 2, 3))
    save_fleet("b.json", 1.5, (0, 1, 2, 3))
    result = run("a.json", "b.json", "--report=console", "--report=csv:c.csv", "--report=markdown:c.md")
    assert result.exit_code == 1
    text = result.output
    assert text.index(f"on {ON_MILAN}:") < text.index(f"on {ON_GENOA}:")
    assert re.findall(r"geometric mean, fused .* (\d\.\d+) ", text) == ["1.000", "1.500"]
    assert len(re.findall(rf"fused on {re.escape(ON_GENOA)}: 1\.500 times as long", text)) == 4
    rows = [row.split(",") for row in Path("c.csv").read_text().splitlines()[1:]]
    assert [(float(row[4]), "25-17-1" in ",".join(row)) for row in rows] == [(1.0, False)] * 4 + [(1.5, True)] * 4
    markdown = Path("c.md").read_text()
    assert f"#### Regressed on `{ON_GENOA}` (4)" in markdown
    assert f"Geometric mean of B / A on `{ON_MILAN}`: fused **1.000**" in markdown


def test_a_case_that_moved_to_another_kind_is_not_compared(here: Path) -> None:
    save_fleet("a.json", 1.0, (0,))
    save_fleet("b.json", 3.0, (0, 1))
    result = run("a.json", "b.json", "--match=mb=[1-7]")
    assert "Regressed" not in result.output
    words = " ".join(result.output.split())
    for side, kind in (("a", ON_MILAN), ("b", ON_GENOA)):
        assert f"Only in {side}.json: --graph --mb=1 --case=mlp.json: fused on {kind}" in words
    assert result.output.splitlines()[-1] == "0 regressed, 6 same, 0 newly failing, 1 missing, 1 added"
    assert run("a.json", "b.json", "--match=mb=[1-7]", "--fail-on=missing").exit_code == 1
    all_together = run("a.json", "b.json", "--other-machine")
    assert "2 regressed" in all_together.output


def test_statuses_of_several_kinds_of_machines_are_compared_and_the_note_says_so(here: Path) -> None:
    def save_checked(name: str, on_genoa: tuple[int, ...]) -> None:
        where = [GENOA if i in on_genoa else None for i in range(8)]
        cases = tuple(r.CaseResult(i, f"--graph --mb={i} --case=mlp.json", 1.0, OK, machine=m) for i, m in enumerate(where))
        Path(name).write_text(render(r.ResultSet(Mode.correctness, MILAN, cases, 2.0)))

    save_checked("a.json", (0, 1))
    save_checked("b.json", (1, 2, 3))
    save_checked("c.json", ())
    said = "the cases ran on 2 kinds of machines, {} of 8 cases on others in B than in A: statuses and accuracy are compared all the same"
    assert said.format(3) in " ".join(run("a.json", "b.json").output.split())
    assert said.format(0) in " ".join(run("a.json", "a.json").output.split())
    assert said.format(2) in " ".join(run("a.json", "c.json").output.split())
    assert "kinds of machines" not in run("c.json", "c.json").output


def test_runs_without_a_kind_in_common_are_refused(here: Path) -> None:
    save_fleet("a.json", 1.0, ())
    save_fleet("b.json", 1.0, tuple(range(8)))
    message = "different machines: cpuid AuthenticAMD 25-1-1 and AuthenticAMD 25-17-1 in a.json and b.json"
    assert message in run("a.json", "b.json").output
