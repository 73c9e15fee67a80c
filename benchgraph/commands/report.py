"""`benchgraph report A.json B.json -o FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchgraph.core.errors import BenchgraphError, UsageError, within
from benchgraph.core.files import read_text
from benchgraph.core.progress import begin_item
from benchgraph.harness.command_words import need_no_options, need_output, own_options
from benchgraph.harness.outputs import STDOUT
from benchgraph.present.page.page import page
from benchgraph.present.progress import progress_line
from benchgraph.present.screen import warn
from benchgraph.results.json_report import cut_short, parse, write
from benchgraph.results.result import ResultSet

OPTIONS = ("--output", "-o")
OUTPUT = "report.html"


def report(given: Sequence[str]) -> tuple[str, int]:
    """Write the page. Returns the output and the exit code; raises UsageError for invalid words, BenchgraphError for invalid files."""
    files = list[str]()
    [*_, output] = [OUTPUT, *(value for _, value in own_options("report", OPTIONS, given, files, form=" FILE", barred="--"))]
    need_no_options("report", files, OPTIONS)
    if not files:
        raise UsageError("no results to report", where="report", fix="give files that --report=json:FILE wrote")
    need_output("report", output, "html")
    with progress_line():
        runs = [_run(file) for file in files]
        text = page([(file if len(runs) > 1 else "", results) for file, results in zip(files, runs, strict=True)])
    if output == STDOUT:
        return text, 0
    write(output, text)
    return f"html: {output}", 0


def _run(file: str) -> ResultSet:
    begin_item(file)
    try:
        text = read_text(Path(file))
    except OSError as bad:
        raise BenchgraphError(f"cannot read the file: {bad.strerror}", where=file, fix="name a JSON report") from bad
    with within(file):
        results = parse(text)
    if cut := cut_short(file, text, results):
        warn(cut)
    return results
