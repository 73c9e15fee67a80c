"""interchange-loops: stores go along the inner loop; all else stays."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, mod, mul, seq
from benchgraph.tir.ir import Alloc, BinOp, Const, Expr, For, Func, If, InplacePair, Load, LoopKind, Scope, Store, Tensor
from benchgraph.tir.passes.interchange_loops import interchange_loops
from benchgraph.tir.visit import walk
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put

X, Y, SCALE = param("x", 30000), param("y", 30000), param("scale", 300)
TWO = Const(2)


def nest(rows: int, columns: int, stored: Expr, value: Expr, kind: LoopKind = LoopKind.serial) -> Func:
    """for i in rows: for j in columns: y[stored] = value * scale[j]"""
    store = put(Y, stored, value=binary(BinOp.mul, value, at(SCALE, j)))
    return Func("f", (X, SCALE, Y), For(i, Const(rows), loop(j, columns, store), kind))


def at_rows(columns: int) -> Expr:
    return add(mul(i, columns), j)


def at_columns(rows: int) -> Expr:
    return add(i, mul(j, rows))


def after(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = interchange_loops(f, TARGET)
    assert_same(after, f)
    return after


def loops(f: Func) -> list[str]:
    return [s.var.name for s in walk(after(f).body) if isinstance(s, For)]


@pytest.mark.parametrize(("rows", "columns"), [(60, 60), (200, 30), (30, 200)])
def test_stores_go_along_the_inner_loop(rows: int, columns: int) -> None:
    assert loops(nest(rows, columns, at_columns(rows), at(X, at_rows(columns)))) == ["j", "i"]
    assert loops(nest(rows, columns, at_columns(rows), at(X, at_columns(rows)))) == ["j", "i"]


def three(stored: Expr, rows: int = 60, kind: LoopKind = LoopKind.serial, middle: Expr = TWO, columns: int = 16) -> Func:
    """for i in rows: for k in 2: for j in columns: y[stored] = x[i, k, j] * scale[i, k], as groups of an operand that is after."""
    value = binary(BinOp.mul, at(X, add(add(mul(i, 2 * columns), mul(k, columns)), j)), at(SCALE, add(mul(i, 2), k)))
    return Func("f", (X, SCALE, Y), For(i, Const(rows), For(k, middle, loop(j, columns, put(Y, stored, value=value)), kind)))


def across() -> Func:
    """Of the loops over what is stored the outer two read across."""
    value = at(X, add(add(i, mul(k, 60)), mul(j, 6000)))
    store = put(Y, add(add(mul(i, 400), mul(k, 4)), j), value=value)
    return Func("f", (X, Y), loop(i, 60, loop(k, 100, loop(j, 4, store))))


def at_groups(rows: int, apart: int) -> Expr:
    return add(add(i, mul(k, apart)), mul(j, rows))


def test_the_outer_of_three_loops_becomes_the_innermost() -> None:
    assert loops(three(at_groups(60, 16 * 60))) == ["k", "j", "i"]
    assert loops(three(add(add(i, mul(k, 60)), mul(j, 2 * 60)))) == ["k", "j", "i"]


def within() -> Func:
    """Only some turns of the loops store."""
    f = nest(60, 60, at_columns(60), at(X, at_rows(60)))
    store = next(s for s in walk(f.body) if isinstance(s, Store))
    return Func("f", f.params, loop(i, 60, loop(j, 60, If(binary(BinOp.lt, i, j), store))))


def summed() -> Func:
    """What a turn stores the next one reads."""
    return nest(60, 60, at_columns(60), at(Y, add(at_columns(60), 60)))


def running() -> Func:
    """What has been summed so far is stored, and kept in a register in between."""
    acc = Tensor("acc", DType.f32, (1,), (1,), Scope.register)
    body = put(acc, 0, value=binary(BinOp.add, at(acc, 0), at(X, at_rows(60)))), put(Y, at_columns(60), value=at(acc, 0))
    return Func("f", (X, Y), seq(Alloc(acc), put(acc, 0, value=f32(0.0)), loop(i, 60, loop(j, 60, *body))))


def masked() -> Func:
    return nest(60, 60, at_columns(60), Load(X, (at_rows(60),), binary(BinOp.lt, j, Const(3))))


@pytest.mark.parametrize(
    "f",
    [
        nest(100, 70, at_rows(70), at(X, at_columns(100))),
        nest(256, 77, at_rows(77), at(X, at_rows(77))),
        nest(60, 60, at_columns(60), at(X, at_rows(60)), LoopKind.parallel),
        nest(60, 60, at_columns(40), at(X, at_rows(60))),
        nest(60, 60, mul(at_columns(60), 2), at(X, at_rows(60))),
        nest(3, 60, at_columns(3), at(X, at_rows(60))),
        nest(60, 3, at_columns(60), at(X, at_rows(3))),
        within(),
        summed(),
        running(),
        masked(),
        three(at_groups(60, 8 * 60)),
        three(at_groups(60, 0)),
        three(add(at_groups(60, -16 * 60), 16 * 60)),
        three(at_groups(60, 16 * 60), kind=LoopKind.parallel),
        three(at_groups(60, 16 * 60), middle=binary(BinOp.min, TWO, add(i, 1))),
        three(at_groups(3, 16 * 3), rows=3),
        across(),
        nest(60, 60, add(at_columns(61), mod(i, 2)), at(X, at_rows(60))),
    ],
    ids=[
        "as they are stored",
        "nothing across",
        "in parallel",
        "rows overlap",
        "steps of two",
        "short rows",
        "few rows",
        "within",
        "summed",
        "running",
        "masked",
        "middle ones overlap",
        "middle ones store again",
        "middle ones go back",
        "middle ones in parallel",
        "middle ones depend on the outer one",
        "three of short rows",
        "three as they are stored",
        "uneven steps",
    ],
)
def test_other_loops_are_unchanged(f: Func) -> None:
    assert after(f) is f


def test_loops_over_aliasing_tensors_are_unchanged() -> None:
    f = nest(60, 60, at_columns(60), at(X, at_rows(60)))
    over = Func(f.name, f.params, f.body, inplace=(InplacePair("y", "x"),))
    assert interchange_loops(over, TARGET) is over


def test_every_store_must_be_strided() -> None:
    f = nest(60, 60, at_columns(60), at(X, at_rows(60)))
    store, z = next(s for s in walk(f.body) if isinstance(s, Store)), param("z", 3600, dtype=DType.bf16)
    other = put(z, at_rows(60), value=cast(f32(1.0), DType.bf16))
    both = Func("f", (*f.params, z), loop(i, 60, loop(j, 60, store, other)))
    assert after(both) is both
