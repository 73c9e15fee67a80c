"""`benchgraph render A.json --report=NAME[:FILE]`: saved results in any report's form."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.errors import UsageError
from benchgraph.core.progress import begin_item
from benchgraph.harness.command_reports import need_places, report_of, write_reports
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.options.plugins import load_report, names, shown
from benchgraph.present.page.page import page
from benchgraph.present.progress import progress_line
from benchgraph.present.screen import warn
from benchgraph.results.result import ResultSet
from benchgraph.results.saved import read

OPTIONS = ("--report",)
DEFAULT = ("html", "report.html")
JOINED = "html"  # the report that takes several runs


def run(given: Sequence[str]) -> tuple[str, int]:
    """Write the reports. Returns the output and the exit code; raises UsageError for invalid words, BenchgraphError for invalid files."""
    files = list[str]()
    words = list(own_options("render", OPTIONS, given, files, form="=NAME[:FILE]", barred="--"))
    reports = [parsed_value("render", option, value, report_of(names("reports"))) for option, value in words] or [DEFAULT]
    need_no_options("render", files, OPTIONS)
    if not files:
        raise UsageError("no results to render", where="render", fix="give files that --report=json:FILE wrote")
    if len(files) > 1 and (single := next((name for name, _ in reports if name != JOINED), "")):
        fix = f"render one file at a time; {JOINED} joins runs on a page, and 'benchgraph merge' the shards of one run"
        raise UsageError(f"{len(files)} files, and this report is of one run", where=f"render: --report={single}", fix=fix)
    need_places("render", reports, files)
    with progress_line():
        runs = [_run(file) for file in files]
        said = write_reports("render", reports, lambda name: _text(name, files, runs), lambda name: _shown(name, files, runs))
        return "\n".join(said), 0


def _run(file: str) -> ResultSet:
    begin_item(file)
    results, cut = read(file)
    if cut:
        warn(cut)
    return results


def _text(name: str, files: Sequence[str], runs: Sequence[ResultSet]) -> str:
    return load_report(name)(runs[0]) if len(runs) == 1 else page(list(zip(files, runs, strict=True)))


def _shown(name: str, files: Sequence[str], runs: Sequence[ResultSet]) -> str:
    return shown(name, runs[0], is_verbose=False) if len(runs) == 1 else _text(name, files, runs)
