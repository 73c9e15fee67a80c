"""`benchgraph ab OLD NEW`: --launches, --max-launches, --threshold and --report are its own, all other options select cases as in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from benchgraph.analysis.ab.comparison import Comparison
from benchgraph.analysis.ab.judge import LAUNCHES, Plan
from benchgraph.analysis.inference.verdicts import THRESHOLD
from benchgraph.core.errors import UsageError
from benchgraph.harness.ab.cases import cases, need_versions
from benchgraph.harness.ab.contest import Contest, contested
from benchgraph.harness.ab.sides import sides
from benchgraph.harness.bench import Bench
from benchgraph.harness.command_reports import need_places, report_of, write_reports
from benchgraph.harness.command_words import own_options, parsed_value
from benchgraph.harness.interrupt import code_of
from benchgraph.harness.isolate import run_isolated
from benchgraph.harness.machine import describe
from benchgraph.options.parsers import positive, share
from benchgraph.present.ab import json, markdown, page, table
from benchgraph.present.progress import progress_line

REPORTS: dict[str, Callable[[Comparison], str]] = {
    "console": table.render,
    "markdown": markdown.render,
    "json": json.render,
    "html": page.render,
}
OPTIONS = ("--launches", "--max-launches", "--threshold", "--report")
BUDGET_MS = 500  # of a launch; a batch of 200 cases then takes minutes
CASES = ("--graph", "--batch=test_graph_smoke")


@dataclass
class Request:
    """versions: OLD and NEW. most: the launches of one case; 0: as many as `launches`. reports: (name, file), '' for the terminal.

    rest: the words that select cases.
    """

    versions: tuple[str, str]
    launches: int = LAUNCHES
    most: int = 0
    threshold: float = THRESHOLD
    reports: list[tuple[str, str]] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def read_words(given: Sequence[str]) -> Request:
    """OLD and NEW are the first two words. Raises UsageError."""
    old, new = ("" if word.startswith("-") else word for word in [*given, "", ""][:2])
    if not old or not new:
        fix = "write 'benchgraph ab OLD NEW [OPTIONS]', as in 'benchgraph ab HEAD~1 .'"
        raise UsageError("OLD and NEW are to come first", where="ab", fix=fix)
    request = Request((old, new))
    for option, value in own_options("ab", OPTIONS, given[2:], request.rest):
        if option == "--report":
            request.reports.append(parsed_value("ab", option, value, report_of(REPORTS)))
        elif option == "--threshold":
            request.threshold = parsed_value("ab", option, value, share)
        elif option == "--launches":
            request.launches = parsed_value("ab", option, value, positive)
        else:
            request.most = parsed_value("ab", option, value, positive)
    if 0 < request.most < request.launches:
        raise UsageError("fewer than --launches", where=f"ab: --max-launches={request.most}", fix=f"give {request.launches} or more")
    return request


def run(given: list[str], bench: Bench, say: Callable[[str], None], complain: Callable[[str], None]) -> int:
    """Compare two versions, and report. Returns the exit code: 1 if something got worse, the shell's after Ctrl-C.

    Raises UsageError for invalid words and versions that cannot be used, BenchgraphError for files that cannot be written.
    """
    request = read_words(given)
    line = cases("ab", request.rest, BUDGET_MS, CASES)
    need_places("ab", request.reports, {p.file for p in line.problems})
    old, new = sides("ab", *request.versions, bench)
    need_versions("ab", line.problems, (old, new), bench)
    for note in line.notes:
        complain(note)
    plan = Plan(request.launches, request.most or request.launches)
    machine = describe(replace(line.globals, library=(old.word, new.word)), bench)
    total = len(line.problems) * (2 + plan.launches)
    with progress_line("runs", total, is_measuring=True) as step:
        contest = Contest(old, new, bench, max(line.globals.jobs, 1), run_isolated, step)
        found = contested(contest, line.problems, request.threshold, plan, machine)
    forms = REPORTS | {"console": partial(table.render, is_verbose=line.globals.verbose > 0)}
    if all(file for _, file in request.reports):
        request.reports.insert(0, ("console", ""))
    for text in write_reports("ab", request.reports, lambda name: forms[name](found)):
        say(text)
    return found.exit_code if found.stopped is None else code_of(found.stopped.by)
