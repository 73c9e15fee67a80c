"""The process of another checkout, started by client.py with that checkout's package to import.

It runs on the other version's code, so it uses the standard library, files of ours that do so too, and these names of the package, which
checkouts since 1.0 have: benchgraph.library.benchgraph_library and the protocol of what it returns;
graph.loads; partition.ir.Policy; core.arrays.view; core.errors.BenchgraphError; runtime.memory.mapped.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from multiprocessing.reduction import recv_handle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

_CORE = Path(__file__).parents[2] / "core"  # of this version; the files are found by their paths
wait_until_idle = runpy.run_path(str(_CORE / "wait_idle.py"))["wait_until_idle"]
if TYPE_CHECKING:
    from benchgraph.core import serving
else:
    serving = SimpleNamespace(**runpy.run_path(str(_CORE / "serving.py")))


class Session:
    """The other version's library, and its objects by number. Every public method is a request of client.py."""

    def __init__(self, receive: Callable[[], int]) -> None:
        from benchgraph.core.arrays import view
        from benchgraph.graph import loads
        from benchgraph.library import benchgraph_library
        from benchgraph.partition.ir import Policy
        from benchgraph.runtime.memory import mapped

        self._view, self._loads, self._policy, self._mapped, self._receive = view, loads, Policy, mapped, receive
        self._library = benchgraph_library()
        self.objects = serving.Objects()
        self._window: memoryview[int] = memoryview(bytearray())

    def partition(self, text: str, policy: str) -> list[tuple[Any, ...]]:
        """Partition a graph, given as JSON. Returns of each: number, rule, ids of ops, of inputs, of outputs, why it is unsupported."""
        parts = self._library.partitions(self._loads(text), self._policy(policy))
        ids = [tuple(tuple(x.id for x in side) for side in (p.ops, p.inputs, p.outputs)) for p in parts]
        return [(self.objects.keep(p), p.kind, *of, p.reason) for p, of in zip(parts, ids, strict=True)]

    def compile(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """Compile partitions. Returns of each: number, seconds, whether it was read from disk, its implementations as far as known."""
        made = self._library.compile_all([self.objects[n] for n in numbers])
        ran = [[(i.primitive, i.name, i.count) for i in getattr(c, "implementations", ())] for c in made]  # older versions do not tell
        return [(self.objects.keep((self.objects[n], c)), c.compile_s, c.is_warm, r) for n, c, r in zip(numbers, made, ran, strict=True)]

    def window(self, nbytes: int) -> None:
        """Map the shared memory; its descriptor follows on the pipe."""
        self._window = memoryview(serving.mapped_window(self._receive, nbytes))

    def allocate(self, nbytes: int) -> int:
        return self.objects.keep(self._mapped(nbytes))

    def put(self, buffer: int, nbytes: int) -> None:
        """Copy the window's first bytes into a buffer."""
        memoryview(self.objects[buffer])[:nbytes] = self._window[:nbytes]

    def get(self, buffer: int, nbytes: int) -> None:
        """Copy a buffer's first bytes into the window."""
        self._window[:nbytes] = memoryview(self.objects[buffer])[:nbytes]

    def bind(self, compiled: int, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        """A compiled partition on buffers, in the order of its inputs and outputs."""
        partition, code = self.objects[compiled]
        sides = [
            [self._view(self.objects[number], t) for number, t in zip(numbers, tensors, strict=True)]
            for numbers, tensors in ((inputs, partition.inputs), (outputs, partition.outputs))
        ]
        return self.objects.keep(code.bind(*sides))

    def execute(self, bound: int) -> None:
        self.objects[bound]()

    def chain(self, bounds: Sequence[int]) -> int:
        return self.objects.keep(self._library.sequence([self.objects[n] for n in bounds]))

    def run(self, chain: int, times: int) -> float:
        """Execute a chain so many times, in one native call. Returns its seconds. When this returns, idle threads sleep."""
        started = time.perf_counter()
        measured = self.objects[chain].run(times)
        seconds = time.perf_counter() - started
        wait_until_idle()
        return seconds if measured is None else measured


def main(pipe: int, parent: int, cpus: tuple[int, ...]) -> None:
    """Serve until the parent closes the pipe or ends. cpus: the processors to run on."""
    serving.ignore_signals()
    with serving.attach(pipe, parent) as connection:
        if cpus:
            os.sched_setaffinity(0, cpus)
        try:
            session = Session(lambda: recv_handle(connection))
        except Exception as bad:  # whatever a strange checkout raises is told, not printed
            connection.send(("refusal", "invalid_arguments", f"its package cannot be used: {type(bad).__name__}: {bad}", ""))
            return
        connection.send(("answer", sys.version.split()[0]))
        serving.serve(connection, partial(_answer, session))


def _answer(session: Session, forget: Iterable[int], name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    from benchgraph.core.errors import BenchgraphError

    session.objects.forget(forget)
    try:
        return "answer", getattr(session, name)(*arguments)
    except BenchgraphError as bad:
        return "refusal", bad.status.name, f"{bad.where}: {bad.what}" if bad.where else bad.what, bad.fix
    except MemoryError:
        return "refusal", "out_of_memory", name, ""
    except Exception as bad:  # a mistake in the other version costs a case, not the process
        return "refusal", "runtime_error", f"{name} raises {type(bad).__name__}: {bad}", ""
