"""Emitted IR to code bound to a thread runtime."""

from __future__ import annotations

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core.config import config
from benchgraph.core.target import Target
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.threads import runtime_symbol

__all__ = ["Code", "jit"]


def jit(text: str, target: Target, runtime: str | None = None) -> Code:
    """Compile emitted IR; its parallel loops run on `target.cores` threads.

    runtime: auto, omp, threadpool or seq; None takes it from the configuration.
    """
    kind = config().runtime if runtime is None else runtime
    return load(text, target.isa, {PARALLEL: runtime_symbol(kind, target.cores)}, target.cores)
