"""MatMul and convolutions: small integers, so that sums of their products are exact in any order.

One operand is sparse where the sum is long: with N = 2**digits / (max|src| * max|wei|) products a sum still has no more digits than dst
and the accumulator, so of K products N / K may be anything but 0. Ranges and the rule are benchdnn's (its cfg.cpp files).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.core.dtypes import DType
from benchgraph.ops.fill_rules.filling import integers
from benchgraph.ops.spec import Filling

Range = tuple[int, int]

# The bits of an integer that a type represents exactly
DIGITS: dict[DType, int] = {
    DType.f32: 24, DType.bf16: 8, DType.f16: 11, DType.f8_e4m3: 4, DType.f8_e5m2: 3, DType.s64: 63, DType.s32: 31,
    DType.s8: 7, DType.u8: 8, DType.s4: 3, DType.u4: 4, DType.boolean: 1,
}  # fmt: skip
ACCUMULATOR = DIGITS[DType.f32]  # every sum is an f32 sum
BIAS = 8
SPARSE_F8 = 2  # products per sum of 8-bit floats: their dst has 3 or 4 digits, which one product may fill

_INT8 = (DType.s8, DType.u8)
_F8 = (DType.f8_e4m3, DType.f8_e5m2)
_SMALL: dict[DType, Range] = {
    DType.s8: (-4, 4), DType.u8: (0, 8), DType.s4: (-2, 2), DType.u4: (0, 4), DType.s32: (-4, 4), DType.s64: (-4, 4),
    DType.boolean: (0, 1),
}  # fmt: skip
_FOUR, _TWO = (dict.fromkeys((DType.bf16, DType.f16, *_F8), (-n, n)) for n in (4, 2))


@dataclass(frozen=True)
class Ranges:
    """Ranges of the test data of a family of ops, by dtype: of the operand that may be sparse, and of the other one."""

    src: dict[DType, Range]
    wei: dict[DType, Range]
    is_even: bool = False  # weights of s8 x s8 are doubled: their sums stay even


MATMUL = Ranges({DType.f32: (-64, 64), **_FOUR, **_SMALL}, {DType.f32: (-128, 128), **_TWO, **_SMALL})
CONVOLUTION = Ranges({DType.f32: (-32, 32), **_FOUR, **_SMALL}, {DType.f32: (-32, 32), **_FOUR, DType.f16: (-2, 2), **_SMALL}, is_even=True)


@dataclass(frozen=True)
class Operands:
    """The two operands of a sum of `count` products into dst."""

    ranges: Ranges
    src: DType
    wei: DType
    dst: DType
    count: int

    @property
    def limits(self) -> tuple[Range, Range]:
        """The ranges of src and wei, halved alternately until a single product fits dst."""
        src, wei = self.ranges.src[self.src], self.ranges.wei[self.wei]
        if self.src is self.wei is DType.s8:
            wei = (-8, 8) if self.ranges.is_even else (-2, 2)
        if self.src is DType.u8 and self.wei in _INT8 and self.dst.bits >= DType.f32.bits:
            src = (0, 160)
        if self.src is self.wei is DType.u8:
            src = (0, 1)
        halvings = 0
        while _products(src, wei, self.dst) < 1:
            src, wei = (_half(src), wei) if halvings % 2 == 0 else (src, _half(wei))
            halvings += 1
        return src, wei

    @property
    def density(self) -> float:
        """The share of src that is not 0."""
        exact = _products(*self.limits, self.dst)
        if self.src in _F8 or self.wei in _F8:
            exact = min(exact, SPARSE_F8)
        if self.src in _INT8 and self.wei in _INT8:
            exact *= 3  # benchdnn's: integers that do not fit are cut off, which is exact too
        return min(1.0, exact / max(self.count, 1))

    def sparse(self) -> Filling:
        return integers(*self.limits[0], self.density, starts_positive=True)

    def dense(self) -> Filling:
        step = 2 if self.ranges.is_even and self.src is self.wei is DType.s8 else 1
        return integers(*self.limits[1], step=step, starts_positive=True)


def _products(src: Range, wei: Range, dst: DType) -> int:
    """The number of products of the largest numbers whose sum dst and the accumulator represent exactly."""
    return int(2 ** min(DIGITS[dst], ACCUMULATOR) // (max(map(abs, src)) * max(map(abs, wei))))


def _half(r: Range) -> Range:
    return int(r[0] / 2), max(int(r[1] / 2), 1)


def bias(dtype: DType) -> Filling:
    return integers(0 if dtype is DType.u8 else -BIAS, BIAS)
