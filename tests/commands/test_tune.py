"""tune: every legal choice is measured, the best is found and stored, and later runs take it. Times come from a clock that stands still."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.candidates import candidates
from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import ParseError
from benchgraph.core.options import Forced
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import save
from benchgraph.harness.bench import Bench
from benchgraph.harness.command_words import select_cases
from benchgraph.library import benchgraph_library
from benchgraph.library.protocol import Bound
from benchgraph.machine.target import ISAS, current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.schedule.space import Tiling
from benchgraph.schedule.tuning import Finding, findings, store
from benchgraph.tune.search import BEST, GROUP, Measured, Searcher, SearchResult
from tests.support import graph_ir

PEAK = 1e11
Cost = Callable[[Forced], float]


def forced(nest: str, mb: int, nb: int, *, spreads: bool = False) -> Forced:
    return Forced(nest, str(Tiling(mb, nb, spreads).schedule((), ())))


def tiling(choice: Forced) -> Tiling:
    return Tiling.of(parse(choice.schedule))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Chain:
    clock: Clock
    cost: float
    runs: list[int] = field(default_factory=list)
    constants: Sequence[object] = ()

    def run(self, times: int) -> None:
        self.runs.append(times)
        self.clock.now += times * self.cost


def searcher(cost: Cost, rounds: int = 3) -> tuple[Searcher, dict[Forced, Chain]]:
    clock, made = Clock(), dict[Forced, Chain]()

    def chain(choice: Forced) -> Chain:
        return made.setdefault(choice, Chain(clock, cost(choice)))

    return Searcher(chain, clock, lambda: PEAK, random.Random(0), rounds), made  # type: ignore[arg-type, return-value]


def space(count: int) -> list[Forced]:
    return [forced("f32:f32 8x8x8 constant", mb, 1) for mb in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, GROUP, GROUP + 1, GROUP + 2, 5 * GROUP + 3])
def test_every_choice_is_measured_and_the_best_is_found(count: int) -> None:
    every = space(count)
    best, chosen = every[count // 2], every[0]
    s, made = searcher(lambda c: 1e-3 if c == best else 1e-3 * (1 + tiling(c).mb))
    found = s.search(chosen, chosen, every)
    assert set(made) == set(every)
    assert (found.best.choice, found.chosen.choice, found.tried) == (best, chosen, count)
    assert found.ratio == pytest.approx(1.0 if best == chosen else 2.0)
    assert found.median_ratio == pytest.approx(found.ratio)
    assert found.peaks == (PEAK,) * 3


def test_the_choice_of_least_cost_is_measured_though_it_was_not_drawn() -> None:
    every = space(9)
    s, _ = searcher(lambda c: 1e-3 * tiling(c).mb)
    found = s.search(every[1], every[0], every[2:])
    assert (found.cheapest.choice, found.best.choice, found.tried) == (every[0], every[0], 9)
    assert (found.ratio, found.cheapest_ratio) == (pytest.approx(2.0), 1.0)


def test_the_schedules_choice_is_the_best_if_nothing_is_faster() -> None:
    s, made = searcher(lambda c: 1e-3 * tiling(c).mb)
    found = s.search(space(1)[0], space(1)[0], space(40))
    assert (found.best, found.ratio) == (found.chosen, 1.0)
    assert sum(sum(c.runs) > 0 for c in made.values()) == 40


def test_a_machine_that_slows_down_between_groups_changes_nothing() -> None:
    """Later groups are ten times as slow; the best of an early one is not among the best by time, but by its ratio."""
    clock, made, slow = Clock(), list[Forced](), 1.0

    def chain(choice: Forced) -> Chain:
        nonlocal slow
        slow = 10.0 if len(made) > 2 * GROUP else 1.0
        made.append(choice)
        return Chain(clock, slow * 1e-3 * (0.5 if tiling(choice).mb == 77 else 1.0 + tiling(choice).mb / 1000))

    found = Searcher(chain, clock, lambda: PEAK, random.Random(1), 3).search(space(1)[0], space(1)[0], space(100))  # type: ignore[arg-type]
    assert tiling(found.best.choice).mb == 77


def test_the_final_has_few_and_the_schedules_own() -> None:
    s, made = searcher(lambda c: 1e-3 * tiling(c).mb)
    s.search(space(60)[59], space(60)[59], space(60))
    calls = sorted(len(c.runs) for c in made.values())
    assert len([n for n in calls if n > calls[0]]) == BEST + 1


# ---- what there is to choose from -----------------------------------------------------------------------------------


def product(m: int = 24, k: int = 13, n: int = 40, *, softmax: bool = False, layers: int = 1) -> Graph:
    b = GraphBuilder()
    x = b.input((m, k))
    for _ in range(layers):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((k, n)), b.constant((n,))))
        k = n
    if softmax:
        b.op("SoftMax", x, axis=1)
    return b.graph()


def partition(graph: Graph) -> Partition:
    (p,) = partitions(graph, Policy.fused)
    return p


def test_the_schedules_choice_is_among_the_legal_ones() -> None:
    (found,) = candidates(partition(product()))
    assert found.chosen in found.legal
    assert {f.nest for f in found.legal} == {found.nest} == {"f32:f32 24x13x40 constant"}
    assert any(tiling(f).spreads for f in found.legal)
    assert found.cheapest in found.legal


def test_columns_are_not_split_where_whole_rows_are_worked_on() -> None:
    (found,) = candidates(partition(product(softmax=True)))
    assert not any(tiling(f).spreads for f in found.legal)


def test_a_nest_of_several_products_is_tuned_as_one() -> None:
    (found,) = candidates(partition(product(layers=2)))
    assert found.nest.startswith("f32:f32 24x13x40 constant + f32:f32 24x40x")
    assert found.chosen in found.legal
    assert {parse(f.schedule).sizes("m")[0] for f in found.legal} >= {24, 12, 1}


def pooling(*, side: int = 14, twice: bool = False) -> Graph:
    b, window = GraphBuilder(), {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "kernel": [3, 3]}
    y = b.op("MaxPool", b.input((2, 8, side, side)), **window)
    if twice:
        b.op("MaxPool", b.op("ReLU", y), **window)
    return b.graph()


def test_a_window_has_every_schedule_of_its_space() -> None:
    (found,) = candidates(partition(pooling()))
    attributes = "{kernel=[3,3], pads_begin=[1,1], pads_end=[1,1], strides=[1,1]}"
    assert found.nest == f"f32[2,8,14,14] = MaxPool(f32[2,8,14,14]) {attributes} along d3 by 1"
    assert found.chosen in found.legal
    assert found.cheapest in found.legal
    assert len({f.schedule for f in found.legal}) == len(found.legal) > 3


def test_equal_nests_are_there_once_and_others_apart() -> None:
    ps = partitions(pooling(twice=True), Policy.one_op_each)
    texts = [found.nest for p in ps for found in candidates(p) if "MaxPool" in found.nest]
    assert (len(texts), len(set(texts))) == (2, 1)
    assert candidates(partition(pooling(side=15))) != candidates(partition(pooling()))


def rows() -> Graph:
    b = GraphBuilder()
    b.op("SoftMax", b.input((24, 300)), axis=0)
    return b.graph()


def test_a_nest_of_rows_has_every_schedule_of_its_space() -> None:
    (found,) = candidates(partition(rows()))
    assert found.nest.startswith("_RowMax")
    assert found.nest.endswith(": f32[24,300] by [300, 1], f32[] by [], f32[24,300] by [300, 1]")
    assert found.chosen in found.legal
    assert found.cheapest in found.legal
    assert len({f.schedule for f in found.legal}) == len(found.legal) > 3


@pytest.mark.parametrize("graph", [product(), pooling(), rows()], ids=["product", "pooling", "rows"])
def test_every_candidate_is_taken_where_it_is_prescribed(graph: Graph) -> None:
    p = partition(graph)
    (free,) = candidates(p)
    for forced in free.legal:
        g = graph_ir.scheduled(replace(p, options=replace(p.options, forced=(forced,))), current())
        (node,) = (n for n in graph_ir.nests(g) if not g.value(n.outs[0]).is_constant)
        taken = [node.parameters.mb, node.parameters.nb] if node.parameters else [str(node.schedule)]
        asked = [tiling(forced).mb, tiling(forced).nb] if node.parameters else [forced.schedule]
        assert taken == asked


@pytest.mark.parametrize(
    ("graph", "schedule"),
    [
        (product(), Tiling(25, 16).schedule((), ())),
        (product(), Tiling(5, 16).schedule((), ())),
        (product(), Tiling(8, 64).schedule((), ())),
        (product(), Tiling(8, 12).schedule((), ())),
        (product(), Tiling(8, 16, spreads=True, ns=24).schedule((), ())),
        (product(), "order d0; parallel d0; vectorize d1"),
        (pooling(), "unroll_jam d2 by 3; order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3"),
        (pooling(), Tiling(8, 16).schedule((), ())),
        (rows(), "tile d1 by 7; order d1.0, d0, d1.1; parallel d1.0; vectorize d1.1"),
    ],
    ids=[
        "rows",
        "rows that nobody tries",
        "columns",
        "no whole vectors",
        "no whole calls",
        "a window's",
        "of another space",
        "a product's",
        "other blocks",
    ],
)
def test_a_schedule_that_a_nest_cannot_have_is_refused_by_name(graph: Graph, schedule: Schedule | str) -> None:
    p = partition(graph)
    (found,) = candidates(p)
    options = replace(p.options, forced=(Forced(found.nest, str(schedule)),))
    with pytest.raises(ParseError) as bad:
        graph_ir.scheduled(replace(p, options=options), current())
    assert str(bad.value) == (
        f"the options: '{found.nest}': this nest cannot have the schedule '{schedule}'; "
        "tune it anew with `benchgraph tune --store=FILE`, or leave the row out"
    )


# ---- the file --------------------------------------------------------------------------------------------------------

NEST = "f32:f32 24x13x40 constant"
FINDING = Finding(forced(NEST, 6, 16, spreads=True), 1.25)


def test_findings_are_read_back_for_their_machine_alone(tmp_path: Path) -> None:
    file, here = tmp_path / "t.json", current()
    store(file, here, [FINDING])
    assert findings(file, here) == (FINDING,)
    assert findings(file, type(here)(here.isa, here.l1_bytes, here.l2_bytes, here.cores + 1)) == ()


def test_a_new_finding_replaces_the_older_one(tmp_path: Path) -> None:
    file, here = tmp_path / "t.json", current()
    other = Finding(forced("u8:s8 2x3x4x5 variable", 3, 5), 1.1)
    store(file, here, [FINDING, other])
    store(file, here, [Finding(forced(NEST, 8, 40), 1.5)])
    assert {f.forced.nest: tiling(f.forced).mb for f in findings(file, here)} == {NEST: 8, other.forced.nest: 3}
    assert list(tmp_path.iterdir()) == [file]


def test_a_choice_that_is_the_best_takes_the_older_finding_away(tmp_path: Path) -> None:
    file, here = tmp_path / "t.json", current()
    store(file, here, [FINDING])
    store(file, here, [Finding(forced(NEST, 8, 40), 1.0)])
    assert findings(file, here) == ()


def document(**changes: object) -> str:
    usual = {"schedule": FINDING.forced.schedule, "ratio": 1.25}
    found = usual | {k: v for k, v in changes.items() if k in usual}
    whole = {"format": "benchgraph-tuning", "version": 3, "machines": {"any": {NEST: found}}}
    return json.dumps(whole | {k: v for k, v in changes.items() if k in whole})


def with_row(**more: object) -> str:
    row = {"schedule": FINDING.forced.schedule, "ratio": 1.25} | more
    return document(machines={"any": {NEST: row}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON: "),
        ("[]", "is no tuning file; remove it, or name another one; `benchgraph tune --store=FILE` writes one"),
        (document(format="else"), "is no tuning file"),
        (document(version=1), "is of version 1, this is 3"),
        (document(version="3"), "is of version '3', this is 3"),
        (document(machines=[]), "'machines' is no table of tables"),
        (document(machines={"any": 3}), "'machines' is no table of tables"),
        (document(schedule="tile m"), f"'{NEST}': 'tile m': not a primitive of a schedule"),
        (document(schedule="order m; parallel n"), "parallel loops are not the outermost ones"),
        (document(schedule=f"tile m by {'9' * 20}; order m.0"), "not a primitive of a schedule"),
        (document(schedule=3), "'schedule' is no text or 'ratio' no positive number"),
        (document(ratio=None), "'schedule' is no text or 'ratio' no positive number"),
        (document(ratio=10**400), "'schedule' is no text or 'ratio' no positive number"),
        (document(ratio=float("nan")), "'schedule' is no text or 'ratio' no positive number"),
        (with_row(rato=3), f"'{NEST}': no key 'rato'; did you mean 'ratio'?"),
        (with_row(comment="x"), f"'{NEST}': no key 'comment'; leave it out; the keys here are schedule, ratio"),
        (document().replace('"ratio"', '"schedule": "order m", "ratio"'), f"'{NEST}': 'schedule' is there twice; leave one of them out"),
        (document().replace(f'"{NEST}"', f'"{NEST}": {{}}, "{NEST}"'), f"'any': '{NEST}' is there twice; leave one of them out"),
        (document().replace('"any"', '"any": {}, "any"'), "'machines': 'any' is there twice; leave one of them out"),
        (document().replace('"version"', '"version": 1, "version"'), "'version' is there twice; leave one of them out"),
        (json.dumps(json.loads(document()) | {"machine": {}}), "no key 'machine'; did you mean 'machines'?"),
    ],
)
def test_a_broken_file_is_one_clear_line_before_any_case_runs(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(text)
    for words in ([f"--tuning={file}", "--matmul", "24x13:13x40"], ["explain", f"--tuning={file}", "--matmul", "24x13:13x40"]):
        result = CliRunner().invoke(main, words)
        assert (result.exit_code, result.output.count("\n")) == (2, 1)
        assert result.output.startswith(f"benchgraph: --tuning: {file}: ")
        assert message in result.output


@pytest.mark.parametrize(("name", "why"), [("none.json", "No such file or directory"), ("", "Is a directory")])
def test_a_file_that_cannot_be_read_is_reported(name: str, why: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [f"--tuning={tmp_path / name}", "--matmul", "24x13:13x40"])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert f"cannot read the tuning file: {why}; name one that `benchgraph tune` wrote" in result.output


def test_a_file_of_an_environment_variable_is_reported_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.core.config._current", None)
    monkeypatch.setenv("BENCHGRAPH_TUNING", "none.json")
    result = CliRunner().invoke(main, ["--matmul", "24x13:13x40"])
    assert result.exit_code == 2
    assert result.output.startswith("benchgraph: BENCHGRAPH_TUNING: none.json: cannot read")


def test_later_runs_take_the_findings(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, current(), [FINDING])
    case = ["--json", "--bia-dt=f32", "--attr-post-ops=relu", "--matmul", "24x13:13x40"]

    def chosen(*more: str) -> dict[str, object]:
        (found,) = json.loads(CliRunner().invoke(main, ["explain", *more, *case]).output)
        sections = [s for n in found["partitions"][0]["nests"] for s in n["sections"] if s["chosen"]]
        parameters: dict[str, object] = sections[0]["chosen"]["parameters"]
        return {name: parameters[name] for name in ("mb", "nb", "split_n")}

    tuned = {"mb": 6, "nb": 16, "split_n": True}
    assert chosen(f"--tuning={file}") == tuned != chosen()
    result = CliRunner().invoke(main, [f"--tuning={file}", "--matmul", "--bia-dt=f32", "--attr-post-ops=relu", "24x13:13x40"])
    assert result.exit_code == 0, result.output
    assert f"--tuning={file}" in result.output


def told(*words: str, file: Path, options: Sequence[str] = ("--bia-dt=f32", "--attr-post-ops=relu")) -> tuple[list[str], list[str]]:
    """Run a product: the notes that its reports have, and what stderr says of tuning."""
    report = file.with_name("run.json")
    result = CliRunner().invoke(main, [f"--report=json:{report}", *words, "--matmul", *options, "24x13:13x40"])
    notes = [note for case in json.loads(report.read_text())["cases"] for note in case["notes"]]
    return notes, [line for line in result.stderr.splitlines() if "no row of it was used" in line]


@pytest.mark.parametrize("mode", ["C", "I", "B", "S"])
def test_a_case_notes_the_rows_that_it_took_and_nothing_is_said_at_the_end(mode: str, tmp_path: Path) -> None:
    """Also where the disk has the code: the second run compiles nothing."""
    file = tmp_path / "t.json"
    store(file, current(), [FINDING, Finding(forced("f32:f32 2x3x4 constant", 1, 1), 1.5)])
    with override(cache_dir=str(tmp_path / "cache"), disk_cache_capacity=8):
        for _ in range(2):
            assert told(f"--mode={mode}", f"--tuning={file}", file=file) == ([f"1 nest scheduled by {file}"], [])


def test_a_row_that_a_worker_process_took_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, current(), [FINDING])
    assert told("--jobs=1", f"--tuning={file}", file=file) == ([f"1 nest scheduled by {file}"], [])


def test_one_row_that_one_case_takes_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, current(), [FINDING])
    notes, said = told(f"--tuning={file}", "--matmul", "2x3:3x4", file=file)
    assert (notes, said) == ([f"1 nest scheduled by {file}"], [])


def test_a_file_of_which_no_row_was_used_is_said_once_with_the_reason(tmp_path: Path) -> None:
    file, here = tmp_path / "t.json", current()
    remedy = f"; `benchgraph tune --store={file}` with these cases adds rows"
    begin = f"benchgraph: --tuning: {file}: no row of it was used: "

    def check(reason: str, *words: str, **options: Sequence[str]) -> None:
        assert told(f"--tuning={file}", *words, file=file, **options) == ([], [begin + reason])

    file.write_text(json.dumps({"format": "benchgraph-tuning", "version": 3, "machines": {}}))
    check(f"it has no row{remedy}")
    store(file, here, [FINDING])
    check(f"its 1 row for this machine is for no nest of these cases{remedy}", "--matmul", "2x3:3x4", options=("--dt=bf16",))
    more = here.cores + 1
    check(f"its rows are for {threads(here.cores)}; here: {threads(more)}{remedy}", f"--threads={more}")
    store(file, replace(here, isa=ISAS["portable"], cores=7), [FINDING])
    nearest = f"the nearest of its rows are for {threads(here.cores)}; here: {threads(more)}"
    check(f"{nearest}{remedy}", f"--threads={more}")


def threads(n: int) -> str:
    return f"{n} thread{'s' if n > 1 else ''}"


def test_nothing_is_said_of_rows_where_nothing_was_compiled(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, replace(current(), cores=99), [FINDING])
    assert told("--mode=L", f"--tuning={file}", file=file) == ([], [])


def test_a_file_of_the_environment_is_named_by_its_variable(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, replace(current(), cores=99), [FINDING])
    with override(tuning=str(file)):
        (line,) = told(file=file)[1]
    assert line.startswith(f"benchgraph: BENCHGRAPH_TUNING: {file}: no row of it was used: its rows are for 99 threads; here: ")


POOL = "mb1ic16_ih8oh8kh3sh1ph1"


def test_later_runs_take_the_findings_for_windows(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    (problem,) = select_cases("tune", ("--pool", POOL)).problems
    (found,) = candidates(partition(problem.graph()))
    other = next(f for f in found.legal if f != found.chosen)
    store(file, current(), [Finding(other, 1.5)])

    def windows(*more: str) -> list[str]:
        (explained,) = json.loads(CliRunner().invoke(main, ["explain", "--json", *more, "--pool", POOL]).output)
        schedules: list[str] = [w for nest in explained["partitions"][0]["nests"] for w in nest["schedules"]]
        return schedules

    assert windows(f"--tuning={file}") == [f"{other.schedule}: given by {file}"]
    assert windows()[0].startswith(f"{found.chosen.schedule}: least cost")
    assert CliRunner().invoke(main, [f"--tuning={file}", "--pool", POOL]).exit_code == 0


def test_a_row_that_its_nest_cannot_have_fails_the_case_by_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    store(file, current(), [Finding(forced(NEST, 25, 16), 1.5)])
    result = CliRunner().invoke(main, [f"--tuning={file}", "--matmul", "24x13:13x40"])
    assert result.exit_code == 1
    assert f"{file.name}: '{NEST}': this nest cannot have the schedule 'tile m by 25" in " ".join(result.output.split())


# ---- the command -----------------------------------------------------------------------------------------------------


@dataclass
class Compiled:
    choice: Forced
    compile_s: float = 0.0

    @property
    def is_best(self) -> bool:
        t = Tiling.read(parse(self.choice.schedule))
        return "pack" in self.choice.schedule if t is None else (t.mb, t.spreads) == (3, True)

    def bind(self, inputs: Sequence[object], outputs: Sequence[object]) -> Compiled:
        return self


@dataclass
class Timed:
    """Our partitions, of which a choice of five rows and split columns is the fastest."""

    clock: Clock
    name: str = "timed"
    version: str = ""
    is_in_process: bool = True
    dumps_itself: bool = False

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        return benchgraph_library().partitions(graph, policy)

    def compile(self, partition: Partition) -> Compiled:
        return Compiled(partition.options.forced[0])

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        return [self.compile(p) for p in partitions]

    def caller(self, partition: Partition, compiled: Compiled, inputs: Sequence[object], outputs: Sequence[object]) -> None:
        """Nobody asks from Python."""

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        (step,) = steps
        assert isinstance(step, Compiled)
        return Chain(self.clock, 1e-3 if step.is_best else 1.3e-3)


NO_NEST = "none of its nests has schedules to choose from"


class Probe:
    def sample(self) -> float:
        return PEAK


def tune(*words: str) -> Result:
    clock = Clock()
    bench = Bench(clock=clock, library=lambda name: Timed(clock), probe=lambda threads, arithmetic: Probe())  # type: ignore[arg-type, return-value]
    return CliRunner().invoke(main, ["tune", *words], obj=bench)


def test_tune_reports_and_stores_its_findings(tmp_path: Path) -> None:
    file, table = tmp_path / "t.json", tmp_path / "t.txt"
    result = tune(f"--store={file}", "-o", str(table), "--rounds=2", "--matmul", "24x13:13x40", "48x13:13x40")
    assert result.exit_code == 0, result.output
    rows = [line.split(" | ") for line in result.output.splitlines() if "--matmul" in line]
    assert [row[1].strip().split(" x ")[0] for row in rows] == ["3", "3"]
    assert [(row[2].strip(), row[3].strip()) for row in rows] == [("1.300", " 1.300".strip())] * 2
    assert "2 cases: geometric mean of ratios 1.300, largest 1.300; 0 of 2 within 10% of the best" in result.output
    assert {(tiling(f.forced).mb, tiling(f.forced).spreads, f.ratio) for f in findings(file, current())} == {(3, True, 1.3)}
    assert table.read_text() == result.output
    assert f"tuning: {file}: 2 findings stored\n" in table.read_text()


def test_the_nests_of_a_case_are_tuned_one_after_the_other(tmp_path: Path) -> None:
    """Of several partitions; the second product is the first once more."""
    file, b = tmp_path / "t.json", GraphBuilder()
    x = b.input((2, 24, 40))
    for _ in range(2):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((40, 40)), b.constant((40,))))
    b.op("MatMul", x, b.constant((40, 96)))
    case = tmp_path / "case.json"
    save(b.graph(), case)
    result = tune(f"--store={file}", "--rounds=1", "--choices=4", "--policy=post_ops", "--graph", f"--case={case}")
    assert result.exit_code == 0, result.output
    nests = ["f32:f32 2x24x40x40 constant", "f32:f32 2x24x40x96 constant"]
    lines = result.output.splitlines()
    rows = [line.split(" | ") for line in lines if line.split(" | ")[-1] in nests]
    assert [row[-1] for row in rows] == nests
    assert any("case.json: 2 nests, " in line and line.endswith(" schedules, of which 4 of each are tried") for line in lines)
    assert "2 nests of 1 case: geometric mean" in result.output
    better = [row[-1] for row in rows if float(row[2]) > 1]
    assert [f.forced.nest for f in findings(file, current())] == better
    kept = f", and none of {2 - len(better)} nest whose choice is the best" if len(better) == 1 else ""
    assert f"{len(better)} finding{'s' * (len(better) != 1)} stored{kept}" in " ".join(result.output.split())


def test_schedules_of_windows_are_lines_of_their_own() -> None:
    result = tune("--rounds=1", "--pool", POOL)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    (row,) = (at for at, line in enumerate(lines) if line.endswith(POOL.replace("mb1", "mb1_")) or "--pool" in line)
    assert lines[row].startswith("below           | below           | ")
    assert lines[row + 1].startswith("  chosen")


def test_a_best_choice_by_the_minimum_alone_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Measured(forced("p", 1, 1), (3.0, 3.0, 3.0))
    lucky = SearchResult(chosen, chosen, Measured(forced("p", 2, 2), (2.0, 3.0, 3.0)), 2)
    monkeypatch.setattr(Searcher, "search", lambda *given: lucky)
    file = tmp_path / "t.json"
    result = tune(f"--store={file}", "--matmul", "24x13:13x40")
    assert (result.exit_code, file.exists()) == (0, False)
    said = " ".join(result.output.split())
    assert "t.json: 0 findings stored not stored, as by the median the best is no faster than the schedule's choice: --matmul 24x13" in said
    assert replace(lucky, best=lucky.chosen).is_sure


def test_a_case_that_cannot_be_tuned_does_not_affect_others() -> None:
    result = tune("--rounds=1", "--choices=3", "--graph", "--in-shapes=0:1", "--case=op/relu.json", "--in-shapes=", "--case=op/matmul.json")
    assert result.exit_code == 1
    assert NO_NEST in result.output
    assert "1 case: geometric mean" in result.output


def test_a_subset_of_choices_is_reported() -> None:
    result = tune("--choices=4", "--rounds=1", "--matmul", "24x13:13x40")
    (found,) = candidates(partition(product()))
    legal = len(found.legal)
    assert any(f" {tried}/{legal} " in result.output for tried in (4, 5, 6))  # with the schedule's choice and that of least cost


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        ([], "tune: no case to tune; add --case FILE, or a driver and --batch FILE", 2),
        (["--rounds=0", "--matmul", "2x3:3x4"], "tune: --rounds: bad value '0'", 2),
        (["--choices", "--matmul", "2x3:3x4"], "tune: --choices: a value is missing; write '--choices VALUE'", 2),
        (["--library=onednn", "--matmul", "2x3:3x4"], "tune: --library: only our own compiler can be tuned; leave it out", 2),
        (["--policy=fused,post_ops", "--matmul", "2x3:3x4"], "tune: --policy: several policies; give one, or none", 2),
        (["--tuning=t.json", "--matmul", "2x3:3x4"], "tune: --tuning: the choices without a tuning file are measured; leave it out", 2),
        (["--report=json:x.json", "--matmul", "2x3:3x4"], "tune: --report: the command runs no batch to report; leave it out, or", 2),
        (["--in-shapes=0:1", "--case=op/relu.json"], NO_NEST, 1),
        (["--matmul", "--rounds=1", "-o", f"{os.devnull}/x", "2x3:3x4"], "cannot write the file", 2),
    ],
)
def test_errors_of_tune_are_one_line(words: list[str], message: str, code: int) -> None:
    result = tune(*words)
    assert result.exit_code == code
    told = [line for line in result.output.splitlines() if line.startswith("benchgraph: ")]
    assert len(told) == 1
    assert message in told[0]
