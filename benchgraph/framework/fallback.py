"""Runs ops that the library cannot run by numpy: the op table's reference functions as kernels.

Opaque inputs are copied, never converted in place, since others may be reading them. Results are complete before the first output is
written, so that an op may overwrite its input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from benchgraph.core.errors import InvalidShape, within
from benchgraph.core.tensor import TensorType
from benchgraph.framework.counters import counters
from benchgraph.framework.memory_desc import Values
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.reorder import store
from benchgraph.framework.request import OpReq, outputs
from benchgraph.framework.temp_space import Scope
from benchgraph.graph.ir import Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Call

NumpyKernel: TypeAlias = Callable[[tuple[Values, ...]], Sequence[Values]]


def reference_kernel(op: Op, inputs: Sequence[NDArray], dst: Sequence[NDArray]) -> NumpyKernel:
    """The reference of the op's row, for arrays of these types: in float64 for floats."""
    types = tuple(tuple(TensorType(a.dtype, a.shape) for a in arrays) for arrays in (inputs, dst))
    call, row = Call(op.kind, op.full_attrs, *types), spec(op.kind)

    def kernel(values: tuple[Values, ...]) -> Sequence[Values]:
        with np.errstate(all="ignore"):  # infinities and NaN are valid results, as in compiled code
            return row.semantics.reference(call, tuple(v if v.dtype.kind in "biu" else v.astype(np.float64) for v in values))

    return kernel


def fallback_compute(
    op: Op,
    inputs: Sequence[NDArray],
    dst: Sequence[NDArray],
    reqs: Sequence[OpReq],
    scope: Scope,
    kernel: NumpyKernel | None = None,
    *,
    default_only: Collection[int] = (),
) -> None:
    """Run an op in numpy. kernel: the framework's own, instead of the op table's. default_only: outputs that are gradients.

    Raises the errors of arrays and requests before anything is written, and those of the kernel, naming the op.
    """
    for a in inputs:
        counters().lazy_reorders += a.is_opaque
    values = tuple(a.values(scope) for a in inputs)
    with outputs(dst, [a.plain_desc for a in dst], reqs, scope, inputs, default_only=default_only) as memories:
        if all(req is OpReq.null for req in reqs):
            return
        with within(scope.label):
            results = (kernel or reference_kernel(op, inputs, dst))(values)
        stored = [_stored(r, a, values, scope) for r, a in zip(results, dst, strict=True)]
        for result, a, memory in zip(stored, dst, memories, strict=True):
            store(result, memory.data, a.plain_desc)


def _stored(result: Values, a: NDArray, values: Sequence[Values], scope: Scope) -> Values:
    """A result in the output's dtype, in memory that overlaps no input, since an input may be overwritten first."""
    result = np.asarray(result)
    if result.shape != a.shape:
        what = f"its shape is {a.shape}, the kernel's result has {result.shape}"
        raise InvalidShape(what, where=a.where(scope.label), fix="give an array of the op's shape")
    with np.errstate(over="ignore", invalid="ignore"):
        made = result.astype(a.dtype.numpy, copy=False)
    return made.copy() if any(np.may_share_memory(made, v) for v in values) else made
