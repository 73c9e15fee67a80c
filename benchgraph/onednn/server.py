"""oneDNN's process, started by client.py.

parent                              process
machine code of the loop      ->    loads the library
                              <-    ("answer", Hello), or ("refusal", status, what, fix), and the end
(numbers to forget, method, arguments)  ->
                              <-    ("answer", value) or ("refusal", status, what, fix)
end of the pipe               ->    exits
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from multiprocessing.reduction import recv_handle

from benchgraph.core.serving import attach, ignore_signals, serve
from benchgraph.onednn.primitives.session import PrimitiveSession
from benchgraph.onednn.session import Refused, Session


def main(pipe: int, parent: int, path: str, threads: int) -> None:
    """Serve until the parent closes the pipe or ends."""
    ignore_signals()
    with suppress(EOFError, BrokenPipeError), attach(pipe, parent) as connection:
        loop = connection.recv()
        try:
            session = PrimitiveSession(path, threads, loop, lambda: recv_handle(connection))
        except Refused as bad:
            connection.send(("refusal", bad.status, bad.what, bad.fix))
            return
        connection.send(("answer", session.hello()))
        serve(connection, partial(_answer, session))


def _answer(session: Session, forget: list[int], name: str, arguments: tuple[object, ...]) -> tuple[object, ...]:
    session.forget(forget)
    try:
        return "answer", getattr(session, name)(*arguments)
    except Refused as bad:
        return "refusal", bad.status, bad.what, bad.fix
    except MemoryError:
        return "refusal", "out_of_memory", name, ""
