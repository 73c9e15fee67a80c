"""Words of commands under their former names."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.harness.command_words import own_options
from benchgraph.present.screen import warn


def words_of_report(given: Sequence[str]) -> list[str]:
    """Those of `render` for `report A.json... -o PAGE`; with a warning."""
    rest = list[str]()
    pages = [value for _, value in own_options("report", ("--output", "-o"), given, rest, form=" FILE", barred="--")]
    reports = [f"--report=html:{page}" for page in pages]
    warn(f"'report' is called 'render' now: benchgraph render {' '.join([*rest, *reports])}")
    return [*rest, *reports]
