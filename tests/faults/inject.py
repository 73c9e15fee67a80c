"""Putting one named mistake into the compiler, and running a case through mode C with it.

A fault is a function that changes what the compiler has made: a Graph IR graph or a Tensor IR function as some pass leaves it, or one
function of code generation or of the runtime. Everything else is the product: the driver, the harness, every other pass, the machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pytest

from benchgraph import compile as compiler
from benchgraph.core.config import override
from benchgraph.core.passes import Pass
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.harness.case import run_case
from benchgraph.machine.target import Target
from benchgraph.options.argv import parse
from benchgraph.results.result import Result
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import Func

T = TypeVar("T")

RATES = "zen4"  # the machine table by which schedules are chosen


@dataclass
class Traces:
    """What shows that a fault was there: how often it changed something, and the LLVM IR that came out."""

    fired: int = 0
    programs: list[str] = field(default_factory=list)


Install = Callable[[pytest.MonkeyPatch, Traces], None]


@dataclass(frozen=True)
class Fault:
    """case: file under inputs/graph for which it matters; options: how to run it.

    in_program: the LLVM IR shows it. The runtime's code and tables of constants are not in there.
    """

    name: str
    case: str
    install: Install
    in_program: bool = True
    options: tuple[str, ...] = ()


FAULTS: dict[str, Fault] = {}


def _register(name: str, case: str, install: Install, *, in_program: bool = True, options: tuple[str, ...] = ()) -> None:
    assert name not in FAULTS, name
    FAULTS[name] = Fault(name, case, install, in_program, options)


def in_graph(case: str, after: str, *, in_program: bool = True) -> Callable[[Callable[[Graph], Graph]], None]:
    """Register a rewrite of Graph IR, as the pass `after` leaves it; '' is before all passes."""

    def register(rewrite: Callable[[Graph], Graph]) -> None:
        def install(patch: pytest.MonkeyPatch, traces: Traces) -> None:
            patch.setattr(gir_passes, "PIPELINE", _with_fault(gir_passes.PIPELINE, after, rewrite, traces))

        _register(rewrite.__name__, case, install, in_program=in_program)

    return register


def in_loops(case: str, after: str, *, options: tuple[str, ...] = ()) -> Callable[[Callable[[Func], Func]], None]:
    """Register a rewrite of the Tensor IR of `main`, as the pass `after` leaves it."""

    def register(rewrite: Callable[[Func], Func]) -> None:
        def on_main(f: Func) -> Func:
            return f if f.runs_once else rewrite(f)

        def install(patch: pytest.MonkeyPatch, traces: Traces) -> None:
            pipeline = _with_fault(tir_passes.PIPELINE, after, on_main, traces)
            patch.setattr(tir_passes, "run", partial(tir_passes.run, pipeline=pipeline))

        _register(rewrite.__name__, case, install, options=options)

    return register


def in_place_of(
    function: str, case: str, *, in_program: bool = True, options: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], None]:
    """Register a stand-in for one function, given by its dotted name."""

    def register(stand_in: Callable[..., Any]) -> None:
        def install(patch: pytest.MonkeyPatch, traces: Traces) -> None:
            def counted(*args: Any, **keywords: Any) -> Any:
                traces.fired += 1
                return stand_in(*args, **keywords)

            patch.setattr(function, counted)

        _register(stand_in.__name__, case, install, in_program=in_program, options=options)

    return register


def _with_fault(pipeline: tuple[Pass[T], ...], after: str, rewrite: Callable[[T], T], traces: Traces) -> tuple[Pass[T], ...]:
    """The pipeline with one pass more, behind the first of the name `after`."""

    def fault(ir: T, target: Target) -> T:
        changed = rewrite(ir)
        traces.fired += changed != ir
        return changed

    at = 0 if not after else [p.name for p in pipeline].index(after) + 1
    return (*pipeline[:at], Pass("fault", fault), *pipeline[at:])


@contextmanager
def _traced(fault: Fault | None) -> Iterator[Traces]:
    traces, emit = Traces(), compiler.emit

    def noted(functions: Iterable[Func], target: Target, *, is_profiled: bool = False) -> Iterator[str]:
        for text in emit(functions, target, is_profiled=is_profiled):
            traces.programs.append(text)
            yield text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "emit", noted)
        if fault is not None:
            fault.install(patch, traces)
        yield traces


def run(case: str, options: tuple[str, ...] = (), fault: Fault | None = None) -> tuple[Result, Traces]:
    """The case's result in mode C, as from the command line, with the fault in the compiler. Tasks and blocks depend on the number of
    threads and on the machine's rates, which are the same everywhere."""
    (problem,) = parse(["--graph", "--threads=4", *options, f"--case={case}"]).problems
    with override(machine_table=RATES), _traced(fault) as traces:
        return run_case(problem, Bench(), print).result, traces
