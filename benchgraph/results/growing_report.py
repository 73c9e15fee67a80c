"""A JSON report that grows while a run lasts, for --resume and --history."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchgraph.results.json_report import head, line, opened, render, tail, write_whole
from benchgraph.results.machine import Machine
from benchgraph.results.result import CaseResult, ResultSet, placed, summary


class GrowingReport:
    """A JSON report to which cases are appended, and which is valid JSON after each.

    The next case and a new last line replace the last line, in one write. For the first case of a machine that the report does not know
    yet the whole file is written anew, since its head has the machines: they are few, and come early.
    """

    def __init__(self, path: Path, begun: ResultSet) -> None:
        """Write the present results. Raises OSError."""
        text = render(begun)
        write_whole(path, text)
        self._path, self._without_cases = path, replace(begun, cases=())
        self._machines = begun.named_machines
        self._file = path.open("r+b", buffering=0)
        self._counts = begun.counts
        self._tail = tail(begun.elapsed_s, begun.summary).encode()
        self._start = len(opened(head(begun)).encode())  # of the first case
        self._end = len(text.encode()) - len(self._tail)  # of the last case

    def add(self, case: CaseResult, elapsed_s: float) -> None:
        """Append a case. Raises OSError, and leaves the report as it was."""
        (case,) = placed([case], self._without_cases, self._without_cases.machine)
        if case.machine is not None and case.machine.key not in self._machines:
            self._add_machine(case.machine)
        added = f"{',' if self._counts else ''}\n{line(case)}".encode()
        counts = self._counts + Counter([case.result.status])
        last = tail(elapsed_s, summary(counts)).encode()
        try:
            self._write(added + last)  # in one write, which is longer than the last line that it replaces
        except OSError:
            self._write(self._tail)  # if there is room for it
            self._file.truncate(self._end + len(self._tail))
            raise
        self._counts, self._tail, self._end = counts, last, self._end + len(added)

    def _add_machine(self, machine: Machine) -> None:
        """Give the head one more machine. Raises OSError, and leaves the report as it was."""
        machines = self._machines | {machine.key: machine}
        start = opened(head(self._without_cases, machines)).encode()
        cases = os.pread(self._file.fileno(), self._end - self._start, self._start)
        write_whole(self._path, (start + cases + self._tail).decode())
        self.close()
        self._file = self._path.open("r+b", buffering=0)
        self._machines, self._start, self._end = machines, len(start), len(start) + len(cases)

    def _write(self, data: bytes) -> None:
        """Write after the last case. A nearly full disk takes only a part of the data, and fails at the next write."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._file.fileno(), data[done:], self._end + done)

    def close(self) -> None:
        self._file.close()
