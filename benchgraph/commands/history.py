"""`benchgraph history` and `benchgraph regressions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.series import SeriesFilter, load
from benchgraph.analysis.history.store import append
from benchgraph.analysis.inference.verdicts import THRESHOLD
from benchgraph.analysis.run_origin import full
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError, InvalidArguments, UsageError
from benchgraph.core.files import read_text
from benchgraph.harness.command_reports import Wanted, need_places, report_of, write_reports
from benchgraph.harness.command_words import need_no_options, own_options, parsed_value
from benchgraph.options.knobs import Globals, knobs_of
from benchgraph.options.parsers import Parse, pattern, share
from benchgraph.present import history as report
from benchgraph.present import history_json, history_markdown
from benchgraph.present.dashboard.dashboard import dashboard
from benchgraph.present.dashboard.view import check_url
from benchgraph.results.json_report import cut_short, parse
from benchgraph.results.result import Origin

REPORTS = ("console", "markdown", "json", "html")
COMMIT_URL = "--commit-url"
Answer: TypeAlias = tuple[str, int]  # output for the terminal, and the exit code


def history(given: list[str]) -> Answer:
    """Lists the runs; with --case shows a case's times; with --add stores a report. Raises BenchgraphError, UsageError for the words."""
    words, reports = _words("history", given, "--history", "--case", "--policy", "--since", "--add", "--commit", "--report", COMMIT_URL)
    database = _database("history", words, reports)
    if "--commit" in words and "--add" not in words:
        raise UsageError("it is of a report that is added", where="history: --commit", fix="add --add=FILE, or leave it out")
    if "--add" in words and (others := set(words) - {"--add", "--commit", "--history"}):
        raise UsageError("--add only adds a report", where=f"history: {min(others)}", fix="leave it out, and ask for it afterwards")
    if file := words.get("--add"):
        return _add(database, Path(file), words.get("--commit", ""))
    data = load(database, _filter("history", words, "--case"))
    if "--case" in words and not data.series:
        fix = "'benchgraph history' lists the runs; those of mode P have times"
        raise InvalidArguments(f"no times of a case that has '{words['--case']}' in its line", where=database.name, fix=fix)
    changes = data.changes(THRESHOLD)
    if "--case" not in words:
        forms = {"console": lambda: report.runs(data), "markdown": lambda: history_markdown.runs(data)}
    else:
        forms = {"console": lambda: report.history(data, changes), "markdown": lambda: history_markdown.history(data, changes)}
    forms["json"] = lambda: history_json.render(data, changes, THRESHOLD)
    forms["html"] = lambda: dashboard(data, changes, THRESHOLD, commit_url=words.get(COMMIT_URL, ""))
    return _reported("history", reports, forms), 0


def regressions(given: list[str]) -> Answer:
    """Reports what got slower for good. Raises BenchgraphError, UsageError for the words."""
    words, reports = _words("regressions", given, "--history", "--match", "--policy", "--since", "--threshold", "--report", COMMIT_URL)
    threshold = _value("regressions", words, "--threshold", share, THRESHOLD)
    database = _database("regressions", words, reports)
    data = load(database, _filter("regressions", words, "--match"))
    changes = data.changes(threshold)
    slower = any(c.ratio > 1 and c.mended is None for of_one in changes.values() for c in of_one)
    forms = {
        "console": lambda: report.regressions(data, changes, threshold),
        "markdown": lambda: history_markdown.regressions(data, changes, threshold),
        "json": lambda: history_json.render(data, changes, threshold),
        "html": lambda: dashboard(data, changes, threshold, title="regressions", commit_url=words.get(COMMIT_URL, "")),
    }
    return _reported("regressions", reports, forms), int(slower)


def _reported(command: str, reports: Sequence[Wanted], forms: Mapping[str, Callable[[], str]]) -> str:
    """Write the reports, of which one on the terminal if all go to files. Raises BenchgraphError."""
    shown = reports if any(not file for _, file in reports) else [("console", ""), *reports]
    return "\n".join(write_reports(command, shown, lambda name: forms[name]()))


def _add(database: Database, file: Path, commit: str) -> Answer:
    """Store a JSON report in the history; results that it has stay as they are. Of an incomplete report, the complete cases."""
    try:
        text = read_text(file)
        written = file.stat().st_mtime
    except OSError as bad:
        raise InvalidArguments(f"cannot read the file: {bad.strerror}", where=f"history: --add={file}", fix="name another one") from bad
    try:
        results = parse(text)
        origin = results.origin or Origin(report.uid_of(text), written)
        if commit:
            origin = replace(origin, commit=full(commit), is_dirty=False)
        added = append(database, replace(results, origin=origin))
    except BenchgraphError as bad:
        raise bad if bad.where else bad.inside(f"history: --add={file}") from bad
    message = f"{file}: run {added.run} of {database.name}, {added.cases} of {len(results.cases)} cases new there"
    if cut := cut_short(str(file), text, results):
        return f"{message}\n{cut}, and add it again", 0
    return message, 0


def _words(command: str, given: list[str], *options: str) -> tuple[dict[str, str], list[Wanted]]:
    """Option -> value, and the reports of --report. Raises UsageError."""
    rest = list[str]()
    pairs = list(own_options(command, options, given, rest, form="=VALUE", barred="--"))
    need_no_options(command, rest, options, allows_others=False)
    reports = [parsed_value(command, option, value, report_of(REPORTS)) for option, value in pairs if option == "--report"]
    words = dict(pairs)
    if COMMIT_URL in words:
        parsed_value(command, COMMIT_URL, words[COMMIT_URL], check_url)
        if all(name != "html" for name, _ in reports):
            raise UsageError("only a page has links", where=f"{command}: {COMMIT_URL}", fix="add --report=html:FILE")
    return words, reports


def _database(command: str, words: Mapping[str, str], reports: Sequence[Wanted]) -> Database:
    """The history. Raises UsageError for a report that cannot be written, or would overwrite it."""
    database = Database(words.get("--history") or config().history)
    need_places(command, reports, [database.file])
    return database


def _filter(command: str, words: dict[str, str], case: str) -> SeriesFilter:
    """case: the option that selects cases."""
    expression = _value(command, words, case, pattern, "")
    policies = _value(command, words, "--policy", knobs_of(Globals)["--policy"].parse, ())
    return SeriesFilter(expression, policies, words.get("--since", ""))


def _value(command: str, words: dict[str, str], option: str, parse: Parse, default: Any) -> Any:
    """The value of an option, or its default. Raises UsageError."""
    return parsed_value(command, option, words[option], parse) if option in words else default
