"""Emitted IR to code linked to a thread runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.config import config
from benchgraph.core.errors import NO_THREAD
from benchgraph.machine.target import Target
from benchgraph.runtime.code import Code, Unit, all_kept, link
from benchgraph.runtime.threads import runtime_symbol


def jit(texts: Iterable[str], target: Target, runtime: str | None = None) -> Code:
    """Compile emitted IR; its parallel loops run on `target.cores` threads.

    runtime: auto, omp, threadpool or seq; None takes it from the configuration.
    """
    return link_to_runtime(all_kept(texts, target.isa), target, runtime)


def link_to_runtime(units: Iterable[Unit], target: Target, runtime: str | None = None) -> Code:
    """Link objects of emitted IR to a thread runtime, as in `jit`."""
    return link(units, target.isa, _symbols(target, runtime), target.cores)


@contextmanager
def prepared_linker(target: Target) -> Iterator[Callable[[Iterable[Unit]], Code]]:
    """`link_to_runtime` for units that the block makes, while a thread prepares the runtime: the first in a process takes 5 to 10 ms."""
    with ThreadPoolExecutor(1) as executor:
        symbols: Callable[[], dict[str, int]]
        try:
            symbols = executor.submit(copy_context().run, _symbols, target).result
        except NO_THREAD:
            symbols = partial(_symbols, target)
        yield lambda units: link(units, target.isa, symbols(), target.cores)


def _symbols(target: Target, runtime: str | None = None) -> dict[str, int]:
    return {PARALLEL: runtime_symbol(config().runtime if runtime is None else runtime, target.cores)}
