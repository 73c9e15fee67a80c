"""The process in which oneDNN lives: python -m benchgraph.onednn.server PIPE PARENT PATH THREADS, started by client.py.

parent                              process
machine code of the loop      ->    loads the library
                              <-    Answer(Hello), or Refusal, and the end
(numbers to forget, method, arguments)  ->
                              <-    Answer or Refusal
end of the pipe               ->    exits
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from benchgraph.onednn.messages import Answer, Refusal
from benchgraph.onednn.session import Refused, Session

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(pipe: int, parent: int, path: str, threads: int) -> None:
    """Serve until the parent closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # even while oneDNN computes
    if os.getppid() != parent:  # it died before we asked
        return
    with suppress(EOFError, BrokenPipeError), Connection(pipe) as connection:
        loop = connection.recv()
        try:
            session = Session(path, threads, loop, lambda: recv_handle(connection))
        except Refused as bad:
            connection.send(Refusal(bad.status, bad.what, bad.fix))
            return
        connection.send(Answer(session.hello()))
        while True:
            connection.send(_answer(session, *connection.recv()))


def _answer(session: Session, forget: list[int], name: str, arguments: tuple[object, ...]) -> Answer | Refusal:
    session.forget(forget)
    try:
        return Answer(getattr(session, name)(*arguments))
    except Refused as bad:
        return Refusal(bad.status, bad.what, bad.fix)
    except MemoryError:
        return Refusal("out_of_memory", name)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
