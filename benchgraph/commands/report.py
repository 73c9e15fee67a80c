"""`benchgraph report A.json B.json -o FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.errors import BenchgraphError, UsageError, did_you_mean, within
from benchgraph.core.files import read_text
from benchgraph.core.progress import begin_item
from benchgraph.harness.command_words import need_output, value_of
from benchgraph.harness.outputs import STDOUT
from benchgraph.present.page.page import page
from benchgraph.present.progress import progress_line
from benchgraph.present.screen import warn
from benchgraph.results.json_report import cut_short, parse, write
from benchgraph.results.result import ResultSet

OPTIONS = ("--output", "-o")
OUTPUT = "report.html"


@dataclass(frozen=True)
class Request:
    """files: JSON reports, in the order of the page. output: a file, '-' for the terminal."""

    files: tuple[str, ...]
    output: str


def read(given: Sequence[str]) -> Request:
    """Parse the command's words. Raises UsageError."""
    files, output, left = list[str](), OUTPUT, list(given)
    while left:
        word = left.pop(0)
        option = word.partition("=")[0]
        if not word.startswith("-"):
            files.append(word)
            continue
        if option not in OPTIONS:
            fix = did_you_mean(option, OPTIONS) or "there is --output, or -o"
            raise UsageError("unknown option", where=f"report: {option}", fix=fix)
        output = value_of("report", word, left, form=" FILE", barred="--")
    if not files:
        raise UsageError("no results to report", where="report", fix="give files that --report=json:FILE wrote")
    return Request(tuple(files), output)


def report(given: Sequence[str]) -> tuple[str, int]:
    """Write the page. Returns the output and the exit code; raises UsageError for invalid words, BenchgraphError for invalid files."""
    request = read(given)
    need_output("report", request.output, "html")
    with progress_line():
        runs = [_run(file) for file in request.files]
        text = page([(file if len(runs) > 1 else "", results) for file, results in zip(request.files, runs, strict=True)])
    if request.output == STDOUT:
        return text, 0
    write(request.output, text)
    return f"html: {request.output}", 0


def _run(file: str) -> ResultSet:
    begin_item(file)
    try:
        text = read_text(Path(file))
    except OSError as bad:
        raise BenchgraphError(f"cannot read the file: {bad.strerror}", where=file, fix="name a JSON report") from bad
    with within(file):
        results = parse(text)[0]
    if cut := cut_short(file, text, results):
        warn(cut)
    return results
