"""Emitted IR to code bound to a thread runtime."""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.config import config
from benchgraph.core.target import Target
from benchgraph.runtime.code import Code, kept, link
from benchgraph.runtime.threads import runtime_symbol

__all__ = ["Code", "bind", "jit"]


def jit(text: str, target: Target, runtime: str | None = None) -> Code:
    """Compile emitted IR; its parallel loops run on `target.cores` threads.

    runtime: auto, omp, threadpool or seq; None takes it from the configuration.
    """
    return bind(kept(text, target.isa), lambda: text, target, runtime)


def bind(object: bytes, source: Callable[[], str], target: Target, runtime: str | None = None) -> Code:
    """Link an object made of emitted IR, which source gives, to a thread runtime, as `jit` says."""
    kind = config().runtime if runtime is None else runtime
    return link(object, source, target.isa, {PARALLEL: runtime_symbol(kind, target.cores)}, target.cores)
