"""How a partition is compiled, besides for which machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """off: the switches (`core.passes.Pass.switch`) of the passes that are left out, sorted."""

    off: tuple[str, ...] = ()


DEFAULT_OPTIONS = Options()
