"""attach-post-ops: what may run on register tiles does, what may not stays where it is, and never is anything else computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, mul, seq, unary
from benchgraph.tir.ir import (
    Alloc,
    BinOp,
    Brgemm,
    Const,
    Expr,
    FlatSlice,
    Func,
    InplacePair,
    Load,
    PostOps,
    Ramp,
    Scope,
    Select,
    Slice,
    Stmt,
    Tensor,
    UnOp,
    tensor,
)
from benchgraph.tir.passes import run
from benchgraph.tir.passes.attach_post_ops import MOST_STEPS, attach_post_ops
from benchgraph.tir.text import print_tir
from benchgraph.tir.verifier_state import VerifyError
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import walk
from tests.support.table import all_hold
from tests.support.tensor_ir import before
from tests.support.tir_programs import ROWS_COLS, TARGET, ZERO, assert_same, at, i, j, loop, no, param, put

M, N, K = 7, 64, 5
BEFORE = before("attach-post-ops")


@dataclass(frozen=True)
class Operands:
    """y = f(t), t = x @ w, with a number c of each column and r of each row."""

    x: Tensor
    w: Tensor
    c: Tensor
    r: Tensor
    y: Tensor
    t: Tensor


Body = Callable[[Operands, Expr, Expr], list[Stmt]]  # row and column


def product(
    body: Body, *, m: int = M, n: int = N, y: Tensor | None = None, times: int = 1, accumulate: bool = False, is_read: bool = False
) -> Func:
    """y = body(x @ w), by `times` panels of columns one after the other. is_read: t is read once more behind them."""
    o = Operands(
        param("x", m, K),
        param("w", K, n),
        param("c", n),
        param("r", m),
        param("y", m, n) if y is None else y,
        tensor("t", DType.f32, (m, n)),
    )
    width = n // times
    start = mul(no, width)
    pieces = (Slice(t, at, ROWS_COLS) for t, at in ((o.x, (ZERO, ZERO)), (o.w, (ZERO, start)), (o.t, (ZERO, start))))
    first = [loop(i, m, loop(j, n, put(o.t, i, j, value=f32(0.5))))] if accumulate else []
    call = Brgemm(*pieces, m, width, K, accumulate=accumulate)
    nest = loop(no, times, call, loop(i, m, loop(j, width, *body(o, i, add(start, j)))))
    behind = [loop(j, n, put(o.c, j, value=at(o.t, 0, j)))] if is_read else []
    return Func("product", (o.x, o.w, o.c, o.r, o.y), seq(Alloc(o.t), *first, nest, *behind))


def test_narrow_results_that_no_cache_keeps_are_made_in_registers_too() -> None:
    f = product(scaled, m=32, y=param("y", 32, N, dtype=DType.bf16))
    assert len(post_ops(run(f, replace(TARGET, llc_bytes=1)))) == 1


def lowered(f: Func) -> Func:
    return run(f, TARGET, pipeline=BEFORE)


def post_ops(f: Func) -> list[PostOps]:
    return [s.post_ops for s in walk(f.body) if isinstance(s, Brgemm) and s.post_ops is not None]


def biased(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """relu(t + c), by way of a temporary."""
    u = Tensor("u", DType.f32, (), (), Scope.register)
    return [Alloc(u), put(u, value=binary(BinOp.add, at(o.t, m, n), at(o.c, n))), put(o.y, m, n, value=binary(BinOp.max, at(u), f32(0.0)))]


def scaled(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """A number of each row, and one of each column."""
    return [put(o.y, m, n, value=cast(binary(BinOp.add, binary(BinOp.mul, at(o.t, m, n), at(o.r, m)), at(o.c, n)), o.y.dtype))]


def added(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=binary(BinOp.add, at(o.y, m, n), at(o.t, m, n)))]


def summed(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Over rows, whose order is kept."""
    return [put(o.y, 0, n, value=binary(BinOp.sub, at(o.t, m, n), at(o.y, 0, n)))]


