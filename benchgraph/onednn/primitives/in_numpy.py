"""Executes ops that no primitive computes, by the reference functions of the op table, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from benchgraph.core.arrays import Array, elements, put
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Op
from benchgraph.ops import spec


def execute(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The op on arrays as library.protocol has them, in the order of its tensors; results are rounded to their tensors' dtypes.

    Raises Unimplemented for an op without a reference.
    """
    given = tuple(_exact(array, t) for array, t in zip(inputs, op.inputs, strict=True))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        results = spec(op.kind).semantics.reference(op.call, given)
        for array, t, result in zip(outputs, op.outputs, results, strict=True):
            put(array, t, result.reshape(t.known_shape).astype(t.dtype.numpy))


def _exact(array: Array, t: LogicalTensor) -> Array:
    found = elements(array, t)
    return found.astype(np.float64) if t.dtype.is_float else found
