"""How a partition is compiled, besides for which machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Forced:
    """Template parameters that take the place of the schedule's choice for one problem, see gir/parameters.py.

    problem: as `gir.product.Product.problem` spells it. mb and split_n hold where the product has a nest without other products.
    """

    problem: str
    mb: int
    nb: int
    split_n: bool = False


@dataclass(frozen=True)
class Options:
    """off: the switches (`core.passes.Pass.switch`) of the passes that are left out, sorted. forced: parameters by problem."""

    off: tuple[str, ...] = ()
    forced: tuple[Forced, ...] = ()


DEFAULT_OPTIONS = Options()
