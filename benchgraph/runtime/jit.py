"""Emitted IR to code bound to a thread runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.config import config
from benchgraph.core.errors import NO_THREAD
from benchgraph.core.target import Target
from benchgraph.runtime.code import Code, Unit, all_kept, link
from benchgraph.runtime.threads import runtime_symbol

__all__ = ["Code", "Unit", "bind", "binding", "jit"]


def jit(texts: Iterable[str], target: Target, runtime: str | None = None) -> Code:
    """Compile emitted IR; its parallel loops run on `target.cores` threads.

    runtime: auto, omp, threadpool or seq; None takes it from the configuration.
    """
    return bind(all_kept(texts, target.isa), target, runtime)


def bind(units: Iterable[Unit], target: Target, runtime: str | None = None) -> Code:
    """Link objects made of emitted IR to a thread runtime, as `jit` says."""
    return link(units, target.isa, _symbols(target, runtime), target.cores)


@contextmanager
def binding(target: Target) -> Iterator[Callable[[Iterable[Unit]], Code]]:
    """`bind` for units that the block makes. Meanwhile the thread runtime is got ready: the first in a process takes LLVM 5 to 10 ms."""
    with ThreadPoolExecutor(1) as beside:
        symbols: Callable[[], dict[str, int]]
        try:
            symbols = beside.submit(copy_context().run, _symbols, target).result
        except NO_THREAD:
            symbols = partial(_symbols, target)
        yield lambda units: link(units, target.isa, symbols(), target.cores)


def _symbols(target: Target, runtime: str | None = None) -> dict[str, int]:
    return {PARALLEL: runtime_symbol(config().runtime if runtime is None else runtime, target.cores)}
