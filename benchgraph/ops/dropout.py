"""Dropout: dst = src / (1 - p) where an element is kept, 0 where it is not; mask, when asked for, is 1 and 0 there.

p is probability, clamped to [0, 1]; p = 1 keeps nothing, and neither does NaN. Element i, counted in row-major order for any strides, is
kept exactly when

    word(i, seed, offset) > p * (2**32 - 1)        computed without rounding

The stream of words is philox4x32-10 (core/philox.py). Four neighbours share a block of four words, and element i takes word number i % 4
of the block with, lower halves first,

    counter = (offset mod 2**32, offset >> 32, group mod 2**32, group >> 32)     group = i - i % 4
    key     = (seed mod 2**32, seed >> 32)                                       seed and offset as 64 bits without sign

so the same seed and offset give the same mask in every run, on every machine, fused or not; the gradient is this op on diff_dst with the
forward op's seed and offset. oneDNN does not document its stream; for offset 0 it uses an older one with 32-bit counters, while here 0 is
an offset like any other.

The threshold: 1 - p, its reciprocal and the product are rounded once each, half an eps at most: 1.5, taken as 3.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, isnan, sqrt

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.philox import BLOCK, LARGEST, MIDDLE, WORDS, Words, blocks
from benchgraph.core.tensor import Shape, TensorType, dense_strides
from benchgraph.ops import fills
from benchgraph.ops.fill_rules import filling, pointwise
from benchgraph.ops.laws import Reals, real, relation
from benchgraph.ops.spec import Array, Call, Elementwise, F, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.tir.build import add, binary, cast, f32, index, mul, select, unary
from benchgraph.tir.ir import BinOp, Const, Expr, Random, UnOp


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    for t, name in zip(ins[1:], ("seed", "offset", "probability"), strict=True):
        if t.elements != 1:
            raise InvalidShape(f"{name} has shape {t.shape}, which is {t.elements} numbers", fix="give one number, of shape () or (1,)")
    return ins[0].shape, ins[0].shape


def words(count: int, seed: int, offset: int) -> Words:
    """The word of each of the first `count` elements."""
    block = blocks(np.arange(0, count, BLOCK), seed, offset)
    return np.stack(np.broadcast_arrays(*block), axis=-1).reshape(-1)[:count]


def _probability(ins: tuple[Array, ...]) -> float:
    p = float(ins[3].item())
    return 1.0 if isnan(p) else min(max(p, 0.0), 1.0)


def kept(shape: Shape, ins: tuple[Array, ...]) -> NDArray[np.bool_]:
    """Which elements of a tensor of this shape are kept."""
    least = floor(Fraction(_probability(ins)) * LARGEST)
    is_kept: NDArray[np.bool_] = words(int(np.prod(shape)), int(ins[1].item()), int(ins[2].item())) > least
    return is_kept.reshape(shape)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    keep, p = kept(call.outs[0].shape, ins), _probability(ins)
    dst: Reals = np.where(keep, real(ins[0]) / (1.0 - p if p < 1 else 1.0), 0.0)
    return (dst, keep.astype(np.uint8))[: len(call.outs)]


def _position(attrs: Attrs, shape: Shape, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The element's number in row-major order."""
    total = index(0)
    for i, step in zip(at, dense_strides(shape), strict=True):
        total = add(total, mul(i, step))
    return (total,)


def _limit(p: Expr) -> Expr:
    """floor(p * (2**32 - 1)) in s64. p * 2**32 is exact in f32, and so is its fraction; subtracting p crosses an integer or does not."""
    scaled = binary(BinOp.mul, p, f32(WORDS))
    integer = unary(UnOp.floor, scaled)
    crosses = binary(BinOp.lt, binary(BinOp.sub, scaled, integer), p)
    return binary(BinOp.sub, cast(integer, DType.s64), select(crosses, Const(1), Const(0)))


