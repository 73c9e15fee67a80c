"""GenIndex: dst[i, j, ...] is the index along one axis, in s32. Only the shape of src is read.

Causal masks consist of it: Select(GreaterEqual(GenIndex(row), GenIndex(column)), scores, -inf).
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops.axis import axis_of, axis_of_call, infer_same
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.fill_rules.filling import always
from benchgraph.ops.laws import real
from benchgraph.ops.spec import Array, Attr, Call, Elementwise, F, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.tir.build import cast


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    shape = call.outs[0].shape
    axis = axis_of_call(call)
    along = np.arange(shape[axis], dtype=np.int32).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return (np.broadcast_to(along, shape),)


def _counts_up(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    dst = np.moveaxis(real(outs[0]), axis_of_call(call), 0)
    return bool(np.all(dst[:1] == 0) and np.all(np.diff(dst, axis=0) == 1))


SPECS = (
    OpSpec(
        "GenIndex",
        Schema(
            inputs=ports("src:T1"), outputs=ports("dst:T2"), types={"T1": F, "T2": (DType.s32,)}, attrs={"axis": Attr("s64", required=True)}
        ),
        Semantics(infer=infer_same, reference=reference, flops=lambda call: 0, monotonicity=(0,)),
        Testing(
            fill=always(pointwise.ZERO),
            samples=(
                Sample(((5, 17),), Attrs(axis=0), why="rows: every lane of a vector is alike"),
                Sample(((5, 17),), Attrs(axis=1), why="columns: the lanes count up, and there is a tail"),
                Sample(((2, 3, 4, 33),), Attrs(axis=-1), why="counted from the end"),
                Sample(((2, 3, 7, 16),), Attrs(axis=-2), why="rows of a batch, as in a causal mask"),
                Sample(((1, 15),), Attrs(axis=0), why="an axis of size 1: nothing but zeros"),
                Sample(((3, 1, 5),), Attrs(axis=-3), why="the first axis, counted from the end"),
                Sample(((31,),), Attrs(axis=0), why="rank 1"),
                Sample(((3, 0, 2),), Attrs(axis=1), why="no elements"),
                Sample(((4, 19),), Attrs(axis=1), (DType.bf16,), why="bf16: src's dtype changes nothing"),
                Sample(((3, 16),), Attrs(axis=0), (DType.f16,), why="f16"),
            ),
            laws=(Law("it counts up from 0 along the axis", _counts_up),),
            zero_limit=lambda call: 1.0,  # dst does not depend on src's values
        ),
        Lowering(
            Role.pointwise,
            form=Elementwise(lambda attrs, ins: cast(ins[-1], DType.s32), lambda attrs, shape, at: (at[axis_of(attrs, len(shape))],)),
        ),
    ),
)
