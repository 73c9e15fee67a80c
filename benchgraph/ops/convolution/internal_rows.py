"""Internal ops that convolutions are decomposed into: depthwise ones, ones of phases, and gradients by weights in parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import sums
from benchgraph.ops.convolution import decompose, depthwise, phases, samples, weights_in_parts
from benchgraph.ops.convolution.problem import INTO_DST, INTO_SRC, INTO_WEI, Problem, problem_of
from benchgraph.ops.convolution.rows import Kind
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import Attr, Filling, OpSpec, Port
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.spec.forms import Box, Contraction, Indices, Window


@dataclass(frozen=True)
class _Depthwise(Kind):
    """One channel in and out per group, of data as stored. The attribute `zero` is the data's zero point."""

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        return super().arrays(call, (real(ins[0]) - call.attrs.real("zero"), *ins[1:]), out)

    def row(self) -> OpSpec:
        row, stored = super().row(), (*F, DType.u8, DType.s8)
        ins = tuple(Port(name, f"T{i}") for i, name in enumerate(self.inputs))
        attrs = {**row.schema.attrs, "zero": Attr("f32", default=0.0)}
        types = {"T0": stored, "T1": stored, "T2": F}
        return replace(row, schema=replace(row.schema, inputs=ins, outputs=(Port(self.output, "T2"),), types=types, attrs=attrs))


@dataclass(frozen=True)
class _Partial(Kind):
    """The parts of a gradient by weights, over blocks of windows."""

    def problem(self, call: Call) -> Problem:
        weights = TensorType(call.outs[0].dtype, call.attrs.integers("weights_shape"))
        return problem_of(replace(call, ins=self._problem_ins(call.ins), outs=(weights,)), self.sides)

    def _problem_ins(self, ins: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """The inputs with the shapes that the problem gives them."""
        return ins

    def infer(self, attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
        (weights,) = super().infer(attrs, self._problem_ins(ins))
        p = self.problem(Call(self.name, attrs, ins, (TensorType(DType.f32, weights),)))
        return (weights_in_parts.parts_shape(p, attrs.integers("blocks")),)

    def product(self, call: Call, ins: tuple[Array, ...]) -> tuple[sums.SumOf, Reals, Reals]:
        src, _, dst = self.arrays(call, ins, None)
        return partial(weights_in_parts.parts, self.problem(call), call.attrs.integers("blocks")), src, dst

    def as_output(self, call: Call, ins: tuple[Array, ...], result: Reals) -> Array:
        return result

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        p = self.problem(call)
        weights = None if out is None else real(out).reshape(-1, *p.wei).sum(axis=0)
        return super().arrays(replace(call, outs=(TensorType(DType.f32, p.wei),)), ins, weights)

    def products_per_sum(self, p: Problem) -> int:
        """A part has no more than the sum of all parts."""
        return prod(p.dst[:-1])

    @property
    def lower(self) -> Contraction | Window:
        if self.window is not None:
            return self.window(self.problem)
        return Contraction(lambda call: call.attrs.integers("blocks"), self._index, lambda call: self.problem(call).group_out)

    def _index(self, call: Call, at: Indices, over: Indices) -> tuple[Indices, Indices]:
        return weights_in_parts.contraction(self.problem(call), call.attrs.integers("blocks"), at, over, is_transposed=False)

    def row(self) -> OpSpec:
        row = super().row()
        return row if self.window is not None else _canonical_only(row)


@dataclass(frozen=True)
class _TransposedPartial(_Partial):
    """The same with a transposed src, x last."""

    def _problem_ins(self, ins: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        *before, channels, stride, x = ins[0].shape
        return (replace(ins[0], shape=(*before, x * stride, channels)), *ins[1:])

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        return super().arrays(call, (weights_in_parts.untransposed(real(ins[0])), *ins[1:]), out)

    def _index(self, call: Call, at: Indices, over: Indices) -> tuple[Indices, Indices]:
        return weights_in_parts.contraction(self.problem(call), call.attrs.integers("blocks"), at, over, is_transposed=True)


@dataclass(frozen=True)
class _Phased(Kind):
    """A convolution whose columns use different taps; the weights of all other taps are 0."""

    def fill(self, call: Call, port: int) -> Filling:
        filling = super().fill(call, port)
        return filling if port == 0 else replace(filling, make=lambda t, noise: self._masked(call, filling.make(t, noise)))

    def domain(self, call: Call, port: int, rng: np.random.Generator) -> Array:
        data = super().domain(call, port, rng)
        return data if port == 0 else self._masked(call, data)

    def reference(self, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        """Weights outside of a phase's taps are not elements."""
        sum_of, src, wei = self.product(call, ins)
        is_element = np.asarray(phases.has_weight(self.problem(call), call.attrs))
        return (sums.of_products(lambda weights, data: sum_of(data, weights), wei, src, is_element=is_element),)

    def may_multiply_zeros(self, call: Call, a: Array, b: Array) -> Array:
        return sums.has_product(self.product(call, (a, b))[0], (a, np.ones(b.shape)))  # all taps of a call's channels may be multiplied

    def _masked(self, call: Call, wei: Array) -> Array:
        return np.where(phases.has_weight(self.problem(call), call.attrs), wei, wei.dtype.type(0))

    @property
    def lower(self) -> Contraction:
        def nonzero(call: Call, first: int, count: int) -> Box:
            return phases.taps_of_columns(self.problem(call), call.attrs, first, count)

        return replace(self._contraction(decompose.forward_contraction), nonzero=nonzero)

    def row(self) -> OpSpec:
        return _canonical_only(super().row())


def _canonical_only(row: OpSpec) -> OpSpec:
    """The row of an op that takes f32 only and is never decomposed."""
    return replace(row, schema=replace(row.schema, types={"T": (DType.f32,)}), lowering=replace(row.lowering, decompose=None))


_KINDS = (
    _Depthwise("_Depthwise", INTO_DST, ("src", "weights"), "dst", samples.DEPTHWISE[0], window=depthwise.forward),
    _Depthwise(
        "_DepthwiseBackwardData", INTO_SRC, ("diff_dst", "weights"), "diff_src", samples.DEPTHWISE[1], attrs=("dst_shape",),
        window=depthwise.by_data,
    ),
    _Partial(
        "_DepthwisePartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.DEPTHWISE[2], attrs=("weights_shape", "blocks"),
        window=depthwise.by_weights,
    ),
    _Phased("_PhasedConvolution", INTO_DST, ("src", "weights"), "dst", samples.PHASED, attrs=("phases", "first", "end")),
    _Partial("_PartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.PARTIAL[0], attrs=("weights_shape", "blocks")),
    _TransposedPartial(
        "_TransposedPartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.PARTIAL[1], attrs=("weights_shape", "blocks"),
    ),
)  # fmt: skip
SPECS = tuple(kind.row() for kind in _KINDS)
