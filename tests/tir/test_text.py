"""Tensor IR as text: every node once, parentheses only where needed; and back, with messages for broken text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import ParseError
from benchgraph.tir.build import type_of
from benchgraph.tir.ir import (
    Alloc,
    Binary,
    BinOp,
    Brgemm,
    Broadcast,
    Cast,
    Const,
    Expr,
    For,
    Func,
    Load,
    Prefetch,
    Ramp,
    Random,
    ReduceLanes,
    Scope,
    Select,
    Seq,
    Shared,
    Store,
    Tensor,
    Unary,
    UnOp,
    Var,
    flat_slice,
    tensor,
)
from benchgraph.tir.parse import parse_tir
from benchgraph.tir.passes import PIPELINE
from benchgraph.tir.text import print_tir
from tests.support.tir_programs import PROGRAMS, TARGET, attention, matmul_bf16, matmul_relu, packed_matmul

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
        (op(BinOp.mul, x, Const(0.5, DType.f32)), "x[i] * 0.5"),
        (op(BinOp.mul, x, Const(0.1, DType.f32)), "x[i] * f32(0.1)"),
        (op(BinOp.mul, x, Const(float(np.float32(0.1)), DType.f32)), "x[i] * 0.1"),
        (op(BinOp.max, x, Const(float("-inf"), DType.f32)), "max(x[i], -inf)"),
        (op(BinOp.and_, op(BinOp.lt, i, j), Const(1, DType.boolean)), "i < j and true"),
        (Unary(UnOp.neg, op(BinOp.add, x, x)), "-(x[i] + x[i])"),
        (op(BinOp.mul, Unary(UnOp.neg, x), x), "-x[i] * x[i]"),
        (Unary(UnOp.exp, x), "exp(x[i])"),
        (Cast(i, DType.f32), "f32(i)"),
        (Const(3, DType.s32), "s32(3)"),
        (Cast(Const(3), DType.s32), "s32((3))"),
        (Const(-3), "-3"),
        (Unary(UnOp.neg, Const(3)), "-(3)"),
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
    store = Store(tensor("y", type_of(e)[0], (8,)), (j,), e)
    f = Func("f", (X, store.tensor), For(i, Const(8), For(j, Const(8), store)))
    f = replace(f, params=tuple(replace(p, scope=Scope.param) for p in f.params))
    (back,) = parse_tir(print_tir(f))
    assert print_tir(back) == print_tir(f)


def test_flat_batch_reduce_shows_strides() -> None:
    src, acc = flat_slice(X, i, (4, 1, 64)), flat_slice(X, i, (4, 1))
    text = "brgemm (m=2, n=3, k=4, b0=5) x[i; m*4, n] += x[i; m*4, k, b0*64] @ x[i; k*4, n, b0*64]"
    assert print_tir(Brgemm(src, src, acc, 2, 3, 4, (5,), accumulate=True)) == text


def test_prefetches_of_a_product_are_printed_after_it() -> None:
    flat = flat_slice(X, i, (4, 1))
    ahead = Prefetch(X, (op(BinOp.add, i, j),), 6, count=3, stride=40), Prefetch(X, (j,), 1, for_write=True)
    end = "prefetch x[i + j] 6 lines 3 times by 40, prefetch x[j] 1 lines to write"
    assert (
        print_tir(Brgemm(flat, flat, flat, 2, 3, 4, prefetches=ahead))
        == f"brgemm (m=2, n=3, k=4) x[i; m*4, n] = x[i; m*4, k] @ x[i; k*4, n], {end}"
    )


def test_what_the_schedule_says_of_caches_is_printed_and_parses() -> None:
    """How far ahead a call loads weights, and loops streams; what loops share."""
    x, flat = replace(X, scope=Scope.param), flat_slice(X, i, (4, 1))
    f = Func("f", (x,), For(i, Const(2), Brgemm(flat, flat, flat, 2, 3, 4, wei_ahead=8)), prefetched=("x",), stream_bytes=2048)
    f = replace(f, shared=(Shared(("x",), 4), Shared(("x",), 2, by_rows=True)), tasks=16)
    text = print_tir(f)
    shared = 'shared=[(names=["x"], blocks=4), (names=["x"], blocks=2, by_rows=true)]'
    assert f') prefetched=["x"] stream_bytes=2048 {shared} tasks=16 {{' in text
    assert "x[i; k*4, n], wei 8 rows ahead" in text
    (back,) = parse_tir(text)
    assert print_tir(back) == text


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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_result_of_every_pass_is_read_back(program: Callable[[], Func]) -> None:
    f = program()
    for p in PIPELINE:
        f = p.fn(f, TARGET)
        text = print_tir(f)
        assert parse_tir(text) == (f,), f"after {p.name}"
        assert print_tir(*parse_tir(text)) == text


def test_blocks_comments_and_rare_forms_are_read_back() -> None:
    text = """\
func f(x: f32[4,8] by [16,1], y: f32[4,8]) y over x runs_once=true {
  shared arena, 64 bytes: t: f32[16] at 0
  thread arena, 32 bytes
  {
    {
    }
  }
  for i in 4 {
    {
      y[i, 0] = nan where x[i, 0] < -inf nontemporal
    }
  }
  if true {
    t[0] = -(1.0)
  } else {
  }
}"""
    (f,) = parse_tir(text.replace("{\n", "{  # a comment\n"))
    assert print_tir(f) == text
    assert f.body.stmts[0] == Seq((Seq(()),))
    assert f.body.stmts[2].orelse == Seq(())


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("y[i] = z[i]", 12, "no tensor or loop variable is called 'z' here"),
        ("y[i] = x[i 2]", 16, "expected ',' or ']'"),
        ("y[i] = sqr(x[i])", 12, "expected a function (did you mean 'sqrt'?)"),
        ("y[i] = max(x[i])", 12, "expected max of 2 operands, not 1"),
        ("i = 1.0", 5, "expected a tensor, not a loop variable"),
        ("alloc t: f31 register", 14, "expected a data type"),
        ("alloc t: f32 heap", 18, "expected where the tensor is"),
        ("brgemm (m=1, n=2) y[i; m, n] = x[i; m, k] @ x[i; k, n]", 12, "expected the extents of m, n and k"),
        ("brgemm (m=1, n=1, k=1) y[i; m, b0] = x[i; m, k] @ x[i; k, n]", 36, "expected an axis: one of m, n"),
        ("y[i] = x[i] $ 2", 17, "expected a token of Tensor IR"),
        ("", 1, "expected a statement, or '}'"),
    ],
)
def test_broken_text_is_shown_where_it_breaks(line: str, column: int, message: str) -> None:
    head = "func f(x: f32[8], y: f32[8]) {\n  for i in 8 {\n"
    with pytest.raises(ParseError) as caught:
        parse_tir(f"{head}    {line}\n" if line else head, "f.txt")
    assert caught.value.where == f"f.txt:3:{column}"
    assert message in caught.value.line
    assert caught.value.shown.endswith("\n" + " " * (column - 1) + "^")
