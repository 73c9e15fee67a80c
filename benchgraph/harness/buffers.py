"""Memory for logical tensors, and the plan of which buffers between partitions can share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.arrays import put, view
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition

ALIGNMENT = 64  # bytes: a cache line, and a full AVX-512 vector
NAN_BYTE = 0xFF  # benchdnn's: every float format reads it as NaN, so an unwritten element shows

Array: TypeAlias = NDArray[np.generic]


def storage(nbytes: int) -> NDArray[np.uint8]:
    """Raw aligned memory."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def allocate(tensor: LogicalTensor) -> Array:
    """An array for the tensor as libraries take it: s4 and u4 packed, two to a byte."""
    return view(storage(tensor.nbytes), tensor)


def load_inputs(graph: Graph, values: dict[int, Array]) -> dict[int, Array]:
    """Buffers for the graph's inputs, filled from values, the elements (which is emptied, so that large data is not held twice)."""
    buffers = {}
    for tensor in graph.inputs:
        buffers[tensor.id] = allocate(tensor)
        put(buffers[tensor.id], tensor, values.pop(tensor.id))
    return buffers


@dataclass(frozen=True)
class Plan:
    """slots: size in bytes of each shared piece of memory; slot: tensor id -> the piece it lives in."""

    slots: tuple[int, ...]
    slot: dict[int, int]

    @property
    def nbytes(self) -> int:
        return sum(self.slots)


def last_uses(partitions: Sequence[Partition]) -> dict[int, int]:
    """Tensor id -> position of the last partition that reads or writes it."""
    return {t.id: step for step, p in enumerate(partitions) for t in (*p.inputs, *p.outputs)}


def plan(graph: Graph, partitions: Sequence[Partition]) -> Plan:
    """Lay out the values that pass between partitions executed in order.

    A value may live where a dead one lived: the most recently freed piece that is large enough (its lines are the warmest), else the
    largest free one, enlarged. The graph's inputs and outputs have buffers of their own.
    """
    keep, ends = {t.id for t in graph.outputs}, last_uses(partitions)
    sizes, slot, free = list[int](), dict[int, int](), list[int]()
    for step, partition in enumerate(partitions):
        for t in partition.outputs:
            if t.id in keep:
                continue
            need = t.nbytes
            fits = [s for s in free if sizes[s] >= need]
            if not free:
                sizes.append(0)
                free.append(len(sizes) - 1)
            chosen = fits[-1] if fits else max(free, key=lambda s: sizes[s])
            free.remove(chosen)
            sizes[chosen], slot[t.id] = max(sizes[chosen], need), chosen
        free += [slot[id] for id, end in ends.items() if end == step and id in slot]
    return Plan(tuple(sizes), slot)
