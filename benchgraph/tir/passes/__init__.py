"""The Tensor IR pipeline: one tuple, and the one loop that runs it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchgraph.core.config import config
from benchgraph.core.target import Target
from benchgraph.tir.ir import Func, Module
from benchgraph.tir.passes.flatten_index import FLATTEN_INDEX
from benchgraph.tir.passes.merge_parallel import MERGE_PARALLEL
from benchgraph.tir.passes.order import Pass, check_order
from benchgraph.tir.passes.plan_buffers import PLAN_BUFFERS, PlanReport, plan_report
from benchgraph.tir.passes.shrink_tensors import SHRINK_TENSORS
from benchgraph.tir.passes.simplify import SIMPLIFY
from benchgraph.tir.passes.vectorize import VECTORIZE
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import VerifyError, verify

__all__ = ["PIPELINE", "Pass", "PlanReport", "check_order", "plan_report", "run", "run_func"]

PIPELINE: tuple[Pass, ...] = (SIMPLIFY, MERGE_PARALLEL, SHRINK_TENSORS, FLATTEN_INDEX, PLAN_BUFFERS, VECTORIZE, SIMPLIFY)

Observer = Callable[[str, Func], None]


def run(module: Module, target: Target, observer: Observer | None = None, pipeline: Sequence[Pass] = PIPELINE) -> Module:
    """Optimise every function of a module.

    observer(pass name, function) is called after each pass, changed or not: dumps and timers hang there. pipeline: a slice of PIPELINE.
    """
    init = None if module.init is None else run_func(module.init, target, observer, pipeline)
    main = run_func(module.main, target, observer, pipeline)
    return module if main is module.main and init is module.init else replace(module, main=main, init=init)


def run_func(f: Func, target: Target, observer: Observer | None = None, pipeline: Sequence[Pass] = PIPELINE) -> Func:
    """The same for one function. Verifies, prints and times as the configuration asks; no pass does any of these."""
    flags = config()
    if flags.verify:
        verify(f)
    for p in pipeline:
        start = time.perf_counter_ns()
        before, f = f, p.fn(f, target)
        elapsed_ms = (time.perf_counter_ns() - start) / 1e6
        if flags.verify >= 2:
            _verify_after(p, f)
        if flags.debug >= 2:
            print(f"tir: {f.name}: {p.name}: {elapsed_ms:.2f} ms{'' if f is not before else ', no change'}", file=sys.stderr)
        if p.name in flags.print_after or "all" in flags.print_after:
            print(f"; after {p.name}\n{print_tir(f)}\n", file=sys.stderr)
        if observer is not None:
            observer(p.name, f)
    if flags.verify == 1:
        verify(f)
    return f


def _verify_after(p: Pass, f: Func) -> None:
    try:
        verify(f)
    except VerifyError as bad:
        raise bad.inside(f"after pass {p.name}") from bad
