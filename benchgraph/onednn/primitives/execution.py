"""Steps bound to arrays: each alone, and a graph's as a chain whose values stay in oneDNN's process, in the layouts of its primitives.

Steps that numpy executes cut the chain into segments. What they read is copied from that process, what they write is copied there; the time
of a chain is that of its segments, by each one's clock, without these copies.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from benchgraph.core.arrays import Array
from benchgraph.core.implementation import Implementation, counted
from benchgraph.core.tensor import LogicalTensor
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.library.remote import Buffer, Remote, buffer_for
from benchgraph.onednn.client import Process
from benchgraph.onednn.primitives import in_numpy
from benchgraph.onednn.primitives.messages import Border, Built, Program, ProgramStep
from benchgraph.onednn.primitives.step import Step, view
from benchgraph.partition.ir import Partition


def _numpy(step: Step) -> tuple[Implementation, ...]:
    return (Implementation(step.anchor.kind, "numpy:ref"),)


@dataclass(frozen=True)
class Compiled:
    """A step, compiled. items: its primitives, () if numpy executes it; built: them as a program of their own, on plain tensors.

    kept: ids of its outputs that are the graph's.
    """

    process: Process
    partition: Partition
    step: Step
    kept: frozenset[int]
    items: tuple[ProgramStep, ...] = ()
    built: Built | None = None
    remote: Remote | None = None

    @property
    def compile_s(self) -> float:
        return self.built.seconds if self.built else 0.0

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        return counted(pair for pairs in self.built.implementations for pair in pairs) if self.built else _numpy(self.step)

    @property
    def is_warm(self) -> bool:
        """There is no disk cache."""
        return False

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        ports = (*self.partition.inputs, *self.partition.outputs)
        return Bound(self, {t.id: array for t, array in zip(ports, (*inputs, *outputs), strict=True)})


def program(
    items: Sequence[ProgramStep], inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], between: Sequence[LogicalTensor] = ()
) -> Program:
    """Steps between plain tensors. between: the tensors that pass from one to another."""
    ins = tuple(Border(t.id, view(t), is_constant=t.is_constant) for t in inputs)
    outs = tuple(Border(t.id, view(t), is_output=True) for t in outputs)
    return Program((*ins, *outs), tuple(items), tuple((t.id, view(t)) for t in between))


class Bound:
    """A step on arrays of ours, by tensor id; each call copies them there and back."""

    def __init__(self, compiled: Compiled, arrays: dict[int, Array]) -> None:
        self.compiled, self.arrays = compiled, arrays
        self._segment: Segment | None = None

    def __call__(self) -> None:
        if self._segment is None:
            self._segment = segment([self], *_borders([self]), self.compiled)
        self._segment.put()
        self._segment.run(1)
        self._segment.get()


def _borders(steps: Sequence[Bound]) -> tuple[list[LogicalTensor], list[LogicalTensor]]:
    """What the steps read from outside, and all that they write."""
    partitions = [s.compiled.partition for s in steps]
    outputs = {t.id: t for p in partitions for t in p.outputs}
    return list({t.id: t for p in partitions for t in p.inputs if t.id not in outputs}.values()), list(outputs.values())


class Segment(Protocol):
    """Steps that are executed in one process, between tensors with arrays of ours. implementations: of each step."""

    implementations: tuple[tuple[Implementation, ...], ...]

    def put(self) -> None:
        """Pass the inputs; outputs too, so that elements that are not written keep their values."""

    def run(self, times: int) -> float:
        """Execute so many times. Returns the seconds."""

    def get(self) -> None:
        """Fetch the outputs."""


class InNumpy:
    """Steps that numpy executes on the arrays themselves, so that nothing is passed."""

    def __init__(self, steps: Sequence[Bound]) -> None:
        self._steps = tuple(steps)
        self.implementations = tuple(_numpy(step.compiled.step) for step in steps)

    def run(self, times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            for step in self._steps:
                op = step.compiled.step.anchor
                in_numpy.execute(op, [step.arrays[t.id] for t in op.inputs], [step.arrays[t.id] for t in op.outputs])
        return time.perf_counter() - started

    def put(self) -> None:
        pass

    def get(self) -> None:
        pass


class Native:
    """A program on buffers of oneDNN's process. built: if it has been built already."""

    def __init__(
        self, steps: Sequence[Bound], inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], built: Compiled | None
    ) -> None:
        process = self._process = steps[0].compiled.process
        arrays = {id: array for step in steps for id, array in step.arrays.items()}
        self._inputs, self._outputs = [(t, arrays[t.id]) for t in inputs], [(t, arrays[t.id]) for t in outputs]
        self._buffers: dict[int, Buffer] = {t.id: buffer_for(process, array, t.nbytes) for t, array in (*self._inputs, *self._outputs)}
        if built is not None and built.built is not None and built.remote is not None:
            self.built, self._executable = built.built, built.remote
        else:
            items = [item for step in steps for item in step.compiled.items]
            written = {t.id: t for step in steps for t in step.compiled.partition.outputs if t.id not in {o.id for o in outputs}}
            self.built = process.ask("build", program(items, inputs, outputs, list(written.values())))
            self._executable = Remote(process, self.built.number)
        made = iter(self.built.implementations)
        self.implementations = tuple(counted(pair for _ in step.compiled.items for pair in next(made)) for step in steps)
        numbers = {id: buffer.number for id, buffer in self._buffers.items()}
        self._remote = Remote(process, process.ask("bind", self.built.number, numbers))

    def put(self) -> None:
        for t, array in (*self._inputs, *self._outputs):
            self._buffers[t.id].put(array, t)

    def get(self) -> None:
        for t, array in self._outputs:
            self._buffers[t.id].get(array, t)

    def run(self, times: int) -> float:
        seconds: float = self._process.ask("run_program", self._remote.number, times)
        return seconds


