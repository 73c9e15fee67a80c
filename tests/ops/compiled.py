"""One op through the whole compiler, on arrays."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

import numpy as np

from benchgraph.compile import order
from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Executable


def compiled(kind: str, attrs: Attrs, *srcs: Array) -> Reals:
    """dst of an op on f32 inputs, as float64."""
    executable = _executable(kind, attrs, tuple(src.shape for src in srcs))
    dst = np.full(executable.signature.outputs[0].shape, np.nan, np.float32)
    executable.bind([np.ascontiguousarray(src, np.float32) for src in srcs], [dst])()
    return dst.astype(np.float64)


@cache
def _executable(kind: str, attrs: Attrs, shapes: tuple[Shape, ...]) -> Executable:
    b = GraphBuilder()
    b.append(kind, tuple(b.input(shape) for shape in shapes), attrs)
    (p,) = partitions(b.graph(), Policy.one_op_each)
    return compiled_once(p)


_MADE: dict[Hashable, Executable] = {}


def compiled_once(partition: Partition) -> Executable:
    """For all tests of its results, whichever file they are in. Tests that change the compiler may not use it."""
    wanted = order(partition)
    key = wanted.work, wanted.target
    return _MADE.get(key) or _MADE.setdefault(key, wanted.make())
