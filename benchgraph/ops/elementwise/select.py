"""Select: dst = cond ? src_0 : src_1.

The sources broadcast as in numpy; cond must broadcast to their shape without enlarging it.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.broadcast import AUTO_BROADCAST, broadcast, broadcast_to, equal
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.laws import relation
from benchgraph.ops.spec import Array, Call, Computes, Elementwise, F, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.tir.build import select


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    if attrs.get("auto_broadcast") == "none":
        return (equal(ins, ("cond", "src_0", "src_1")),)
    shape = broadcast(ins[1].shape, ins[2].shape)
    broadcast_to(ins[0].shape, shape, "cond", "the sources' shape")
    return (shape,)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.where(ins[0], ins[1], ins[2]),)


_FLOAT_DTYPES = (DType.boolean, DType.f32, DType.f32)

SPECS = (
    OpSpec(
        "Select",
        Schema(
            inputs=ports("cond:T1", "src_0:T2", "src_1:T2"),
            outputs=ports("dst:T2"),
            types={"T1": (DType.boolean,), "T2": F},
            attrs={"auto_broadcast": AUTO_BROADCAST},
            family="binary",
        ),
        Semantics(infer=infer, reference=reference, flops=lambda call: call.outs[0].elements, computes=Computes.choice),
        Testing(
            fill=pointwise.select,
            samples=(
                Sample(((5, 17), (5, 17), (5, 17)), dtypes=_FLOAT_DTYPES, why="equal shapes, a tail"),
                Sample(((1, 1, 7, 7), (2, 3, 7, 7), ()), dtypes=_FLOAT_DTYPES, why="an attention mask: the other source is a scalar"),
                Sample(((16,), (1,), (3, 16)), dtypes=_FLOAT_DTYPES, why="every operand broadcasts"),
                Sample(((3, 1), (3, 15), (15,)), dtypes=_FLOAT_DTYPES, why="one condition per row"),
                Sample(((2, 3), (2, 3), (2, 3)), Attrs(auto_broadcast="none"), _FLOAT_DTYPES, why="no broadcasting"),
                Sample(((4, 33), (4, 33), (33,)), dtypes=(DType.boolean, DType.bf16, DType.bf16), why="bf16"),
                Sample(((9,), (9,), (9,)), dtypes=(DType.boolean, DType.f16, DType.f16), why="f16"),
            ),
            laws=(relation("src_0 where cond holds, else src_1", lambda ins, dst, slack: dst == np.where(ins[0] != 0, ins[1], ins[2])),),
            fills_quantised=True,
        ),
        Lowering(Role.pointwise, form=Elementwise(lambda attrs, ins: select(*ins))),
    ),
)
