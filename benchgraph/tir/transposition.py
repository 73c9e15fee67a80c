"""Two loops whose reads and writes lie across one another: what along one of them is dense in src is along the other in dst."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.tir.affine import Linear, Ranges, linear, linear_bounds, to_expr
from benchgraph.tir.build import binary, constant
from benchgraph.tir.groups import PACKED_FROM
from benchgraph.tir.ir import Binary, BinOp, Cast, Const, Expr, FlatSlice, For, Load, LoopKind, Pack, Scope, Stmt, Store, Var
from benchgraph.tir.visit import statements

LEAST_BYTES = 16  # of a row of dst; rows of fewer are stored in less than a vector of the smallest kind
LEAST_ROWS = 4
MOST_BYTES = 16384  # of a tile: half of a common L1


def as_transposition(outer: For, ranges: Ranges) -> Pack | None:
    """The loops as one statement, None where they are something else."""
    inner = only_statement(outer.body)
    if not isinstance(inner, For) or LoopKind.parallel in (outer.kind, inner.kind):
        return None
    store = only_statement(inner.body)
    if not isinstance(store, Store) or store.mask is not None or store.non_temporal:
        return None
    load = _copied(store.value, store)
    if load is None or Scope.register in (store.tensor.scope, load.tensor.scope) or store.tensor == load.tensor:
        return None
    for k, n in ((outer, inner), (inner, outer)):
        src, dst = (row_and_column_strides(index, k.var, n.var) for (index,) in (load.index, store.index))
        if src is None or dst is None or src[1] != 1 or dst[2] != 1 or src[2] <= 1:
            continue
        rows, columns = constant(k.extent), constant(n.extent)
        if rows is None or columns is None or dst[1] < columns or not _pays(rows, columns, load.tensor.dtype, store.tensor.dtype):
            continue
        pieces = FlatSlice(load.tensor, to_expr(src[0], ranges), src[1:]), FlatSlice(store.tensor, to_expr(dst[0], ranges), dst[1:])
        return Pack(*pieces, rows, columns, transposes=load.tensor.dtype.bits == store.tensor.dtype.bits)
    return None


def _pays(rows: int, columns: int, src: DType, dst: DType) -> bool:
    return rows >= LEAST_ROWS and dst.nbytes(columns) >= LEAST_BYTES


def as_last_block(extent: Expr, ranges: Ranges) -> tuple[Expr, int, int] | None:
    """When an extent is that of a last block, what it is there, and elsewhere; None where it is something else."""
    match extent:
        case Binary(BinOp.min, Const(size), left):
            form = linear(left)
            fewest, _ = linear_bounds(form, ranges)
            if [-step >= size for step in form.terms.values()] == [True] and 0 < fewest < size:
                return binary(BinOp.lt, left, Const(size)), int(fewest), int(size)
    return None


def largest_extent(extent: Expr, ranges: Ranges) -> int | None:
    """How many turns a loop over a block has where it is whole; None where they are not of a block."""
    found = as_last_block(extent, ranges)
    return constant(extent) if found is None else found[2]


def only_statement(s: Stmt) -> Stmt | None:
    """The one statement that s consists of; None where there are others, or none."""
    found = statements(s)
    return found[0] if len(found) == 1 else None


def _copied(e: Expr, store: Store) -> Load | None:
    """What is stored as it was loaded, or as f32, or s8 as u8, 128 more; without a mask."""
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
    """Where it is for k and n 0, and its steps along them; None where it does not move evenly."""
    start, moving = linear(index).split(frozenset((k.name, n.name)))
    if not set(moving.terms) <= {k, n}:
        return None
    return start, moving.terms.get(k, 0), moving.terms.get(n, 0)


def is_strided_read(x: Load, row: Var, column: Var) -> bool:
    """Whether an element lies next to that of the next row, and not to that of the next column."""
    if x.mask is not None or not _is_transposable(x.tensor.dtype) or x.tensor.scope is Scope.register:
        return False
    found = row_and_column_strides(x.index[0], row, column)
    return found is not None and found[1] == 1 and found[2] > 1
