"""The words behind `benchgraph compare A.json B.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.core.errors import did_you_mean
from benchgraph.harness.argv import UsageError
from benchgraph.harness.compare import csv, markdown, table
from benchgraph.harness.compare.differences import compare
from benchgraph.harness.compare.sides import check, read
from benchgraph.harness.parsers import pattern, share
from benchgraph.harness.saved import unwritable, write_whole

REPORTS = {"console": table.render, "markdown": markdown.render, "csv": csv.render}
FLAGS = ("--other-machine",)
OPTIONS = ("--threshold", "--match", "--report")
THRESHOLD = (
    0.05  # what a change of code layout alone moves run times by (Mytkowicz et al. 2009 see more): less is no ground for a red build
)


@dataclass
class Request:
    """sides: A and B, each one or more files joined by commas. reports: (name, file), file '' for the terminal."""

    sides: list[str] = field(default_factory=list)
    threshold: float = THRESHOLD
    match: str = ""
    other_machine: bool = False
    reports: list[tuple[str, str]] = field(default_factory=list)


def read_words(given: list[str]) -> Request:
    """What the words ask for. Raises UsageError."""
    request, left = Request(), list(given)
    while left:
        word = left.pop(0)
        option, has_value, value = word.partition("=")
        if not word.startswith("-"):
            request.sides.append(word)
        elif word in FLAGS:
            request.other_machine = True
        elif option in OPTIONS:
            if not has_value:
                value = left.pop(0) if left and not left[0].startswith("-") else ""
            if not value:
                raise UsageError("a value is missing", where=f"compare: {option}", fix=f"write '{option}=VALUE'")
            _set(request, option, value)
        else:
            fix = did_you_mean(option, [*OPTIONS, *FLAGS]) or f"there are {', '.join((*OPTIONS, *FLAGS))}"
            raise UsageError("unknown option", where=f"compare: {option}", fix=fix)
    if len(request.sides) != 2:
        count = len(request.sides)
        fix = "write 'benchgraph compare A.json B.json'; runs of one side are joined by commas: A.json,A2.json"
        raise UsageError(f"{count} side{'' if count == 1 else 's'} to compare", where="compare", fix=fix)
    return request


def _set(request: Request, option: str, value: str) -> None:
    try:
        if option == "--threshold":
            request.threshold = share(value)
        elif option == "--match":
            request.match = str(pattern(value))
        else:
            request.reports.append(_report(value))
    except ValueError as bad:
        raise UsageError(f"bad value '{value}'", where=f"compare: {option}", fix=str(bad)) from bad


def _report(word: str) -> tuple[str, str]:
    name, _, file = word.partition(":")
    if name not in REPORTS:
        raise ValueError(did_you_mean(name, REPORTS) or f"choose one of {', '.join(REPORTS)}")
    return name, file


def run(given: list[str]) -> tuple[str, int]:
    """What goes to the terminal, and the exit code: 0 when nothing got worse, 1 when something did.

    Raises UsageError for words, files and sides that cannot be compared, BenchgraphError for a report that cannot be written.
    """
    request = read_words(given)
    a, b = (read(names, request.match) for names in request.sides)
    check(a, b, other_machine=request.other_machine)
    found = compare(a, b, request.threshold)
    shown = [REPORTS[name](found) for name in [name for name, file in request.reports if not file] or ["console"]]
    for name, file in (r for r in request.reports if r[1]):
        try:
            write_whole(Path(file), REPORTS[name](found))
        except OSError as bad:
            raise unwritable(bad, f"compare: --report={name}:{file}") from bad
        shown.append(f"{name} report: {file}")
    return "\n".join(text.rstrip("\n") for text in shown), found.exit_code
