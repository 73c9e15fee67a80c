"""The legal numbers of attributes, as data of a row's schema."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from benchgraph.core.dtypes import DType


@dataclass(frozen=True)
class Range:
    """The legal numbers of an attribute, or of each element of a list: from least to most, both included.

    description: in words, such as `finite numbers above 0`. has_nan: NaN is legal too. has_zero False: 0 is not.
    """

    least: float
    most: float
    description: str
    has_nan: bool = False
    has_zero: bool = True

    def fix(self, number: float) -> str:
        """The remedy for an illegal number."""
        is_long = isinstance(self.most, int) and number > self.most
        return f"give it {self.description}" + (f", {self.most} at most" if is_long else "")

    def holds(self, number: float) -> bool:
        """Whether the number is legal. An integer may have any number of digits."""
        if number != number:
            return self.has_nan
        return self.least <= number <= self.most and (self.has_zero or number != 0)


_LEAST, _MOST = DType.f32.range
_BEYOND = _MOST + 2.0**103  # half a step further: from here on f32 rounds to infinity
SIZE = 2**31 - 1  # the largest window, step or pad

ANY_REAL = Range(-inf, inf, "numbers of f32", has_nan=True)
REAL = Range(-inf, inf, "numbers, of which NaN is none")
FINITE = Range(_LEAST, _MOST, "finite numbers")
FINITE_NOT_ZERO = Range(_LEAST, _MOST, "finite numbers other than 0, as f32 has them", has_zero=False)
FINITE_NOT_NEGATIVE = Range(0.0, _MOST, "finite numbers of 0 or more")
POSITIVE = Range(DType.f32.least_subnormal, _MOST, "finite numbers above 0, as f32 has them")
SHARE = Range(0.0, 1.0, "numbers from 0 to 1")

ANY_INTEGER = Range(-(2**63), 2**63 - 1, "integers of 64 bits")
DIMS = Range(0, 2**63 - 1, "dims of 0 or more")
OF_TYPE = {"f32": ANY_REAL, "s64": ANY_INTEGER}  # for attributes without a range
SIZES = Range(0, SIZE, "sizes of 0 or more")
STEPS = Range(1, SIZE, "sizes of 1 or more")


def as_f32(number: float) -> float:
    """The nearest f32 number; infinite beyond their range."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def overflows(number: float) -> bool:
    """Whether this finite number exceeds the range of f32. An integer may have any number of digits."""
    return _BEYOND <= abs(number) < inf


F32_FIX = f"give it numbers that f32 has, from {_LEAST:.9g} to {_MOST:.9g}"
