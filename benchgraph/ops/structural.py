"""End and Wildcard: ops that mark something in the graph and compute nothing.

End marks its input as leaving the graph. Wildcard stands for an op that the library does not know. Neither is compiled. A Wildcard may say
what it computes (fallback/function.py); the harness then runs it in numpy, between the partitions.
"""

from __future__ import annotations

import sys

from benchgraph import fallback
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, Unimplemented
from benchgraph.fallback.function import Function
from benchgraph.ops.fill_rules import filling, pointwise
from benchgraph.ops.spec import Array, Attr, Call, Declared, Filling, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports

WILDCARD = "Wildcard"  # frameworks mark ops that the library does not support with it
_NO_LIMIT = (0, sys.maxsize)


COMPUTES = "computes"  # a Wildcard's attribute: the text of a function


def function_of(attrs: Attrs) -> Function | None:
    """What a Wildcard computes, if it says so. Raises ParseError."""
    text = attrs.get(COMPUTES, "")
    return fallback.parse(str(text)) if text else None


def _check(attrs: Attrs, ins: tuple[Declared, ...], outs: tuple[DType, ...]) -> str:
    try:
        function = function_of(attrs)
    except BenchgraphError as bad:
        return f"{bad.where}: {bad.what}; {bad.fix}"
    if function is None:
        return ""
    if {i for i in function.inputs if isinstance(i, int)} != set(range(len(ins))):
        return f"{function.label} does not read each of the op's {len(ins)} inputs, or reads others; import the model again"
    if sum(function.outputs) != len(outs):
        return f"{function.label} has {sum(function.outputs)} results, the op {len(outs)}; import the model again"
    return ""


def _computed(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    if (function := function_of(call.attrs)) is not None:
        return fallback.reference(function, ins, call.outs)
    if call.outs:
        raise Unimplemented("what a Wildcard computes is not known", fix="replace it by the ops it stands for")
    return ()


def _filled(call: Call, port: int) -> Filling:
    """Of what only marks something, zeros."""
    if function_of(call.attrs) is None:
        return pointwise.ZERO
    return pointwise.CONDITION if call.ins[port].dtype is DType.boolean else pointwise.binary(call, 0)


def _flops(call: Call) -> int:
    """0 where they are not known."""
    function = function_of(call.attrs)
    return 0 if function is None else fallback.flops(function, call.ins, call.outs) or 0


def _threshold(call: Call) -> float:
    function = function_of(call.attrs)
    return 0.0 if function is None else fallback.threshold(function)


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
        Schema(
            inputs=ports("src:any"),
            outputs=ports("dst:any"),
            variadic_inputs=_NO_LIMIT,
            variadic_outputs=_NO_LIMIT,
            types={},
            extensions={COMPUTES: Attr("string")},
            check=_check,
        ),
        Semantics(infer=lambda attrs, ins: (), reference=_computed, flops=_flops, threshold=_threshold),
        Testing(
            fill=_filled,
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
