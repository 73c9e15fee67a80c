"""The verifier accepts every program of ours, and says which statement breaks which rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, mul, seq, unary
from benchgraph.tir.ir import (
    Alloc,
    Axis,
    Binary,
    BinOp,
    Brgemm,
    Broadcast,
    Cast,
    Const,
    Expr,
    Func,
    If,
    Load,
    Pack,
    Prefetch,
    Ramp,
    Random,
    ReduceLanes,
    Scope,
    Select,
    Seq,
    Slice,
    Stmt,
    Store,
    Tensor,
    UnOp,
    flat_slice,
    tensor,
)
from benchgraph.tir.verify import VerifyError, verify
from tests.support.tir_programs import PROGRAMS, ROWS_COLS, ZERO, at, i, j, loop, mo, param, put

X, Y, S = param("x", 8, 8), param("y", 8, 8), param("s", 8, dtype=DType.s32)
V, H, P = param("v", 64), param("h", 8, dtype=DType.bf16), param("p", 8, dtype=DType.s4)
B, W, FLAT_W = (
    param(name, *shape, dtype=d) for name, shape, d in (("b", (8, 8), DType.u8), ("w", (2, 8, 4), DType.s8), ("fw", (64,), DType.s8))
)
SPARSE = param("sparse", 8, 8, dtype=DType.u8, strides=(32, 2))
PAIRS = param("pairs", 4, 8, 2, dtype=DType.s8)
T, C = tensor("t", DType.f32, (8,)), param("c", 8, 8, dtype=DType.s32)
x = at(X, 0, 0)
RAMP = Ramp(ZERO, 1, 16)
WIDE = Load(V, (RAMP,))
TRIPLE = Broadcast(at(X, 0, 0), 3)


def func(*body: Stmt) -> Func:
    return Func("f", (X, Y, S, V, H, P, B, W, FLAT_W, PAIRS, SPARSE, C), seq(*body) if body else Seq(()))


def value(e: Expr) -> Stmt:
    return put(Y, 0, 0, value=e)


def gemm(src: Slice | None = None, acc: Slice | None = None, m: int = 4, n: int = 4, k: int = 4) -> Brgemm:
    whole = Slice(X, (ZERO, ZERO), ROWS_COLS)
    return Brgemm(src or whole, whole, acc or Slice(Y, (ZERO, ZERO), ROWS_COLS), m, n, k)


def pack(src: Slice | None = None, dst: Slice | None = None, k: int = 7) -> Pack:
    """u8 to s8, in two groups of which the second one is filled up."""
    return Pack(src or Slice(B, (ZERO, ZERO), ROWS_COLS), dst or Slice(W, (ZERO, ZERO, ZERO), ROWS_COLS), k, 8)


def bytes_gemm(wei: Slice | None = None, src: Slice | None = None, k: int = 7) -> Brgemm:
    """A product of u8 and s8 whose k ends within its second group."""
    wei = wei or Slice(W, (ZERO, ZERO, ZERO), ROWS_COLS)
    return Brgemm(src or Slice(B, (ZERO, ZERO), ROWS_COLS), wei, Slice(C, (ZERO, ZERO), ROWS_COLS), 4, 8, k)


BAD: dict[str, tuple[Stmt, str]] = {
    "undeclared": (put(T, 0, value=f32(1.0)), "`t[0] = 1.0`: the tensor t is not declared in scope"),
    "undeclared_load": (value(at(T, 0)), "the tensor t is not declared in scope"),
    "out_of_scope": (seq(loop(i, 2, Alloc(T), put(T, 0, value=x)), value(at(T, 0))), "the tensor t is not declared in scope"),
    "other_shape": (seq(Alloc(T), put(replace(T, shape=(9,)), 0, value=x)), "the tensor t is declared differently"),
    "declared_twice": (seq(Alloc(T), Alloc(T)), "the name t is declared twice"),
    "param_alloc": (Alloc(replace(T, scope=Scope.param)), "an alloc cannot have scope param"),
    "register_with_shape": (seq(Alloc(replace(T, scope=Scope.register))), "must have shape ()"),
    "lanes_without_register": (seq(Alloc(replace(T, lanes=4))), "has 4 lanes but is not a register"),
    "padding_of_shared": (
        seq(Alloc(replace(T, padding=1))),
        "has 1 elements of padding: only part of each row of a thread's own temporary",
    ),
    "padding_of_nothing": (seq(Alloc(replace(T, scope=Scope.thread, padding=99))), "has 99 elements of padding"),
    "rank": (put(Y, 0, value=x), "y has rank 2 but 1 indices"),
    "index_dtype": (put(Y, 0, cast(ZERO, DType.s32), value=x), "the index `s32((0))` is s32, not s64"),
    "stray_variable": (seq(loop(i, 2, value(x)), value(at(X, i, 0))), "the variable i is used outside its loop"),
    "nested_variable": (loop(i, 2, loop(i, 2, value(x))), "the loop variable i is defined twice in one nest"),
    "negative_extent": (loop(i, -1, value(x)), "a loop extent is negative"),
    "float_extent": (loop(i, x, value(x)), "`x[0, 0]` is f32 where a scalar s64 is needed"),
    "condition": (If(x, value(x)), "`x[0, 0]` is f32 where a scalar boolean is needed"),
    "operand_dtypes": (value(binary(BinOp.add, x, at(S, 0))), "the operands of `x[0, 0] + s[0]` are f32 and s32"),
    "operand_lanes": (Store(V, (RAMP,), binary(BinOp.add, WIDE, x)), "are f32 x16 and f32"),
    "stored_dtype": (put(S, 0, value=x), "a value of f32 is stored where s32 is needed"),
    "stored_lanes": (Store(V, (RAMP,), x), "a value of f32 is stored where f32 x16 is needed"),
    "integer_division": (put(S, 0, value=binary(BinOp.div, at(S, 0), at(S, 1))), "/ is for floats"),
    "float_floordiv": (value(binary(BinOp.floordiv, x, x)), "is for s64, not f32"),
    "zero_divisor": (put(Y, 0, Binary(BinOp.mod, ZERO, ZERO), value=x), "the divisor of `0%0` is not positive"),
    "bf16_arithmetic": (put(H, 0, value=binary(BinOp.add, at(H, 0), at(H, 1))), "computes in bf16; cast to f32 first"),
    "packed_arithmetic": (value(Cast(binary(BinOp.add, at(P, 0), at(P, 1)), DType.f32)), "computes in s4; cast to f32 first"),
    "packed_store": (put(P, 0, value=at(P, 1)), "p is s4, of which two elements share a byte; it can only be read"),
    "packed_temporary": (Alloc(replace(T, dtype=DType.u4)), "t is u4, of which two elements share a byte; only a parameter can be"),
    "packed_cast": (put(S, 0, value=cast(Cast(x, DType.u4), DType.s32)), "casts to u4, which nothing computes in or stores"),
    "logic_on_floats": (value(binary(BinOp.and_, x, x)), "does not work on f32"),
    "arithmetic_on_booleans": (value(Cast(binary(BinOp.add, *[binary(BinOp.lt, x, x)] * 2), DType.f32)), "does not work on boolean"),
    "exp_of_integer": (put(S, 0, value=unary(UnOp.exp, at(S, 0))), "`exp(s[0])` does not work on s32"),
    "select": (value(Select(x, x, x)), "selects by f32 between f32 and f32"),
    "literal": (put(S, 0, value=Const(1.0, DType.s32)), "the literal 1.0 does not fit its dtype s32"),
    "narrow_stream": (put(S, 0, value=Random(ZERO, at(S, 0), ZERO)), "`random(0, s[0], 0)` needs three operands of s64"),
    "float_ramp": (value(ReduceLanes(BinOp.add, Ramp(f32(0.0), 1, 16))), "needs a scalar s64 or s32 base"),
    "short_ramp": (Store(V, (Ramp(ZERO, 1, 1),), x), "at least two lanes"),
    "broadcast_of_vector": (Store(V, (RAMP,), Broadcast(WIDE, 16)), "needs a scalar"),
    "reduce_of_scalar": (value(ReduceLanes(BinOp.add, x)), "needs a vector"),
    "reduce_by_sub": (value(ReduceLanes(BinOp.sub, WIDE)), "one of add, mul, min, max"),
    "vector_index": (Store(V, (binary(BinOp.add, RAMP, RAMP),), WIDE), "is not a ramp"),
    "two_vector_indices": (Store(Y, (Ramp(ZERO, 1, 2), Ramp(ZERO, 1, 2)), Broadcast(x, 2)), "more than one vector"),
    "mask_dtype": (Store(V, (RAMP,), WIDE, WIDE), "needs boolean x16"),
    "mask_lanes": (Store(V, (RAMP,), WIDE, binary(BinOp.lt, x, x)), "is boolean; it needs boolean x16"),
    "too_far": (loop(i, 8, put(Y, add(i, 1), 0, value=x)), "index `i + 1` of y reaches 1..8, outside dim 0 of size 8"),
    "too_near": (put(Y, -1, 0, value=x), "index `-1` of y reaches -1..-1, outside dim 0"),
    "vector_too_far": (Store(V, (Ramp(Const(56), 1, 16),), WIDE), "reaches 56..71, outside dim 0 of size 64"),
    "gemm_extent": (gemm(m=0), "must be positive"),
    "gemm_too_far": (gemm(Slice(X, (Const(6), ZERO), ROWS_COLS)), "index `6` + 0..3 of x reaches 6..6, outside dim 0 of size 8"),
    "gemm_fetches_a_temporary": (seq(Alloc(T), replace(gemm(), prefetches=(Prefetch(T, (ZERO,), 2),))), "t is no parameter"),
    "gemm_fetches_at_no_rank": (replace(gemm(), prefetches=(Prefetch(S, (ZERO, ZERO), 2),)), "s has rank 1 but 2 indices"),
    "gemm_dtype": (gemm(flat_slice(H, ZERO, (1, 1))), "src, wei and acc are bf16 f32 f32; the microkernel takes f32 f32 f32, bf16"),
    "gemm_not_in_groups": (bytes_gemm(Slice(W, (ZERO, ZERO, ZERO), ((0, 1), (2, 1)))), "w needs groups of 4 along k in its innermost dim"),
    "gemm_group_size": (bytes_gemm(Slice(PAIRS, (ZERO, ZERO, ZERO), ROWS_COLS)), "pairs needs groups of 4"),
    "gemm_group_stride": (bytes_gemm(flat_slice(FLAT_W, ZERO, (32, 1))), "the columns of fw have stride 1, not 4"),
    "gemm_src_of_groups": (bytes_gemm(src=Slice(B, (ZERO, ZERO), ((1, 1), (0, 1)))), "the columns of b have stride 8, not 1"),
    "gemm_last_group_too_far": (bytes_gemm(Slice(W, (Const(1), ZERO, ZERO), ROWS_COLS)), "`1` + 0..1 of w reaches 1..1, outside dim 0"),
    "gemm_flat_last_group_too_far": (bytes_gemm(flat_slice(FLAT_W, Const(5), (32, 4))), "`5` + 0..63 of fw reaches 5..5, outside"),
    "pack_extent": (pack(k=0), "must be positive"),
    "pack_dtype": (pack(Slice(X, (ZERO, ZERO), ROWS_COLS)), "f32 is packed to s8; the pairs are in PACKED_FROM"),
    "turn_to_another": (
        Pack(Slice(X, (ZERO, ZERO), ((1, 1), (0, 1))), Slice(C, (ZERO, ZERO), ROWS_COLS), 4, 4, transposes=True),
        "f32 cannot be transposed to s32",
    ),
    "turn_rows": (
        Pack(Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(Y, (ZERO, ZERO), ROWS_COLS), 4, 4, transposes=True),
        "rows of x have stride",
    ),
    "pack_to_wide": (Pack(Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(C, (ZERO, ZERO), ROWS_COLS), 4, 4), "f32 is packed to s32"),
    "pack_too_far": (pack(Slice(B, (Const(2), ZERO), ROWS_COLS)), "`2` + 0..6 of b reaches 2..2, outside dim 0"),
    "pack_strides": (pack(Slice(SPARSE, (ZERO, ZERO), ROWS_COLS)), "neither rows nor columns of sparse have stride 1"),
    "pack_not_in_groups": (pack(dst=Slice(W, (ZERO, ZERO, ZERO), ((0, 1), (2, 1)))), "w needs groups of 4 along k"),
    "pack_columns": (pack(dst=flat_slice(FLAT_W, ZERO, (4, 8))), "the columns of fw have stride 8, not 4"),
    "pack_last_group_too_far": (pack(dst=Slice(W, (Const(1), ZERO, ZERO), ROWS_COLS)), "`1` + 0..1 of w reaches 1..1, outside dim 0"),
    "gemm_columns": (gemm(acc=Slice(Y, (ZERO, ZERO), ((1, 1), (0, 1)))), "the columns of y have stride 8, not 1"),
    "gemm_acc_rows": (gemm(acc=Slice(Y, (ZERO, ZERO), ((0, 2), (1, 1)))), "the rows of y are 2 indices apart, not 1"),
    "gemm_dims": (gemm(Slice(X, (ZERO, ZERO), ((1, 1), (1, 1)))), "do not make a slice of rank 2"),
    "gemm_slice_of_flat": (gemm(Slice(V, (ZERO,), ROWS_COLS)), "do not make a slice of rank 1"),
    "gemm_flat_of_matrix": (gemm(flat_slice(X, ZERO, (8, 1))), "x has rank 2 but 1 indices"),
    "gemm_flat_too_far": (gemm(flat_slice(V, ZERO, (32, 1))), "`0` + 0..99 of v"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_broken_rule_is_named(case: str) -> None:
    stmt, message = BAD[case]
    with pytest.raises(VerifyError) as raised:
        verify(func(stmt))
    assert message in str(raised.value)
    assert str(raised.value).startswith("TIR function f: `")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_are_well_formed(program) -> None:
    verify(program())


@pytest.mark.parametrize("wei", [None, flat_slice(FLAT_W, ZERO, (32, 4))], ids=["slice", "flat"])
@pytest.mark.parametrize("k", [1, 5, 7, 8])
def test_products_in_groups_are_accepted(k: int, wei: Slice | None) -> None:
    verify(func(bytes_gemm(wei, k=k)))


@pytest.mark.parametrize("axes", [ROWS_COLS, ((1, 1), (0, 1))], ids=["rows", "columns"])
def test_packings_are_accepted_whichever_way_src_lies(axes: tuple[Axis, Axis]) -> None:
    verify(func(pack(Slice(B, (ZERO, ZERO), axes))))


def test_index_that_may_stay_inside_is_accepted() -> None:
    """min(32, 100 - mo*32) iterations from mo*32: the interval alone reaches 127."""
    y = param("y", 100)
    rows = binary(BinOp.min, Const(32), binary(BinOp.sub, Const(100), mul(mo, 32)))
    verify(Func("f", (y,), loop(mo, 4, loop(i, rows, put(y, add(mul(mo, 32), i), value=f32(0.0))))))


def test_index_in_a_loop_that_never_runs_is_accepted() -> None:
    verify(func(loop(i, 0, put(Y, 99, 0, value=x))))


def test_registers_of_one_name_in_separate_blocks_are_accepted() -> None:
    r = Tensor("r", DType.f32, (), (), Scope.register)
    block = seq(Alloc(r), put(r, value=x), put(Y, j, 0, value=at(r)))
    verify(func(loop(j, 2, block), loop(j, 2, block)))


def test_buffer_beyond_its_arena_is_refused() -> None:
    t = replace(T, offset=64)
    body = put(t, 0, value=x)
    verify(Func("f", (X,), body, shared_bytes=96))
    with pytest.raises(VerifyError, match="takes bytes 64 to 96 of a shared arena of 95"):
        verify(Func("f", (X,), body, shared_bytes=95))


def test_thread_buffer_outside_a_parallel_loop_is_refused() -> None:
    t = replace(T, offset=0, scope=Scope.thread)
    with pytest.raises(VerifyError, match="used outside a parallel loop"):
        verify(Func("f", (X,), put(t, 0, value=x), thread_bytes=64))