def chosen(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    x = at(o.t, m, n)
    return [put(o.y, m, n, value=Select(binary(BinOp.gt, x, f32(0.0)), x, binary(BinOp.mul, x, f32(0.1))))]


def masked(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Hidden right of a diagonal that begins in some columns before."""
    row, column = (cast(e, DType.s32) for e in (add(m, N // 4), n))
    return [put(o.y, m, n, value=Select(binary(BinOp.ge, row, column), at(o.t, m, n), f32(-inf)))]


def of_a_row(value: Callable[[Operands, Expr, Expr], Expr]) -> Body:
    """Twice as many steps as a tile has room for, on the way to a factor."""

    def body(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
        u, v = (Tensor(name, DType.f32, (), (), Scope.register) for name in "uv")
        factor: Expr = at(u)
        for _ in range(MOST_STEPS):
            factor = binary(BinOp.add, factor, at(o.r, m))
        first = [Alloc(u), put(u, value=value(o, m, n)), Alloc(v), put(v, value=factor)]
        return [*first, put(o.y, m, n, value=binary(BinOp.mul, at(o.t, m, n), at(v)))]

    return body


HOLDS: dict[str, Func] = {
    "a temporary on the way": product(biased),
    "numbers of rows and columns": product(scaled),
    "stored narrow": product(scaled, y=param("y", M, N, dtype=DType.bf16)),
    "stored as bytes": product(scaled, y=param("y", M, N, dtype=DType.u8)),
    "stored elsewhere in each row": product(scaled, y=param("y", M, N, strides=(100, 1))),
    "into what was there": product(added),
    "summed over rows": product(summed),
    "used twice": product(chosen),
    "one row": product(scaled, m=1),
    "one vector": product(scaled, n=16),
    "one vector of one row": product(scaled, m=1, n=16),
    "panels": product(biased, times=2),
    "half vectors": product(biased, n=8),
    "a choice by place": product(masked),
    "a choice by place in panels": product(masked, times=2),
    "what is alike for a row": product(of_a_row(lambda o, m, n: at(o.r, m))),
}


def test_what_may_run_on_register_tiles_does() -> None:
    def check(f: Func) -> None:
        before = lowered(f)
        after = attach_post_ops(before, TARGET)
        assert len(post_ops(after)) == 1
        verify(after)
        assert_same(after, f)
        assert attach_post_ops(after, TARGET) is after

    all_hold(check, {name: (f,) for name, f in HOLDS.items()})


def test_golden() -> None:
    f = lowered(product(biased, m=2, n=32))
    assert print_tir(attach_post_ops(f, TARGET)).splitlines() == [
        "func product(x: f32[10], w: f32[160], c: f32[32], r: f32[2], y: f32[64]) {",
        "  shared arena, 256 bytes: t: f32[64] at 0",
        "  brgemm (2x32x5) t[0, 32] = x[0, 5] @ w[0, 32], then for i, j_v {",
        "    alloc u: f32 x16 register",
        "    u = t[i*32 + j_v*16:+16] + c[j_v*16:+16]",
        "    y[i*32 + j_v*16:+16] = max(u, x16(0.0))",
        "  }",
        "}",
    ]


def mirrored(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Loads what another vector stores."""
    return [put(o.y, m, n, value=binary(BinOp.add, at(o.y, m, binary(BinOp.sub, Const(N - 1), n)), at(o.t, m, n)))]


def shifted(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Loads what the row before has stored."""
    return [put(o.y, add(m, 1), n, value=binary(BinOp.add, at(o.y, m, n), at(o.t, m, n)))]


def overlapping(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """Rows one element apart: the last store counts."""
    return [put(o.y, add(m, n), value=at(o.t, m, n))]


def upside_down(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, n, m, value=at(o.t, m, n))]


def of_another_row(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=binary(BinOp.add, at(o.t, m, n), at(o.t, 0, n)))]


def of_one_column(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=binary(BinOp.add, at(o.t, m, n), at(o.t, m, 0)))]


def exponential(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=unary(UnOp.exp, at(o.t, m, n)))]


def long(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    value: Expr = at(o.t, m, n)
    for _ in range(MOST_STEPS // 2):
        value = binary(BinOp.add, value, at(o.c, n))
    return [put(o.y, m, n, value=value)]


def long_for_a_row(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    value: Expr = at(o.r, m)
    for _ in range(MOST_STEPS):
        value = binary(BinOp.add, value, at(o.r, m))
    return [put(o.y, m, n, value=value)]


def into_the_weights(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    """w is what the product reads."""
    return [put(o.w, m, n, value=at(o.t, m, n))]


def twice_at_one_place(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    return [put(o.y, m, n, value=at(o.t, m, n)), put(o.y, m, n, value=binary(BinOp.add, at(o.y, m, n), at(o.c, n)))]


STAYS: dict[str, Func] = {
    "loads what another vector stores": product(mirrored),
    "loads what another row stores": product(shifted, y=param("y", M + 1, N)),
    "rows that overlap": product(overlapping, y=param("y", M + N)),
    "columns that are rows": product(upside_down, y=param("y", N, M)),
    "another row of acc": product(of_another_row),
    "one column of acc": product(of_one_column),
    "a function": product(exponential),
    "more than a tile has room for": product(long),
    "from a number of each column": product(of_a_row(lambda o, m, n: at(o.c, n))),
    "from the product": product(of_a_row(lambda o, m, n: at(o.t, m, n)), n=16),
    "stored as it is worked out": product(long_for_a_row),
    "part of a vector": product(scaled, n=40),
    "stores that follow one another": product(twice_at_one_place),
    "acc that is added to": product(scaled, accumulate=True),
    "acc that is read later": product(scaled, is_read=True),
    "what the product reads": product(into_the_weights, m=K),
}


def test_what_may_not_stays_where_it_is() -> None:
    def check(f: Func) -> None:
        before = lowered(f)
        assert attach_post_ops(before, TARGET) is before

    all_hold(check, {name: (f,) for name, f in STAYS.items()})


def test_a_result_that_may_lie_on_an_operand_is_stored_behind_the_product() -> None:
    f = lowered(product(scaled, n=16, m=6))
    on_rows = replace(f, inplace=(InplacePair("y", "x"),))
    assert attach_post_ops(on_rows, TARGET) is on_rows
    assert post_ops(attach_post_ops(replace(f, inplace=(InplacePair("y", "r"),)), TARGET)) == []  # r is read at other places
    assert len(post_ops(attach_post_ops(f, TARGET))) == 1


def test_a_result_that_shares_bytes_with_the_rows_is_stored_behind_the_product() -> None:
    """plan-buffers may give what is not read again to what is stored next."""
    rows, acc = (Tensor(name, DType.f32, (256,), (1,), Scope.shared, offset=at) for name, at in (("a", 0), ("t", 4096)))
    for offset, count in ((1024, 1), (512, 0)):
        y = Tensor("y", DType.f32, (256,), (1,), Scope.shared, offset=offset)
        call = Brgemm(FlatSlice(rows, ZERO, (16, 1)), FlatSlice(param("w", 256), ZERO, (16, 1)), FlatSlice(acc, ZERO, (16, 1)), 16, 16, 16)
        at_hand = Load(acc, (_ramp(i),))
        nest = loop(i, 16, put(y, _ramp(i), value=at_hand))
        f = Func("f", (param("w", 256),), seq(call, nest), shared_bytes=8192)
        assert len(post_ops(attach_post_ops(f, TARGET))) == count


def _ramp(row: Expr) -> Expr:
    return Ramp(mul(row, 16), 1, 16)


def test_verify_holds_post_ops_to_their_vector() -> None:
    f = attach_post_ops(lowered(product(biased)), TARGET)
    (g,) = (s for s in walk(f.body) if isinstance(s, Brgemm))
    assert g.post_ops is not None
    elsewhere = replace(g, acc=replace(g.acc, offset=Const(16)), m=6)
    for bad, rule in (
        (replace(g, post_ops=replace(g.post_ops, lanes=24)), "whole vectors"),
        (elsewhere, "is not the vector at hand of t"),
        (replace(g, post_ops=replace(g.post_ops, body=loop(no, 2, g.post_ops.body))), "stores alone"),
    ):
        with pytest.raises(VerifyError, match=rule):
            verify(replace(f, body=bad))


def test_weights_that_the_result_may_lie_on_are_read_to_the_end_first() -> None:
    """As many rows as the product is deep: mark-inplace says that y may be given w's memory."""
    f = lowered(product(scaled, m=K))
    assert InplacePair("y", "w") in f.inplace
    assert attach_post_ops(f, TARGET) is f
