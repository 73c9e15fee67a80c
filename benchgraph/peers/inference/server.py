"""A runtime's process, started by client.py, perhaps by another interpreter: standard library, numpy, one file of ours, and the session.

A session has a class Runtime(threads, variant) with `version` and `open`, which makes a File with `inputs`, `outputs` and `load`; that
makes a Model with `bind` and `profiled`. Ports are called by their positions among the file's inputs or outputs. Arrays have the dtypes of
the runtime's ports; elements of bfloat16, which numpy lacks, are the bits in uint16.
"""

from __future__ import annotations

import mmap
import os
import runpy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import recv_handle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

Ports: TypeAlias = Mapping[int, Sequence[int]]  # shapes by position
BITS = "bfloat16"
PLACES = ("Exception from ", "Check '")  # lines of messages that name places in a runtime's source
_CORE = Path(__file__).parents[2] / "core"  # of this version; the files are found by their paths
wait_until_idle = runpy.run_path(str(_CORE / "wait_idle.py"))["wait_until_idle"]
if TYPE_CHECKING:
    from benchgraph.core import serving
else:
    serving = SimpleNamespace(**runpy.run_path(str(_CORE / "serving.py")))


@dataclass(frozen=True)
class _Bound:
    """A model on arrays of this process. run: executes once, `run.collect` then completes the outputs."""

    model: Any
    inputs: dict[int, Any]
    outputs: dict[int, Any]
    run: Any


class Session:
    """The runtime, and its objects by number. Every public method is a request of library.py."""

    def __init__(self, runtime: Any, receive: Callable[[], int]) -> None:
        import numpy  # here, since an environment that lacks it is told from one that cannot start

        self._runtime, self._receive, self._np = runtime, receive, numpy
        self.objects = serving.Objects()
        self._window: mmap.mmap | bytearray = bytearray()

    def open(self, file: str) -> tuple[int, list[list[str]], list[list[str]]]:
        """Read a file. Returns: number, the names of each input and of each output, in order."""
        opened = self._runtime.open(file)
        return self.objects.keep(opened), list(opened.inputs), list(opened.outputs)

    def load(self, file: int, math: str, dtype: str, shapes: Ports) -> tuple[Any, ...]:
        """Returns: number, seconds, whether it came from a cache, settings, implementations."""
        m = self.objects[file].load(math, dtype, shapes)
        return self.objects.keep(m), m.seconds, m.is_warm, list(m.settings), list(m.implementations)

    def window(self, nbytes: int) -> None:
        """Map the shared memory; its descriptor follows on the pipe."""
        self._window = serving.mapped_window(self._receive, nbytes)

    def bind(self, model: int, inputs: Ports, outputs: Ports) -> int:
        """A model on new arrays."""
        m = self.objects[model]
        ins, outs = self._arrays(inputs, m.inputs), self._arrays(outputs, m.outputs)
        return self.objects.keep(_Bound(m, ins, outs, m.bind(ins, outs)))

    def _arrays(self, ports: Ports, dtypes: Sequence[str]) -> dict[int, Any]:
        return {port: self._np.zeros(shape, _numpy(dtypes[port])) for port, shape in ports.items()}

    def put(self, bound: int, port: int, dtype: str) -> None:
        """Copy the window's first elements, of this dtype, to an input."""
        b: _Bound = self.objects[bound]
        b.inputs[port][...] = self._shared(b.inputs[port], dtype, b.model.inputs[port])

    def get(self, bound: int, port: int, dtype: str) -> None:
        """Copy an output to the window, as elements of this dtype."""
        b: _Bound = self.objects[bound]
        self._shared(b.outputs[port], dtype, b.model.outputs[port])[...] = b.outputs[port]

    def _shared(self, array: Any, dtype: str, own: str) -> Any:
        """The window as an array of the same shape. Raises ValueError for what numpy cannot convert."""
        if dtype != own and BITS in (dtype, own):
            raise ValueError(f"its port is of {own}, where the case's is of {dtype}")
        return self._np.frombuffer(self._window, _numpy(dtype), array.size).reshape(array.shape)

    def execute(self, bound: int) -> None:
        run = self.objects[bound].run
        run()
        run.collect()

    def run(self, bound: int, times: int) -> float:
        """Execute so many times, one after the other. Returns the seconds, a call of Python's each in them. When this returns, idle threads
        sleep."""
        run = self.objects[bound].run
        started = time.perf_counter()
        for _ in range(times):
            run()
        seconds = time.perf_counter() - started
        wait_until_idle()
        return seconds

    def profile(self, bound: int) -> tuple[int, list[tuple[Any, ...]]] | None:
        """The model once more, with its profiler on. Returns its number and layers: (names of nodes, kind, implementation)."""
        b: _Bound = self.objects[bound]
        profiled = b.model.profiled(b.inputs, b.outputs)
        return None if profiled is None else (self.objects.keep(profiled), list(profiled.layers))

    def spans(self, profiled: int) -> list[tuple[int, float, float]]:
        """Execute once. Returns (layer, begin, end in seconds)."""
        found: list[tuple[int, float, float]] = self.objects[profiled].run()
        wait_until_idle()
        return found


def _numpy(dtype: str) -> str:
    return "uint16" if dtype == BITS else dtype


def main(pipe: int, parent: int, cpus: tuple[int, ...], file: str, threads: int, variant: str) -> None:
    """Serve until the parent closes the pipe or ends. cpus: the processors to run on. file: of the session."""
    serving.ignore_signals()
    with serving.attach(pipe, parent) as connection:
        if cpus:
            os.sched_setaffinity(0, cpus)
        try:
            runtime = runpy.run_path(file)["Runtime"](threads, variant)
        except ImportError as bad:
            connection.send(("refusal", "invalid_arguments", f"it cannot be imported: {_line(bad)}", ""))
            return
        session = Session(runtime, lambda: recv_handle(connection))
        connection.send(("answer", runtime.version))
        serving.serve(connection, partial(_answer, session))


def _answer(session: Session, forget: Iterable[int], name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    session.objects.forget(forget)
    try:
        return "answer", getattr(session, name)(*arguments)
    except MemoryError:
        return "refusal", "out_of_memory", f"no memory to {name} the model", ""
    except Exception as bad:  # what runtimes raise has no class in common
        is_refused = name in ("open", "load") or isinstance(bad, ValueError)
        return "refusal", "unimplemented" if is_refused else "runtime_error", _line(bad), ""


def _line(bad: Exception) -> str:
    """Its message in one line, without lines that only name places in the runtime's source."""
    lines = [line.strip() for line in str(bad).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(PLACES)) or type(bad).__name__
