"""Standard output and error of a run that continues when one of them fails (a closed pipe or terminal, a full disk): its reports and its
history are elsewhere.
"""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # errors of a failed output: a full disk, a closed terminal


class _Enduring(io.FileIO):
    """A file descriptor that accepts all writes. lost: the error since which output is discarded."""

    lost: OSError | None = None

    def write(self, data: ReadableBuffer) -> int:
        while self.lost is None:
            try:
                if (done := super().write(data)) is not None:
                    return done
                select([], [self], [])  # a terminal that another program has made non-blocking
            except OSError as bad:
                self.lost = bad
        return memoryview(data).nbytes


@contextmanager
def enduring(name: Literal["stdout", "stderr"]) -> Iterator[None]:
    """Inside, writing to that stream of sys raises nothing; `lost` returns the error."""
    before: TextIO = getattr(sys, name)
    ours = _enduring(before)
    setattr(sys, name, ours)
    try:
        yield
    finally:
        ours.flush()
        setattr(sys, name, before)


def _enduring(stream: TextIO) -> TextIO:
    """A tolerant wrapper of the stream; the stream itself if it is not a file of the system, or tolerant already."""
    if not isinstance(stream, io.TextIOWrapper) or type(_raw(stream)) is not io.FileIO:
        return stream
    stream.flush()
    raw = _Enduring(stream.fileno(), "wb", closefd=False)
    buffer = raw if stream.write_through else io.BufferedWriter(raw)
    like = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, **like)  # type: ignore[arg-type]


def _raw(stream: object) -> object:
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)


def lost(stream: TextIO) -> OSError | None:
    """The error since which a stream inside `enduring` discards output."""
    with suppress(ValueError):
        stream.flush()
    raw = _raw(stream)
    return raw.lost if isinstance(raw, _Enduring) else None
