"""`benchgraph compare A.json B.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.analysis.compare.differences import FAIL_ON, compare
from benchgraph.analysis.compare.sides import check, read
from benchgraph.analysis.compare.statistics import THRESHOLD
from benchgraph.core.errors import UsageError, did_you_mean
from benchgraph.core.formats import counted
from benchgraph.harness.command_words import parsed_value, value_of
from benchgraph.harness.outputs import STDOUT, need_file
from benchgraph.options.parsers import one_of, pattern, share, some_of
from benchgraph.options.plugins import contradicts
from benchgraph.present.compare import csv, markdown, table
from benchgraph.results.json_report import write

REPORTS = {"console": table.render, "markdown": markdown.render, "csv": csv.render}
FLAGS = ("--other-machine",)
OPTIONS = ("--threshold", "--match", "--fail-on", "--report")


@dataclass
class Request:
    """sides: A and B, each one or more files joined by commas. fail_on: words of FAIL_ON. reports: (name, file), '' for the terminal."""

    sides: list[str] = field(default_factory=list)
    threshold: float = THRESHOLD
    match: str = ""
    other_machine: bool = False
    fail_on: tuple[str, ...] = ()
    reports: list[tuple[str, str]] = field(default_factory=list)


def read_words(given: list[str]) -> Request:
    request, left = Request(), list(given)
    while left:
        word = left.pop(0)
        option = word.partition("=")[0]
        if not word.startswith("-"):
            request.sides.append(word)
        elif word in FLAGS:
            request.other_machine = True
        elif option in OPTIONS:
            _set(request, option, value_of("compare", word, left, form="=VALUE"))
        else:
            fix = did_you_mean(option, [*OPTIONS, *FLAGS]) or f"there are {', '.join((*OPTIONS, *FLAGS))}"
            raise UsageError("unknown option", where=f"compare: {option}", fix=fix)
    if len(request.sides) != 2:
        fix = "write 'benchgraph compare A.json B.json'; runs of one side are joined by commas: A.json,A2.json"
        raise UsageError(f"{counted(len(request.sides), 'side')} to compare", where="compare", fix=fix)
    return request


def _set(request: Request, option: str, value: str) -> None:
    if option == "--threshold":
        request.threshold = parsed_value("compare", option, value, share)
    elif option == "--match":
        request.match = parsed_value("compare", option, value, pattern)
    elif option == "--fail-on":
        request.fail_on = parsed_value("compare", option, value, some_of(*FAIL_ON))
    else:
        request.reports.append(parsed_value("compare", option, value, _report))


def _report(word: str) -> tuple[str, str]:
    name, _, file = word.partition(":")
    one_of(*REPORTS)(name)
    if other := contradicts(name, file):
        raise ValueError(f"the file's name says {other}; give it another one")
    return name, "" if file == STDOUT else file


def run(given: list[str]) -> tuple[str, int]:
    """The output for the terminal, and the exit code (exit_codes.py), 1 if something got worse.

    Raises UsageError for words, files and sides that cannot be compared, BenchgraphError for a report that cannot be written.
    """
    request = read_words(given)
    for name, file in request.reports:
        if file:
            need_file(Path(file), f"compare: --report={name}:{file}")
    a, b = (read(names, request.match) for names in request.sides)
    check(a, b, other_machine=request.other_machine)
    comparison = compare(a, b, request.threshold, request.fail_on)
    shown = [REPORTS[name](comparison) for name in [name for name, file in request.reports if not file] or ["console"]]
    for name, file in (r for r in request.reports if r[1]):
        write(file, REPORTS[name](comparison), where=f"compare: --report={name}:{file}")
        shown.append(f"{name} report: {file}")
    return "\n".join(text.rstrip("\n") for text in shown), comparison.exit_code
