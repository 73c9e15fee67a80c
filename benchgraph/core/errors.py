"""The one error family. Every error carries oneDNN's status and reads: where: what; how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum


class Status(Enum):
    """oneDNN's status codes (dnnl_status_t); names and values are theirs. We never return last_impl_reached or not_required."""

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
    """A mistake the user can mend.

    what: the fact, in the user's terms; where: file, op, tensor or option; fix: the remedy, when there is one.
    `str()` is one line, `where: what; fix`.
    """

    status = Status.runtime_error

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.fix = what, where, fix

    def __str__(self) -> str:
        return (f"{self.where}: " if self.where else "") + self.what + (f"; {self.fix}" if self.fix else "")

    def inside(self, outer: str) -> BenchgraphError:
        """The same error, seen from one level further out (a file name in front of an op id)."""
        where = f"{outer}: {self.where}" if self.where else outer
        return type(self)(self.what, where=where, fix=self.fix)


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'did you mean 'ReLU'?' for the nearest known word, ignoring case; '' when nothing is near."""
    by_fold = {k.casefold(): k for k in sorted(known)}
    near = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return f"did you mean '{by_fold[near[0]]}'?" if near else ""
