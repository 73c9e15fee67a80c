"""Tensor IR as text: every node once, parentheses only where needed."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.ir import (
    Alloc,
    Binary,
    BinOp,
    Brgemm,
    Broadcast,
    Cast,
    Const,
    Expr,
    FlatSlice,
    For,
    Load,
    Prefetch,
    Ramp,
    Random,
    ReduceLanes,
    Scope,
    Select,
    Seq,
    Store,
    Tensor,
    Unary,
    UnOp,
    Var,
    tensor,
)
from benchgraph.tir.text import print_tir
from tests.support.tir_programs import attention, matmul_bf16, matmul_relu, packed_matmul

i, j = Var("i"), Var("j")
X = tensor("x", DType.f32, (8,))


def op(o: BinOp, a: Expr, b: Expr) -> Expr:
    return Binary(o, a, b)


x = Load(X, (i,))


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (op(BinOp.add, op(BinOp.mul, i, Const(8)), j), "i*8 + j"),
        (op(BinOp.mul, op(BinOp.add, i, j), Const(8)), "(i + j)*8"),
        (op(BinOp.sub, i, op(BinOp.sub, j, Const(1))), "i - (j - 1)"),
        (op(BinOp.sub, op(BinOp.sub, i, j), Const(1)), "i - j - 1"),
        (op(BinOp.mod, op(BinOp.floordiv, i, Const(4)), Const(3)), "i//4%3"),
        (op(BinOp.mul, i, op(BinOp.mod, j, Const(3))), "i*(j%3)"),
        (op(BinOp.mul, x, Const(0.1, DType.f32)), "x[i] * 0.1"),
        (op(BinOp.max, x, Const(float("-inf"), DType.f32)), "max(x[i], -inf)"),
        (op(BinOp.and_, op(BinOp.lt, i, j), Const(1, DType.boolean)), "i < j and true"),
        (Unary(UnOp.neg, op(BinOp.add, x, x)), "-(x[i] + x[i])"),
        (op(BinOp.mul, Unary(UnOp.neg, x), x), "-x[i] * x[i]"),
        (Unary(UnOp.exp, x), "exp(x[i])"),
        (Cast(i, DType.f32), "f32(i)"),
        (Const(3, DType.s32), "s32(3)"),
        (Select(op(BinOp.gt, x, x), x, x), "select(x[i] > x[i], x[i], x[i])"),
        (Load(X, (Ramp(i, 1, 16),)), "x[i:+16]"),
        (Ramp(Cast(i, DType.s32), 1, 16), "s32(i):+16"),
        (op(BinOp.lt, Ramp(i, 1, 4), Broadcast(Const(4), 4)), "i:+4 < x4(4)"),
        (op(BinOp.mod, Ramp(i, 1, 4), Broadcast(Const(4), 4)), "(i:+4) % x4(4)"),
        (Random(op(BinOp.add, i, j), Const(7), Const(0)), "random(i + j, 7, 0)"),
        (Load(X, (Ramp(i, 4, 16),), Const(1, DType.boolean)), "(x[i:+16*4] where true)"),
        (ReduceLanes(BinOp.add, Broadcast(x, 16)), "reduce_add(x16(x[i]))"),
        (ReduceLanes(BinOp.max, Broadcast(x, 8)), "reduce_max(x8(x[i]))"),
    ],
)
def test_expression(e: Expr, text: str) -> None:
    assert print_tir(e) == text


def test_flat_batch_reduce_shows_strides() -> None:
    flat = FlatSlice(X, i, (4, 1, 64))
    text = "brgemm (2x3x4) x[i, 4] += x[i, 4] @ x[i, 4] batch 5 (src by 64, wei by 64)"
    assert print_tir(Brgemm(flat, flat, flat, 2, 3, 4, (5,), accumulate=True)) == text


def test_what_a_product_fetches_ahead_stands_behind_it() -> None:
    flat = FlatSlice(X, i, (4, 1))
    ahead = Prefetch(X, (op(BinOp.add, i, j),), 6, count=3, stride=40), Prefetch(X, (j,), 1, is_store=True)
    text = "brgemm (2x3x4) x[i, 4] = x[i, 4] @ x[i, 4], prefetch x[i + j] 6 lines 3 times by 40, prefetch x[j] 1 lines to write"
    assert print_tir(Brgemm(flat, flat, flat, 2, 3, 4, prefetches=ahead)) == text


@pytest.mark.parametrize("program", [matmul_relu, attention, matmul_bf16, packed_matmul], ids=lambda p: p.__name__)
def test_function(program, golden) -> None:
    golden(print_tir(program()))


def test_block_inside_a_loop_shows_its_braces() -> None:
    """Two declarations of one name are legal only because each has its own block."""
    r = Tensor("r", DType.f32, (), (), Scope.register)
    block = Seq((Alloc(r), Store(r, (), x)))
    lines = print_tir(For(i, Const(2), Seq((block, block)))).splitlines()
    assert lines[:4] == ["for i in 2 {", "  {", "    alloc r: f32 register", "    r = x[i]"]
    assert lines.count("  }") == 2