def segment(
    steps: Sequence[Bound], inputs: Sequence[LogicalTensor], outputs: Sequence[LogicalTensor], built: Compiled | None = None
) -> Segment:
    return InNumpy(steps) if steps[0].compiled.step.reason else Native(steps, inputs, outputs, built)


class Chain:
    """Bound steps in order."""

    def __init__(self, steps: Sequence[Bound]) -> None:
        self._steps, self._is_filled = tuple(steps), False
        if len(steps) == 1:
            self._segments = [segment(steps, *_borders(steps), steps[0].compiled)]
        else:
            self._segments = list(self._cut())
        for each in self._segments:
            each.put()

    def _cut(self) -> Iterator[Segment]:
        groups = [list(group) for _, group in groupby(self._steps, key=lambda s: bool(s.compiled.step.reason))]
        read = [{t.id for s in group for t in s.compiled.partition.inputs} for group in groups]
        inside = set[int]().union(*read)
        for n, group in enumerate(groups):
            later = set[int]().union(*read[n + 1 :])
            inputs, outputs = _borders(group)
            kept = set[int]().union(*(s.compiled.kept for s in group))
            yield segment(group, inputs, [t for t in outputs if t.id in later | kept or t.id not in inside])

    @property
    def implementations(self) -> tuple[tuple[Implementation, ...], ...]:
        return tuple(ran for each in self._segments for ran in each.implementations)

    @property
    def constants(self) -> Sequence[Array]:
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """How many primitives and reorders it is; what its time is if numpy takes part."""
        native = [s.built for s in self._segments if isinstance(s, Native)]
        counts = sum(b.primitives for b in native), sum(b.reorders for b in native), sum(b.prepared for b in native)
        found = "{} primitives, {} reorders between them; {} executions prepare constants, once".format(*counts)
        if len(native) == len(self._segments):
            return (found,)
        return found, "the time is that of oneDNN's and numpy's parts together, without copies between the processes"

    def run(self, times: int) -> float:
        """Execute all steps in order, so many times. Returns the seconds of the segments.

        Before the first time, each of several steps is executed on its own, to fill the values between them.
        """
        if len(self._steps) > 1 and not self._is_filled:
            for step in self._steps:
                step()
        self._is_filled = True
        wait_until_idle()
        if len(self._segments) == 1:
            return self._segments[0].run(times)
        seconds = 0.0
        for _ in range(times):
            for each in self._segments:
                each.put()
                seconds += each.run(1)
                each.get()
        return seconds
