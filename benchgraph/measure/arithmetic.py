"""Which arithmetic a graph's products use, and so which peak its rates are compared with.

It depends on the graph alone, not on the library: one that converts u8 to f32 is compared with the machine's peak for u8. Where products
differ, the fastest counts, so that no share is too high. An operand counts as it is stored, before casts and (de)quantisation:

    int8    both operands are integers of at most 8 bits
    bf16    both are exact in bf16 (8-bit integers and floats, bf16), or f32 in a math mode that allows rounding to bf16
    f32     everything else, and graphs without products

Free of numpy, which `benchgraph --help` must not import.
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
    """The narrowest dtype of the operand on its way through casts, (de)quantisation and layout ops."""
    narrowest = t.dtype
    while (op := graph.producers.get(t.id)) and (spec(op.kind).semantics.is_conversion or spec(op.kind).lowering.role is Role.layout_op):
        t = op.inputs[0]
        narrowest = min(narrowest, t.dtype, key=lambda dtype: dtype.bits)
    return narrowest
