"""Functions of scipy.special that several rows name. It takes 0.2 s to import: a call does so, and only who computes waits."""

from __future__ import annotations

from benchgraph.fallback.function import Array


def erf(x: Array) -> Array:
    from scipy import special

    return special.erf(x)


def sigmoid(x: Array) -> Array:
    from scipy import special

    return special.expit(x)
