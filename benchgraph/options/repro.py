"""A repro line taken apart again: saved results know their problems by nothing else. And what a shell must not take apart, quoted."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchgraph.options.knobs import Globals, knobs_of
from benchgraph.options.parsers import shell_word, text, unescaped
from benchgraph.options.plugins import names
from benchgraph.options.problem import TRIGGER

# How a problem is run, not what it is. --mode and --policy are told elsewhere: by the file, and by each of its timings.
HOW = ("--mode", "--policy", "--library", "--engine", "--repeats-per-prb", "--max-ms-per-prb", "--fix-times-per-prb", "--tuning")

QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$'((?:[^'\\]|\\.)*)'""")  # in the last form, which shlex does not know, a group


@dataclass(frozen=True)
class Repro:
    """options: the shared ones. driver: '' for a line that names none. words: the driver's own options, and the case."""

    options: tuple[str, ...]
    driver: str
    words: tuple[str, ...]

    @property
    def case(self) -> str:
        """The file or the problem descriptor."""
        last = self.words[-1] if self.words else ""
        return last.removeprefix(f"{TRIGGER}=")

    @property
    def folder(self) -> tuple[str, ...]:
        """The folders of a case that is a file."""
        is_file = bool(self.words) and self.words[-1].startswith(TRIGGER)
        return tuple(p for p in PurePosixPath(self.case).parts[:-1] if p not in ("/", ".", "..")) if is_file else ()

    @property
    def telling(self) -> tuple[str, ...]:
        """The words without HOW, and without what --canonical adds to them: equal for runs of one problem."""
        default = {option: text(knob.default) for option, knob in knobs_of(Globals).items()}
        pairs = [(word, *word.partition("=")[::2]) for word in self.options]
        kept = [word for word, option, value in pairs if option not in HOW and value != default.get(option)]
        return (*kept, *([f"--{self.driver}"] if self.driver else []), *self.words)

    @property
    def meaning(self) -> str:
        """These words as one line."""
        return " ".join(self.telling)


def unquoted(line: str) -> list[str]:
    """The words of a line, as a shell takes them. Of one that no shell would read, from before lines were quoted, those between spaces."""
    try:
        return shlex.split(QUOTED.sub(lambda found: found[0] if found[1] is None else shlex.quote(unescaped(found[1])), line))
    except ValueError:
        return line.split(" ")


def requoted(line: str) -> str:
    """A line with its words quoted as they are now: runs from before lines were quoted are of the same case."""
    return " ".join(map(shell_word, unquoted(line)))


def split(repro: str) -> Repro:
    """The parts of a line as `Problem.repro` writes it."""
    found = unquoted(repro)
    drivers = {f"--{name}" for name in names("drivers")}
    at = next((i for i, word in enumerate(found) if word in drivers), -1)
    return Repro(tuple(found[: max(at, 0)]), found[at][2:] if at >= 0 else "", tuple(found[at + 1 :]))
