"""What written reports contain."""

from __future__ import annotations

import html
import re
from pathlib import Path

from markdown_it import MarkdownIt

from benchgraph.results.json_report import parse
from benchgraph.results.result import CaseResult


def shown(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def cells(markdown: str) -> list[list[str]]:
    """The body cells of the tables, as a reader sees them."""
    rows = re.findall(r"<tr>(.*?)</tr>", shown(markdown), re.DOTALL)
    return [
        [html.unescape(re.sub(r"<[^>]+>", "", c)) for c in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in rows
        if "<td" in row
    ]


def saved_cases(file: Path) -> tuple[CaseResult, ...]:
    """What a report has so far."""
    return parse(file.read_text()).cases if file.exists() else ()
