"""Fit the polynomials of benchgraph/codegen/vmath.py: `python tests/codegen/fit_vmath.py` prints them.

Weighted least squares on Chebyshev nodes, reweighted by the error until it is level (Lawson), which approaches the minimax polynomial.
Coefficients are rounded to f32 one at a time, lowest first, and the rest is fitted again, so that they make up for the rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Approximate y(x) by a polynomial; weight turns an error of y into a relative error of the function that is built from it.

    fixed: coefficients that are given, lowest first.
    """

    x: Array
    y: Array
    weight: Array
    degree: int
    fixed: tuple[float, ...] = ()

    def error(self, coefficients: Sequence[float]) -> float:
        return float(np.max(np.abs(np.polyval(coefficients[::-1], self.x) - self.y) * self.weight))


def _nodes(a: float, b: float, count: int = 2000) -> Array:
    return (a + b) / 2 + (b - a) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)


def expm1() -> Problem:
    """(e**r - 1) / r on [-ln2/2, ln2/2], relative error of e**r - 1; starts with 1, so that tiny arguments keep full precision."""
    half = np.log(2) / 2 * 1.0001
    r = _nodes(-half, half)
    return Problem(r, np.expm1(r) / r, np.abs(r / np.expm1(r)), 5, (1.0,))


def log1p() -> Problem:
    """(log(1 + f) - f + f*f/2) / f**3 for 1 + f between sqrt(1/2) and sqrt(2), relative error of log(1 + f)."""
    f = _nodes(np.sqrt(0.5) - 1, np.sqrt(2) - 1)
    return Problem(f, (np.log1p(f) - f + f * f / 2) / f**3, np.abs(f**3 / np.log1p(f)), 7)


def exp() -> Problem:
    """(e**r - 1) / r on [0, ln2], relative error of e**r; starts with 1, so that tiny arguments keep full precision."""
    r = _nodes(-2e-5, np.log(2) + 2e-5)  # r comes out of a floor that is off by a rounding
    return Problem(r, np.expm1(r) / r, np.abs(r) / np.exp(r), 5, (1.0,))


def exp_step() -> Problem:
    """(e**r - 1 - r) / r**2 on [-ln2/32, ln2/32], relative error of e**r; what is left of x / ln2 beside a multiple of 1/16."""
    half = np.log(2) / 32 * 1.0001
    r = _nodes(-half, half)
    return Problem(r, (np.expm1(r) - r) / r**2, r**2 / np.exp(r), 1)


def tail() -> Problem:
    """e**(t*t/2) * cdf(-t) of the normal distribution times a polynomial of t, which makes it one of a degree less: relative error.

    It is 1/2 for t = 0, which the first coefficient is.
    """
    t = np.concatenate([_nodes(0, 13.3), _nodes(0, 1, 500)])
    below = np.polyval(tail_below()[::-1], t)
    y = 0.5 * erfcx(t / np.sqrt(2)) * below
    return Problem(t, y, 1 / y, 4, (0.5,))


@cache
def tail_below() -> list[float]:
    """What `tail` is multiplied by, so that the error of the quotient is least: 1 + ..., lowest power first.

    The quotient's error times the denominator is linear in both polynomials; that of the last round is divided out of it.
    """
    t = np.concatenate([_nodes(0, 13.3), _nodes(0, 1, 500)])
    above, below = (t[:, None] ** np.arange(first, last) for first, last in ((0, 5), (1, 6)))
    columns = np.concatenate([above / (0.5 * erfcx(t / np.sqrt(2)))[:, None], -below], axis=1)
    weight = np.ones_like(t)
    for _ in range(10):
        found = _lawson(columns, np.ones_like(t), weight, 100)
        weight = 1 / (1 + below @ found[5:])
    return [float(np.float32(c)) for c in (1.0, *found[5:])]


def fit(problem: Problem, iterations: int = 300) -> list[float]:
    """Coefficients in f32, lowest power first."""
    found = list(problem.fixed)
    powers = list(range(len(found), problem.degree + 1))
    rest = problem.y - np.polyval([0.0, *found[::-1]], problem.x)
    while powers:
        columns = problem.x[:, None] ** np.array(powers, float)
        lowest = float(np.float32(_lawson(columns, rest, problem.weight, iterations)[0]))
        found.append(lowest)
        rest -= lowest * problem.x ** powers.pop(0)
    return found


def _lawson(columns: Array, y: Array, weight: Array, iterations: int) -> Array:
    size, w = np.abs(columns).max(0), np.ones_like(y)
    best, best_error = np.zeros(columns.shape[1]), np.inf
    for _ in range(iterations):
        rows = np.sqrt(w) * weight
        c = np.linalg.lstsq(columns / size * rows[:, None], y * rows, rcond=None)[0] / size
        error = np.abs(columns @ c - y) * weight
        if error.max() < best_error:
            best, best_error = c, float(error.max())
        w *= error / error.max() + 1e-2
        w /= w.mean()
    return best


if __name__ == "__main__":
    for name, problem in (("EXPM1", expm1()), ("EXP", exp()), ("STEP", exp_step()), ("LOG1P", log1p()), ("TAIL", tail())):
        coefficients = fit(problem)
        print(f"{name} = ({', '.join(repr(float(c)) for c in coefficients)})  # error {problem.error(coefficients):.2g}")
    print(f"TAIL_BELOW = ({', '.join(map(repr, tail_below()))})")
