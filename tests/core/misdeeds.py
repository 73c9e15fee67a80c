"""A child process that does what a bug may make of one: test_child.py is its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from benchgraph.core.serving import attach


def _echoes(connection: Connection) -> None:
    while True:
        connection.send(connection.recv())


def _says_where(connection: Connection) -> None:
    connection.send((os.environ.get("SAID"), sys.path, os.getpgid(0), sys.stdin.read()))


def _leaves(connection: Connection) -> None:
    sys.exit(3)


def _raises(connection: Connection) -> None:
    raise ValueError("no luck")


def _is_killed(connection: Connection) -> None:
    os.kill(os.getpid(), connection.recv())


def _dies_in_a_message(connection: Connection) -> None:
    os.write(connection.fileno(), (100).to_bytes(4, "big") + b"only these")
    os.kill(os.getpid(), signal.SIGSEGV)


def _writes(connection: Connection) -> None:
    os.write(connection.fileno(), connection.recv())
    _hangs(connection)


def _closes(connection: Connection) -> None:
    connection.close()
    _hangs(connection)


def _hangs(connection: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def _leaves_an_orphan(connection: Connection) -> None:
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], stdin=subprocess.DEVNULL, close_fds=False)
    connection.send(orphan.pid)


def _prints(connection: Connection) -> None:
    while True:
        os.write(2, connection.recv())
        connection.send("printed")


def _reads(connection: Connection) -> None:
    connection.send(Path(f"/proc/self/fd/{connection.recv()}").read_text())


_MISDEEDS: tuple[Callable[[Connection], None], ...] = (
    *(_echoes, _says_where, _leaves, _raises, _is_killed, _dies_in_a_message, _writes, _closes, _hangs, _leaves_an_orphan, _prints, _reads),
)
MISDEEDS = {misdeed.__name__.strip("_"): misdeed for misdeed in _MISDEEDS}


def main(pipe: int, misdeed: str, parent: int) -> None:
    MISDEEDS[misdeed](attach(pipe, parent))
