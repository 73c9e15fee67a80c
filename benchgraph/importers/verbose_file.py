"""A log, read as a stream: equal lines are counted and their times added up, so that memory grows with what differs, not with the file.

What bears the mark of a verbose log but cannot be read is kept with the number of its line and the reason: a line that was cut off, one
inside which another one begins, bytes that are no text. All other lines are a program's own output; those with a repro line are kept.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import BinaryIO

from benchgraph.core.errors import InvalidArguments, ParseError
from benchgraph.core.files import need_no_device
from benchgraph.core.printable import printable, shortened
from benchgraph.importers.verbose_line import CREATED, EXECUTED, MARK, Fields, Head, NotALine, fields_of, head_of

LONGEST = 1 << 16  # bytes of a line; oneDNN writes lines of at most a few thousand
MOST = 20_000  # different problems, each of which is built once to see whether it is one
MOST_BROKEN = 1_000  # lines that are quoted; others are counted
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")  # as systems for CI and terminals write it
NO_TEXT = {
    b"\x1f\x8b": ("it is compressed by gzip", "unpack it with gunzip, and import that"),
    b"BZh": ("it is compressed by bzip2", "unpack it with bunzip2, and import that"),
    b"\xfd7zXZ": ("it is compressed by xz", "unpack it with unxz, and import that"),
    b"\x28\xb5\x2f\xfd": ("it is compressed by Zstandard", "unpack it with unzstd, and import that"),
    b"\xff\xfe": ("it is text in UTF-16", "save it as UTF-8, as with iconv -f utf-16 -t utf-8"),
    b"\xfe\xff": ("it is text in UTF-16", "save it as UTF-8, as with iconv -f utf-16 -t utf-8"),
}
"""How files begin that no log of lines is: what they are, and the remedy."""
_REPRO = re.compile(r"__REPRO: (?P<words>.*)")
_RUN_BY = re.compile(r"(?:oneDNN|DNNL|benchgraph) v.*|cpu,(?:runtime|isa):.*")


@dataclass
class Tally:
    """How often something was done, and how long that took in milliseconds."""

    count: int = 0
    total_ms: float = 0.0
    least_ms: float = float("inf")

    def add(self, ms: float) -> None:
        self.count += 1
        self.total_ms += ms
        self.least_ms = min(self.least_ms, ms)


@dataclass
class Logged:
    """A primitive, a partition or a repro line (words) with its first line, and how often it was executed and created."""

    line: int
    fields: Fields | None = None
    words: str = ""
    executed: Tally = field(default_factory=Tally)
    created: Tally = field(default_factory=Tally)


@dataclass(frozen=True)
class Broken:
    """A line that cannot be read."""

    line: int
    reason: str
    text: str


@dataclass
class Log:
    """info: what the log says of the library and the machine. lines: of the file; remarks: lines of the log that are no event, such as why
    an implementation was rejected; others: lines of other programs. broken: the first MOST_BROKEN of broken_count.
    """

    info: list[str] = field(default_factory=list)
    logged: list[Logged] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    lines: int = 0
    remarks: int = 0
    others: int = 0


def read_log(path: Path) -> Log:
    """Raises InvalidArguments for a file that cannot be opened, ParseError for one that is no text, without any line of a log, or with
    too many problems.
    """
    try:
        need_no_device(path)
        with path.open("rb") as file:
            _need_text(file, path)
            log = _Reader(str(path)).read(file)
    except (OSError, ValueError) as bad:
        reason = bad.strerror if isinstance(bad, OSError) else str(bad)
        fix = "name a file" if getattr(bad, "errno", 0) != errno.EACCES else "make it readable"
        raise InvalidArguments(f"cannot read it: {reason}", where=str(path), fix=fix) from bad
    if not log.logged and not log.broken:
        what = f"none of its {log.lines} lines is of a verbose log, nor a repro line"
        if log.info:
            what = "it says what the library is, but not what it executed"
        raise ParseError(what, where=str(path), fix="run the program with ONEDNN_VERBOSE=1 in its environment, and save what it prints")
    return log


def _need_text(file: BinaryIO, path: Path) -> None:
    """Raise ParseError for a log that was compressed, or saved in another encoding."""
    head = file.read(6)
    file.seek(0)
    for begin, (what, fix) in NO_TEXT.items():
        if head.startswith(begin):
            raise ParseError(what, where=str(path), fix=fix)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name, self._log = name, Log()
        self._heads = dict[str, Logged]()  # component and line without time -> what it tells of
        self._entries = dict[tuple[str, str], Logged]()

    def read(self, file: BinaryIO) -> Log:
        for number, (line, is_whole) in enumerate(_lines(file), 1):
            self._log.lines = number
            if b"_verbose," in line and MARK.search(line.decode("utf-8", "replace")):
                self._marked(line.decode("utf-8", "replace"), number, is_whole)
            elif b"__REPRO: " in line and (found := _REPRO.search(line.decode("utf-8", "replace"))):
                self._entry("repro", _COLOUR.sub("", found["words"]).strip(), number).executed.count += 1
            else:
                self._log.others += 1
        return self._log

    def _marked(self, line: str, number: int, is_whole: bool) -> None:
        """A line may hold several, where threads or processes wrote at the same time."""
        line = _COLOUR.sub("", line)
        starts = [found.start() for found in MARK.finditer(line)]
        for begin, end in zip(starts, [*starts[1:], len(line)], strict=True):
            text = line[begin:end].rstrip("\r\n")
            try:
                if not is_whole:
                    raise NotALine(f"it is longer than {LONGEST >> 10} KB")
                self._event(text, number)
            except NotALine as bad:
                reason = f"{bad}; another line begins inside it" if end < len(line) else str(bad)
                self._broken(number, reason, text)

    def _event(self, text: str, number: int) -> None:
        """Raises NotALine."""
        if "\ufffd" in text or "\0" in text:
            raise NotALine("it holds bytes that are no text")
        head = head_of(text)
        if head.operation not in (EXECUTED, CREATED):
            self._log.remarks += 1
            if head.operation == "info" and _RUN_BY.fullmatch(head.rest) and head.rest not in self._log.info:
                self._log.info.append(printable(head.rest))
            return
        known, ms = _time_of(head)
        key = f"{head.component},{known}"
        if key not in self._heads:
            fields = fields_of(head.component, known)
            self._heads[key] = self._entry(head.component, fields.text, number, fields)
        entry = self._heads[key]
        (entry.executed if head.operation == EXECUTED else entry.created).add(ms)

    def _entry(self, kind: str, text: str, number: int, fields: Fields | None = None) -> Logged:
        key = (kind, text)
        if key not in self._entries:
            if len(self._entries) >= MOST:
                what = f"more than {MOST:,} different problems up to line {number:,}"
                raise ParseError(what, where=self._name, fix="split the log into parts, as with `split -l`, and import each")
            self._entries[key] = Logged(number, fields, "" if fields else text)
            self._log.logged.append(self._entries[key])
        return self._entries[key]

    def _broken(self, number: int, reason: str, text: str) -> None:
        self._log.broken_count += 1
        if len(self._log.broken) < MOST_BROKEN:
            self._log.broken.append(Broken(number, reason, printable(shortened(text))))


def _time_of(head: Head) -> tuple[str, float]:
    """The fields of an event without its time, and the time in milliseconds. Raises NotALine."""
    known, _, last = head.rest.rpartition(",")
    try:
        ms = float(last)
    except ValueError:
        raise NotALine("it is cut off: it does not end with a time") from None
    if not isfinite(ms) or ms < 0:
        raise NotALine(f"its time is {last} ms")
    return known, ms


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The lines of a file, at most LONGEST bytes of each, and whether that is all of it."""
    while line := file.readline(LONGEST):
        is_whole = line.endswith(b"\n") or len(line) < LONGEST
        rest = line
        while not rest.endswith(b"\n") and len(rest) == LONGEST:
            rest = file.readline(LONGEST)
        yield line, is_whole
