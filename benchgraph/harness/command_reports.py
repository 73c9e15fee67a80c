"""--report of commands that look back: its value, its files before the work, and its texts after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from benchgraph.harness.outputs import STDOUT, need_file, need_own_place
from benchgraph.options.parsers import one_of
from benchgraph.options.plugins import contradicts
from benchgraph.results.json_report import write

Wanted: TypeAlias = tuple[str, str]  # a report's name, and its file: '' for the terminal


def report_of(known: Collection[str]) -> Callable[[str], Wanted]:
    """The parser of NAME[:FILE]. It raises ValueError, whose text is the remedy."""

    def parse(word: str) -> Wanted:
        name, _, file = word.partition(":")
        one_of(*known)(name)
        if other := contradicts(name, file):
            raise ValueError(f"the file's name says {other}; give it another one")
        return name, "" if file == STDOUT else file

    return parse


def need_places(command: str, reports: Sequence[Wanted], inputs: Collection[str | Path | None] = ()) -> None:
    """Raise UsageError for a file that cannot be written, for one of the inputs, and for one of two reports."""
    places = dict[object, str]()
    for name, file in reports:
        if file:
            option = f"--report={name}:{file}"
            need_file(Path(file), f"{command}: {option}", inputs)
            need_own_place(places, file, option, f"{command}: ")


def write_reports(
    command: str, reports: Sequence[Wanted], render: Callable[[str], str], shown: Callable[[str], str] | None = None
) -> Iterator[str]:
    """Output for the terminal: first the reports without a file, then the name of each file, once it is written.

    render, shown: the text of a report by its name, for a file and for the terminal (default: the same). Raises BenchgraphError.
    """
    for name in (name for name, file in reports if not file):
        yield (shown or render)(name).rstrip("\n")
    for name, file in (r for r in reports if r[1]):
        write(file, render(name), where=f"{command}: --report={name}:{file}")
        yield f"{name} report: {file}"
