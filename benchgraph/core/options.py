"""Options of compiling a partition, other than the target machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Forced:
    """The schedule of a nest in place of the one of least cost, both as text: as in `gir.product.Product.text` or `gir.windows`, and as in
    schedule/primitives.py. Where a product's nest has other products, only the columns of its calls apply."""

    nest: str
    schedule: str


@dataclass(frozen=True)
class Options:
    """off: switches (`core.passes.Pass.switch`) of the passes that are left out, sorted. forced: schedules by nest."""

    off: tuple[str, ...] = ()
    forced: tuple[Forced, ...] = ()


DEFAULT_OPTIONS = Options()
