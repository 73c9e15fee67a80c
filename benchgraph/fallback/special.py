"""Functions of scipy.special, which takes 0.2 s to import: by a call, so that only who computes them waits for it."""

from __future__ import annotations

from benchgraph.fallback.function import Array


def erf(x: Array) -> Array:
    from scipy import special

    return special.erf(x)


def sigmoid(x: Array) -> Array:
    from scipy import special

    return special.expit(x)


def log_sum_exp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    from scipy import special

    return special.logsumexp(x, axis=axis, keepdims=keepdims)
