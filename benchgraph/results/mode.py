"""benchdnn's modes."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """What is done with a case (benchdnn's letters)."""

    list = "L"
    init = "I"
    run = "R"
    correctness = "C"
    bitwise = "B"
    performance = "P"
    fast_performance = "F"
    simulation = "S"

    @property
    def is_timed(self) -> bool:
        return self in (Mode.performance, Mode.fast_performance, Mode.simulation)
