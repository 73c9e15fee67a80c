"""Reads JSON reports from files."""

from __future__ import annotations

from pathlib import Path

from benchgraph.core.errors import BenchgraphError, within
from benchgraph.core.files import read_text
from benchgraph.results.json_report import cut_short, parse
from benchgraph.results.result import ResultSet


def read(file: str) -> tuple[ResultSet, str]:
    """The run of a report, and the remark on one that lacks cases, else ''. Raises BenchgraphError, which names the file."""
    try:
        text = read_text(Path(file))
    except OSError as bad:
        raise BenchgraphError(f"cannot read the file: {bad.strerror}", where=file, fix="name a JSON report") from bad
    with within(file):
        results = parse(text)
    return results, cut_short(file, text, results)
