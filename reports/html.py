"""one page for a browser, offline too: table to filter and sort, plots, the partitioned graph of each case"""

from __future__ import annotations

from benchgraph.present.page.page import page
from benchgraph.results.result import ResultSet

SUFFIXES = (".html", ".htm")


def render(results: ResultSet) -> str:
    """An HTML document without references to anything outside it."""
    return page([("", results)])
