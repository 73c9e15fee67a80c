"""Functions of two numbers, of three (Select), and a bias."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.attrs import NO_ATTRS
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DST, SRC, SRC_1, SRC_2
from benchgraph.onednn.primitives.families.eltwise import FORWARD
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, Argument, Call, Int, Md, Operand, Primitive, ProgramStep, View
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, broadcast, operand, view
from benchgraph.ops import spec
from benchgraph.ops.spatial import beside_channel
from benchgraph.ops.spec import Computes

ADD, _MUL, _MAX, _MIN, _DIV, _SUB, _GE = range(0x1FFF0, 0x1FFF7)
SELECT = 0x1FFFC

ALGS = {"Add": ADD, "Multiply": _MUL, "Maximum": _MAX, "Minimum": _MIN, "Divide": _DIV, "Subtract": _SUB, "GreaterEqual": _GE}


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    return (_binary(step.anchor, ALGS[step.anchor.kind], target),)


def squared_difference(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    p = _binary(step.anchor, _SUB, target)
    return (replace(p, attrs=replace(p.attrs, post_ops=(FORWARD["Square"](NO_ATTRS),))),)


def _binary(op: Op, alg: int, target: Target) -> Primitive:
    """src0 has dst's shape where the function is commutative: older versions broadcast src1 alone."""
    dst = op.outputs[0]
    sources, rank = list(op.inputs), len(dst.known_shape)
    if spec(op.kind).semantics.is_commutative and sources[0].known_shape != dst.known_shape:
        sources.reverse()
    inputs = tuple(operand(arg, t, broadcast(t, rank)) for arg, t in zip((SRC, SRC_1), sources, strict=True))
    return _primitive(alg, inputs, dst, target)


def _primitive(alg: int, inputs: tuple[Operand, ...], dst: LogicalTensor, target: Target) -> Primitive:
    arguments: tuple[Argument, ...] = (ENGINE, Int(alg), *(Md(o.arg) for o in inputs), Md(DST), ATTR)
    suffix = "" if len(inputs) == 2 else "_v2"
    call = Call(f"dnnl_binary_primitive_desc_create{suffix}", arguments)
    return Primitive("binary", call, inputs, (operand(DST, dst, is_free=True),), target.attributes)


def select(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, dst = step.anchor, step.anchor.outputs[0]
    cond, yes, no = op.inputs
    rank = len(dst.known_shape)
    return (_primitive(SELECT, tuple(operand(a, t, broadcast(t, rank)) for a, t in ((SRC, yes), (SRC_1, no), (SRC_2, cond))), dst, target),)


def selects(op: Op) -> bool:
    """Whether the op is a selection; its inputs are the condition, and what is taken where it holds, and where not."""
    return spec(op.kind).semantics.computes is Computes.choice


def bias_view(op: Op, bias: LogicalTensor) -> View:
    """A bias (C,) as it broadcasts to the op's src."""
    v, src = view(bias), op.inputs[0].known_shape
    after = len(beside_channel(op.full_attrs, src)) - 1
    before = len(src) - 1 - after
    if before < 0:
        raise NoPrimitive("src has no channel")
    return View((1,) * before + v.dims + (1,) * after, (1,) * before + v.strides + (1,) * after, v.dtype, None)


def bias_add(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, bias = op.inputs
    return (_primitive(ADD, (operand(SRC, src), operand(SRC_1, bias, bias_view(op, bias))), op.outputs[0], target),)
