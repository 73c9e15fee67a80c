"""Times eager, inductor and this backend on the same models, interleaved, and prints a table.

A round times every contender once, in changing order, so that disturbances affect all of them. A sample is the mean of as many calls as
take about 10 ms. The table has the smallest sample, and the median with its distance from the smallest in percent, which shows a noisy
machine. Results are compared before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchgraph.core.errors import BenchgraphError
from benchgraph.core.formats import counted
from benchgraph.machine.target import cpu_name
from benchgraph.torch.backend import recorded
from benchgraph.torch.models import MODELS, example, make
from benchgraph.torch.program import Summary

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
CONTENDERS = ("eager", "inductor", "benchgraph")
SAMPLE_S = 0.01
ROUNDINGS = {"f32": 256, "bf16": 8}  # allowed difference from eager, in roundings of the largest value

Call = Callable[[], Tensor]


@dataclass(frozen=True)
class Line:
    """One model. seconds: the samples of each contender that ran; missing: why another did not."""

    model: str
    dtype: str
    batch: int
    summary: Summary
    seconds: Mapping[str, Sequence[float]]
    missing: Mapping[str, str]

    def cells(self) -> list[str]:
        """The model, what was offloaded, and the smallest sample and the median of each contender in ms."""
        s = self.summary
        cells = [self.model, self.dtype, str(self.batch), f"{len(s.offloaded)} / {s.total}", str(len(s.partitions))]
        for name in CONTENDERS:
            if times := self.seconds.get(name):
                least, middle = min(times), median(times)
                cells += [f"{least * 1e3:.3f}", f"{middle * 1e3:.3f} (+{(middle / least - 1) * 100:.0f}%)"]
            else:
                cells += ["n/a", "n/a"]
        return cells


def measure(model: str, dtype: str, batch: int, rounds: int, size: int | None = None) -> Line:
    """Run one model by every contender. size: of the model, by default the table's. Raises BenchgraphError for a wrong result."""
    size = size or MODELS[model].size
    module, x = make(model, size, DTYPES[dtype]), example(model, size, batch, DTYPES[dtype])
    calls: dict[str, Call] = {"eager": lambda: module(x)}
    missing = dict[str, str]()
    with torch.inference_mode(False), torch.no_grad():
        want = module(x)
        for name in ("inductor", "benchgraph"):
            torch._dynamo.reset()
            run = torch.compile(module, backend=name, dynamic=False)
            try:
                with recorded() as graphs:
                    got = run(x)
            except torch._dynamo.exc.BackendCompilerFailed as bad:
                if name == "benchgraph":
                    raise
                missing[name] = " ".join(str(bad).split("\n\n")[0].split())  # most likely there is no C++ compiler
                continue
            _check(f"{model} {dtype} {name}", got, want, ROUNDINGS[dtype])
            calls[name] = partial(run, x)
            summary = graphs[0] if graphs else None
        assert summary is not None, "our own backend compiles what the table has"
        return Line(model, dtype, batch, summary, _samples(calls, rounds), missing)


def _check(what: str, got: Tensor, want: Tensor, roundings: int) -> None:
    far = float((got.double() - want.double()).abs().max())
    near = roundings * torch.finfo(want.dtype).eps * float(want.double().abs().max())
    if not far <= near:
        raise BenchgraphError(f"it is off by {far:.3g}, at most {near:.3g} is rounding", where=what)


def _samples(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds per call, one sample of each contender per round."""
    often = {name: _often(call) for name, call in calls.items()}
    by_contender: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for at in range(rounds):
        for name in names[at % len(names) :] + names[: at % len(names)]:
            call, n = calls[name], often[name]
            call()  # reloads the caches
            begin = time.perf_counter()
            for _ in range(n):
                call()
            by_contender[name].append((time.perf_counter() - begin) / n)
    return by_contender


def _often(call: Call) -> int:
    call()
    begin = time.perf_counter()
    call()
    return max(1, int(SAMPLE_S / max(time.perf_counter() - begin, 1e-7)))


def render(lines: Sequence[Line]) -> Table:
    """The lines as a table, with the machine as its caption."""
    table = Table(caption=where(), caption_justify="left")
    for heading in ("model", "dtype", "batch", "ops offloaded", "partitions"):
        table.add_column(heading)
    for name in CONTENDERS:
        table.add_column(f"{name} min ms", justify="right")
        table.add_column("median ms", justify="right")
    for line in lines:
        table.add_row(*line.cells())
    return table


def where() -> str:
    return f"{cpu_name()}, {counted(torch.get_num_threads(), 'thread')}, PyTorch {torch.__version__}"


def show(lines: Sequence[Line], console: Console) -> None:
    console.print(render(lines))
    for line in lines:
        for name, reason in line.missing.items():
            console.print(f"{line.model} {line.dtype}: no {name}: {reason}", markup=False)
        for node, reason in line.summary.fallbacks.items():
            console.print(f"{line.model} {line.dtype}: {node} is left to PyTorch: {reason}", markup=False)
