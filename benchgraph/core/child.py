"""A child process that runs Python of ours and answers over a pipe, from both ends: `Child` is the parent's handle, `attach` the process's.

It is a new interpreter, not a fork: a fork copies the one thread that asks for it, and with it the locks that others hold, of LLVM, of an
OpenMP runtime, of our own pool, of PyTorch. It finds modules where its parent does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import F_GETFL, F_SETFL, fcntl
from multiprocessing.connection import Connection, Pipe
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

from benchgraph.core.config import module_path

LAST_WORDS_S = 2.0  # for a process whose pipe has closed, or that was told to, to end
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Stream: TypeAlias = IO[bytes] | int | None  # as Popen has it; None: the parent's


class Lost(Exception):
    """A process that answers no more, and was ended. Its text says how it came to that; signal: the one that killed it, 0 for none."""

    def __init__(self, how: str, signal: int = 0) -> None:
        super().__init__(how)
        self.signal = signal


class Child:
    """A process that calls main(pipe, *arguments) of a module, and the parent's end of the pipe. Messages are whatever can be pickled."""

    def __init__(
        self,
        module: str,
        *arguments: object,
        env: Mapping[str, str],
        stdout: Stream = None,
        stderr: Stream = None,
        fds: Sequence[int] = (),
        group: int | None = 0,
    ) -> None:
        """arguments: of types that repr writes as Python. fds: file descriptors that it has too, by the same numbers.

        group: 0 for one of its own, so that Ctrl-C reaches the parent alone, which decides; None for the parent's. Raises OSError when the
        system lets no process start.
        """
        self.pipe, theirs = Pipe()
        call = ", ".join(map(repr, (theirs.fileno(), *arguments)))
        try:
            with theirs:
                self._process = Popen(
                    [sys.executable, "-P", "-c", f"from {module} import main; main({call})"],
                    stdin=DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=[theirs.fileno(), *fds],
                    process_group=group,
                    env={**env, "PYTHONPATH": module_path()},
                )
        except OSError:
            self.pipe.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died, which `receive` will find
            self.pipe.send(message)

    def receive(self) -> Any:
        """Its next message. Blocks until there is one, whole. Raises Lost when it died, closed its pipe, or sent what is no message."""
        try:
            return self.pipe.recv()
        except Exception as bad:  # unpickling raises anything
            is_end = isinstance(bad, EOFError | OSError)
            lost = self._last_words() if is_end else Lost(f"sent what cannot be read ({type(bad).__name__}: {bad})")
            self.kill()
            raise lost from bad

    def _last_words(self) -> Lost:
        """How it ended, if it does in the time for that."""
        try:
            code = self._process.wait(LAST_WORDS_S)
        except TimeoutExpired:
            return Lost("closed its pipe")
        if code >= 0:
            return Lost(f"exited with code {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Lost(f"was killed by {name}", -code)

    def kill(self) -> None:
        """End the process at once, whatever it does, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self.pipe.close()


class Printed:
    """What a process prints to a stream, in a file without a name, so that it is not lost with the process."""

    def __init__(self) -> None:
        self.file: IO[bytes] = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the process
        fcntl(self.file, F_SETFL, fcntl(self.file, F_GETFL) | os.O_APPEND)  # so that it goes on at the start when it was emptied

    def take(self) -> str:
        """What was printed since it was last taken."""
        self.file.seek(0)
        if text := self.file.read().decode("utf-8", "replace"):
            self.file.truncate(0)
        return text


def attach(pipe: int, parent: int | None = None) -> Connection:
    """The process's end of the pipe. pipe: a file descriptor, which what the process starts does not keep open when it has died.

    parent: the process with whose end this one ends, even if compiled code loops for ever just then (the kernel sees to it, on Linux only:
    it takes the thread that started this process for its parent).
    """
    os.set_inheritable(pipe, False)
    if parent is not None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)
    return Connection(pipe)
