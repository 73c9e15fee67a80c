"""hoist-division: dividing many elements by few becomes multiplying them by the few reciprocals.

    %2: f32[64,128] = Divide(%0, %1: f32[64,1])   ->   %3: f32[64,1] = Divide(1, %1)
                                                        %2 = Multiply(%0, %3)

A division of 16 floats takes six cycles on a Zen 4 core (1.6 ns at 3.7 GHz, eight independent chains of vdivps), a multiplication one; the
result moves by at most 1.5 ulp. Compile-time divisors are scales of quantisation, where ties matter: they stay while the dividend is exact
(the user's own numbers, or picked from them). One that has been rounded before is no exact tie any more. They stay, too, where f32 does not
hold the reciprocal, which is below 2**-128. Of a divisor that only an execution knows it is held to f32's finite numbers, if the quotients
end as 8-bit integers: the scale of a tensor of zeros may be as small as it likes, and its zeros are to become the zero point.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops import spec
from benchgraph.ops.bounded_reciprocal import bounded_reciprocal, is_finite
from benchgraph.ops.spec import Call, Computes

FEWER = 8  # how many times fewer divisors than dividends make the extra op worth its while


def hoist_division(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    nodes: list[Node] = []
    for op in g.nodes:
        assert isinstance(op, Op)
        product = spec(op.kind).product_kind
        if product and _is_worth_it(g, op):
            is_bounded = g.value(op.ins[1]).literal is None and _saturates(g, op.outs[0])
            # in f32, however narrow the divisor is
            reciprocal = bounded_reciprocal(builder, op.ins[1]) if is_bounded else builder.op(op.kind, builder.const(1.0), op.ins[1])
            nodes += builder.nodes
            builder.nodes = []
            op = replace(op, kind=product, ins=(op.ins[0], reciprocal))
        nodes.append(op)
    return replace(g, values=tuple(builder.values.values()), nodes=tuple(nodes)) if tuple(nodes) != g.nodes else g


def _is_worth_it(g: Graph, op: Op) -> bool:
    dividend, divisor = g.value(op.ins[0]), g.value(op.ins[1])
    known = divisor.literal
    if not divisor.dtype.is_float or (known is not None and not (_is_rounded(g, op.ins[0]) and is_finite(known.array))):
        return False
    return divisor.type.elements * FEWER <= dividend.type.elements


def _is_rounded(g: Graph, id: int) -> bool:
    """Whether some op on the way to a value has rounded it."""
    maker = g.producer.get(id)
    if not isinstance(maker, Op):
        return False
    call = Call(maker.kind, maker.attrs, tuple(g.value(v).type for v in maker.ins), tuple(g.value(v).type for v in maker.outs))
    return spec(maker.kind).threshold(call) > 0 or any(_is_rounded(g, v) for v in maker.ins)


def _saturates(g: Graph, id: int) -> bool:
    """Whether a value goes nowhere but into 8-bit integers, through sums at most."""
    readers = g.consumers[id]
    return bool(readers) and id not in g.outs and all(isinstance(op, Op) and _is_on_the_way(g, op) for op in readers)


def _is_on_the_way(g: Graph, op: Op) -> bool:
    row, out = spec(op.kind), op.outs[0]
    if row.converts:
        return g.value(out).dtype in (DType.u8, DType.s8)
    return row.computes is Computes.sum and _saturates(g, out)
