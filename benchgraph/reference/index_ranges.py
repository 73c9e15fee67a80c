"""Integers that Wildcards read: indices must lie within an axis, masks are 0 or 1.

A graph input that a Gather reads, perhaps after a reshape or a cast, gets indices of the axis that it takes elements from. Any other
integers that only Wildcards read are 1: a mask that hides nothing, since what a mask hides proves little.
"""

from __future__ import annotations

from benchgraph import fallback
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops.structural import function_of

MASK = (1, 1)


def index_ranges(graph: Graph) -> dict[int, tuple[int, int]]:
    """Graph input -> its least and largest value. For integers of 32 bits whose readers all are Wildcards that say what they compute."""
    return {t.id: _range(graph, t) for t in graph.inputs if t.dtype is DType.s32 and _is_read_by_functions(graph, t)}


def _is_read_by_functions(graph: Graph, t: LogicalTensor) -> bool:
    readers = graph.consumers.get(t.id, ())
    return bool(readers) and all(function_of(op.attrs) is not None for op in readers)


def _range(graph: Graph, t: LogicalTensor) -> tuple[int, int]:
    """Up to the smallest axis that the values, or copies of them, are indices of."""
    limits, seen, work = list[int](), {t.id}, [t.id]
    while work:
        id = work.pop()
        for op in graph.consumers.get(id, ()):
            limit, carried = _use(op, id)
            limits += [] if limit is None else [limit]
            new = [out.id for out in op.outputs if carried and out.id not in seen]
            seen.update(new)
            work += new
    return (0, max(min(limits) - 1, 0)) if limits else MASK


def _use(op: Op, id: int) -> tuple[int | None, bool]:
    """The axis that an op takes elements from at these indices, and whether its results consist of them."""
    function = function_of(op.attrs)
    if function is None:
        return None, False
    operand = [t.id for t in op.inputs].index(id)
    limit = fallback.index_limit(function, operand, [t.known_shape for t in op.inputs])
    row = fallback.row_of(function)
    return limit, row is not None and function.port(operand) in row.carries
