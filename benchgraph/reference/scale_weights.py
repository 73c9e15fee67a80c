"""Scales inputs of a deep graph (deep_graphs.py) while the reference evaluates it, so that each layer's results have the wanted size at any
depth.

A product's weights have mean 0, since a common share of all sums would grow from layer to layer and hide the layers before. They are scaled
by a power of two, which is exact in every float type, so that the sums have the wanted size on average for the layer's actual input. If
more than half of the sums are negative, the sign of the weights is flipped, so that a ReLU makes at most half of its input zero, even if
rows have become similar. Integers before a Dequantize are drawn again for the wanted size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2, sqrt

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array
from benchgraph.reference.deep_graphs import ScaledInput, reduction_length, sums_products
from benchgraph.reference.displace.rule import is_transparent
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.real_values import standing_for

Draw = Callable[[ScaledInput, TensorType, Noise], Array]  # numbers of mean 0 and any size for a product's operand

FLIPPED = 0.5  # share of negative results of a product above which the weights' sign is flipped
# Largest power of two of a scale, up or down, as a share of log2 of the type's largest number. Small integers then stay normal.
REACH = 0.75


def scale_inputs(graph: Graph, scaled_inputs: Sequence[ScaledInput], made: Mapping[int, Array], draw: Draw, seed: int) -> dict[int, Array]:
    """The changed contents of the scaled inputs, in their dtypes, by id. made: the other contents of the graph's inputs.

    The graph is evaluated once, and ops whose result has the wrong size once more. Raises the errors of `evaluate`.
    """
    scaling = _Scaling(graph, scaled_inputs, made, draw, seed)
    evaluate(graph, made, noise=scaling)
    return scaling.contents


class _Scaling:
    """A Disturbance of an evaluation that scales each input when its op is reached."""

    def __init__(self, graph: Graph, scaled_inputs: Sequence[ScaledInput], made: Mapping[int, Array], draw: Draw, seed: int) -> None:
        self.contents = dict[int, Array]()
        self._graph, self._made, self._draw, self._seed = graph, made, draw, seed
        self._targets = {target.op.id: target for target in scaled_inputs}
        self._moved = dict[int, Array]()  # by tensor: scaled values that ops read instead of the evaluation's
        self._base: Array = np.zeros(0)
        self._gain = 1.0
        self._given: tuple[Array, ...] = ()

    def operands(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]:
        """The op's operands, scaled by an estimate of its result."""
        given = tuple(self._moved.get(t.id, a) for t, a in zip(op.inputs, arrays, strict=True))
        if (target := self._targets.get(op.id)) is not None:
            self._base, self._gain = self._drawn(target), 1.0
            if sums_products(op):
                with_base = self._scaled(target, given, 1.0)
                other = max(_size(given[1 - target.port]), target.size / sqrt(2) if target.is_tied else 0.0)
                expected_size = other * _size(with_base[target.port]) * sqrt(reduction_length(op))
                given = self._scaled(target, given, target.size / expected_size) if expected_size else with_base
            self._given = given
        return given

    def results(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]:
        """The op's results, computed again with another scale if they are too large or too small, or too often negative."""
        if (target := self._targets.get(op.id)) is None:
            return arrays
        off = _size(arrays[0]) / target.size
        is_close = off == 0 or 1 / target.slack <= off <= target.slack
        gain = 1.0 if is_close or target.is_tied else off if target.is_divisor else 1 / off
        if sums_products(op) and np.count_nonzero(np.asarray(arrays[0], np.float64) < 0) > FLIPPED * arrays[0].size:
            gain = -gain
        if gain == 1.0:
            return arrays
        given = self._scaled(target, self._given, gain)
        with np.errstate(all="ignore"):
            return spec(op.kind).semantics.reference(op.call, given)

    def _drawn(self, target: ScaledInput) -> Array:
        """The values to be scaled: numbers of either sign for a product's weights, else the tensor's contents."""
        t = target.tensor
        if not sums_products(target.op) or any(len(op.inputs) > 1 for op, _ in target.path):
            return self._made[t.id]
        shape = target.op.inputs[target.port].known_shape if target.is_quantised else t.known_shape
        return self._draw(target, TensorType(DType.f32 if target.is_quantised else t.dtype, shape), Noise(self._seed, t.id))

    def _scaled(self, target: ScaledInput, given: tuple[Array, ...], gain: float) -> tuple[Array, ...]:
        """The op's operands, scaled further by `gain`. Floats are scaled by powers of two, integers drawn again."""
        t, ops = target.tensor, [op for op, _ in target.path]
        if target.is_quantised:
            self._gain *= gain
            rng = Noise(self._seed, t.id).chunk(0)
            values = standing_for(self._base.astype(np.float64) * self._gain, ops, t, rng).astype(t.dtype.numpy)
        else:
            reach = REACH * log2(t.dtype.range[1])
            power = float(np.clip(round(log2(abs(self._gain * gain))), -reach, reach))
            self._gain = 2.0 ** round(power) * (1 if self._gain * gain > 0 else -1)
            values = (self._base.astype(np.float64) * self._gain).astype(t.dtype.numpy)
        self.contents[t.id] = values
        operand = self._through(values, target.path)
        if any(len(self._graph.consumers.get(s.id, ())) > 1 for s in (t, *(op.outputs[0] for op in ops))):
            self._carry(t.id, values)
        return (*given[: target.port], operand, *given[target.port + 1 :])

    def _through(self, values: Array, path: Sequence[tuple[Op, int]]) -> Array:
        """The result of ops that move or convert the values, read at these ports; their other inputs are graph inputs."""
        for op, port in path:
            ins = tuple(_exact(values if i == port else self._made[t.id]) for i, t in enumerate(op.inputs))
            (values,) = spec(op.kind).semantics.reference(op.call, ins)
        return _exact(values)

    def _carry(self, tensor: int, values: Array) -> None:
        """Let all readers of the tensor, and of moved or converted copies of it, read these values."""
        work = [(tensor, values)]
        while work:
            tensor, values = work.pop()
            self._moved[tensor] = _exact(values)
            for op in self._graph.consumers.get(tensor, ()):
                if is_transparent(op) and op.outputs:
                    work.append((op.outputs[0].id, self._through(values, [(op, 0)])))


def _exact(values: Array) -> Array:
    return values if values.dtype.kind in "biu" else values.astype(np.float64, copy=False)


def _size(values: Array) -> float:
    """The rms of the finite values; 0 if there are none."""
    numbers = values.astype(np.float64, copy=False)
    finite = numbers if np.isfinite(numbers).all() else numbers[np.isfinite(numbers)]
    return sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
