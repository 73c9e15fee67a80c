"""Options of compiling a partition, other than the target machine."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Forced:
    """The schedule of a nest in place of the one of least cost, both as text: as in `gir.product_space` or `gir.windows`, and as
    in schedule/primitives.py. by: who says so, a tuning file or a machine table, for people."""

    nest: str
    schedule: str
    by: str = field(default="the options", compare=False)

    @property
    def why(self) -> str:
        return f"given by {self.by}"


@dataclass(frozen=True)
class Options:
    """off: switches (`core.passes.Pass.switch`) of the passes that are left out, sorted. forced: schedules by nest."""

    off: tuple[str, ...] = ()
    forced: tuple[Forced, ...] = ()


DEFAULT_OPTIONS = Options()
