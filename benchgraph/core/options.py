"""Options of compiling a partition, other than the target machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Forced:
    """Template parameters for one problem instead of the schedule's choice, see gir/parameters.py.

    problem: as in `gir.product.Product.problem`. mb, split_n and ns apply where the product's nest has no other products. ns: with panels
    first, columns of a task; else 0.
    """

    problem: str
    mb: int
    nb: int
    split_n: bool = False
    ns: int = 0


@dataclass(frozen=True)
class Options:
    """off: switches (`core.passes.Pass.switch`) of the passes that are left out, sorted. forced: parameters by problem."""

    off: tuple[str, ...] = ()
    forced: tuple[Forced, ...] = ()


DEFAULT_OPTIONS = Options()
