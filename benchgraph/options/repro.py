"""Parses repro lines, by which saved results identify their problems."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchgraph.options.knobs import Globals, knobs_of
from benchgraph.options.parsers import shell_word, text, unescaped
from benchgraph.options.plugins import names
from benchgraph.options.problem import TRIGGER

# Options that say how a problem is run. --mode and --policy are also part of the file and of each timing.
RUN_OPTIONS = ("--mode", "--policy", "--library", "--engine", "--repeats-per-prb", "--max-ms-per-prb", "--fix-times-per-prb", "--tuning")

QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$'((?:[^'\\]|\\.)*)'""")  # $'...', which shlex does not know, has a group


@dataclass(frozen=True)
class Repro:
    """options: the global ones. driver: '' if the line names none. words: the driver's own options, and the case."""

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
    def identity_words(self) -> tuple[str, ...]:
        """The words without RUN_OPTIONS and the defaults that --canonical adds: equal for runs of one problem."""
        default = {option: text(knob.default) for option, knob in knobs_of(Globals).items()}
        pairs = [(word, *word.partition("=")[::2]) for word in self.options]
        kept = [word for word, option, value in pairs if option not in RUN_OPTIONS and value != default.get(option)]
        return (*kept, *([f"--{self.driver}"] if self.driver else []), *self.words)

    @property
    def identity(self) -> str:
        return " ".join(self.identity_words)


def split_quoted(line: str) -> list[str]:
    """The words of a line as a shell splits it; at spaces if it is not valid shell, as lines of early versions were not quoted."""
    try:
        return shlex.split(QUOTED.sub(lambda m: m[0] if m[1] is None else shlex.quote(unescaped(m[1])), line))
    except ValueError:
        return line.split(" ")


def normalise_quoting(line: str) -> str:
    """A line with the present quoting, so that early lines, which were not quoted, denote the same case."""
    return " ".join(map(shell_word, split_quoted(line)))


def split(repro: str) -> Repro:
    """Parses a line that `Problem.repro` wrote."""
    words = split_quoted(repro)
    drivers = {f"--{name}" for name in names("drivers")}
    driver_at = next((i for i, word in enumerate(words) if word in drivers), -1)
    return Repro(tuple(words[: max(driver_at, 0)]), words[driver_at][2:] if driver_at >= 0 else "", tuple(words[driver_at + 1 :]))
