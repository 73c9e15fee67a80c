"""A child process that runs a module of this package and answers over a pipe: the parent's end. serving.py is the process's.

It is a new interpreter, not a fork: a fork would copy locks that other threads hold (of LLVM, OpenMP, the thread pool, PyTorch), without
these threads. It finds modules where its parent does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import F_GETFL, F_SETFL, fcntl
from multiprocessing.connection import Pipe
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

from benchgraph.core.config import module_path

EXIT_S = 2.0  # how long a process may take to end after its pipe has closed

Stream: TypeAlias = IO[bytes] | int | None  # as Popen has it; None: the parent's


class ChildLost(Exception):
    """A process that no longer answers, and was killed. signal: the one that killed it before, 0 for none."""

    def __init__(self, how: str, signal: int = 0) -> None:
        super().__init__(how)
        self.signal = signal


@dataclass(frozen=True)
class Program:
    """The program of a child: main of a module of this package; or of a file, with another interpreter and other folders to import from.

    source: a module, or a path that ends in .py. python, path: '' for this process's interpreter and folders.
    """

    source: str
    python: str = ""
    path: str = ""

    @property
    def load(self) -> str:
        """The statement that defines main."""
        is_file = self.source.endswith(".py")
        return f"import runpy; main = runpy.run_path({self.source!r})['main']" if is_file else f"from {self.source} import main"


class Child:
    """A process that calls main(pipe, *arguments) of a program, and the parent's end of the pipe. Messages are pickled objects."""

    def __init__(
        self,
        program: Program,
        *arguments: object,
        env: Mapping[str, str],
        stdout: Stream = None,
        stderr: Stream = None,
        fds: Sequence[int] = (),
        group: int | None = 0,
    ) -> None:
        """arguments: of types whose repr is Python. fds: file descriptors that it inherits, by the same numbers.

        group: 0 for a process group of its own, so that Ctrl-C reaches the parent alone; None for the parent's. Raises OSError if no
        process can be started.
        """
        self.pipe, theirs = Pipe()
        call = ", ".join(map(repr, (theirs.fileno(), *arguments)))
        try:
            with theirs:
                self._process = Popen(
                    [program.python or sys.executable, "-P", "-c", f"{program.load}; main({call})"],
                    stdin=DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=[theirs.fileno(), *fds],
                    process_group=group,
                    env={**env, "PYTHONPATH": program.path or module_path()},
                )
        except OSError:
            self.pipe.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died, which `receive` reports
            self.pipe.send(message)

    def receive(self) -> Any:
        """Its next message. Blocks until there is a complete one. Raises ChildLost if it died, closed its pipe, or sent something else."""
        try:
            return self.pipe.recv()
        except Exception as bad:  # unpickling raises anything
            is_end = isinstance(bad, EOFError | OSError)
            lost = self._ended() if is_end else ChildLost(f"sent what cannot be read ({type(bad).__name__}: {bad})")
            self.kill()
            raise lost from bad

    def _ended(self) -> ChildLost:
        """How it ended, waiting for that at most EXIT_S."""
        try:
            code = self._process.wait(EXIT_S)
        except TimeoutExpired:
            return ChildLost("closed its pipe")
        if code >= 0:
            return ChildLost(f"exited with code {code}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return ChildLost(f"was killed by {name}", -code)

    def kill(self) -> None:
        """Kill the process if it has not ended."""
        self._process.kill()
        self._process.wait()
        self.pipe.close()


class CapturedOutput:
    """An unnamed file for what a process prints to a stream, so that it is not lost if the process dies."""

    def __init__(self) -> None:
        self.file: IO[bytes] = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the process
        fcntl(self.file, F_SETFL, fcntl(self.file, F_GETFL) | os.O_APPEND)  # after truncation it continues at the start

    def take(self) -> str:
        """What was printed since the last call."""
        self.file.seek(0)
        if text := self.file.read().decode("utf-8", "replace"):
            self.file.truncate(0)
        return text
