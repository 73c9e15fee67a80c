"""A function computed on arrays, by its row or by onnx's reference, and its results as their tensors hold them.

`execute` is what runs: floats in f32 (in the tensor's dtype where that is wider), as in a framework. `reference` is what it is compared
with: floats in float64, and by onnx's reference where that is installed, so that a mistake in a row shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, ExecutionFailed, InvalidArguments, InvalidShape
from benchgraph.core.tensor import TensorType
from benchgraph.fallback.by_onnx import by_onnx, is_installed
from benchgraph.fallback.by_torch import ATEN, by_torch
from benchgraph.fallback.function import Array, Function
from benchgraph.fallback.moves import MOVES
from benchgraph.fallback.pointwise import POINTWISE
from benchgraph.fallback.recurrent import RECURRENT
from benchgraph.fallback.row import SUMS, NumpyOp
from benchgraph.fallback.sums import SUMMING

ROWS: dict[str, NumpyOp] = {**POINTWISE, **MOVES, **SUMMING, **RECURRENT}
JUDGED_ELEMENTS = 1 << 16  # of a result: onnx's reference is Python, element by element, for some kinds


def row_of(f: Function) -> NumpyOp | None:
    return ROWS.get(f.kind) if not f.domain else None


def runner(f: Function) -> str:
    """Whose implementation is executed: numpy, onnx or torch."""
    return "numpy" if row_of(f) is not None else "torch" if f.domain == ATEN else "onnx"


def execute(f: Function, arrays: Sequence[Array], outs: Sequence[TensorType]) -> tuple[Array, ...]:
    """The results in the dtypes of their tensors. Raises BenchgraphError for operands that the function does not take."""
    ins = [None if x is None else _stored(x) for x in f.operands(tuple(arrays))]
    return _as_tensors(f, _run(f, ins, row_of(f)), outs, rounds=True)


def reference(f: Function, arrays: Sequence[Array], outs: Sequence[TensorType]) -> tuple[Array, ...]:
    """The results for float64 operands, floats in float64. Raises as `execute`."""
    ins, row = [None if x is None else _wide(x) for x in f.operands(tuple(arrays))], row_of(f)
    if is_judged(f, outs):
        try:
            return _as_tensors(f, _run(f, ins, None), outs, rounds=False)
        except InvalidArguments:
            pass  # onnx's reference fails at some operands, as at a padding below 0; the row tells whether they are wrong
    return _as_tensors(f, _run(f, ins, row), outs, rounds=False)


def is_judged(f: Function, outs: Sequence[TensorType]) -> bool:
    """Whether `reference` is another implementation than `execute`."""
    row = row_of(f)
    return row is not None and row.is_judged and is_installed() and all(t.elements <= JUDGED_ELEMENTS for t in outs)


def flops(f: Function, ins: Sequence[TensorType], outs: Sequence[TensorType]) -> int | None:
    """None where that is not known."""
    row = row_of(f)
    if row is None or row.flops is None:
        return None
    shapes = [ins[i].shape if isinstance(i, int) else () if i is None else i.shape for i in f.inputs]
    return row.flops(f, shapes, [t.shape for t in outs])


def threshold(f: Function) -> float:
    """The relative error allowed, in eps(f32)."""
    row = row_of(f)
    return SUMS if row is None else row.threshold


def index_limit(f: Function, operand: int, shapes: Sequence[tuple[int, ...]]) -> int | None:
    """The number of values that an operand may have, from 0 on, because the function takes elements at these; None for any. shapes: of the
    operands.
    """
    row, data = row_of(f), f.inputs[0] if f.inputs else None
    if row is None or row.index < 0 or f.port(operand) != row.index or data is None:
        return None
    shape = shapes[data] if isinstance(data, int) else data.shape
    axis = row.indexed(f)
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _stored(x: Array) -> Array:
    """An operand as the function takes it: integers as int64, narrow floats as f32."""
    if x.dtype == np.int32:
        return x.astype(np.int64)
    return x if x.dtype.kind in "biu" or x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _wide(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype == np.int32 else x if x.dtype.kind in "biu" else x.astype(np.float64)


def _run(f: Function, ins: list[Array | None], row: NumpyOp | None) -> tuple[Array, ...]:
    """The results that the op has. Whatever goes wrong depends on the data, or on the file that the function is from."""
    try:
        with np.errstate(all="ignore"):
            found = row.compute(f, ins) if row is not None else (by_torch if f.domain == ATEN else by_onnx)(f, ins)
    except BenchgraphError:
        raise
    except MemoryError:
        raise
    except Exception as bad:  # as numpy and onnx raise
        first = next(iter(str(bad).splitlines()), type(bad).__name__)
        raise InvalidArguments(f"{f.label} does not take its operands: {first}", fix="give data in its range (--data)") from bad
    results = found if isinstance(found, tuple) else (found,)
    return tuple(x for x, kept in zip(results, f.outputs, strict=False) if kept)


def _as_tensors(f: Function, results: Sequence[Array], outs: Sequence[TensorType], *, rounds: bool) -> tuple[Array, ...]:
    if len(results) != len(outs):
        raise ExecutionFailed(f"{f.label} has {len(results)} results, the op {len(outs)}", fix="import the model again")
    return tuple(_as_tensor(f, np.asarray(x), t, rounds=rounds) for x, t in zip(results, outs, strict=True))


def _as_tensor(f: Function, x: Array, t: TensorType, *, rounds: bool) -> Array:
    if x.shape != t.shape:
        what = f"{f.label} makes {'x'.join(map(str, x.shape)) or 'a scalar'}, and the tensor is {'x'.join(map(str, t.shape)) or 'a scalar'}"
        raise InvalidShape(what, fix="import the model with the sizes that it shall have (--in-shapes)")
    if t.dtype.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(t.dtype.numpy if rounds else np.float64, copy=False)
    if t.dtype is DType.boolean:
        return x.astype(np.bool_, copy=False)
    low, high = t.dtype.range
    if x.size and not (low <= x.min() and x.max() <= high):
        beyond = x.max() if x.max() > high else x.min()
        raise InvalidArguments(f"{f.label} makes {beyond}, which {t.dtype.value} does not hold", fix="give smaller numbers (--data)")
    return x.astype(t.dtype.numpy, copy=False)
