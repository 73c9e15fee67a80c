"""Renders the dashboard. The same history gives the same text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchgraph.analysis.history.changes import Change
from benchgraph.analysis.history.series import History, Key
from benchgraph.present.dashboard.view import view
from benchgraph.present.page.templates import templates

MANY = 300  # trends: a larger page has charts and changes, but not every number


def dashboard(
    h: History, changes: Mapping[Key, Sequence[Change]], threshold: float, *, title: str = "history", commit_url: str = "", many: int = MANY
) -> str:
    """An HTML document without references to anything outside it but the links to commits. commit_url: with {commit} in it, '' for none."""
    shown = view(h, changes, threshold, title=title, commit_url=commit_url, many=many)
    text = templates("benchgraph.present.dashboard").get_template("dashboard.html").render(view=shown)
    return re.sub(r"\n\s*\n+", "\n", text)
