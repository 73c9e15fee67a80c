"""Batch files and where files are found.

A batch file holds command-line words between whitespace; newlines mean nothing. A word that begins with # comments out the rest of its
line; a word that ends in a backslash is joined with the next one, and a backslash alone joins the words on its sides. Quotation marks do
what they do in a shell, so that a repro line may be pasted. --batch may be used inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, ParseError, nearest
from benchgraph.core.files import data_dir, exists, is_file, real
from benchgraph.options.parsers import unescaped

MAX_SEEN = 30  # directories that earlier look-ups leave behind, as benchdnn keeps them


@dataclass(frozen=True)
class Word:
    """A command-line word; where: the batch file and line it stands on, '' for the command line itself."""

    text: str
    where: str = ""


# What a word is made of: '...', $'...' and "..." with escapes, a quotation mark that nothing closes, or characters that mean themselves.
PARTS = re.compile(
    r"""'(?P<single>[^'\n]*)'|\$'(?P<bytes>(?:[^'\\\n]|\\.)*)'|"(?P<double>(?:[^"\\\n]|\\.)*)"|(?P<open>['"])|"""
    r"""(?P<plain>(?:[^\s'"$]|\$(?!'))+|\$)"""
)
ESCAPED = re.compile(r'\\(["\\$`])')  # in double quotes; any other backslash there is itself


def tokenize(content: str, name: str) -> Iterator[Word]:
    """The words of a batch file. Raises ParseError, with the line, for a quotation that is not closed on it."""
    held: Word | None = None  # may yet be joined with the next one
    joins = False
    for number, line in enumerate(content.splitlines(), 1):
        where = f"{name}:{number}"
        for text, continues in _words(line, where):
            is_backslash = continues and not text
            if held is not None and (joins or is_backslash):
                held = Word(held.text + text, held.where)
            elif not is_backslash:
                if held is not None:
                    yield held
                held = Word(text, where)
            joins = continues
    if held is not None:
        yield held


def _words(line: str, where: str) -> Iterator[tuple[str, bool]]:
    """The words of a line, and whether each goes on with the next one."""
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        if line[at] == "#":
            return
        text, continues = "", False
        while found := PARTS.match(line, at):
            if found["open"]:
                what = f"the quotation that begins with {found['open']} at character {at + 1} has no end"
                raise ParseError(what, where=where, fix="close it on the same line, or put the mark itself into quotation marks")
            text += found["single"] or unescaped(found["bytes"] or "") or ESCAPED.sub(r"\1", found["double"] or "") or found["plain"] or ""
            continues = bool(found["plain"]) and text.endswith("\\")
            at = found.end()
        yield text.removesuffix("\\") if continues else text, continues


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
            if is_file(path):
                if path.parent not in self.seen and len(self.seen) < MAX_SEEN:
                    self.seen.append(path.parent)
                return path, name if path in (literal, packaged) else str(path)
        if exists(literal):
            what = f"it is {'a directory' if literal.is_dir() else 'a device or a pipe'}, not a file"
            raise InvalidArguments(what, where=name, fix="name a file")
        raise InvalidArguments("no such file", where=name, fix=self._remedy(name, driver))

    def _remedy(self, name: str, driver: str) -> str:
        """The packaged file whose own name is nearest, wherever it lies: folders and suffixes that are alike make nothing near."""
        inputs = data_dir("inputs") / driver
        files = [path.relative_to(inputs) for path in inputs.rglob("*") if path.is_file()]
        same = [str(path) for path in files if path.stem == Path(name).stem]
        alike = same or [str(path) for path in files if nearest(Path(name).stem, [path.stem])]
        if near := nearest(name, alike) or nearest(Path(name).name, alike) or min(alike, default=""):
            return f"did you mean '{near}'?"
        searched = [Path.cwd(), *self.seen, inputs]
        return "looked in " + ", ".join(str(d) for d in dict.fromkeys(real(d) for d in searched))


def drivers_with(name: str, drivers: list[str]) -> list[str]:
    """The drivers among whose packaged inputs a file of this name lies."""
    return [d for d in drivers if is_file(data_dir("inputs") / d / name)]
