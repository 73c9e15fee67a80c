"""merge-quantisation: a chain of scalings and shifts before a cast to an 8-bit integer becomes one scaling and one shift.

%1: s32[64,128] = MatMul(...)
%2 = Subtract(%1, %a)                     %3: f32[64,128] = TypeCast(%1)
%3: f32[64,128] = TypeCast(%2)            %4 = Multiply(%3, %s * q)
%4 = Multiply(%3, %s)               ->    %5 = Add(%4, (%b - %a * %s) * q + z)
%5 = Add(%4, %b)                          %6 = Maximum(%5, z)
%6 = ReLU(%5)                             %8: u8[64,128] = TypeCast(%6)
%7 = Multiply(%6, q); Add(., z)
%8: u8[64,128] = TypeCast(.)

Zero points, scales and biases are constants, so init combines them once. A lower bound that the integers have anyway is removed too. Only
before casts to 8 bits: elsewhere the order of roundings might be visible.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.rescaling import Rescaling
from benchgraph.ops.spec import Computes

FEWER = 8  # times fewer constants than elements, so that combining them pays
_SHIFTS = Computes.sum, Computes.difference


def merge_quantisation(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    gone: set[int] = set()
    nodes: list[Node] = []
    for op in g.ops:
        if chain := _chain(g, op):
            merged = _merged(g, builder, chain, g.value(op.outs[0]).dtype)
            if merged.steps < sum(not step.semantics.is_conversion for step in chain):
                gone |= {id(step) for step in chain}
                op = replace(op, ins=(merged.of(builder, chain[0].ins[0]),))
                nodes += builder.nodes
            builder.taken()
        nodes.append(op)
    return builder.graph(g, (n for n in nodes if id(n) not in gone))


def _chain(g: Graph, cast: Op) -> tuple[Op, ...]:
    """The ops before a cast from f32 to 8 bits, in order; () for any other op."""
    if not cast.semantics.is_conversion or len(cast.ins) != 1 or g.value(cast.outs[0]).dtype not in (DType.u8, DType.s8):
        return ()
    steps: list[Op] = []
    reader, v = cast, cast.ins[0]
    while v not in g.outs and g.consumers[v] == (reader,):
        maker = g.producer.get(v)
        if not isinstance(maker, Op) or not (_is_step(g, maker) or _is_bound(g, maker, steps)):
            break
        steps.insert(0, maker)
        reader, v = maker, maker.ins[0]
    return tuple(steps)


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


def _merged(g: Graph, d: Builder, chain: tuple[Op, ...], dtype: DType) -> Rescaling:
    """All steps of a chain before a cast to this dtype as one."""
    rescaling = Rescaling()
    for step in chain:
        if step.semantics.is_conversion:
            rescaling = rescaling.in_f32(d)
        elif step.semantics.lower_bound is not None:
            rescaling = replace(rescaling, least=step.semantics.lower_bound)
        elif step.semantics.is_product:
            rescaling = rescaling.scaled(d, step.ins[1], _number(g, step))
        else:
            rescaling = rescaling.shifted(d, step.ins[1], _number(g, step), down=step.semantics.computes is Computes.difference)
    is_redundant = rescaling.least is not None and rescaling.least <= dtype.range[0]
    return replace(rescaling, least=None) if is_redundant else rescaling
