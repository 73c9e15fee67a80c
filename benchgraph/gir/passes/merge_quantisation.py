"""merge-quantisation: a chain of scalings and shifts before a cast to an 8-bit integer becomes one scaling and one shift.

Zero points, scales and biases are constants, so init combines them once. A lower bound that the integers have anyway is removed too. Only
before casts to 8 bits: elsewhere the order of roundings might be visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.rewrite import FEWER, Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.rescaling import Rescaling
from benchgraph.ops.spec import Computes

_SHIFTS = Computes.sum, Computes.difference


def merge_quantisation(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, RESCALING)


def _merged(s: Site) -> int | None:
    """The steps before a cast from f32 to 8 bits as one, where that takes fewer ops."""
    dtype, chain = s.call.outs[0].dtype, list[Op]()
    if len(s.op.ins) != 1 or dtype not in (DType.u8, DType.s8):
        return None
    for maker in s.sole_makers():
        if not (_is_step(s.g, maker) or _is_bound(s.g, maker, chain)):
            break
        chain.insert(0, maker)
    merged = _rescaling(s, chain, dtype)
    if merged.steps >= sum(not step.semantics.is_conversion for step in chain):
        return None
    return s.like(s.op, merged.of(s.d, chain[0].ins[0]))


RESCALING = Pattern(
    root=lambda row: row.semantics.is_conversion,
    build=_merged,
    example="""graph(%0: s32[64,128], %1: s32[1] constant, %2: f32[128] constant, %3: f32[] constant) {
      %4: s32[64,128] = Subtract(%0, %1)
      %5: f32[64,128] = TypeCast(%4)
      %6: f32[64,128] = Multiply(%5, %2)
      %7: f32[64,128] = Add(%6, %3)
      %8: u8[64,128] = TypeCast(%7)
      ->
      %9: s32[] = const 0
      %10: s32[1] = Subtract(%9, %1)         %11: f32[1] = TypeCast(%10)
      %12: f32[128] = Multiply(%11, %2)      %13: f32[128] = Add(%12, %3)
      %5: f32[64,128] = TypeCast(%0)
      %6: f32[64,128] = Multiply(%5, %2)
      %7: f32[64,128] = Add(%6, %13)
      %8: u8[64,128] = TypeCast(%7)
      return %8 }""",
    near_misses=(("u8", "s32"), ("return %8", "return %8, %7")),
    error=1 / 255,  # one step
)


def _is_step(g: Graph, op: Op) -> bool:
    """Whether an op scales or shifts its first operand by constants, or widens it from s32 to f32."""
    (src, *others), out = (g.value(v) for v in op.ins), g.value(op.outs[0])
    if len(op.outs) != 1 or src.shape != out.shape:
        return False
    if not others:
        return op.semantics.is_conversion and (src.dtype, out.dtype) == (DType.s32, DType.f32)
    is_scaling = op.semantics.is_product and out.dtype is DType.f32
    is_shift = op.semantics.computes in _SHIFTS and out.dtype in (DType.f32, DType.s32)
    by = others[0]
    is_few = len(others) == 1 and src.dtype is by.dtype is out.dtype and by.type.elements * FEWER <= out.type.elements
    return (is_scaling or is_shift) and is_few and by.id in g.computed_from_constants


def _is_bound(g: Graph, op: Op, later: list[Op]) -> bool:
    """Whether an op bounds f32 from below by a number, and all later steps map that to a number."""
    if op.semantics.lower_bound is None or g.value(op.ins[0]).dtype is not DType.f32 or g.value(op.outs[0]).dtype is not DType.f32:
        return False
    for step in later:
        number = _number(g, step)
        if step.semantics.lower_bound is not None or number is None or not isfinite(number) or (number <= 0 and step.semantics.is_product):
            return False
    return True


def _number(g: Graph, step: Op) -> float | None:
    """The number that a step scales or shifts by, if it is one number known now."""
    return g.value(step.ins[1]).scalar if len(step.ins) == 2 else None


def _rescaling(s: Site, chain: Sequence[Op], dtype: DType) -> Rescaling:
    """All steps of a chain before a cast to this dtype as one."""
    rescaling = Rescaling()
    for step in chain:
        if step.semantics.is_conversion:
            rescaling = rescaling.in_f32(s.d)
        elif step.semantics.lower_bound is not None:
            rescaling = replace(rescaling, least=step.semantics.lower_bound)
        elif step.semantics.is_product:
            rescaling = rescaling.scaled(s.d, step.ins[1], _number(s.g, step))
        else:
            rescaling = rescaling.shifted(s.d, step.ins[1], _number(s.g, step), down=step.semantics.computes is Computes.difference)
    is_redundant = rescaling.least is not None and rescaling.least <= dtype.range[0]
    return replace(rescaling, least=None) if is_redundant else rescaling
