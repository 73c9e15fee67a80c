"""A library under test that does, while it compiles ops of certain names, what a bug in native code may do to a process.

For whole runs in processes of their own: `BENCH` is made of functions, which are found there by name.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchgraph.core.config import config
from benchgraph.graph import GraphBuilder, save
from benchgraph.harness.bench import Bench
from benchgraph.machine.target import ISAS, current
from benchgraph.partition.ir import Partition
from benchgraph.runtime.code import load
from tests.support.fake_library import FASTER, PEAK, Clock, Compiled, FakeLibrary, FakeProbe, bandwidth

GIB = 1 << 30
FREE_BYTES = 3 * GIB  # what the bench says is free: a worker of two may use 1.35 GiB, one alone 2.7


def _segfault() -> None:
    ctypes.string_at(0)


def _abort() -> None:
    os.abort()


def _loop() -> None:
    while True:
        time.sleep(0.001)  # what waits for its end is to have the processor


def _native_hang() -> None:
    ir = "declare i32 @pause()\ndefine void @hang() {\n  br label %again\nagain:\n  call i32 @pause()\n  br label %again\n}"
    code = load(ir, ISAS["portable"], {})
    hang = ctypes.CFUNCTYPE(None)(code.address("hang"))
    os.write(1, b"hangs\n")
    hang()


def _terabyte() -> None:
    np.empty(1 << 40, np.uint8)


def _more_than_a_share() -> None:
    np.empty(2 * GIB, np.uint8)


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leaves() -> None:
    sys.exit(3)


def _closes_its_pipe() -> None:
    os.closerange(3, 1000)
    _loop()


def _writes() -> None:
    for n in range(50):
        os.write(1, f"out {n} of {os.getpid()}\n".encode())
        os.write(2, f"err {n} of {os.getpid()}\n".encode())
        time.sleep(0.001)


def _naps() -> None:
    time.sleep(0.3)


def _starts_a_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], stdin=subprocess.DEVNULL)
    print(f"started {child.pid}")
    _loop()


def _says_its_threads() -> None:
    print(f"{current().cores} threads")
    print(f"compiled by {config().compile_jobs} processes")


def _says_its_process() -> None:
    print(f"process {os.getpid()}")


def _dies_afterwards() -> None:
    def die() -> None:
        time.sleep(0.1)
        os._exit(7)

    threading.Thread(target=die, daemon=True).start()


_ACTS: tuple[Callable[[], None], ...] = (
    *(_segfault, _abort, _loop, _native_hang, _terabyte, _more_than_a_share, _killed, _leaves, _closes_its_pipe, _writes),
    *(_starts_a_process, _says_its_threads, _says_its_process, _dies_afterwards, _naps),
)
ACTS = {act.__name__.strip("_"): act for act in _ACTS}


class Misbehaving(FakeLibrary):
    def compile(self, partition: Partition) -> Compiled:
        for op in partition.ops:
            ACTS.get(op.name, lambda: None)()
        return super().compile(partition)


CLOCK = Clock()


def clock() -> float:
    return CLOCK()


def library(name: str) -> Misbehaving:
    return Misbehaving(CLOCK)


def probe(threads: int, arithmetic: str) -> FakeProbe:
    return FakeProbe(threads * FASTER[arithmetic] * PEAK)


def kernel(arithmetic: str) -> FakeProbe:
    return FakeProbe(FASTER[arithmetic] * PEAK)


def free_bytes() -> int:
    return FREE_BYTES


BENCH = Bench(clock, library, probe, kernel, free_bytes, bandwidth)


def write_cases(folder: Path) -> None:
    """good.json, and a file per act: segfault.json and so on."""
    for name in ("good", *ACTS):
        b = GraphBuilder()
        b.op("ReLU", b.input((16,)), name=name)
        save(b.graph(), folder / f"{name}.json")
