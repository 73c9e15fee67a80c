"""`benchgraph compare A.json B.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchgraph.analysis.compare.differences import FAIL_ON, compare
from benchgraph.analysis.compare.sides import check, read
from benchgraph.analysis.inference.verdicts import THRESHOLD
from benchgraph.core.errors import UsageError
from benchgraph.core.formats import counted
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.harness.outputs import STDOUT, need_file
from benchgraph.options.parsers import Parse, one_of, pattern, share, some_of
from benchgraph.options.plugins import contradicts
from benchgraph.present.compare import csv, markdown, table
from benchgraph.results.json_report import write

REPORTS = {"console": table.render, "markdown": markdown.render, "csv": csv.render}


def _report(word: str) -> tuple[str, str]:
    name, _, file = word.partition(":")
    one_of(*REPORTS)(name)
    if other := contradicts(name, file):
        raise ValueError(f"the file's name says {other}; give it another one")
    return name, "" if file == STDOUT else file


OTHER_MACHINE = "--other-machine"
OPTIONS: dict[str, Parse] = {"--threshold": share, "--match": pattern, "--fail-on": some_of(*FAIL_ON), "--report": _report}


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
    for name, file in reports:
        if file:
            need_file(Path(file), f"compare: --report={name}:{file}")
    a, b = (read(names, own["--match"]) for names in sides)
    check(a, b, other_machine=OTHER_MACHINE in given)
    comparison = compare(a, b, own["--threshold"], own["--fail-on"])
    shown = [REPORTS[name](comparison) for name in [name for name, file in reports if not file] or ["console"]]
    for name, file in (r for r in reports if r[1]):
        write(file, REPORTS[name](comparison), where=f"compare: --report={name}:{file}")
        shown.append(f"{name} report: {file}")
    return "\n".join(text.rstrip("\n") for text in shown), comparison.exit_code
