"""Test data of the gradients in unary_backward: the forward op's data, or, for use_dst, the forward op's result for them."""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import TensorType
from benchgraph.ops import fills
from benchgraph.ops.elementwise import unary
from benchgraph.ops.fill_rules.filling import stored
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.laws import real
from benchgraph.ops.spec import Array, Call, Domain, Filling, FillRule, OpSpec

_GRADIENTS = fills.of_either_sign(0.125, 0.5)  # not so small that rounding dominates the slope
_HARD_SIGMOID = next(row for row in unary.SPECS if row.kind == "HardSigmoid")


def like(forward: OpSpec) -> Domain:
    """The forward op's real-valued data, or, for use_dst, its result for them."""

    def fill(call: Call, port: int, rng: np.random.Generator) -> Array:
        if port == 1:
            return _GRADIENTS(call, port, rng)
        before = Call(forward.kind, _forward_attrs(call, forward), call.ins[:1], call.ins[:1])
        src = forward.testing.domain(before, 0, rng)
        return fills.rounded(forward.semantics.reference(before, (src,))[0], call.ins[0].dtype) if uses_dst(call.attrs) else src

    return fill


def _forward_attrs(call: Call, forward: OpSpec) -> Attrs:
    return Attrs({k: v for k, v in call.attrs.items() if k in forward.schema.attrs})


def off_the_kinks(call: Call, port: int, rng: np.random.Generator) -> Array:
    src = like(_HARD_SIGMOID)(call, port, rng)
    return src if port == 1 else fills.rounded(_moved_off_the_kinks(call.attrs, src), call.ins[0].dtype)


def _moved_off_the_kinks(attrs: Attrs, src: Array) -> Array:
    """Numbers within 2**-8 of a kink, where rounding decides about the side, are moved half way between the kinks."""
    alpha, beta = attrs.real("alpha"), attrs.real("beta")
    if alpha == 0:
        return src
    line = alpha * real(src) + beta
    near_kink = np.minimum(np.abs(line), np.abs(line - 1)) < 2.0**-8
    return np.where(near_kink, (0.5 - beta) / alpha, src)


def pattern_of(forward: OpSpec) -> FillRule:
    """The forward op's pattern for both inputs, or, for use_dst, its result for the pattern."""

    def rule(call: Call, port: int) -> Filling:
        pattern = forward.testing.fill(call, 0)
        if port == 1 or not uses_dst(call.attrs):
            return pattern

        def made(t: TensorType, noise: Noise) -> Array:
            before = Call(forward.kind, _forward_attrs(call, forward), (t,), (t,))
            return stored(forward.semantics.reference(before, (pattern.make(t, noise),))[0], t.dtype)

        return Filling(f"{forward.kind} of {pattern.description}", made)

    return rule


def pattern_off_the_kinks(call: Call, port: int) -> Filling:
    """The forward op's pattern, of which two thirds are on the flat sides: half of these are moved to the slope."""
    pattern, alpha, beta = _HARD_SIGMOID.testing.fill(call, port), call.attrs.real("alpha"), call.attrs.real("beta")
    if port == 1 or alpha == 0:
        return pattern

    def made(t: TensorType, noise: Noise) -> Array:
        src, at = pattern.make(t, noise), np.arange(t.elements).reshape(t.shape)
        line = alpha * real(src) + beta
        moves = ((line <= 0) | (line >= 1)) & noise.chance(0.5, at)
        sloped = np.where(moves, (noise.integers(1, 3, at, lane=1) / 4 - beta) / alpha, src)
        return stored(_moved_off_the_kinks(call.attrs, sloped), t.dtype).reshape(t.shape)

    return Filling(f"{pattern.description}, half of the flat sides' moved to the slope, off the kinks", made)


def uses_dst(attrs: Attrs) -> bool:
    return attrs.get("use_dst") is True
