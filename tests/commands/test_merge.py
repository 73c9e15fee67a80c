"""`benchgraph merge`: the shards of a run make the run, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append, points, read, runs
from benchgraph.analysis.merge import Allowed, merge
from benchgraph.cli import main
from benchgraph.core.errors import InvalidArguments
from benchgraph.results.json_report import parse, render
from benchgraph.results.mode import Mode
from benchgraph.results.result import Origin, ResultSet, Shard
from tests.support.fake_library import Clock, FakeLibrary, fake_bench
from tests.support.misbehaving_library import write_cases
from tests.support.result_sets import CASES, MACHINE, RESULTS

BATCH = ["--graph", "--seed=0,2,4,6,8,10,12,14,16,18,20,22", "--case=good.json", "--seed=3,5", "--case=good.json"]
TIMES = {"elapsed_s", "phases_s", "compile_s", "timings", "peak_samples", "bandwidth_samples", "arithmetic_samples"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cases(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), obj=fake_bench(FakeLibrary(Clock())), prog_name="benchgraph")


def shards(count: int, *words: str) -> list[str]:
    """The reports of all shards of a command line."""
    files = [f"{part}.json" for part in range(1, count + 1)]
    for part, file in enumerate(files, 1):
        run(*words, f"--shard={part}/{count}", f"--report=json:{file}")
    return files


def without_times(file: str) -> object:
    document = json.loads(Path(file).read_text())
    del document["origin"], document["elapsed_s"]
    for rates in ("peak_flops", "peak_flops_1_thread", "microkernel", "memory_bandwidth"):
        del document["machine"][rates]
    document["cases"] = [{name: value for name, value in case.items() if name not in TIMES} for case in document["cases"]]
    return document


@pytest.mark.parametrize("mode", ["--mode=C", "--mode=P --fix-times-per-prb=2"])
def test_ten_shards_are_the_whole_run(mode: str) -> None:
    words = [*mode.split(), *BATCH]
    run(*words, "--report=json:whole.json")
    files = shards(10, *words)
    done = run("merge", *reversed(files), "-o", "merged.json")
    assert (done.output, done.exit_code) == ("json report: merged.json, 14 cases of 10 shards\n", 0)
    assert without_times("merged.json") == without_times("whole.json")


def test_shards_of_a_choice_are_the_choice() -> None:
    words = [*BATCH, "--match=seed=1?[26]"]
    run(*words, "--report=json:whole.json")
    run("merge", *shards(3, *words), "-o", "merged.json")
    assert without_times("merged.json") == without_times("whole.json")


def test_without_a_file_it_goes_to_standard_output() -> None:
    files = shards(2, *BATCH)
    run("merge", *files, "-o", "merged.json")
    assert run("merge", *files).stdout == run("merge", *files, "-o", "-").stdout == Path("merged.json").read_text() + "\n"


def test_the_history_of_merged_shards_is_one_run_once() -> None:
    files = shards(3, *BATCH)
    for order in (files, files[::-1]):
        run("merge", *order, "-o", "merged.json")
        added = run("history", "--add=merged.json", "--history=h.db").output
        assert added.startswith("merged.json: run 1 of h.db, " + ("14" if order is files else "0"))
    assert len(runs(Database("h.db"))) == 1


def test_a_shard_that_was_cut_short_is_said_and_resumed() -> None:
    one, two = shards(2, *BATCH)
    whole = parse(Path(two).read_text())
    Path(two).write_text(render(replace(whole, cases=whole.cases[:2])))
    done = run("merge", one, two, "-o", "merged.json")
    assert done.exit_code == 0
    assert done.stderr == (
        "benchgraph: 2.json: cut short after 2 cases; run the rest with --resume=2.json\nbenchgraph: merge: cut short: 9 of 14 cases ran\n"
    )
    again = run(*BATCH, "--resume=merged.json", "-v")
    assert again.stderr.count("run: ") == 5
    merged = parse(Path("merged.json").read_text())
    assert [case.index for case in merged.cases] == list(range(14))


# ---- what is no run --------------------------------------------------------------------------------------------------

ZEN_3, ZEN_4 = ({"cpuid": f"AuthenticAMD 25-{model}-1", "kernel": "Linux 6.1"} for model in (1, 17))
HERE = replace(MACHINE, host="a", identity=ZEN_3)
PARTS = tuple(
    replace(
        RESULTS,
        mode=Mode.correctness,
        machine=HERE,
        cases=CASES[part - 1 : part],
        origin=Origin(f"{part}", 100.0 - part, "c0ffee"),
        planned=1,
        shard=Shard(part, 3, 3, "b"),
        source="5",
    )
    for part in (1, 2, 3)
)


def called(**shard: object) -> ResultSet:
    return replace(PARTS[1], shard=replace(Shard(2, 3, 3, "b"), **shard))  # type: ignore[arg-type]


def on(**machine: object) -> ResultSet:
    return replace(PARTS[1], machine=replace(HERE, **machine))  # type: ignore[arg-type]


ONE_LINE = "give shards of one command line, which differ only in --shard"
OTHER_CODE = "run all shards with the same code, or say --other-code"
OTHER_MACHINE = "run all shards on machines of one kind, or say --other-machine"


@pytest.mark.parametrize(
    ("second", "what", "fix"),
    [
        (called(parts=4), "not of one run: 1 is one of 3 shards, 2 of 4", ONE_LINE),
        (called(cases=4), "not of one run: 1 is of a run of 3 cases, 2 of 4", ONE_LINE),
        (called(batch="c"), "not of one run: the runs of 1 and 2 have other cases, or cases in another order", ONE_LINE),
        (replace(PARTS[1], mode=Mode.run), "not of one run: mode C in 1, R in 2", ONE_LINE),
        (called(part=1), "shard 1/3 is in both 1 and 2", "leave one of them out"),
        (called(part=3), "shard 3/3 is in both 2 and 3", "leave one of them out"),
        (on(cpu="Other CPU"), "different machines: CPU Test CPU and Other CPU in 1 and 2", OTHER_MACHINE),
        (on(identity=ZEN_4), "different machines: cpuid AuthenticAMD 25-1-1 and AuthenticAMD 25-17-1 in 1 and 2", OTHER_MACHINE),
        (on(threads=4), "different machines: threads 2 and 4 in 1 and 2", OTHER_MACHINE),
        (replace(PARTS[1], machine=None), "different machines: an unknown one in 1 and 2", OTHER_MACHINE),
        (on(versions={"python": "3.12"}), "different code: python 3.11 and 3.12 in 1 and 2", OTHER_CODE),
        (replace(PARTS[1], source="6"), "different code: source 5 and 6 in 1 and 2", OTHER_CODE),
        (replace(PARTS[1], origin=Origin("2", 1.0, "cafe")), "different code: commit c0ffee and cafe in 1 and 2", OTHER_CODE),
        (
            replace(PARTS[1], origin=Origin("2", 1.0, "c0ffee", is_dirty=True)),
            "different code: commit c0ffee and c0ffee with changes in 1 and 2",
            OTHER_CODE,
        ),
    ],
)
def test_others_are_refused(second: ResultSet, what: str, fix: str) -> None:
    files = [(str(n), part) for n, part in enumerate((PARTS[0], second, PARTS[2]), 1)]
    with pytest.raises(InvalidArguments) as refused:
        merge(files, Allowed())
    assert str(refused.value) == f"merge: {what}; {fix}"


def named(*parts: ResultSet) -> list[tuple[str, ResultSet]]:
    return [(str(n), part) for n, part in enumerate(parts, 1)]


@pytest.mark.parametrize(("given", "what"), [(PARTS[:2], "shard 3 is missing"), (PARTS[1:2], "shards 1 3 of 3 are missing")])
def test_missing_shards_are_refused_unless_told(given: tuple[ResultSet, ...], what: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        merge(named(*given), Allowed())
    assert str(refused.value) == f"merge: {what}; add their files, or say --incomplete"
    merged = merge(named(*given), Allowed(is_incomplete=True))
    assert merged.cut == f"cut short: {len(given)} of 3 cases ran"


def test_a_whole_run_is_no_shard() -> None:
    with pytest.raises(InvalidArguments, match=r"^merge: 1: it is no shard; give reports of runs with --shard=I/N$"):
        merge(named(replace(PARTS[0], shard=None)), Allowed())


def test_other_machines_and_code_stay_with_their_results_where_they_are_allowed() -> None:
    second = replace(on(cpu="Other CPU", cores=2, host="b", versions={"python": "3.12"}), source="6", origin=Origin("2", 1.0, "cafe"))
    merged = merge(named(PARTS[0], second, PARTS[2]), Allowed(other_machine=True, other_code=True))
    assert merged.origin is not None
    assert (merged.machine, [c.machine for c in merged.cases]) == (HERE, [None, second.machine, None])
    assert (merged.source, merged.origin.commit) == ("5 + 6", "")
    assert parse(render(merged)) == merged


def test_times_of_different_machines_stay_apart() -> None:
    first, second, third = (replace(part, mode=Mode.performance) for part in (PARTS[0], on(isa="avx512"), PARTS[2]))
    with pytest.raises(InvalidArguments, match=r"instruction set avx2 and avx512 in 1 and 2; run all shards on machines of one kind, or"):
        merge(named(first, second, third), Allowed())
    merged = merge(named(first, second, third), Allowed(other_machine=True))
    assert [[c.index for c in kind.cases] for kind in merged.by_kind] == [[0, 2], [1]]


@pytest.mark.parametrize("unknown", [0, 1])
def test_results_of_an_unknown_machine_stay_so(unknown: int) -> None:
    parts = [replace(part, machine=None) if n == unknown else part for n, part in enumerate(PARTS)]
    merged = merge(named(*parts), Allowed(other_machine=True, other_code=True))
    assert [merged.machine_of(c) for c in merged.cases] == [part.machine for part in parts]


def test_a_merged_run_has_the_best_peaks_and_the_first_start() -> None:
    """On one host; another of its kind stays another one."""
    third = replace(PARTS[2], machine=replace(HERE, peak_flops={"f32": 17e9}, memory_bandwidth=8e9))
    merged = merge(named(PARTS[0], on(host="b"), third), Allowed())
    assert merged.machine == replace(HERE, peak_flops={"f32": 17e9})
    assert [c.machine for c in merged.cases] == [None, replace(HERE, host="b"), None]
    assert len(merged.by_kind) == 1
    assert (merged.elapsed_s, merged.planned, merged.shard, merged.source) == (6.0, 3, None, "5")
    assert merged.origin is not None
    assert (merged.origin.started, merged.origin.commit) == (97.0, "c0ffee")


def test_the_history_of_a_merged_run_keeps_machines_apart() -> None:
    parts = [replace(part, mode=Mode.performance, cases=(replace(CASES[0], index=n),)) for n, part in enumerate(PARTS)]
    parts[1] = replace(parts[1], machine=replace(HERE, identity=ZEN_4))
    database = Database("h.db")
    append(database, merge(named(*parts), Allowed(other_machine=True)))
    assert [(r.id, r.machine, r.machines) for r in runs(database)] == [(1, 1, (1, 2))]
    assert [p.machine for p in points(database) if p.policy == "fused"] == [1, 2, 1]
    assert [c.machine for c in read(database, 1).cases] == [None, parts[1].machine, None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "merge: no shards to merge; give files that --shard=I/N --report=json:FILE wrote"),
        (["a.json", "-o"], "merge: -o: a value is missing; write '-o FILE'"),
        (["a.json", "--imcomplete"], "merge: --imcomplete: unknown option; did you mean '--incomplete'?"),
        (["a.json", "-o", "x.xml"], "merge: --output=x.xml: the file's name says junit, and json is what it gets; name it otherwise"),
        (["nope.json"], "nope.json: cannot read the file: No such file or directory; name a JSON report"),
        (["a.json", "-o", "a.json/x"], "a.json/x: cannot write the file: Not a directory; name another one"),
    ],
)
def test_errors_are_one_line(words: list[str], message: str) -> None:
    Path("a.json").write_text(render(PARTS[0]))
    result = run("merge", *words)
    assert (result.stderr, result.stdout, result.exit_code) == (f"benchgraph: {message}\n", "", 2)
