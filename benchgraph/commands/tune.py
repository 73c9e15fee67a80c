"""`benchgraph tune`: measures the schedules that the nests of cases can have (tune/), nest after nest, and stores the best.

--store, --rounds, --choices and --output are its own options, all others select cases as in a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

from benchgraph.candidates import Candidates, candidates
from benchgraph.core.config import override
from benchgraph.core.errors import BenchgraphError, Unimplemented, UsageError, within
from benchgraph.core.options import Forced
from benchgraph.core.progress import begin_item
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench, need_isas, need_tuning
from benchgraph.harness.buffers import load_inputs
from benchgraph.harness.built import build
from benchgraph.harness.command_words import need_output, own_options, parsed_value, select_cases
from benchgraph.harness.contenders import Contender, contenders_of
from benchgraph.harness.outputs import STDOUT, need_file
from benchgraph.harness.partitioning import partition_graph
from benchgraph.library.protocol import Chain
from benchgraph.machine.target import current
from benchgraph.measure.arithmetic import arithmetic
from benchgraph.measure.layers import flops
from benchgraph.options.knobs import Globals
from benchgraph.options.parsers import positive
from benchgraph.options.problem import Problem, settings_of
from benchgraph.partition.ir import Partition
from benchgraph.present.progress import progress_line
from benchgraph.present.terminal import WIDE, columns
from benchgraph.reference import uniform
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.json_report import write
from benchgraph.schedule.tuning import Finding, findings, machine_key, store
from benchgraph.tune.result_table import Outcome, case_line, heading, line, stored, summary
from benchgraph.tune.search import Searcher


@dataclass(frozen=True)
class Request:
    """store: the tuning file for findings, '' for none. rounds: samples of each finalist. choices: how many are tried of each nest, 0: all.

    output: a file for the table. rest: the words that select cases.
    """

    store: str = ""
    rounds: int = 15
    choices: int = 0
    output: str = ""
    rest: tuple[str, ...] = ()


NUMBERS = ("rounds", "choices")
OPTIONS = {f"--{f.name}": f.name for f in fields(Request) if f.name != "rest"} | {"-o": "output"}


def read(given: list[str]) -> Request:
    """Split off the command's own options. Raises UsageError."""
    own, rest = dict[str, str | int](), list[str]()
    for option, value in own_options("tune", OPTIONS, given, rest):
        name = OPTIONS[option]
        own[name] = parsed_value("tune", option, value, positive) if name in NUMBERS else value
    return replace(Request(rest=tuple(rest)), **own)  # type: ignore[arg-type]


def run(given: list[str], bench: Bench, say: Callable[[str], None], complain: Callable[[str], None]) -> int:
    """Tune case after case, reporting each nest when it is done, and store each finding at once. Returns the exit code.

    An error in a case ends only that case. Raises UsageError for invalid words, BenchgraphError for files that cannot be written.
    """
    request = read(given)
    need_output("tune", request.output, "console", [request.store])
    if request.store:
        need_file(Path(request.store), f"tune: --store={request.store}")
    problems = select_cases("tune", request.rest).problems
    _check(request, problems)
    texts = list[str]()

    def tell(text: Callable[[int], str]) -> None:
        """text: makes the text for a width; the file gets it unwrapped."""
        texts.append(text(WIDE))
        say(text(columns()))

    outcomes, n_failed = list[Outcome](), 0
    try:
        with progress_line("cases", len(problems), is_measuring=True) as step:
            for problem in problems:
                begin_item(problem.description)
                with settings_of(problem), override(tuning="", disk_cache_capacity=0):
                    try:
                        nests = nests_of(problem, bench)
                        if not texts:
                            tell(partial(heading, machine_key(current())))
                        if len(nests) > 1:
                            tell(partial(case_line, problem.repro, [len(nest.candidates.legal) for nest in nests], request.choices))
                        for nest in nests:
                            outcome = tune(problem, request, bench, nest, is_only=len(nests) == 1)
                            if request.store and outcome.found.is_sure:
                                store(Path(request.store), current(), [Finding(outcome.found.best.choice, outcome.found.ratio)])
                            outcomes.append(outcome)
                            tell(partial(line, outcome))
                    except BenchgraphError as bad:
                        complain(str(bad))
                        n_failed += 1
                step()
    finally:  # the line about stored findings appears even if an error or Ctrl-C ends the run
        if request.store and outcomes:
            tell(partial(stored, request.store, outcomes))
    if outcomes:
        tell(lambda width: summary(outcomes, width))
    if request.output not in ("", STDOUT):
        write(request.output, "\n".join(texts) + "\n")
    return ExitCode.failed if n_failed else ExitCode.ok


def _check(request: Request, problems: tuple[Problem, ...]) -> None:
    """Raises UsageError for errors that are known before measuring."""
    if not problems:
        raise UsageError("no case to tune", where="tune", fix="add --case FILE, or a driver and --batch FILE")
    if any(p.globals.tuning for p in problems):
        what = "the choices without a tuning file are measured"
        raise UsageError(what, where="tune: --tuning", fix="leave it out; --store=FILE adds to a file")
    if any(p.globals.library != Globals().library for p in problems):
        raise UsageError("only our own compiler can be tuned", where="tune: --library", fix="leave it out")
    if any(len(p.globals.policies) != 1 for p in problems):
        raise UsageError("several policies", where="tune: --policy", fix="give one, or none")
    need_isas(problems)
    need_tuning(problems)
    if request.store and Path(request.store).exists():
        findings(Path(request.store), current())


@dataclass(frozen=True)
class TunedNest:
    """A nest of a case, and the first partition that has it, which is measured. graph: the partition's, or that of the whole case."""

    candidates: Candidates
    partition: Partition
    graph: Graph
    contender: Contender


def nests_of(problem: Problem, bench: Bench) -> tuple[TunedNest, ...]:
    """Those that have a choice of schedules, each text once. Raises Unimplemented for a case without such nests."""
    graph = problem.graph()
    (contender,) = contenders_of(problem, graph, bench)
    parts = partition_graph(problem, graph, contender.library, contender.spec)
    found = dict[str, TunedNest]()
    for part in parts:
        with within(problem.repro):
            for each in candidates(part):
                found.setdefault(each.nest, TunedNest(each, part, graph if len(parts) == 1 else part.graph, contender))
    if not found:
        what = "none of its nests has schedules to choose from"
        fix = "take cases of more elements: nests of few have one schedule"
        raise Unimplemented(what, where=problem.repro, fix=fix)
    return tuple(found.values())


def tune(problem: Problem, request: Request, bench: Bench, nest: TunedNest, *, is_only: bool) -> Outcome:
    """Measures the partition with the compiler's choice for a nest against all other schedules of it, or --choices of them. is_only: the
    case has no other nests."""
    space, graph, partition = nest.candidates, nest.graph, nest.partition
    rng = random.Random(problem.globals.seed)
    tried = rng.sample(space.legal, request.choices) if 0 < request.choices < len(space.legal) else space.legal
    inputs = load_inputs(graph, uniform(graph, problem.globals.seed))

    def chain(choice: Forced) -> Chain:
        forced = replace(partition, options=replace(partition.options, forced=(choice,)))
        return build(graph, nest.contender, (forced,), [inputs]).whole.chain

    peak = bench.probe(current().cores, arithmetic(graph))
    searcher = Searcher(chain, bench.clock, peak.sample, rng, request.rounds)
    found = searcher.search(space.chosen, space.cheapest, tried)
    name = "" if is_only else space.nest
    return Outcome(problem.repro, found, len(space.legal), flops(graph.ops), name)