def _expr(attrs: Attrs, ins: tuple[Expr, ...]) -> tuple[Expr, ...]:
    src, seed, offset, probability, i = ins
    p = binary(BinOp.max, binary(BinOp.min, probability, f32(1)), f32(0))  # NaN: 1, as min gives its second operand then
    rest = binary(BinOp.sub, f32(1), p)
    scale = select(binary(BinOp.gt, rest, f32(0)), binary(BinOp.div, f32(1), rest), f32(0))
    keep = binary(BinOp.gt, Random(i, seed, offset), cast(binary(BinOp.sub, _limit(p), Const(MIDDLE)), DType.s32))
    return select(keep, binary(BinOp.mul, src, scale), f32(0)), keep


def _number(call: Call, port: int, rng: np.random.Generator) -> Array:
    return np.asarray(rng.integers(-(2**63), 2**63 - 1, call.ins[port].shape, endpoint=True))


def _keeps_its_share(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Within six standard deviations of a binomial count: wrong once in a billion fills."""
    counted, p = real(ins[0]) != 0, _probability(ins)
    count, nonzero = int(counted.sum()), int((real(outs[0])[counted] != 0).sum())
    return abs(nonzero - count * (1 - p)) <= 6 * sqrt(count * p * (1 - p))


def _mask_marks_kept_elements(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    if len(outs) < 2:
        return True
    src, dst, mask = real(ins[0]), real(outs[0]), real(outs[1])
    return bool(np.all(np.isin(mask, (0, 1))) and np.all((mask == 1) == (dst != 0), where=src != 0))


_NUMBERS = (DType.s64, DType.s64, DType.f32)
_SCALARS: tuple[Shape, ...] = ((), (), ())


def _of(shape: Shape, why: str, dtype: DType = DType.f32, numbers: tuple[Shape, ...] = _SCALARS, mask: bool = False) -> Sample:
    return Sample((shape, *numbers), dtypes=(dtype, *_NUMBERS), out_dtypes=(dtype, DType.u8)[: 1 + mask], why=why)


SEED, OFFSET, DROPPED = 123456, 1, 0.5  # benchdnn's
_NUMBERS_FILL = tuple(filling.constant(n) for n in (SEED, OFFSET, DROPPED))


SPECS = (
    OpSpec(
        "Dropout",
        Schema(
            inputs=ports("src", "seed:T_seed", "offset:T_offset", "probability:T_p"),
            outputs=ports("dst", "mask:T_mask"),
            num_outputs=(1, 2),
            types={"T": F, "T_seed": (DType.s64,), "T_offset": (DType.s64,), "T_p": (DType.f32,), "T_mask": (DType.u8,)},
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: call.outs[0].elements,  # the product; the stream is made of integers
            threshold=lambda call: 3.0,
            is_homogeneous=True,
        ),
        Testing(
            fill=lambda call, port: _NUMBERS_FILL[port - 1] if port else pointwise.binary(call, 1),  # integers without 0, half are dropped
            domain=fills.per_port(fills.PLAIN, _number, _number, fills.uniform(0.1, 0.6)),
            samples=(
                _of((5, 37), "a matrix, groups of four across rows, a tail"),
                _of((2, 3, 16, 16), "attention probabilities"),
                _of((2, 3, 5, 7), "with the mask", mask=True),
                _of((1,), "a single element, its numbers of shape (1,)", numbers=((1,), (1,), (1,)), mask=True),
                _of((), "rank 0"),
                _of((6,), "numbers of more dims than src", numbers=((1,), (1, 1), (1, 1, 1))),
                _of((3, 0), "no elements", mask=True),
                _of((4, 19), "bf16", DType.bf16, mask=True),
                _of((3, 16), "f16", DType.f16),
            ),
            laws=(
                relation("0, or src over 1 - p", lambda ins, dst, slack: (dst == 0) | (np.abs(dst * (1 - ins[3]) - ins[0]) <= slack)),
                Law("about 1 - p of the elements are kept", _keeps_its_share),
                Law("the mask is where dst is not 0", _mask_marks_kept_elements),
            ),
            zero_limit=lambda call: 0.65,
        ),
        Lowering(Role.pointwise, form=Elementwise(_expr, position=_position)),
    ),
)
