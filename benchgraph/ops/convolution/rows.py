"""Convolution, ConvTranspose and their gradients by data and by weights: 1 to 3 spatial dims, groups, dilations, padding, both formats.

All six compute one of the three tensors of a problem (problem.py). bf16 and f16 are computed in f32 and rounded
once. The threshold is MatMul's, with the number of products that one element sums up for K.

A tensor input that gives the output's shape (dst_shape, weights_shape) is not read: the shape must be known at compile time, from the
attribute of that name or from the graph. oneDNN compiles no op with such an input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod, sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, sums
from benchgraph.ops.convolution import decompose, padding, problem, samples
from benchgraph.ops.convolution.depthwise import ProblemOf
from benchgraph.ops.convolution.problem import INTO_DST, INTO_SRC, INTO_WEI, OUT, Problem, Sides, has_kernel_last, problem_of
from benchgraph.ops.fill_rules import products
from benchgraph.ops.fill_rules.filling import exactly
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.ranges import DIMS, SIZES, STEPS
from benchgraph.ops.spatial import AUTO_PAD, DATA_FORMAT, ZEROS, beside_channel, channel_axis
from benchgraph.ops.spec import Attr, Decomposer, Filling, Law, Lowering, OpSpec, Port, Role, Sample, Schema, Semantics, Testing
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.spec.forms import Contraction, Indices, Window

Index = Callable[[Problem, Indices, Indices], tuple[Indices, Indices]]

_SHAPE, _PADDING = (Attr("s64[]", default=ZEROS, range=DIMS, per=per) for per in ("dim", "spatial dim"))


@dataclass(frozen=True)
class Kind:
    """One of the six ops, or the base of an internal one (internal_rows.py).

    inputs: port names; a third one is optional: a bias, or the output's shape. contraction: the operand indices of a canonical call.
    window: the reduction over taps of a depthwise op.
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

    # ---- in the problem's order

    def arrays(self, call: Call, ins: tuple[Array, ...], out: Array | None) -> tuple[Reals, Reals, Reals]:
        """src, wei and dst of the problem, one of which is the op's output; out None: zeros instead."""
        given = (*(real(a) for a in ins[:2]), real(out) if out is not None else np.zeros(call.outs[0].shape))
        src, wei, dst = (given[side] for side in (self.sides.src, self.sides.wei, self.sides.dst))
        wei = np.moveaxis(wei, (0, 1), (-1, -2)) if has_kernel_last(call.attrs) else wei
        channel = channel_axis(call.attrs, src.ndim)
        return np.moveaxis(src, channel, -1), wei, np.moveaxis(dst, channel, -1)

    def product(self, call: Call, ins: tuple[Array, ...]) -> tuple[sums.SumOf, Reals, Reals]:
        """(sum_of, a, b): the output is sum_of(a, b), a sum of products, in the problem's order."""
        p, (src, wei, dst) = self.problem(call), self.arrays(call, ins, None)
        if self.sides.wei == OUT:
            return partial(problem.by_weights, p), src, dst
        if self.sides.dst == OUT:
            return partial(problem.forward, p), src, wei
        return partial(problem.by_data, p), dst, wei

    def as_output(self, call: Call, ins: tuple[Array, ...], result: Reals) -> Array:
        """The sums with the bias added, in the formats of the op's attributes."""
        if self.sides.wei == OUT:
            return np.moveaxis(result, (-1, -2), (0, 1)) if has_kernel_last(call.attrs) else result
        return np.moveaxis(result + real(ins[2]) if self.has_bias(ins) else result, -1, channel_axis(call.attrs, result.ndim))

    def reference(self, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return (self.as_output(call, ins, sums.of_products(*self.product(call, ins))),)

    def f32_alternatives(self, call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        """Zeros of the padding may be multiplied by an infinity, and products and partial sums may exceed f32."""
        sum_of, a, b = self.product(call, ins)
        right = sums.of_products(sum_of, a, b)
        padded = np.where(self.may_multiply_zeros(call, ~np.isfinite(a), ~np.isfinite(b)), np.nan, right)
        return tuple((self.as_output(call, ins, result),) for result in (*sums.others_in_f32(sum_of, a, b, right), padded))

    def may_multiply_zeros(self, call: Call, a: Array, b: Array) -> Array:
        """Where a sum may multiply an infinity or NaN by a zero of the padding. a, b: where the operands are not finite."""
        return padding.may_multiply(self.problem(call), self.sides, a, b)

    def decompose(self, d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
        p, sides = self.problem(call), self.sides
        bias = ins[2:] if self.has_bias(ins) else ()
        if sides.dst == OUT:
            return (decompose.forward(d, call, p, ins[sides.src], ins[sides.wei], bias),)
        if sides.src == OUT:
            return (decompose.by_data(d, call, p, ins[sides.dst], ins[sides.wei], bias),)
        return (decompose.by_weights(d, call, p, ins[sides.src], ins[sides.dst]),)

    def products_per_sum(self, p: Problem) -> int:
        """The largest number of products that one element of the output sums."""
        if self.sides.wei == OUT:
            return prod(p.dst[:-1])
        return prod(p.kernel) * (p.group_in if self.sides.dst == OUT else p.group_out)

    def flops(self, call: Call) -> int:
        """A multiplication and an addition per product, but for products with padding; an addition per element for the bias."""
        return self.problem(call).flops + (call.outs[0].elements if self.has_bias(call.ins) else 0)

    def fill(self, call: Call, port: int) -> Filling:
        """Integers whose sums are exact: src sparse, or diff_dst where there is one."""
        if port == 2:
            return products.bias(call.ins[2].dtype) if self.inputs[2] == "bias" else exactly(np.array(call.outs[0].shape), "the shape")
        sparse, dense = (1, 0) if self.inputs[1] == "diff_dst" else (0, 1)
        products_per_sum = self.products_per_sum(self.problem(call))
        types = call.ins[sparse].dtype, call.ins[dense].dtype, call.outs[0].dtype
        operands = products.Operands(products.CONVOLUTION, *types, products_per_sum)
        return operands.sparse() if port == sparse else operands.dense()

    def domain(self, call: Call, port: int, rng: np.random.Generator) -> Array:
        """Weights as for MatMul, so that dst has the variance of src; a shape input is the shape; all else is in [-1, 1)."""
        if port == 2 and self.inputs[2] != "bias":
            return np.array(call.outs[0].shape, np.int32)
        k = max(self.products_per_sum(self.problem(call)), 1)
        limit, shift = (sqrt(3 / k), min(2 / k, 0.25)) if port == self.sides.wei else (1.0, 0.0)
        return fills.uniform(shift - limit, shift + limit)(call, port, rng)

    def guaranteed_zeros(self, call: Call) -> float:
        """The share of elements that sum no products, or products with padding only; none with a bias."""
        if self.sides.wei == OUT or self.has_bias(call.ins):
            return 0.0
        return problem.guaranteed_zeros(self.problem(call), 2 if self.sides.dst == OUT else 0)

    def sums_agree(self, call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """The sum of all outputs follows from sums over the inputs."""
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
                    **{name: _PADDING if name == "output_padding" else _SHAPE for name in self.attrs},
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
                threshold=lambda call: 2 * sqrt(self.products_per_sum(self.problem(call))) + 4,
                f32_alternatives=self.f32_alternatives,
                follows_fpmath=True,
            ),
            Testing(
                fill=self.fill,
                domain=self.domain,
                samples=self.samples,
                laws=(Law("the sum of the output is that of all products", self.sums_agree),),
                gradient_of=self.gradient_of,
                fills_quantised=not self.gradient_of,
                zero_limit=lambda call: 0.70,
                guaranteed_zeros=self.guaranteed_zeros,
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

    def _contraction(self, index: Index) -> Contraction:
        return Contraction(
            reduced=lambda call: (*self.problem(call).kernel, self.problem(call).group_in),
            index=lambda call, at, over: index(self.problem(call), at, over),
            group_columns=lambda call: self.problem(call).group_out,
        )


_KINDS = (
    Kind("Convolution", INTO_DST, ("src", "weights", "bias"), "dst", samples.FORWARD, contraction=decompose.forward_contraction),
    Kind(
        "ConvolutionBackwardData", INTO_SRC, ("diff_dst", "weights", "dst_shape"), "diff_src", samples.BY_DATA,
        attrs=("output_padding", "dst_shape"), gradient_of="Convolution",
    ),
    Kind(
        "ConvolutionBackwardWeights", INTO_WEI, ("src", "diff_dst", "weights_shape"), "diff_weights", samples.BY_WEIGHTS,
        attrs=("weights_shape",), gradient_of="Convolution"
    ),
    Kind("ConvTranspose", problem.TRANSPOSED, ("src", "weights", "bias"), "dst", samples.TRANSPOSED, attrs=("output_padding",)),
    Kind(
        "ConvTransposeBackwardData", problem.TRANSPOSED_BY_DATA, ("diff_dst", "weights"), "diff_src", samples.TRANSPOSED_BY_DATA,
        gradient_of="ConvTranspose",
    ),
    Kind(
        "ConvTransposeBackwardWeights", problem.TRANSPOSED_BY_WEIGHTS, ("src", "diff_dst", "weights_shape"), "diff_weights",
        samples.TRANSPOSED_BY_WEIGHTS, attrs=("weights_shape",), gradient_of="ConvTranspose",
    ),
)  # fmt: skip
SPECS = tuple(kind.row() for kind in _KINDS)
