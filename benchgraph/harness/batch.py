"""Batch files and where files are found.

A batch file holds command-line words between whitespace; newlines mean nothing. A word that begins with # comments out the rest of its
line; a word that ends in a backslash is joined with the next one. --batch may be used inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.harness.plugins import data_dir

MAX_SEEN = 30  # directories that earlier look-ups leave behind, as benchdnn keeps them


@dataclass(frozen=True)
class Word:
    """A command-line word; where: the batch file and line it stands on, '' for the command line itself."""

    text: str
    where: str = ""


def tokenize(content: str, name: str) -> Iterator[Word]:
    """The words of a batch file."""
    begun, start = "", ""
    for number, line in enumerate(content.splitlines(), 1):
        for text in line.split():
            if text.startswith("#"):
                break
            start = start if begun else f"{name}:{number}"
            if text.endswith("\\"):
                begun += text[:-1]
                continue
            yield Word(begun + text, start)
            begun = ""
    if begun:
        yield Word(begun, start)


@dataclass
class Lookup:
    """Finds case and batch files: the path itself, then the directories of files found before, then the packaged inputs of the driver.

    Drivers have packaged files of the same names: the folders of others come last. Mutable, because what is found widens what can be
    found: a batch file names cases that lie beside it.
    """

    seen: list[Path] = field(default_factory=list)

    def find(self, name: str, driver: str) -> tuple[Path, str]:
        """The file, and the name under which it can be found again from the same directory. Raises InvalidArguments."""
        inputs = data_dir("inputs")
        own, literal = inputs / driver, Path(name)
        others = [d for d in self.seen if d.is_relative_to(inputs) and not d.is_relative_to(own)]
        packaged = own / name
        for path in (literal, *(d / name for d in self.seen if d not in others), packaged, *(d / name for d in others)):
            if path.is_file():
                if path.parent not in self.seen and len(self.seen) < MAX_SEEN:
                    self.seen.append(path.parent)
                return path, name if path in (literal, packaged) else str(path)
        raise InvalidArguments("no such file", where=name, fix=self._remedy(name, driver))

    def _remedy(self, name: str, driver: str) -> str:
        inputs = data_dir("inputs") / driver
        known = {str(p.relative_to(inputs)) for p in inputs.rglob("*") if p.is_file()}
        near = did_you_mean(name, known) or did_you_mean(Path(name).name, {Path(k).name for k in known})
        searched = [Path.cwd(), *self.seen, inputs]
        return near or "looked in " + ", ".join(str(d) for d in dict.fromkeys(searched))


def drivers_with(name: str, drivers: list[str]) -> list[str]:
    """The drivers among whose packaged inputs a file of this name lies."""
    return [d for d in drivers if (data_dir("inputs") / d / name).is_file()]
