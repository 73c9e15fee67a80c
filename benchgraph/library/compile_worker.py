"""A process that compiles partitions for this one, from both ends: `Worker` is the parent's handle, `main` runs in the process.

    parent                       process
                                 imports the compiler, once
                            <-   Ready
    Batch                   ->
                            <-   Answer, for every ticket it has drawn
                            <-   None: no tickets are left
    end of the pipe         ->   exits, whatever it does just then

Who compiles which partition of a batch is told by tickets that all of them draw, the parent too, whenever they have nothing to do. So
nobody waits for the parent, which compiles meanwhile.

It is not killed with the thread that started it, as `attach` could have it: users compile on threads that end.
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
from benchgraph.core.child import Child, attach
from benchgraph.core.config import Config, environment, override
from benchgraph.core.layout import LAYOUTS, Layout
from benchgraph.core.remarks import collected
from benchgraph.core.undisturbed import undisturbed
from benchgraph.runtime.sources import unchanged_since
from benchgraph.runtime.stored import to_bytes

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # numpy would start some for nothing
_TICKET_BYTES = 4


@dataclass(frozen=True)
class Ready:
    """is_same: it has read the source files that its parent did."""

    is_same: bool


@dataclass(frozen=True)
class Batch:
    """What is to be compiled, by ticket: an Order each, pickled. layouts: those that the parent has ids for, in their order."""

    config: Config
    layouts: tuple[Layout, ...]
    orders: tuple[bytes, ...]


@dataclass(frozen=True)
class Answer:
    """made: by stored.to_bytes, b'' if it could not be compiled, which the parent then finds out for itself. seconds: it took."""

    ticket: int
    made: bytes = b""
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()


Message: TypeAlias = Ready | Answer | None


class Tickets:
    """The numbers from 0 on, drawn in order by several processes, each by one of them.

    A pipe that holds them, as GNU make's jobserver does it: reads of a few bytes, all written at once, are never divided.
    """

    MOST = 1024  # what a pipe is sure to hold: a page of 4096 bytes

    def __init__(self) -> None:
        self.outlet, self._inlet = os.pipe()
        os.set_blocking(self.outlet, False)

    def issue(self, count: int) -> None:
        """Those below count, at most MOST. There must be none left."""
        os.write(self._inlet, b"".join(i.to_bytes(_TICKET_BYTES, "little") for i in range(count)))

    def draw(self) -> int | None:
        return _drawn(self.outlet)

    def withdraw(self) -> None:
        """Take all that are left."""
        while self.draw() is not None:
            pass

    def close(self) -> None:
        os.close(self.outlet)
        os.close(self._inlet)


def _drawn(outlet: int) -> int | None:
    """None too when the parent is gone."""
    try:
        ticket = os.read(outlet, _TICKET_BYTES)
    except BlockingIOError:
        return None
    return int.from_bytes(ticket, "little") if ticket else None


# ---- the parent's end ------------------------------------------------------------------------------------------------


class State(Enum):
    """Of a worker, as far as it has been heard. free: it waits for a batch; busy: it has one."""

    starting = "starting"
    free = "free"
    busy = "busy"


class Worker(Child):
    """A process."""

    def __init__(self, tickets: Tickets) -> None:
        """Raises OSError when the system lets none start."""
        self.state = State.starting
        arguments = (tickets.outlet, str(version.ROOT), version.LOADED_NS)
        super().__init__(__name__, *arguments, env=environment(_ONE_THREAD), stdout=DEVNULL, fds=[tickets.outlet])

    def give(self, batch: Batch) -> None:
        """Have it draw tickets of a batch."""
        self.state = State.busy
        self.send(batch)

    def receive(self) -> Message:
        """What it says next. Raises Lost when it died."""
        said: Message = super().receive()
        if not isinstance(said, Answer):
            self.state = State.free
        return said

    def disown(self) -> None:
        """Forget it in a fork of its parent, whose it is not."""
        self.pipe.close()
        self._process.returncode = 0


# ---- the process's end -----------------------------------------------------------------------------------------------


def main(pipe: int, tickets: int, package: str, loaded_ns: int) -> None:
    """Serve until the parent closes the pipe or dies.

    pipe, tickets: file descriptors. package: the folder of the parent's package, which it began to load at loaded_ns, by time.time_ns().
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(tickets, False)
    gc.freeze()  # what is imported by now stays
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
    """Hear the parent while the process compiles, and end it with him."""
    try:
        while True:
            batches.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


@undisturbed()
def _answer(ticket: int, order: bytes) -> Answer:
    begin = time.perf_counter()
    try:
        with collected() as remarks:
            wanted: Order = pickle.loads(order)
            made = to_bytes(translate(wanted.partition, wanted.target, wanted.open_outputs))
    except Exception:
        return Answer(ticket)
    return Answer(ticket, made, time.perf_counter() - begin, tuple(remarks))
