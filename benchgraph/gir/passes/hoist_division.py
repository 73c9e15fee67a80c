"""hoist-division: dividing many elements by few becomes multiplying them by the reciprocals of the few.

A division takes about six times as long as a multiplication (docs/measurements/fusion.md, Division); the result changes by at most 1.5 ulp.
Compile-time divisors are scales of quantisation, where 1 ulp decides a tie. They stay while the dividend may be a tie by design: an input,
an element picked from one, or the result of operations that round at most once (8 bits times a scale of 16 bits are exact in f32). Products
with known numbers of more bits are rounded; they, sums of many terms, functions and their results carry noise that the reference does not
have, and ties among them are chance. Powers of two have exact reciprocals, and need not be few. Divisors stay, too, if f32 cannot hold the
reciprocal, below 2**-128. A divisor that only an execution knows gets a reciprocal bounded to finite numbers if the quotients end as 8-bit
integers: a tensor of zeros may have any scale, and its zeros are to become the zero point.

A multiplication by known numbers followed by a division by known numbers becomes one multiplication by their quotient, rounded once. This
is a requantisation, also of sums, and whole numbers times 0.5 are exact ties. In f32, 0.013 * (1 / 0.026) is not 0.5, and a whole number
times 0.013 / 0.026 is not always half of it. Before casts to integers, a quotient that f32 cannot hold is rounded to odd: 0.15 / 0.1 of f32
is not 1.5, all products that would be ties of 1.5 lie on one side, and of the two neighbours of the quotient the odd one lies there too.
n * (r +- ulp(r)) differs from n * r by more than half an ulp, so no product becomes a tie. Before casts to f8 the nearest neighbour is
taken: ties of f8 are ties of quotients in f32. But where f32 holds the products and not the quotient, as in x * 1 / 0.3, both ops stay,
since each rounds once as the ops say: 72 / 0.3 is less than 240, a tie of f8_e5m2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.rewrite import FEWER, Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.elementwise.binary import ROUNDED_ONCE
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.quantisation.bounded_reciprocal import bounded_reciprocal, is_finite
from benchgraph.ops.spec import Computes, OpSpec
from benchgraph.ops.spec.call import Array

LARGEST = 2.0**32  # numbers between its reciprocal and this have quotients, and products with those, in the range of f32
EXACT_BITS = 16  # of a factor: its products with 8 bits have 24 bits, which f32 holds


def hoist_division(g: Graph, target: Target) -> Graph:
    """First factors are divided by the divisors of their products; then divisors that are few become reciprocals."""
    return rewrite(rewrite(g, target, REQUANTISATION), target, RECIPROCALS)


def _is_division(row: OpSpec) -> bool:
    return row.semantics.product_kind != ""


def _requantised(s: Site) -> int | None:
    """By their quotient instead of by known numbers, with lower bounds of 0 before the division by other known numbers."""
    divisor, out, bounds = _known(s.g).get(s.op.ins[1]), s.call.outs[0], list[Op]()
    for maker in s.sole_makers() if divisor is not None else ():
        assert divisor is not None
        if s.d.type(maker.outs[0]) != out or out.dtype is not DType.f32:
            return None
        if maker.semantics.is_product:
            if (quotient := _quotient(s, maker, divisor)) is None:
                return None
            value = s.like(maker, maker.ins[0], s.d.const(quotient))
            for bound in reversed(bounds):
                value = s.like(bound, value)
            return value
        if maker.semantics.lower_bound != 0 or np.any(divisor <= 0):
            return None
        bounds.append(maker)
    return None


def _quotient(s: Site, product: Op, divisor: Reals) -> Reals | None:
    """What to multiply by instead of the product's known numbers; None if the factors cannot be divided."""
    factor = _known(s.g).get(product.ins[1])
    if factor is None or not _divides(factor, divisor):
        return None
    quotient = factor / divisor
    is_less_exact = _is_short(factor) and bool(np.any(quotient != quotient.astype(np.float32)))
    casts = (s.d.type(op.outs[0]).dtype for op in s.g.readers(s.op.outs[0]) if op.semantics.is_conversion)
    if is_less_exact and any(dtype.is_float and dtype.bits == 8 for dtype in casts):
        return None
    return _odd(quotient) if s.op.outs[0] in _saturating(s.g) else quotient


REQUANTISATION = Pattern(
    root=_is_division,
    build=_requantised,
    example="""graph(%0: f32[64,16]) {
      %1: f32[] = const 0.013     %2: f32[64,16] = Multiply(%0, %1)
      %3: f32[64,16] = ReLU(%2)
      %4: f32[] = const 0.026     %5: f32[64,16] = Divide(%3, %4)
      ->
      %1: f32[] = const 0.5       %2: f32[64,16] = Multiply(%0, %1)
      %5: f32[64,16] = ReLU(%2)
      return %5 }""",
    near_misses=(("0.026", "-0.026"), ("const 0.013", "ReduceSum(%0) {axes=[0,1]}"), ("return %5", "return %5, %3")),
    error=2**-23,
)


