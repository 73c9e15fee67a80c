"""A worker process that compiles partitions for a parent process: `Worker` is the parent's handle, `main` runs in the worker.

    parent                       worker
                                 imports the compiler, once
                            <-   Ready
    Batch                   ->
                            <-   Answer, for every ticket that it has drawn
                            <-   None: no tickets are left
    end of the pipe         ->   exits at once

Which process compiles which partition of a batch is decided by tickets, which each process, including the parent, draws when it is idle. So
no worker waits for the parent, which compiles as well.

The worker is not tied to the thread that started it, as `attach` could do: users compile on threads that end.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from queue import SimpleQueue
from subprocess import DEVNULL
from typing import TypeAlias

from benchgraph.compile import Order, translate
from benchgraph.core import version
from benchgraph.core.child_process import Child, Program
from benchgraph.core.config import Config, environment, override
from benchgraph.core.gc_pause import gc_paused
from benchgraph.core.layout import LAYOUTS, Layout
from benchgraph.core.remarks import collected
from benchgraph.core.serving import attach
from benchgraph.runtime.serialise import to_bytes
from benchgraph.runtime.source_digest import unchanged_since

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # numpy needs no threads here
_TICKET_BYTES = 4


@dataclass(frozen=True)
class Ready:
    """is_same: whether it read the same source files as its parent."""

    is_same: bool


@dataclass(frozen=True)
class Batch:
    """What to compile, by ticket: an Order each, pickled. layouts: those that have ids in the parent, in order."""

    config: Config
    layouts: tuple[Layout, ...]
    orders: tuple[bytes, ...]


@dataclass(frozen=True)
class Answer:
    """made: by serialise.to_bytes, b'' if compilation failed, which the parent repeats for the error. seconds: of compilation."""

    ticket: int
    made: bytes = b""
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()


Message: TypeAlias = Ready | Answer | None


class Tickets:
    """Numbers from 0, drawn in order by several processes, each number once.

    A pipe holds them, as GNU make's jobserver does: reads of a few bytes that were written at once are atomic.
    """

    MOST = 1024  # a pipe holds at least a page of 4096 bytes

    def __init__(self) -> None:
        self.outlet, self._inlet = os.pipe()
        os.set_blocking(self.outlet, False)

    def issue(self, count: int) -> None:
        """Issue the numbers below count, at most MOST. None may be left."""
        os.write(self._inlet, b"".join(i.to_bytes(_TICKET_BYTES, "little") for i in range(count)))

    def draw(self) -> int | None:
        return _drawn(self.outlet)

    def withdraw(self) -> None:
        """Draw all that are left."""
        while self.draw() is not None:
            pass

    def close(self) -> None:
        os.close(self.outlet)
        os.close(self._inlet)


def _drawn(outlet: int) -> int | None:
    """The next ticket; None if none is left, or the parent has ended."""
    try:
        ticket = os.read(outlet, _TICKET_BYTES)
    except BlockingIOError:
        return None
    return int.from_bytes(ticket, "little") if ticket else None


# ---- the parent's end ------------------------------------------------------------------------------------------------


class State(Enum):
    """The state of a worker as known from its messages. free: waits for a batch; busy: has one."""

    starting = "starting"
    free = "free"
    busy = "busy"


class Worker(Child):
    """The parent's handle of a worker."""

    def __init__(self, tickets: Tickets) -> None:
        """Raises OSError if no process can be started."""
        self.state = State.starting
        arguments = (tickets.outlet, str(version.ROOT), version.LOADED_NS)
        super().__init__(Program(__name__), *arguments, env=environment(_ONE_THREAD), stdout=DEVNULL, fds=[tickets.outlet])

    def give(self, batch: Batch) -> None:
        """Let it draw tickets of a batch."""
        self.state = State.busy
        self.send(batch)

    def receive(self) -> Message:
        """The next message. Raises ChildLost if it died."""
        message: Message = super().receive()
        if not isinstance(message, Answer):
            self.state = State.free
        return message

    def disown(self) -> None:
        """Drop the handle in a fork of the parent."""
        self.pipe.close()
        self._process.returncode = 0


# ---- the process's end -----------------------------------------------------------------------------------------------


def main(pipe: int, tickets: int, package: str, loaded_ns: int) -> None:
    """Serve until the parent closes the pipe or ends. pipe, tickets: file descriptors.

    package, loaded_ns: the folder of the parent's package, and when the parent began to load it, by time.time_ns().
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(tickets, False)
    gc.freeze()  # modules imported so far are never collected
    connection, batches = attach(pipe), SimpleQueue[Batch]()
    threading.Thread(target=_listen, args=(connection, batches), daemon=True).start()
    with suppress(BrokenPipeError):
        connection.send(Ready(str(version.ROOT) == package and unchanged_since(loaded_ns)))
        while True:
            batch = batches.get()
            for layout in batch.layouts:
                LAYOUTS.id(layout)
            with override(**vars(batch.config)):
                while (ticket := _drawn(tickets)) is not None:
                    connection.send(_answer(ticket, batch.orders[ticket]))
            connection.send(None)


def _listen(connection: Connection, batches: SimpleQueue[Batch]) -> None:
    """Receive batches while the worker compiles, and exit when the parent does."""
    try:
        while True:
            batches.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


@gc_paused()
def _answer(ticket: int, order: bytes) -> Answer:
    begin = time.perf_counter()
    try:
        with collected() as remarks:
            order_: Order = pickle.loads(order)
            made = to_bytes(translate(order_.partition, order_.target, order_.open_outputs))
    except Exception:
        return Answer(ticket)
    return Answer(ticket, made, time.perf_counter() - begin, tuple(remarks))
