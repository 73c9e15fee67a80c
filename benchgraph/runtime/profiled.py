"""Executables of code that reads the clock between the statements of main (codegen/clock_readings.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.clock_readings import BEGIN, BUSY, END, FIELDS, timed_statements
from benchgraph.core.layers import CALLER, Span
from benchgraph.runtime.checks import address
from benchgraph.runtime.executable import Bound, Executable
from benchgraph.tir.ir import Stmt

NS = 1e-9


class ProfiledExecutable(Executable):
    """An Executable whose Bounds know when each statement of main ran."""

    @property
    def _bound(self) -> type[Bound]:
        return ProfiledBound

    @property
    def statements(self) -> tuple[Stmt, ...]:
        """Those whose times it tells."""
        return timed_statements(self.module.main)


class ProfiledBound(Bound):
    """readings: i64[1 + threads, statements, 3], of the latest execution."""

    def __init__(self, executable: Executable, *rest: Any) -> None:
        super().__init__(executable, *rest)
        shape = 1 + executable.code.threads, len(timed_statements(executable.module.main)), FIELDS
        self.readings: NDArray[np.int64] = np.zeros(shape, np.int64)
        self._argv = (ctypes.c_void_p * (len(self._argv) + 1))(*self._argv, address(self.readings))
        self._argument = ctypes.c_void_p(ctypes.addressof(self._argv))

    def __call__(self) -> None:
        self.readings[...] = 0
        super().__call__()

    def spans(self, layer_of: Sequence[int]) -> Iterator[Span]:
        """Of the latest execution: for every statement, whose layer is given, the caller's, then those of the threads at work on it."""
        caller, *threads = self.readings.tolist()
        begin = caller[0][BEGIN]
        for statement, layer in enumerate(layer_of):
            end = caller[statement][END]
            yield Span(layer, begin * NS, end * NS, CALLER)
            for thread, readings in enumerate(threads):
                first, last, busy = (readings[statement][field] for field in (BEGIN, END, BUSY))
                if last:
                    yield Span(layer, first * NS, last * NS, thread, busy * NS)
            begin = end
