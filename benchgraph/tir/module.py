"""A partition in Tensor IR: its functions; passes run on each of them separately."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.ir import Func


@dataclass(frozen=True)
class Module:
    """main runs on every execution; init runs once for each set of constant weights, before main, and fills the constants (None: there are
    none)."""

    main: Func
    init: Func | None = None
