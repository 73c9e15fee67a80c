"""`benchgraph compare A.json B.json`."""

from __future__ import annotations

from typing import Any

from benchgraph.analysis.compare.differences import FAIL_ON, compare
from benchgraph.analysis.compare.sides import check, read
from benchgraph.analysis.inference.verdicts import THRESHOLD
from benchgraph.core.errors import UsageError
from benchgraph.core.formats import counted
from benchgraph.harness.command_reports import need_places, report_of, write_reports
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.options.parsers import Parse, pattern, share, some_of
from benchgraph.present.compare import csv, markdown, table

REPORTS = {"console": table.render, "markdown": markdown.render, "csv": csv.render}


OTHER_MACHINE = "--other-machine"
OPTIONS: dict[str, Parse] = {"--threshold": share, "--match": pattern, "--fail-on": some_of(*FAIL_ON), "--report": report_of(REPORTS)}


def run(given: list[str]) -> tuple[str, int]:
    """The output for the terminal, and the exit code (exit_codes.py), 1 if something got worse.

    Raises UsageError for words, files and sides that cannot be compared, BenchgraphError for a report that cannot be written.
    """
    sides, reports = list[str](), list[tuple[str, str]]()  # reports: name and file, '' for the terminal
    own: dict[str, Any] = {"--threshold": THRESHOLD, "--match": "", "--fail-on": ()}
    for option, value in own_options("compare", OPTIONS, [word for word in given if word != OTHER_MACHINE], sides, form="=VALUE"):
        parsed: Any = parsed_value("compare", option, value, OPTIONS[option])
        if option == "--report":
            reports.append(parsed)
        else:
            own[option] = parsed
    need_no_options("compare", sides, (*OPTIONS, OTHER_MACHINE))
    if len(sides) != 2:
        fix = "write 'benchgraph compare A.json B.json'; runs of one side are joined by commas: A.json,A2.json"
        raise UsageError(f"{counted(len(sides), 'side')} to compare", where="compare", fix=fix)
    need_places("compare", reports, [file for names in sides for file in names.split(",")])
    a, b = (read(names, own["--match"]) for names in sides)
    check(a, b, other_machine=OTHER_MACHINE in given)
    comparison = compare(a, b, own["--threshold"], own["--fail-on"], other_machine=OTHER_MACHINE in given)
    if all(file for _, file in reports):
        reports.insert(0, ("console", ""))
    return "\n".join(write_reports("compare", reports, lambda name: REPORTS[name](comparison))), comparison.exit_code
