"""Reductions, and the gradient of a bias, which is one."""

from __future__ import annotations

from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DST, SRC
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, Call, Int, Md, Primitive, ProgramStep, Real, View
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, operand, view
from benchgraph.ops.spatial import all_but_channel

_MAX, _MIN, _SUM, _MUL, _MEAN = range(0x2FFF2, 0x2FFF7)
_NORM, _POWER_SUM = 0x2FFF8, 0x2FFFA  # norm_lp_sum: (sum |x|^p)^(1/p); norm_lp_power_p_sum: sum |x|^p

ALGS = {  # with the exponent p
    "ReduceL1": (_POWER_SUM, 1.0),
    "ReduceL2": (_NORM, 2.0),
    "ReduceMax": (_MAX, 0.0),
    "ReduceMean": (_MEAN, 0.0),
    "ReduceMin": (_MIN, 0.0),
    "ReduceProd": (_MUL, 0.0),
    "ReduceSum": (_SUM, 0.0),
}


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    if len(op.inputs) > 1:
        raise NoPrimitive("its axes are known only at run time")
    rank = len(op.inputs[0].known_shape)
    return (_reduction(op, frozenset(axis % rank for axis in op.full_attrs.integers("axes")), *ALGS[op.kind], target),)


def bias_gradient(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    axes = all_but_channel(op.full_attrs, len(op.inputs[0].known_shape))
    return (_reduction(op, frozenset(axes), _SUM, 0.0, target),)


def _reduction(op: Op, axes: frozenset[int], alg: int, p: float, target: Target) -> Primitive:
    src, dst = op.inputs[0], op.outputs[0]
    if not axes:
        raise NoPrimitive("it reduces no axis")
    v = view(dst)
    if len(dst.known_shape) != len(src.known_shape):  # reduced dims are left out of dst; the primitive keeps them
        strides = iter(v.strides if dst.known_shape else ())
        dims = tuple(1 if axis in axes else size for axis, size in enumerate(src.known_shape))
        v = View(dims, tuple(1 if axis in axes else next(strides) for axis in range(len(dims))), v.dtype, None)
    call = Call("dnnl_reduction_primitive_desc_create", (ENGINE, Int(alg), Md(SRC), Md(DST), Real(p), Real(0.0), ATTR))
    return Primitive("reduction", call, (operand(SRC, src),), (operand(DST, dst, v),), target.attributes)
