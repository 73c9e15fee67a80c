"""attach-post-ops: what may run on register tiles does, what may not stays where it is, and never is anything else computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, unary
from benchgraph.tir.ir import (
    BinOp,
    Brgemm,
    Const,
    Expr,
    Func,
    InplacePair,
    PostOps,
    Stmt,
    UnOp,
)
from benchgraph.tir.passes import run
from benchgraph.tir.passes.attach_post_ops import MOST_INSTRUCTIONS, attach_post_ops
from benchgraph.tir.verify import VerifyError, verify
from benchgraph.tir.visit import walk
from tests.support.post_op_programs import HOLDS, K, M, N, Operands, biased, product, scaled
from tests.support.table import all_hold
from tests.support.tensor_ir import before
from tests.support.tir_programs import TARGET, assert_same, at, loop, no, param, put

BEFORE = before("attach-post-ops")


def test_narrow_results_larger_than_caches_are_computed_in_registers() -> None:
    f = product(scaled, m=32, y=param("y", 32, N, dtype=DType.bf16))
    assert len(post_ops(run(f, replace(TARGET, llc_bytes=1)))) == 1


def lowered(f: Func) -> Func:
    return run(f, TARGET, pipeline=BEFORE)


def post_ops(f: Func) -> list[PostOps]:
    return [s.post_ops for s in walk(f.body) if isinstance(s, Brgemm) and s.post_ops is not None]


def test_post_ops_run_on_register_tiles() -> None:
    def check(f: Func) -> None:
        before = lowered(f)
        after = attach_post_ops(before, TARGET)
        assert len(post_ops(after)) == 1
        verify(after)
        assert_same(after, f)
        assert attach_post_ops(after, TARGET) is after

    all_hold(check, {name: (f,) for name, f in HOLDS.items()})


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
    for _ in range(MOST_INSTRUCTIONS // 2):
        value = binary(BinOp.add, value, at(o.c, n))
    return [put(o.y, m, n, value=value)]


def long_for_a_row(o: Operands, m: Expr, n: Expr) -> list[Stmt]:
    value: Expr = at(o.r, m)
    for _ in range(MOST_INSTRUCTIONS):
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
    "stored as it is worked out": product(long_for_a_row),
    "part of a vector": product(scaled, n=40),
    "stores that follow one another": product(twice_at_one_place),
    "acc that is added to": product(scaled, accumulate=True),
    "acc that is read later": product(scaled, is_read=True),
    "what the product reads": product(into_the_weights, m=K),
}


def test_other_post_ops_are_not_attached() -> None:
    def check(f: Func) -> None:
        before = lowered(f)
        assert attach_post_ops(before, TARGET) is before

    all_hold(check, {name: (f,) for name, f in STAYS.items()})


def test_a_result_that_may_alias_an_operand_is_stored_after_the_product() -> None:
    f = lowered(product(scaled, n=16, m=6))
    on_rows = replace(f, inplace=(InplacePair("y", "x"),))
    assert attach_post_ops(on_rows, TARGET) is on_rows
    assert post_ops(attach_post_ops(replace(f, inplace=(InplacePair("y", "r"),)), TARGET)) == []  # r is read at other places
    assert len(post_ops(attach_post_ops(f, TARGET))) == 1


def test_verify_checks_the_vector_of_post_ops() -> None:
    f = attach_post_ops(lowered(product(biased)), TARGET)
    (g,) = (s for s in walk(f.body) if isinstance(s, Brgemm))
    assert g.post_ops is not None
    elsewhere = replace(g, acc=replace(g.acc, index=(Const(16),)), m=6)
    for bad, rule in (
        (replace(g, post_ops=replace(g.post_ops, lanes=24)), "whole vectors"),
        (elsewhere, "is not the current vector of t"),
        (replace(g, post_ops=replace(g.post_ops, body=loop(no, 2, g.post_ops.body))), "stores alone"),
    ):
        with pytest.raises(VerifyError, match=rule):
            verify(replace(f, body=bad))


def test_weights_that_may_alias_the_result_are_read_before_it_is_written() -> None:
    """As many rows as the product is deep: mark-inplace says that y may be given w's memory."""
    f = lowered(product(scaled, m=K))
    assert InplacePair("y", "w") in f.inplace
    assert attach_post_ops(f, TARGET) is f
