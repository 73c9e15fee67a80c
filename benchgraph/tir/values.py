"""Functions that the interpreter's generated source calls: operations on numpy scalars and vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from benchgraph.core.dtypes import DType
from benchgraph.core.philox import BLOCK, MIDDLE, blocks
from benchgraph.tir.ir import BinOp
from benchgraph.tir.operands import Operand

Value: TypeAlias = Any  # a numpy scalar, a Python int (s64), or a 1-d array of lanes
View: TypeAlias = Callable[[tuple[int, ...]], Value]  # batch entry -> 2-d view


def shuffler(seed: int) -> Callable[[int], list[int]]:
    """A range() in random order, a different one for each call."""
    rng = Random(seed)
    return lambda extent: rng.sample(range(extent), extent)


def garbage(dtype: DType) -> Value:
    """The contents of a temporary before the first store: NaN, or a value unlikely to be right by accident."""
    if dtype.is_float:
        return dtype.numpy.type(math.nan)
    return np.frombuffer(b"\x5a" * dtype.numpy.itemsize, dtype.numpy)[0] if dtype is not DType.boolean else np.bool_(True)


def natural(i: Value) -> Value:
    if i < 0:
        raise IndexError(f"negative index {i}")
    return i


def vector_load(t: Value, index: tuple[Value, ...], mask: Value) -> Value:
    """Gather; masked-off lanes are 0 and may have any index."""
    lanes = next(i for i in index if isinstance(i, np.ndarray))
    on = np.ones(len(lanes), bool) if mask is None else mask
    safe = tuple(_checked(np.where(on, i, 0)) if isinstance(i, np.ndarray) else i for i in index)
    if not on.any():
        return np.zeros(len(lanes), t.dtype)
    return np.where(on, t[safe], t.dtype.type(0))


def vector_store(t: Value, index: tuple[Value, ...], value: Value, mask: Value) -> None:
    on = slice(None) if mask is None else mask
    picked = tuple(_checked(i[on]) if isinstance(i, np.ndarray) else i for i in index)
    t[picked] = value[on]


def _checked(i: Value) -> Value:
    if i.size:
        natural(i.min())
    return i


def select(cond: Value, a: Value, b: Value) -> Value:
    chosen: Value = np.where(cond, a, b)
    return chosen[()]


def smaller(a: Value, b: Value) -> Value:
    return select(a < b, a, b)


def larger(a: Value, b: Value) -> Value:
    return select(a > b, a, b)


def random_number(index: Value, seed: Value, offset: Value) -> Value:
    word = np.choose(index % BLOCK, blocks(index, seed, offset)).astype(np.int64)
    return (word - MIDDLE).astype(np.int32)


def cast(x: Value, dtype: DType) -> Value:
    """TIR's Cast on a scalar or a vector."""
    a = np.asarray(x)
    if dtype is DType.boolean:
        return (a != 0)[()]
    if dtype.is_float:
        return a.astype(np.float32).astype(dtype.numpy)[()]
    least, most = (int(v) for v in dtype.range)
    if dtype is DType.s64:
        most = 2**63 - 1  # the table's float is 2**63
    if a.dtype.kind in "iub":
        return np.clip(a.astype(np.int64), least, most).astype(dtype.numpy)[()]
    wide = np.rint(a.astype(np.float64))
    fits = (wide > least) & (wide < most)
    ends = np.where(wide >= most, most, np.where(wide <= least, least, 0))
    return np.where(fits, np.where(fits, wide, 0).astype(np.int64), ends).astype(dtype.numpy)[()]


def decay(x: Value) -> Value:
    return np.expm1(-np.abs(x))


def normal_tail(x: Value) -> Value:
    return (0.5 * _erfc(np.abs(x.astype(np.float64)) / math.sqrt(2))).astype(np.float32)[()]


def gauss(x: Value) -> Value:
    return np.exp(-(x.astype(np.float64) ** 2) / 2).astype(np.float32)[()]


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


OPERATIONS: dict[BinOp, Callable[[Value, Value], Value]] = {  # on floats
    BinOp.add: np.add, BinOp.sub: np.subtract, BinOp.mul: np.multiply, BinOp.div: np.divide,
    BinOp.min: smaller, BinOp.max: larger, BinOp.minimum: np.minimum, BinOp.maximum: np.maximum,
}  # fmt: skip


def reduce_lanes(op: BinOp, v: Value) -> Value:
    return functools.reduce(OPERATIONS[op], v)


def slice_of(t: Value, index: tuple[int, ...], o: Operand) -> View:
    """Batch entry -> the rows x columns view of t that an operand denotes; with groups of rows a groups x group x columns view."""
    for i, (least, most), size in zip(index, o.spans(), t.shape, strict=True):
        if natural(i + least) + most - least >= size:
            raise IndexError(f"a slice reaches {i + most} in a dim of size {size}")
    bits = t.view(f"u{t.itemsize}")  # numpy cannot stride over every dtype that is not its own
    (rows, columns), (row, column) = o.extents[:2], (t.strides[dim] * step for dim, step in o.slice.axes[:2])
    shape, strides = ((rows, columns), (row, column)) if o.group == 1 else ((rows, o.group, columns), (row, t.itemsize, column))

    def entry(batch: tuple[int, ...]) -> Value:
        at = list(index)
        for b, (dim, step) in zip(batch, o.slice.axes[2:], strict=False):
            at[dim] += b * step
        return as_strided(bits[tuple(slice(i, None) for i in at)], shape, strides).view(t.dtype)

    return entry


def brgemm(src: View, wei: View, acc: View, batch: tuple[int, ...], accumulate: bool) -> None:
    """In acc's dtype, to which each element of src and wei is converted: s32 wraps around."""
    out = acc(())

    def entry(b: tuple[int, ...]) -> Value:
        rows = src(b).astype(out.dtype)
        return rows @ wei(b).reshape(-1, out.shape[1])[: rows.shape[1]].astype(out.dtype)

    total = functools.reduce(np.add, map(entry, np.ndindex(*batch)))
    out[...] = out + total if accumulate else total


def pack(src: View, dst: View, dtype: DType) -> None:
    """Zeros fill the last group."""
    matrix, out = src(()), dst(())
    moved = {(np.dtype(np.uint8), DType.s8): -128, (np.dtype(np.int8), DType.u8): 128}.get((matrix.dtype, dtype), 0)
    values = cast(matrix.astype(np.int16) + moved if moved else matrix, dtype)
    padding = out.size // values.shape[1] - values.shape[0]
    out[...] = np.pad(values, ((0, padding), (0, 0))).reshape(out.shape)


NAMES: dict[str, Any] = {
    **{op.value: OPERATIONS[op] for op in BinOp if op.is_extreme},
    "natural": natural, "vector_load": vector_load, "vector_store": vector_store, "select": select, "random": random_number,
    "full": np.full, "cast": cast, "reduce_lanes": reduce_lanes, "slice_of": slice_of, "brgemm": brgemm, "pack": pack,
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "decay": decay, "log": np.log, "tanh": np.tanh,
    "normal_tail": normal_tail, "gauss": gauss, "round": np.rint, "floor": np.floor,
}  # fmt: skip
