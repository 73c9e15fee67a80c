"""The cases of a log as a batch file: a line each, below a comment with what the log says of it; a reason makes the line a comment, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from benchgraph.core.formats import counted
from benchgraph.core.printable import printable, shortened
from benchgraph.importers.log_cases import Case
from benchgraph.importers.verbose_file import Log, Logged

REASON = "not expressed: "
LONGEST = 1000  # characters of a comment; a line of a log with 64 sources is longer


def batch_file(name: str, log: Log, cases: Sequence[Case]) -> str:
    """name: of the log."""
    lines = [*_head(name, log, cases), ""]
    for case in cases:
        lines += _lines(case)
    for broken in log.broken:
        lines += (f"# {REASON}line {broken.line} of the log: {broken.reason}", f"#   {broken.text}")
    if log.broken_count > len(log.broken):
        lines.append(f"# {REASON}{log.broken_count - len(log.broken)} more lines of the log that cannot be read")
    return "\n".join(lines) + "\n"


def _head(name: str, log: Log, cases: Sequence[Case]) -> Iterator[str]:
    yield f"# From {printable(name)} by `benchgraph import`: {counted(sum(not c.error for c in cases), 'case')}, in the order of the log"
    yield from (f"# {info}" for info in log.info)


def _lines(case: Case) -> Iterator[str]:
    if case.error:
        yield _comment(f"{REASON}{case.error.line}")
    for logged in case.logged:
        yield _comment(said_of(logged))
    yield _comment(f"  {case.line}") if case.error else case.line


def said_of(one: Logged) -> str:
    """How often and how long, and by what."""
    made, ran = one.created, one.executed
    parts = list[str]()
    if one.fields is None:
        return f"{counted(ran.count, 'repro line')}, the first on line {one.line}"
    if ran.count:
        parts.append(f"{counted(ran.count, 'execution')}, {ran.total_ms:.4g} ms, at least {ran.least_ms:.4g} each")
    if made.count:
        parts.append(f"{counted(made.count, 'creation')}, {made.total_ms:.4g} ms")
    return f"{'; '.join(parts)}; {one.fields.implementation or 'no implementation named'}; line {one.line}"


def _comment(text: str) -> str:
    return f"# {shortened(printable(text), LONGEST)}"


def reasons(cases: Iterable[Case]) -> dict[str, int]:
    """Why lines are no cases, each reason with the number of lines."""
    return dict(Counter(case.error.what for case in cases if case.error).most_common())
