"""End and Wildcard: ops that mark something in the graph and compute nothing.

End marks its input as leaving the graph. Wildcard stands for an op that the library does not know. Neither is compiled.
"""

from __future__ import annotations

import sys

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.ops.fill_rules import filling, pointwise
from benchgraph.ops.spec import Array, Call, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports

WILDCARD = "Wildcard"  # frameworks mark ops that the library does not support with it
_NO_LIMIT = (0, sys.maxsize)


def _unknown(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    if call.outs:
        raise Unimplemented("what a Wildcard computes is not known", fix="replace it by the ops it stands for")
    return ()


_COMPUTES_NOTHING = Law("there are no outputs", lambda call, ins, outs, rtol: not outs)

SPECS = (
    OpSpec(
        "End",
        Schema(
            inputs=ports("src"), outputs=(), types={"T": (DType.f32, DType.f16, DType.bf16, DType.s8, DType.u8, DType.s32, DType.undef)}
        ),
        Semantics(infer=lambda attrs, ins: (), reference=lambda call, ins: (), flops=lambda call: 0),
        Testing(
            fill=filling.always(pointwise.ZERO),
            samples=(Sample(((2, 3),), why="marks a tensor"), Sample(((4,),), dtypes=(DType.s8,), why="a quantised tensor")),
            laws=(_COMPUTES_NOTHING,),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.none, unsupported="End only marks a tensor as an output of the graph"),
    ),
    OpSpec(
        WILDCARD,
        Schema(inputs=ports("src:any"), outputs=ports("dst:any"), variadic_inputs=_NO_LIMIT, variadic_outputs=_NO_LIMIT, types={}),
        Semantics(infer=lambda attrs, ins: (), reference=_unknown, flops=lambda call: 0),
        Testing(
            fill=filling.always(pointwise.ZERO),
            samples=(
                Sample(((2, 3), (4,)), dtypes=(DType.f32, DType.s8), why="any number of inputs of any type"),
                Sample((), why="nothing at all"),
            ),
            laws=(_COMPUTES_NOTHING,),
            zero_limit=lambda call: 1.0,
        ),
        Lowering(Role.none, unsupported="a Wildcard stands for an unknown operation"),
    ),
)
