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

    status = Status.runtime_error


class CompilerFault(BenchgraphError):
    """A pass refuses what it or an earlier one has made of a graph that was right: nothing a user can mend, and never a skipped case."""

    status = Status.runtime_error


@contextmanager
def within(outer: str) -> Iterator[None]:
    """What a block raises of these, seen from one level further out (`BenchgraphError.inside`)."""
    try:
        yield
    except BenchgraphError as bad:
        raise bad.inside(outer) from bad


NEAR = 0.66  # of the letters, counted on both sides, are the same and in the same order
FEW = 3  # words that a suggestion names at most


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'did you mean 'ReLU'?' for the nearest known words, if they are few, or for those that go on behind it, as gelu_erf does.

    '' when none is near.
    """
    words, said = list(known), word.casefold()
    is_word = any(said == k.casefold() for k in words)  # but for its case
    begun = [] if is_word else sorted(k for k in words if k.casefold().startswith((f"{said}_", f"{said}-")))
    near = next((some for some in (begun, all_nearest(word, words)) if 0 < len(some) <= FEW), [])
    quoted = " or ".join(f"'{k}'" for k in near)
    return f"did you mean {quoted}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that the fewest slips lead to, the last of several; '' when none is near."""
    return (all_nearest(word, known) or [""])[-1]


def all_nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known word that the fewest slips lead to, in a list, or all of one length to which a single slip does.

    Case and the dashes in front of options do not count. Near is one slip in three letters or more, two thirds of all letters in common, or
    the beginning, four letters at least, of one known word alone.
    """
    said = word.lstrip("-").casefold()
    by_fold = {k.lstrip("-").casefold(): k for k in sorted(known)}
    alike = {k: _slips(said, k) for k in difflib.get_close_matches(said, by_fold, n=max(len(by_fold), 1), cutoff=0.5)}
    near = {k: slips for k, slips in alike.items() if (slips <= 1 and len(said) > 2) or _share(said, k) >= NEAR}
    if not near:
        begun = [k for k in by_fold if len(said) > 3 and k.startswith(said)]
        return [by_fold[k] for k in begun] if len(begun) == 1 else []
    least = min((slips, len(k)) for k, slips in near.items())
    found = [by_fold[k] for k in sorted(near) if (near[k], len(k)) == least]
    return found if least[0] <= 1 else found[-1:]


def _share(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, b, a, autojunk=False).ratio()


def _slips(a: str, b: str) -> int:
    """Letters to insert, leave out, replace or swap with the next one, to make b of a (the optimal string alignment distance)."""
    before, last = list[int](), list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y)))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]


class UsageError(InvalidArguments):
    """A command line nobody can run: an unknown option, a bad value. Exit code 2."""
