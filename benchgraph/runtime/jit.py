"""Emitted IR to code bound to a thread runtime."""

from __future__ import annotations

from collections.abc import Iterable

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.config import config
from benchgraph.core.target import Target
from benchgraph.runtime.code import Code, Unit, all_kept, link
from benchgraph.runtime.threads import runtime_symbol

__all__ = ["Code", "Unit", "bind", "jit"]


def jit(texts: Iterable[str], target: Target, runtime: str | None = None) -> Code:
    """Compile emitted IR; its parallel loops run on `target.cores` threads.

    runtime: auto, omp, threadpool or seq; None takes it from the configuration.
    """
    return bind(all_kept(texts, target.isa), target, runtime)


def bind(units: Iterable[Unit], target: Target, runtime: str | None = None) -> Code:
    """Link objects made of emitted IR to a thread runtime, as `jit` says."""
    kind = config().runtime if runtime is None else runtime
    return link(units, target.isa, {PARALLEL: runtime_symbol(kind, target.cores)}, target.cores)
