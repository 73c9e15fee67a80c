"""All errors. Each has oneDNN's status, and the text "where: what; fix"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum

from benchgraph.core.printable import MESSAGE, printable, shortened

NO_THREAD = (RuntimeError, MemoryError)  # raised by Python if no thread can be started


class Status(Enum):
    """oneDNN's status codes (dnnl_status_t), by name and value. last_impl_reached and not_required are never returned."""

    success = 0
    out_of_memory = 1
    invalid_arguments = 2
    unimplemented = 3
    last_impl_reached = 4
    runtime_error = 5
    not_required = 6
    invalid_graph = 7
    invalid_graph_op = 8
    invalid_shape = 9
    invalid_data_type = 10


class BenchgraphError(Exception):
    """A mistake that the user can fix.

    what: the fact, in the user's terms; where: file, op, tensor or option; fix: the remedy, if there is one; shown: lines of text that the
    error is about. `line` is `where: what; fix` on one line, with invisible characters escaped; `str()` adds the shown lines.
    """

    status = Status.runtime_error

    def __init__(self, what: str, *, where: str = "", fix: str = "", shown: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.fix, self.shown = what, where, fix, shown

    @property
    def line(self) -> str:
        what, fix = (shortened(part, MESSAGE) for part in (self.what, self.fix))
        return printable((f"{self.where}: " if self.where else "") + what + (f"; {fix}" if fix else ""))

    def __str__(self) -> str:
        return f"{self.line}\n{self.shown}" if self.shown else self.line

    def inside(self, outer: str) -> BenchgraphError:
        """The same error with outer context, such as a file name before an op id."""
        where = f"{outer}: {self.where}" if self.where else outer
        return type(self)(self.what, where=where, fix=self.fix, shown=self.shown)


class ParseError(BenchgraphError):
    """Text that is not what it should be: JSON, IR text, an option's value."""

    status = Status.invalid_arguments


class InvalidArguments(BenchgraphError):
    status = Status.invalid_arguments


class UsageError(InvalidArguments):
    """A command line that cannot be run: an unknown option, a bad value. Exit code 2."""


class UnknownOption(UsageError):
    """An option that is not there; it is the last word of `where`."""


class InvalidGraph(BenchgraphError):
    status = Status.invalid_graph


class InvalidGraphOp(BenchgraphError):
    status = Status.invalid_graph_op


class NoSuchOpKind(InvalidGraphOp):
    """The op table has no row for this kind."""


class InvalidShape(BenchgraphError):
    status = Status.invalid_shape


class InvalidDataType(BenchgraphError):
    status = Status.invalid_data_type


class Unimplemented(BenchgraphError):
    status = Status.unimplemented


class Unavailable(Unimplemented):
    """The library under test is not meant to have this: its version is older, or it has no such notion. The case is skipped."""


class OutOfMemory(BenchgraphError):
    status = Status.out_of_memory


class ExecutionFailed(BenchgraphError):
    """Compiled code was entered and did not run to its end: the user's thread pool failed, or the library's process died."""


class CompilerFault(BenchgraphError):
    """A pass rejects what it or an earlier pass has made of a correct graph: no user can mend that, and the case is never skipped."""


@contextmanager
def within(outer: str) -> Iterator[None]:
    """Add outer context to the errors that a block raises (`BenchgraphError.inside`)."""
    try:
        yield
    except BenchgraphError as bad:
        raise bad.inside(outer) from bad


NEAR = 0.66  # share of letters, counted in both words, that are the same and in the same order
FEW = 3  # words that a suggestion names at most


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'did you mean 'ReLU'?' for the nearest known words, or those that continue it after _ or -; '' for none, or more than FEW."""
    words, folded = list(known), word.casefold()
    is_word = any(folded == k.casefold() for k in words)
    longer = [] if is_word else sorted(k for k in words if k.casefold().startswith((f"{folded}_", f"{folded}-")))
    near = next((some for some in (longer, all_nearest(word, words)) if 0 < len(some) <= FEW), [])
    quoted = " or ".join(f"'{k}'" for k in near)
    return f"did you mean {quoted}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word with the fewest typing errors between it and the word, the last of several; '' when none is near."""
    return (all_nearest(word, known) or [""])[-1]


def all_nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known word with the fewest typing errors, in a list; all of the same length if there is at most one error.

    Case and the dashes in front of options do not count. Near: one error in three letters or more, two thirds of all letters in common, or
    the beginning, four letters at least, of exactly one known word.
    """
    given = word.lstrip("-").casefold()
    by_folded = {k.lstrip("-").casefold(): k for k in sorted(known)}
    alike = {k: _distance(given, k) for k in difflib.get_close_matches(given, by_folded, n=max(len(by_folded), 1), cutoff=0.5)}
    near = {k: errors for k, errors in alike.items() if (errors <= 1 and len(given) > 2) or _share(given, k) >= NEAR}
    if not near:
        longer = [k for k in by_folded if len(given) > 3 and k.startswith(given)]
        return [by_folded[k] for k in longer] if len(longer) == 1 else []
    least = min((errors, len(k)) for k, errors in near.items())
    nearest = [by_folded[k] for k in sorted(near) if (near[k], len(k)) == least]
    return nearest if least[0] <= 1 else nearest[-1:]


def _share(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, b, a, autojunk=False).ratio()


def _distance(a: str, b: str) -> int:
    """The optimal string alignment distance: letters to insert, delete, replace or swap with the next one."""
    before, last = list[int](), list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y)))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]
