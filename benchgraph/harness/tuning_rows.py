"""What became of tuning files: a note in the result of each case that takes rows of one, and a line at the end of a run for a file of which
no case took any."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchgraph.core.config import PREFIX, config
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.formats import counted
from benchgraph.machine.target import current
from benchgraph.options.library_name import LibraryName
from benchgraph.options.problem import Problem, settings_of
from benchgraph.results.result import CaseResult, Result, Status
from benchgraph.schedule.tuning import findings, why_unused

OWN = "benchgraph"  # the kind of library that takes schedules


def noted(result: Result, nests: Collection[str]) -> Result:
    """With a note of the rows that it took. nests: whose schedules were prescribed to its code. Raises ParseError."""
    file = config().tuning
    rows = {f.forced.nest for f in findings(Path(file), current())}.intersection(nests) if file and nests else ()
    return replace(result, notes=(*result.notes, f"{counted(len(rows), 'nest')}{_of(file)}")) if rows else result


def _of(file: str) -> str:
    return f" scheduled by {file}"


def unused(problems: Sequence[Problem], cases: Sequence[CaseResult]) -> Iterator[str]:
    """A line for each tuning file of which no case took a row, where some case ran well and could have."""
    ran = {c.index: c.result for c in cases if c.result.status.is_pass or c.result.status is Status.MISTRUSTED}
    by_file = dict[str, list[Problem]]()
    for problem in (p for p in problems if p.index in ran):
        by_file.setdefault(problem.globals.tuning or config().tuning, []).append(problem)
    for file, of_file in by_file.items():
        libraries = {LibraryName.read(name) for p in of_file for name in p.globals.library}
        is_used = any(note.endswith(_of(file)) for p in of_file for note in ran[p.index].notes)
        is_elsewhere = any(library.kind == OWN and library.place for library in libraries)  # whose notes are not ours
        if file and not is_used and not is_elsewhere:
            option = "--tuning" if of_file[0].globals.tuning else f"{PREFIX}TUNING"
            yield f"{option}: {file}: no row of it was used: {_why(file, of_file, libraries)}"


def _why(file: str, problems: Sequence[Problem], libraries: Collection[LibraryName]) -> str:
    if not any(library.kind == OWN for library in libraries):
        return f"only --library={OWN} takes schedules"
    if any(p.globals.cluster for p in problems):
        return "none is for a machine of the workers and a nest of these cases"
    targets = []
    for problem in problems:
        with settings_of(problem):
            targets.append(current())
    try:
        why = why_unused(Path(file), list(dict.fromkeys(targets)))
    except BenchgraphError as bad:  # the file has changed since the run began
        return str(bad)
    return f"{why}; `benchgraph tune --store={file}` with these cases adds rows"
