"""--history during a run: the database is checked before the first case, and written once at the end.

Nothing is written in between, so measurements are not disturbed and a server may be down meanwhile. Results are collected in a file (the
JSON report, as for --resume), which is removed once the database has them. However the run ends, finished results are in one of the two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchgraph.analysis.history.database import Database
from benchgraph.analysis.history.store import append
from benchgraph.core.errors import BenchgraphError
from benchgraph.results.json_report import is_whole, parse, render, write_whole
from benchgraph.results.result import Origin, ResultSet


class Recording:
    """One run to be appended to a database."""

    def __init__(self, where: str, origin: Origin) -> None:
        """Check the database, creating or migrating it. Raises BenchgraphError."""
        self._database = Database(where)
        name = f"benchgraph-unsaved-{origin.uid[:8]}.json"
        self.files = [Path(name), Path(tempfile.gettempdir()) / name]  # temporary files for results, in order of preference
        with self._database.writing():
            pass

    def finish(self, results: ResultSet, say: Callable[[str], None], warn: Callable[[str], None]) -> bool:
        """Append the run; if that fails, leave its results in a file, or print them. Returns whether the database has them."""
        try:
            if results.cases:
                added = append(self._database, results)
                say(f"history: run {added.run} of {self._database.name}")
        except (BenchgraphError, KeyboardInterrupt) as bad:
            self._keep(results, str(bad) or f"{self._database.name}: interrupted", say, warn)
            return False
        for file in self.files:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        return True

    def _keep(self, results: ResultSet, why: str, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        for file in self.files:
            with suppress(OSError):
                write_whole(file, render(results))
            if _has_all(file, results):
                warn(f"--history: {why}; the results are in {file}: add them with 'benchgraph history --add={file}'")
                return
        warn(f"--history: {why}; no file can be written either, so the results follow as a JSON report: save it, and add it likewise")
        say(render(results))


def _has_all(file: Path, results: ResultSet) -> bool:
    """Whether the file has every result; its name has the run's uid."""
    try:
        text = file.read_text(encoding="utf-8")
        return is_whole(text) and len(parse(text).cases) == len(results.cases)
    except (OSError, BenchgraphError):
        return False
