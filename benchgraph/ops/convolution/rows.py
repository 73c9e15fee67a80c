"""Convolution, ConvTranspose and their gradients by data and by weights: 1 to 3 spatial dims, groups, dilations, padding, both formats.

All six compute one of the three tensors of a problem (problem.py). bf16 and f16 are computed in f32 and rounded
once. The threshold is MatMul's, with the number of products that one element sums up for K.

A tensor input that gives the output's shape (dst_shape, weights_shape) is read by nobody: the shape must be known when the op is compiled,
from the attribute of that name or from the graph. oneDNN takes no op with such an input at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, sums
from benchgraph.ops.convolution import decompose, depthwise, padding, phases, problem, samples, weights_in_parts
from benchgraph.ops.convolution.depthwise import ProblemOf
from benchgraph.ops.convolution.problem import INTO_DST, INTO_SRC, INTO_WEI, OUT, Problem, Sides, has_kernel_last, problem_of
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.ranges import DIMS, SIZES, STEPS
from benchgraph.ops.spatial import AUTO_PAD, DATA_FORMAT, ZEROS, beside_channel, channel_axis
from benchgraph.ops.spec import Attr, Decomposer, Filling, Law, Lowering, OpSpec, Port, Role, Sample, Schema, Semantics, Testing
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.spec.forms import Box, Contraction, Indices, Window
from benchgraph.ops.strategies import products
from benchgraph.ops.strategies.filling import exactly

Index = Callable[[Problem, Indices, Indices], tuple[Indices, Indices]]

_SHAPE = Attr("s64[]", default=ZEROS, range=DIMS)


@dataclass(frozen=True)
class _Kind:
    """One of the six ops, or a depthwise one of the compiler's own.

    inputs: port names; a third one is optional: a bias, or the output's shape. contraction: how the GEMM template indexes a call that
    needs no decomposing. window: how an op of the compiler's own folds over taps.
    """

    name: str
    sides: Sides
    inputs: tuple[str, ...]
    output: str
    samples: tuple[Sample, ...]
    attrs: tuple[str, ...] = ()
    gradient_of: str = ""
    contraction: Index | None = None
    window: Callable[[ProblemOf], Window] | None = None

    @property
    def shape_attr(self) -> str:
        """The attribute that gives the output's shape, where the op has one."""
        return next((name for name in self.attrs if name.endswith("_shape")), "")

    def has_bias(self, ins: Sequence[object]) -> bool:
        return len(ins) > 2 and self.inputs[2] == "bias"

    def problem(self, call: Call) -> Problem:
        return problem_of(call, self.sides)

    def infer(self, attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
        known = attrs.integers(self.shape_attr) if self.shape_attr else ()
        out = problem.infer(attrs, tuple(t.shape for t in ins), self.sides, known if any(known) else None)
        channels = out[channel_axis(attrs, len(out))]
        if self.has_bias(ins) and ins[2].shape != (channels,):
            raise InvalidShape(f"bias {ins[2].shape} does not fit the {channels} channels of dst", fix=f"give it the shape ({channels},)")
        return (out,)

    # ---- in the problem's own order

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        """src, wei and dst of the problem, the op's output among them; out None: zeros in its place."""
        given = (*(real(a) for a in ins[:2]), real(out) if out is not None else np.zeros(call.outs[0].shape))
        src, wei, dst = (given[side] for side in (self.sides.src, self.sides.wei, self.sides.dst))
        return _data(call.attrs, src), _weights(call.attrs, wei), _data(call.attrs, dst)

    def product(self, call: Call, ins: tuple[Array, ...]) -> tuple[sums.SumOf, Reals, Reals]:
        """What the output is a sum of products of: sum_of(a, b), a and b, in the problem's own order."""
        p, (src, wei, dst) = self.problem(call), self.arrays(call, ins, None)
        if self.sides.wei == OUT:
            return partial(problem.by_weights, p), src, dst
        if self.sides.dst == OUT:
            return partial(problem.forward, p), src, wei
        return partial(problem.by_data, p), dst, wei

    def finished(self, call: Call, ins: tuple[Array, ...], found: Reals) -> Array:
        """What the op makes of the sums: with its bias, in the formats of its attributes."""
        if self.sides.wei == OUT:
            return np.moveaxis(found, (-1, -2), (0, 1)) if has_kernel_last(call.attrs) else found
        return np.moveaxis(found + real(ins[2]) if self.has_bias(ins) else found, -1, channel_axis(call.attrs, found.ndim))

    def reference(self, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return (self.finished(call, ins, sums.of_products(*self.product(call, ins))),)

    def in_f32(self, call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        """Zeros that are no elements may be multiplied like others, and products and their sums may be beyond f32 on the way."""
        sum_of, a, b = self.product(call, ins)
        right = sums.of_products(sum_of, a, b)
        padded = np.where(self.meets_zeros(call, ~np.isfinite(a), ~np.isfinite(b)), np.nan, right)
        return tuple((self.finished(call, ins, found),) for found in (*sums.others_in_f32(sum_of, a, b, right), padded))

    def meets_zeros(self, call: Call, a: Array, b: Array) -> Array:
        """Where a sum may have a product of what is not finite, here of both operands, with a zero that is no element."""
        return padding.met(self.problem(call), self.sides, a, b)

    def decompose(self, d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
        p, sides = self.problem(call), self.sides
        bias = ins[2:] if self.has_bias(ins) else ()
        if sides.dst == OUT:
            return (decompose.forward(d, call, p, ins[sides.src], ins[sides.wei], bias),)
        if sides.src == OUT:
            return (decompose.by_data(d, call, p, ins[sides.dst], ins[sides.wei], bias),)
        return (decompose.by_weights(d, call, p, ins[sides.src], ins[sides.dst]),)

    def summed(self, p: Problem) -> int:
        """How many products one element of the output is the sum of, at most."""
        if self.sides.wei == OUT:
            return prod(p.dst[:-1])
        return prod(p.kernel) * (p.group_in if self.sides.dst == OUT else p.group_out)

    def flops(self, call: Call) -> int:
        """A multiplication and an addition per product with what is not padding, and an addition per element for the bias."""
        return self.problem(call).flops + (call.outs[0].elements if self.has_bias(call.ins) else 0)

    def fill(self, call: Call, port: int) -> Filling:
        """Integers whose sums are exact: src sparse, or diff_dst where there is one."""
        if port == 2:
            return products.bias(call.ins[2].dtype) if self.inputs[2] == "bias" else exactly(np.array(call.outs[0].shape), "the shape")
        sparse, dense = (1, 0) if self.inputs[1] == "diff_dst" else (0, 1)
        summed = self.summed(self.problem(call))
        types = call.ins[sparse].dtype, call.ins[dense].dtype, call.outs[0].dtype
        operands = products.Operands(products.CONVOLUTION, *types, summed)
        return operands.sparse() if port == sparse else operands.dense()

    def domain(self, call: Call, port: int, rng: np.random.Generator) -> Array:
        """Weights as MatMul has them, that dst may have the variance of src; a shape is what it says; all else in [-1, 1)."""
        if port == 2 and self.inputs[2] != "bias":
            return np.array(call.outs[0].shape, np.int32)
        k = max(self.summed(self.problem(call)), 1)
        limit, shift = (sqrt(3 / k), min(2 / k, 0.25)) if port == self.sides.wei else (1.0, 0.0)
        return fills.uniform(shift - limit, shift + limit)(call, port, rng)

    def sure_zeros(self, call: Call) -> float:
        """What only padding, or no window, meets; a bias leaves nothing of it."""
        if self.sides.wei == OUT or self.has_bias(call.ins):
            return 0.0
        return problem.sure_zeros(self.problem(call), 2 if self.sides.dst == OUT else 0)

    def sums_up(self, call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """The sum of the whole output, from sums over the inputs."""
        out = real(outs[0])
        if self.has_bias(ins):
            out = out - real(ins[2]).reshape(beside_channel(call.attrs, out.shape))
        sides = [side != OUT for side in (self.sides.src, self.sides.wei, self.sides.dst)]
        arrays = (a if is_given else None for a, is_given in zip(self.arrays(call, ins, out), sides, strict=True))
        want, size = problem.total(self.problem(call), *arrays)
        return bool(abs(out.sum() - want) <= rtol * (np.abs(out).sum() + size))

    def row(self) -> OpSpec:
        variable = "T" if self.inputs[-1] == "bias" or len(self.inputs) == 2 else "T1"
        formats = ("XOI", "IOX") if self.sides.is_transposed else ("XIO", "OIX")
        return OpSpec(
            self.name,
            Schema(
                inputs=tuple(Port(name, "T2" if name.endswith("_shape") else variable) for name in self.inputs),
                outputs=(Port(self.output, variable),),
                num_inputs=(2, 3) if len(self.inputs) > 2 else (2,),
                types={variable: F} | ({"T2": (DType.s32,)} if variable == "T1" else {}),
                attrs={
                    **dict.fromkeys(("strides", "dilations"), Attr("s64[]", required=True, range=STEPS)),
                    **dict.fromkeys(("pads_begin", "pads_end"), Attr("s64[]", required=True, range=SIZES)),
                    **dict.fromkeys(self.attrs, _SHAPE),
                    "auto_pad": AUTO_PAD,
                    "groups": Attr("s64", default=1, range=STEPS),
                    "data_format": DATA_FORMAT,
                    "weights_format": Attr("string", default=formats[0], choices=formats),
                },
                shape_attr=self.shape_attr,
            ),
            Semantics(
                infer=self.infer,
                reference=self.reference,
                flops=self.flops,
                threshold=lambda call: 2 * sqrt(self.summed(self.problem(call))) + 4,
                f32_alternatives=self.in_f32,
                follows_fpmath=True,
            ),
            Testing(
                fill=self.fill,
                domain=self.domain,
                samples=self.samples,
                laws=(Law("the sum of the output is that of all products", self.sums_up),),
                gradient_of=self.gradient_of,
                fills_quantised=not self.gradient_of,
                zero_limit=lambda call: 0.70,
                guaranteed_zeros=self.sure_zeros,
            ),
            Lowering(
                Role.anchor,
                form=self.lower,
                decompose=self.decompose if self.window is None else None,
                is_canonical=None if self.contraction is None else lambda call: decompose.is_canonical(call, self.problem(call)),
            ),
        )

    @property
    def lower(self) -> Contraction | Window | None:
        if self.window is not None:
            return self.window(self.problem)
        return None if self.contraction is None else self._contraction(self.contraction)

    # ---- as the GEMM template sees a canonical call

    def reduced(self, call: Call) -> Shape:
        p = self.problem(call)
        return (*p.kernel, p.group_in)

    def _contraction(self, index: Index) -> Contraction:
        return Contraction(
            self.reduced, lambda call, at, over: index(self.problem(call), at, over), lambda call: self.problem(call).group_out
        )


def _data(attrs: Attrs, a: Reals) -> Reals:
    return np.moveaxis(a, channel_axis(attrs, a.ndim), -1)


def _weights(attrs: Attrs, a: Reals) -> Reals:
    return np.moveaxis(a, (0, 1), (-1, -2)) if has_kernel_last(attrs) else a


@dataclass(frozen=True)
class _Depthwise(_Kind):
    """One channel in and out per group, of whatever is stored. zero: what stands for 0 in the data."""

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        return super().arrays(call, (real(ins[0]) - call.attrs.real("zero"), *ins[1:]), out)

    def row(self) -> OpSpec:
        row, stored = super().row(), (*F, DType.u8, DType.s8)
        ins = tuple(Port(name, f"T{i}") for i, name in enumerate(self.inputs))
        attrs = {**row.schema.attrs, "zero": Attr("f32", default=0.0)}
        types = {"T0": stored, "T1": stored, "T2": F}
        return replace(row, schema=replace(row.schema, inputs=ins, outputs=(Port(self.output, "T2"),), types=types, attrs=attrs))


@dataclass(frozen=True)
class _Partial(_Kind):
    """The parts of a gradient by weights, over blocks of windows."""

    def problem(self, call: Call) -> Problem:
        whole = TensorType(call.outs[0].dtype, call.attrs.integers("weights_shape"))
        return problem_of(replace(call, ins=self._seen(call.ins), outs=(whole,)), self.sides)

    def _seen(self, ins: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """The inputs as the problem has them."""
        return ins

    def infer(self, attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
        (whole,) = super().infer(attrs, self._seen(ins))
        p = self.problem(Call(self.name, attrs, ins, (TensorType(DType.f32, whole),)))
        return (weights_in_parts.parts_shape(p, attrs.integers("blocks")),)

    def product(self, call: Call, ins: tuple[Array, ...]) -> tuple[sums.SumOf, Reals, Reals]:
        src, _, dst = self.arrays(call, ins, None)
        return partial(weights_in_parts.parts, self.problem(call), call.attrs.integers("blocks")), src, dst

    def finished(self, call: Call, ins: tuple[Array, ...], found: Reals) -> Array:
        return found

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        p = self.problem(call)
        whole = None if out is None else real(out).reshape(-1, *p.wei).sum(axis=0)
        return super().arrays(replace(call, outs=(TensorType(DType.f32, p.wei),)), ins, whole)

    def summed(self, p: Problem) -> int:
        """Of a part no more than of the whole."""
        return prod(p.dst[:-1])

    @property
    def lower(self) -> Contraction | Window:
        if self.window is not None:
            return self.window(self.problem)
        return Contraction(lambda call: call.attrs.integers("blocks"), self._index, lambda call: self.problem(call).group_out)

    def _index(self, call: Call, at: Indices, over: Indices) -> tuple[Indices, Indices]:
        return weights_in_parts.contraction(self.problem(call), call.attrs.integers("blocks"), at, over, is_turned=False)

    def row(self) -> OpSpec:
        row = super().row()
        return row if self.window is not None else _canonical_only(row)


@dataclass(frozen=True)
class _Turned(_Partial):
    """The same of a src that has x last."""

    def _seen(self, ins: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        *before, channels, stride, x = ins[0].shape
        return (replace(ins[0], shape=(*before, x * stride, channels)), *ins[1:])

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        return super().arrays(call, (weights_in_parts.unturned(real(ins[0])), *ins[1:]), out)

    def _index(self, call: Call, at: Indices, over: Indices) -> tuple[Indices, Indices]:
        return weights_in_parts.contraction(self.problem(call), call.attrs.integers("blocks"), at, over, is_turned=True)


@dataclass(frozen=True)
class _Phased(_Kind):
    """A convolution of which some columns meet fewer taps than others; what else the weights hold is 0."""

    def fill(self, call: Call, port: int) -> Filling:
        filling = super().fill(call, port)
        return filling if port == 0 else replace(filling, make=lambda t, noise: self._met(call, filling.make(t, noise)))

    def domain(self, call: Call, port: int, rng: np.random.Generator) -> Array:
        data = super().domain(call, port, rng)
        return data if port == 0 else self._met(call, data)

    def reference(self, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        """Zeros of the weights that no phase meets are no elements."""
        sum_of, src, wei = self.product(call, ins)
        is_element = np.asarray(phases.is_met(self.problem(call), call.attrs))
        return (sums.of_products(lambda weights, data: sum_of(data, weights), wei, src, is_element=is_element),)

    def meets_zeros(self, call: Call, a: Array, b: Array) -> Array:
        return sums.meet(self.product(call, (a, b))[0], (a, np.ones(b.shape)))  # channels of other phases may be multiplied along

    def _met(self, call: Call, wei: Array) -> Array:
        return np.where(phases.is_met(self.problem(call), call.attrs), wei, wei.dtype.type(0))

    @property
    def lower(self) -> Contraction:
        def met(call: Call, first: int, count: int) -> Box:
            return phases.columns_met(self.problem(call), call.attrs, first, count)

        return replace(self._contraction(decompose.forward_contraction), nonzero=met)

    def row(self) -> OpSpec:
        return _canonical_only(super().row())


def _canonical_only(row: OpSpec) -> OpSpec:
    """The row of an op that takes f32 only and is never decomposed."""
    return replace(row, schema=replace(row.schema, types={"T": (DType.f32,)}), lowering=replace(row.lowering, decompose=None))


_KINDS = (
    _Kind("Convolution", INTO_DST, ("src", "weights", "bias"), "dst", samples.FORWARD, contraction=decompose.forward_contraction),
    _Kind(
        "ConvolutionBackwardData", INTO_SRC, ("diff_dst", "weights", "dst_shape"), "diff_src", samples.BY_DATA,
        attrs=("output_padding", "dst_shape"), gradient_of="Convolution",
    ),
    _Kind(
        "ConvolutionBackwardWeights", INTO_WEI, ("src", "diff_dst", "weights_shape"), "diff_weights", samples.BY_WEIGHTS,
        attrs=("weights_shape",), gradient_of="Convolution"
    ),
    _Kind("ConvTranspose", problem.TRANSPOSED, ("src", "weights", "bias"), "dst", samples.TRANSPOSED, attrs=("output_padding",)),
    _Kind(
        "ConvTransposeBackwardData", problem.TRANSPOSED_BY_DATA, ("diff_dst", "weights"), "diff_src", samples.TRANSPOSED_BY_DATA,
        gradient_of="ConvTranspose",
    ),
    _Kind(
        "ConvTransposeBackwardWeights", problem.TRANSPOSED_BY_WEIGHTS, ("src", "diff_dst", "weights_shape"), "diff_weights",
        samples.TRANSPOSED_BY_WEIGHTS, attrs=("weights_shape",), gradient_of="ConvTranspose",
    ),
    _Depthwise("_Depthwise", INTO_DST, ("src", "weights"), "dst", samples.DEPTHWISE[0], window=depthwise.forward),
    _Depthwise(
        "_DepthwiseBackwardData", INTO_SRC, ("diff_dst", "weights"), "diff_src", samples.DEPTHWISE[1], attrs=("dst_shape",),
        window=depthwise.by_data,
    ),
    _Partial(
        "_DepthwisePartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.DEPTHWISE[2], attrs=("weights_shape", "blocks"),
        window=depthwise.by_weights,
    ),
    _Phased("_PhasedConvolution", INTO_DST, ("src", "weights"), "dst", samples.PHASED, attrs=("phases", "first", "last")),
    _Partial("_PartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.PARTIAL[0], attrs=("weights_shape", "blocks")),
    _Turned("_TurnedPartialWeights", INTO_WEI, ("src", "diff_dst"), "diff_weights", samples.PARTIAL[1], attrs=("weights_shape", "blocks")),
)  # fmt: skip
SPECS = tuple(kind.row() for kind in _KINDS)
