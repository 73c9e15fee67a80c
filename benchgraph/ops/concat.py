"""Concat: 1 to 64 sources, one after the other along an axis. Exact, and no floating-point work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.axis import axis_of, axis_of_call
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.spec import Attr, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.spec.forms import Indices, LayoutOp
from benchgraph.tir.build import add, sub
from benchgraph.tir.ir import Expr

MOST = 64  # sources, as in oneDNN


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    first = ins[0].shape
    axis = axis_of(attrs, len(first))
    for k, t in enumerate(ins):
        if len(t.shape) != len(first):
            what = f"source {k} {t.shape} has rank {len(t.shape)}, source 0 {first} has rank {len(first)}"
            raise InvalidShape(what, fix="give all sources one rank, with a StaticReshape in front if need be")
        for dim, (got, want) in enumerate(zip(t.shape, first, strict=True)):
            if dim != axis and got != want:
                what = f"dim {dim} of source {k} {t.shape} is {got}, of source 0 {first} it is {want}"
                raise InvalidShape(what, fix=f"sources may differ along axis {axis} only")
    return ((*first[:axis], sum(t.shape[axis] for t in ins), *first[axis + 1 :]),)


def _parts(attrs: Attrs, srcs: tuple[Shape, ...]) -> tuple[Attrs, ...]:
    """For each source, the index `start` along the axis of dst from which on it is stored."""
    axis = axis_of(attrs, len(srcs[0]))
    starts = accumulate((shape[axis] for shape in srcs[:-1]), initial=0)
    return tuple(Attrs(axis=axis, start=start) for start in starts)


def _shifted(part: Attrs, at: Indices, shift: Callable[[Expr, int], Expr]) -> Indices:
    axis = part.integer("axis")
    return (*at[:axis], shift(at[axis], part.integer("start")), *at[axis + 1 :])


def _cut_up_again(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    axis = axis_of_call(call)
    parts = np.split(outs[0], np.cumsum([a.shape[axis] for a in ins])[:-1], axis=axis)
    return all(np.array_equal(part, src) for part, src in zip(parts, ins, strict=True))


SPECS = (
    OpSpec(
        "Concat",
        Schema(inputs=ports("src_i"), outputs=ports("dst"), variadic_inputs=(1, MOST), attrs={"axis": Attr("s64", required=True)}),
        Semantics(infer=infer, reference=lambda call, ins: (np.concatenate(ins, axis=axis_of_call(call)),), flops=lambda call: 0),
        Testing(
            fill=pointwise.CONCAT,
            samples=(
                Sample(((3, 5), (3, 17)), Attrs(axis=1), why="columns: parts of rows, the second one not aligned"),
                Sample(((5, 7), (2, 7), (1, 7)), Attrs(axis=0), why="rows: each source is contiguous in dst"),
                Sample(((2, 3, 4, 5), (2, 1, 4, 5)), Attrs(axis=1), why="channels: each source is contiguous per batch entry"),
                Sample(((2, 3, 16), (2, 3, 1)), Attrs(axis=-1), why="counted from the end, a single column"),
                Sample(((4, 1), (4, 1), (4, 1)), Attrs(axis=-1), why="dst interleaves the sources element by element"),
                Sample(((6, 33),), Attrs(axis=-2), why="one source is a copy"),
                Sample(((2, 3), (0, 3), (4, 3)), Attrs(axis=0), why="a source without elements"),
                Sample(((2, 0), (2, 0)), Attrs(axis=1), why="no elements at all"),
                Sample(((7,),) * MOST, Attrs(axis=0), why="as many sources as there may be"),
                Sample(((3, 4), (3, 15)), Attrs(axis=1), (DType.bf16, DType.bf16), why="bf16"),
                Sample(((3, 4), (5, 4)), Attrs(axis=0), (DType.f16, DType.f16), why="f16"),
            ),
            laws=(Law("cut up along the axis, dst is the sources", _cut_up_again),),
        ),
        Lowering(
            Role.layout_op,
            form=LayoutOp(
                source=lambda part, src, dst, at: _shifted(part, at, sub),
                target=lambda part, src, dst, at: _shifted(part, at, add),
                parts=_parts,
            ),
            # a single source is dst: a copy
            decompose=lambda d, call, ins: (d.op("StaticReshape", *ins, attrs=Attrs(shape=call.outs[0].shape, special_zero=False)),),
            is_canonical=lambda call: len(call.ins) > 1,
        ),
    ),
)
