"""Which arithmetic a graph's products are in: whose peak its rates are shares of.

That is a fact of the graph, not of who computes it: a library that widens u8 to f32 is measured against what the machine can do with u8.
The fastest counts where products differ, so that no share flatters. Operands count as they are stored, before casts and (de)quantisation:

    int8    both operands of 8 bits or fewer, integers
    bf16    both at most bf16, which holds all of those and the 8-bit floats; or f32 under a math mode that lets them be rounded to bf16
    f32     everything else, and graphs without products

Free of numpy, like everything `benchgraph --help` touches.
"""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.spec import TO_BF16, Role

ARITHMETICS = ("f32", "bf16", "int8")  # slowest first
_INT8 = frozenset({DType.u8, DType.s8, DType.u4, DType.s4})
_BF16 = _INT8 | {DType.bf16, DType.f8_e4m3, DType.f8_e5m2}


def arithmetic(graph: Graph) -> str:
    """One of ARITHMETICS."""
    products = (op.inputs[:2] for op in graph.ops if spec(op.kind).semantics.follows_fpmath)
    return max((_of({_stored(graph, t) for t in operands}, graph) for operands in products), key=ARITHMETICS.index, default="f32")


def _of(stored: set[DType], graph: Graph) -> str:
    if stored <= _INT8:
        return "int8"
    rounded = {DType.f32} if graph.fpmath_mode in TO_BF16 else set[DType]()
    return "bf16" if stored <= _BF16 | rounded else "f32"


def _stored(graph: Graph, t: LogicalTensor) -> DType:
    """The narrowest dtype that the operand had on its way through casts, (de)quantisation and movements."""
    narrowest = t.dtype
    while (op := graph.producers.get(t.id)) and (
        spec(op.kind).semantics.is_conversion or spec(op.kind).lowering.role is Role.data_movement
    ):
        t = op.inputs[0]
        narrowest = min(narrowest, t.dtype, key=lambda dtype: dtype.bits)
    return narrowest