@memoised
def _known(g: Graph) -> Mapping[int, Reals]:
    """The compile-time values in f32, and products of such values before rounding."""
    known = {v.id: v.literal.array.astype(np.float64) for v in g.values if v.literal is not None and v.dtype is DType.f32}
    for op in g.ops:
        if op.semantics.is_product and known.keys() >= {*op.ins} and g.value(op.outs[0]).dtype is DType.f32:
            one, other = op.ins
            known[op.outs[0]] = np.asarray(known[one] * known[other])
    return known


def _divides(factor: Reals, divisor: Reals) -> bool:
    """Whether there are no more quotients than numbers, and all are in range."""
    sizes = np.abs(factor), np.abs(divisor)
    few = np.broadcast(*sizes).size == max(a.size for a in sizes)
    return few and all(bool(np.all((a >= 1 / LARGEST) & (a <= LARGEST))) for a in sizes)


def _odd(numbers: Reals) -> Reals:
    """Numbers rounded to f32, to odd: an inexact one to the neighbour whose last bit is 1."""
    near = np.asarray(numbers, np.float32)
    is_other = (near != numbers) & (near.view(np.uint32) % 2 == 0)
    other = np.nextafter(near, np.where(numbers > near, np.inf, -np.inf).astype(np.float32))
    return np.where(is_other, other, near).astype(np.float64)


def _reciprocal(s: Site) -> int | None:
    dividend, divisor = map(s.g.value, s.op.ins)
    known = divisor.literal
    is_exact = known is not None and _are_powers_of_two(known.array)
    if not divisor.dtype.is_float or not (is_exact or divisor.type.elements * FEWER <= dividend.type.elements):
        return None
    if known is not None and not ((is_exact or dividend.id in _noisy(s.g)) and is_finite(known.array)):
        return None
    is_bounded = known is None and s.op.outs[0] in _saturating(s.g)
    # in f32 even for narrow divisors
    reciprocal = bounded_reciprocal(s.d, divisor.id) if is_bounded else s.d.op(s.op.kind, s.d.const(1.0), divisor.id)
    return s.like(s.op, dividend.id, reciprocal, kind=s.op.semantics.product_kind)


RECIPROCALS = Pattern(
    root=_is_division,
    build=_reciprocal,
    example="""graph(%0: f32[64,128], %1: f32[64,1]) {
      %2: f32[64,128] = Divide(%0, %1)
      ->
      %3: f32[] = const 1.0
      %4: f32[64,1] = Divide(%3, %1)    %2: f32[64,128] = Multiply(%0, %4)
      return %2 }""",
    near_misses=(
        ("%1: f32[64,1]", "%1: f32[64,128]"),
        (", %1: f32[64,1]) {", ") { %1: f32[] = const 0.1"),
        (", %1: f32[64,1]) {", ") { %1: f32[] = const 2.938735877055719e-39"),
    ),
    error=1.5 * 2**-23,
)


def _are_powers_of_two(numbers: Array) -> bool:
    return bool(np.all(np.abs(np.frexp(real(numbers))[0]) == 0.5))


@memoised
def _noisy(g: Graph) -> frozenset[int]:
    """The values with a larger error than one rounding, or that are certainly rounded, because of some op on the way."""
    noisy = set[int]()
    for op in g.ops:
        factor = _known(g).get(op.ins[1]) if op.semantics.is_product else None
        is_rounded = factor is not None and not _is_short(factor)
        if op.semantics.threshold(g.call(op)) > ROUNDED_ONCE or is_rounded or not noisy.isdisjoint(op.ins):
            noisy.update(op.outs)
    return frozenset(noisy)


def _is_short(numbers: Reals) -> bool:
    """Whether f32 holds the products of these numbers with 8-bit integers exactly."""
    whole = np.frexp(numbers)[0] * 2.0**EXACT_BITS
    return bool(np.all(whole == np.rint(whole)))


@memoised
def _saturating(g: Graph) -> frozenset[int]:
    """The values that only casts to 8-bit integers read, perhaps through sums."""
    saturating = set[int]()

    def is_on_the_way(op: Op) -> bool:
        if op.semantics.is_conversion:
            return g.value(op.outs[0]).dtype in (DType.u8, DType.s8)
        return op.semantics.computes is Computes.sum and op.outs[0] in saturating

    for op in reversed(g.ops):
        saturating.update(v for v in op.outs if g.readers(v) and v not in g.outs and all(map(is_on_the_way, g.readers(v))))
    return frozenset(saturating)
