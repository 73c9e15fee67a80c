"""Buffers for logical tensors, and the plan by which values between partitions share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchgraph.core import slots
from benchgraph.core.arrays import Array, put, view
from benchgraph.core.dtypes import DType
from benchgraph.core.slots import Value
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.spec import Role
from benchgraph.ops.structural import WILDCARD
from benchgraph.partition.ir import Partition
from benchgraph.reference import index_ranges
from benchgraph.runtime.memory import mapped

REFERENCE_BYTES = 8  # per element: float64
CONSTANT_BYTE = 0x3F  # benchdnn's, for inputs with arbitrary values: 0.747 in f32, 63 in s8
NAN_BYTE = 0xFF  # benchdnn's: every float format reads it as NaN, so an unwritten element shows


def allocate(tensor: LogicalTensor) -> Array:
    """An array for the tensor as libraries expect it: s4 and u4 packed, two to a byte."""
    return view(mapped(tensor.nbytes), tensor)


def constant_inputs(graph: Graph) -> dict[int, Array]:
    """Buffers for the graph's inputs, with every byte the same."""
    buffers = {}
    for tensor in graph.inputs:
        memory = mapped(tensor.nbytes)
        memory.fill(1 if tensor.dtype is DType.boolean else CONSTANT_BYTE)
        buffers[tensor.id] = view(memory, tensor)
    return buffers | _indices(graph)


def unwritten_inputs(graph: Graph) -> dict[int, Array]:
    """Buffers for the graph's inputs that nothing has written to, but for indices, which must be legal."""
    return {t.id: allocate(t) for t in graph.inputs} | _indices(graph)


def _indices(graph: Graph) -> dict[int, Array]:
    """Of inputs that Wildcards take as indices or masks: the least legal value."""
    tensors, found = graph.tensors, dict[int, Array]()
    for id, (low, _) in index_ranges(graph).items():
        found[id] = allocate(tensors[id])
        found[id][...] = low
    return found


def load_inputs(graph: Graph, values: dict[int, Array]) -> dict[int, Array]:
    """Buffers for the graph's inputs, filled from values, the elements (which is emptied to save memory)."""
    buffers = {}
    for tensor in graph.inputs:
        buffers[tensor.id] = allocate(tensor)
        put(buffers[tensor.id], tensor, values.pop(tensor.id))
    return buffers


def invert_bits(arrays: Iterable[Array]) -> None:
    """Invert every bit of every element (of booleans: the value); twice restores it. Arrays with overlapping elements are left out."""
    for array in {id(a): a for a in arrays}.values():
        if any(s == 0 and d > 1 for s, d in zip(array.strides, array.shape, strict=True)):
            continue
        bits = array if array.dtype == np.bool_ else array.view(f"u{array.itemsize}")
        np.logical_not(bits, out=bits) if array.dtype == np.bool_ else np.invert(bits, out=bits)


def memory_needed(graph: Graph, *, with_reference: bool) -> int:
    """Bytes for executing the graph with every tensor in a buffer of its own; with the float64 reference, including its peak.

    numpy temporarily holds another copy of the results, and of a product's operands if BLAS does not support their strides.
    """
    tensors = graph.tensors.values()
    total = sum(t.nbytes for t in tensors)
    if not with_reference:
        return total
    last = {t.id: step for step, op in enumerate(graph.order) for t in (*op.outputs, *op.inputs)}
    live, peak = {t.id: t.type.elements for t in graph.inputs}, 0
    for step, op in enumerate(graph.order):
        live |= {t.id: t.type.elements for t in (*op.inputs, *op.outputs)}
        copied = op.inputs if spec(op.kind).lowering.role is Role.anchor else ()
        peak = max(peak, sum(live.values()) + sum(t.type.elements for t in (*op.outputs, *copied)))
        live = {id: n for id, n in live.items() if last[id] > step}
    return total + REFERENCE_BYTES * peak


def last_uses(partitions: Sequence[Partition]) -> dict[int, int]:
    """Tensor id -> position of the last partition that reads or writes it."""
    return {t.id: step for step, p in enumerate(partitions) for t in (*p.inputs, *p.outputs)}


def plan(graph: Graph, partitions: Sequence[Partition]) -> slots.Plan:
    """Assign memory to the values between partitions executed in order. The graph's inputs and outputs have buffers of their own, and so
    have values that Wildcards read: among them are indices, which must be legal when the Wildcard is executed alone as well.
    """
    keep = {t.id for t in graph.outputs} | {t.id for p in partitions for op in p.ops if op.kind == WILDCARD for t in op.inputs}
    ends = last_uses(partitions)
    return slots.plan([Value(t.id, t.nbytes, step, ends[t.id]) for step, p in enumerate(partitions) for t in p.outputs if t.id not in keep])
