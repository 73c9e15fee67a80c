"""A partition in Tensor IR: its functions, which passes go through one at a time."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.tir.ir import Func


@dataclass(frozen=True)
class Module:
    """main runs on every execution; init runs once, before the first, and fills the cached constants (None: there are none)."""

    main: Func
    init: Func | None = None

    @property
    def functions(self) -> tuple[Func, ...]:
        """main, and init if there is one."""
        return (self.main,) if self.init is None else (self.main, self.init)
