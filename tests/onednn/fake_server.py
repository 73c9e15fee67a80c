"""A process that answers as benchgraph/onednn/server.py does, without oneDNN: for machines that have none.

It makes a partition of every op, and executing one doubles its first input, f32, dense. An op's name says what else to do.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from benchgraph.core.serving import attach
from benchgraph.onednn.messages import Compiled, Graph, Hello, Part, Placed, Step, Tensor

VERSION = (3, 5, 1)
MISDEEDS = {"Exp": signal.SIGSEGV, "Log": signal.SIGABRT}  # kinds that kill the process when they are compiled


class Session:
    def __init__(self, connection: Connection) -> None:
        self.connection, self.parts, self.compiled, self.buffers = connection, {}, {}, {}
        self.count, self.window_memory, self.forgotten, self.flushes = 0, None, set(), 0

    def number(self) -> int:
        self.count += 1
        return self.count

    def flush(self) -> None:
        self.flushes += 1

    def partition(self, graph: Graph, policy: int) -> list[Part]:
        found = []
        for op in graph.ops:
            part = Part(self.number(), (op.id,), tuple({t.id: 0 for t in op.inputs}), tuple(t.id for t in op.outputs), op.name != "Pow")
            self.parts[part.number] = op
            found.append(part)
        return found

    def compile(self, part: int, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Compiled | None:
        name = self.parts[part].name
        if name in MISDEEDS:
            if MISDEEDS[name] is signal.SIGABRT:  # as the C++ runtime ends a process
                print("terminate called after throwing an instance of 'dnnl::error'", file=sys.stderr)
                print("  what():  no luck. Call for help.", file=sys.stderr, flush=True)
            os.kill(os.getpid(), MISDEEDS[name])
        if name == "Sqrt":
            return None
        sides = [tuple(Placed(t, 4 * _elements(t)) for t in side) for side in (inputs, outputs)]
        inplace = ((inputs[0].id, outputs[0].id),)
        made = self.compiled[self.count + 1] = Compiled(self.number(), 0.25, sides[0], sides[1], inplace)
        return made

    def window(self, nbytes: int) -> None:
        self.window_memory = mmap.mmap(recv_handle(self.connection), nbytes)

    def allocate(self, nbytes: int) -> int:
        number = self.number()
        self.buffers[number] = bytearray(nbytes)
        return number

    def put(self, buffer: int, nbytes: int) -> None:
        self.buffers[buffer][:nbytes] = self.window_memory[:nbytes]

    def get(self, buffer: int, nbytes: int) -> None:
        self.window_memory[:nbytes] = bytes(self.buffers[buffer][:nbytes])

    def execute(self, step: Step) -> None:
        source, target = self.buffers[step.inputs[0]], self.buffers[step.outputs[0]]
        n = min(len(source), len(target)) // 4
        values = (ctypes.c_float * n).from_buffer(source)
        target[: 4 * n] = bytes((ctypes.c_float * n)(*(2 * v for v in values)))

    def chain(self, steps: tuple[Step, ...]) -> int:
        number = self.number()
        self.compiled[number] = steps
        return number

    def run(self, chain: int, times: int) -> float:
        for _ in range(times):
            for step in self.compiled[chain]:
                self.execute(step)
        return 0.001 * times * len(self.compiled[chain])

    def census(self) -> tuple[int, int]:
        """(buffers alive, flushes)"""
        return len(self.buffers), self.flushes


def _elements(t: Tensor) -> int:
    n = 1
    for d in t.dims:
        n *= d
    return n


def main(pipe: int, parent: int, path: str, threads: int) -> None:
    with suppress(EOFError, BrokenPipeError), attach(pipe, parent) as connection:
        code = connection.recv()
        assert isinstance(code, bytes)
        connection.send(("answer", Hello(VERSION, "OMP", path)))
        session = Session(connection)
        while True:
            forget, name, arguments = connection.recv()
            for number in forget:
                session.buffers.pop(number, None)
            value = getattr(session, name)(*arguments)
            is_refused = name == "compile" and value is None
            connection.send(("refusal", "invalid_shape", "compiling the partition", "") if is_refused else ("answer", value))
