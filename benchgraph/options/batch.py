"""Words of batch files, and where case and batch files are looked up.

A batch file holds command-line words separated by whitespace; newlines have no meaning. A word that begins with # comments out the rest
of its line; a word that ends in a backslash is joined with the next one, and a lone backslash joins the words on both sides. Quotation
marks work as in a shell, so that repro lines can be pasted. --batch may be used inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.core.errors import InvalidArguments, ParseError, UsageError, nearest
from benchgraph.core.files import data_dir, exists, is_file, real
from benchgraph.options.parsers import shell_word, unescaped
from benchgraph.options.problem import TRIGGER

MAX_SEEN = 30  # directories remembered from earlier look-ups, as in benchdnn


@dataclass(frozen=True)
class Word:
    """A command-line word. where: its batch file and line, '' for the command line itself."""

    text: str
    where: str = ""


# Parts of a word: '...', $'...' and "..." with escapes, an unclosed quotation mark, or plain characters.
PARTS = re.compile(
    r"""'(?P<single>[^'\n]*)'|\$'(?P<bytes>(?:[^'\\\n]|\\.)*)'|"(?P<double>(?:[^"\\\n]|\\.)*)"|(?P<open>['"])|"""
    r"""(?P<plain>(?:[^\s'"$]|\$(?!'))+|\$)"""
)
ESCAPED = re.compile(r'\\(["\\$`])')  # in double quotes; other backslashes there are literal


def content(path: Path) -> str:
    """The text of a batch file. Bytes that are not UTF-8 are kept as surrogates, as in file names."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as bad:
        raise UsageError(f"cannot read the batch file: {bad.strerror}", where=str(path), fix="name another one") from bad
    if text.startswith("\ufeff"):
        raise UsageError("the file begins with a byte order mark", where=str(path), fix="save it as UTF-8 without one")
    if text.lstrip().startswith(("{", "[")):
        fix = f"run a case by: benchgraph --graph {shell_word(f'{TRIGGER}={path}')}"
        raise UsageError("no batch file: it is JSON", where=str(path), fix=fix)
    if "\0" in text:
        raise UsageError("no batch file: it holds bytes that are no text", where=str(path), fix="name a file of options")
    return text


def tokenize(content: str, name: str) -> Iterator[Word]:
    """The words of a batch file. Raises ParseError, with the line, for a quotation that does not end on it."""
    pending: Word | None = None  # a word that the next one may be joined to
    joins = False
    for number, line in enumerate(content.splitlines(), 1):
        where = f"{name}:{number}"
        for text, continues in _words(line, where):
            is_backslash = continues and not text
            if pending is not None and (joins or is_backslash):
                pending = Word(pending.text + text, pending.where)
            elif not is_backslash:
                if pending is not None:
                    yield pending
                pending = Word(text, where)
            joins = continues
    if pending is not None:
        yield pending


def _words(line: str, where: str) -> Iterator[tuple[str, bool]]:
    """The words of a line, and whether each continues in the next word."""
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        if line[at] == "#":
            return
        text, continues = "", False
        while match := PARTS.match(line, at):
            if match["open"]:
                what = f"the quotation that begins with {match['open']} at character {at + 1} has no end"
                raise ParseError(what, where=where, fix="close it on the same line, or put the mark itself into quotation marks")
            text += match["single"] or unescaped(match["bytes"] or "") or ESCAPED.sub(r"\1", match["double"] or "") or match["plain"] or ""
            continues = bool(match["plain"]) and text.endswith("\\")
            at = match.end()
        yield text.removesuffix("\\") if continues else text, continues


@dataclass
class Lookup:
    """Looks up case and batch files: the path itself, the directories of files found earlier, then the packaged inputs of the driver.

    Packaged files of different drivers share names, so folders of other drivers come last. Mutable: a batch file names cases beside it, so
    each file found adds its directory.
    """

    seen: list[Path] = field(default_factory=list)

    def find(self, name: str, driver: str) -> tuple[Path, str]:
        """The file, and a name that finds it again from the same directory. Raises InvalidArguments."""
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
        """Suggests the packaged file whose stem is nearest; similar folders and suffixes do not count."""
        inputs = data_dir("inputs") / driver
        files = [path.relative_to(inputs) for path in inputs.rglob("*") if path.is_file()]
        same = [str(path) for path in files if path.stem == Path(name).stem]
        alike = same or [str(path) for path in files if nearest(Path(name).stem, [path.stem])]
        if near := nearest(name, alike) or nearest(Path(name).name, alike) or min(alike, default=""):
            return f"did you mean '{near}'?"
        searched = [Path.cwd(), *self.seen, inputs]
        return "looked in " + ", ".join(str(d) for d in dict.fromkeys(real(d) for d in searched))


def drivers_with(name: str, drivers: list[str]) -> list[str]:
    """The drivers whose packaged inputs include a file of this name."""
    return [d for d in drivers if is_file(data_dir("inputs") / d / name)]
