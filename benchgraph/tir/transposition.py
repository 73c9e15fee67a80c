"""Loops that transpose a matrix: src is contiguous along one of them, dst along the other."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.tir.affine import Linear, Ranges, linear, to_expr
from benchgraph.tir.build import constant
from benchgraph.tir.groups import PACKED_FROM
from benchgraph.tir.ir import Binary, BinOp, Cast, Const, Expr, For, Load, LoopKind, Pack, Scope, Store, Var, flat_slice
from benchgraph.tir.loops import only_statement

LEAST_BYTES = 16  # of a row of dst: the smallest vector
LEAST_ROWS = 4


def as_transposition(outer: For, ranges: Ranges) -> Pack | None:
    """The two loops as one statement; None if they do anything else."""
    inner = only_statement(outer.body)
    if not isinstance(inner, For) or LoopKind.parallel in (outer.kind, inner.kind):
        return None
    store = only_statement(inner.body)
    if not isinstance(store, Store) or store.mask is not None:
        return None
    load = _copied(store.value, store)
    if load is None or Scope.register in (store.tensor.scope, load.tensor.scope) or store.tensor == load.tensor:
        return None
    for k, n in ((outer, inner), (inner, outer)):
        src, dst = (row_and_column_strides(index, k.var, n.var) for (index,) in (load.index, store.index))
        if src is None or dst is None or src[1] != 1 or dst[2] != 1 or src[2] <= 1:
            continue
        rows, columns = constant(k.extent), constant(n.extent)
        if rows is None or columns is None or dst[1] < columns or rows < LEAST_ROWS:
            continue
        if store.tensor.dtype.nbytes(columns) < LEAST_BYTES:
            continue
        slices = flat_slice(load.tensor, to_expr(src[0], ranges), src[1:]), flat_slice(store.tensor, to_expr(dst[0], ranges), dst[1:])
        return Pack(*slices, rows, columns, transposes=load.tensor.dtype.bits == store.tensor.dtype.bits)
    return None


def _copied(e: Expr, store: Store) -> Load | None:
    """The load, unmasked, of a value that is stored unchanged, converted to f32, or as u8 = s8 + 128; else None."""
    dtype = store.tensor.dtype
    match e:
        case Cast(Binary(BinOp.add, Cast(Load() as load, DType.s32), Const(128)), DType.u8) if load.tensor.dtype is DType.s8:
            return load if load.mask is None else None
        case Cast(Load() as load, DType.f32) if dtype is DType.f32 and load.tensor.dtype in PACKED_FROM[dtype]:
            return load if load.mask is None else None
        case Load() as load:
            pass
        case _:
            return None
    is_same = load.mask is None and load.tensor.dtype is dtype and _is_transposable(dtype)
    return load if is_same else None


def _is_transposable(dtype: DType) -> bool:
    return not dtype.is_packed and dtype.bits in (8, 16, 32)


def row_and_column_strides(index: Expr, k: Var, n: Var) -> tuple[Linear, int, int] | None:
    """(start, stride along k, stride along n) of an index; None if it is not linear in both."""
    start, moving = linear(index).split(frozenset((k.name, n.name)))
    if not set(moving.terms) <= {k, n}:
        return None
    return start, moving.terms.get(k, 0), moving.terms.get(n, 0)


def is_strided_read(x: Load, row: Var, column: Var) -> bool:
    """Whether a load is contiguous along rows and strided along columns."""
    if x.mask is not None or not _is_transposable(x.tensor.dtype) or x.tensor.scope is Scope.register:
        return False
    strides = row_and_column_strides(x.index[0], row, column)
    return strides is not None and strides[1] == 1 and strides[2] > 1
