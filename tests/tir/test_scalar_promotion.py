"""Temporaries of one block become registers in one walk: exactly those that it stores to once, and loads from where it stored."""

from __future__ import annotations

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, f32, seq, unary
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Const, Func, If, Load, Pack, Prefetch, Ramp, Scope, Slice, Stmt, Store, UnOp, tensor
from benchgraph.tir.scalar_promotion import promote_scalars
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify
from benchgraph.tir.visit import walk
from tests.support.tir_programs import PROGRAMS, ROWS_COLS, ZERO, assert_same, at, i, j, k, loop, parallel, param, put

X, Y = param("x", 64, 64), param("y", 64, 64)
T = tensor("t", DType.f32, (64, 64))
FILL, USE = put(T, i, j, value=unary(UnOp.exp, at(X, i, j))), put(Y, i, j, value=at(T, i, j))
MASK = binary(BinOp.lt, at(X, i, j), f32(0.5))
ROW = Slice(T, (i, ZERO), ROWS_COLS)


def promoted(*body: Stmt) -> Func:
    f = Func("f", (X, Y), seq(Alloc(T), *body))
    after = Func("f", (X, Y), promote_scalars(f.body))
    verify(after)
    return after


def registers(f: Func) -> set[str]:
    return {s.tensor.name for s in walk(f.body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}


def test_values_that_a_block_stores_and_loads_become_registers() -> None:
    after = promoted(parallel(i, 64, loop(j, 64, FILL, USE)))
    assert_same(after, Func("f", (X, Y), seq(Alloc(T), parallel(i, 64, loop(j, 64, FILL, USE)))))
    assert print_tir(after) == (
        "func f(x: f32[64,64], y: f32[64,64]) {\n"
        "  {\n"
        "    parallel for i in 64 {\n"
        "      for j in 64 {\n"
        "        alloc t: f32 register\n"
        "        t = exp(x[i, j])\n"
        "        y[i, j] = t\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}"
    )


def test_an_index_may_be_loaded_from_another_temporary() -> None:
    table, place = tensor("table", DType.s64, (64, 64)), tensor("place", DType.s64, (64, 64))
    look_up = [put(place, i, j, value=at(table, i, j)), put(Y, i, j, value=Load(X, (i, at(place, i, j))))]
    f = Func("f", (X, Y), seq(Alloc(table), Alloc(place), loop(i, 64, loop(j, 64, put(table, i, j, value=j), *look_up))))
    after = Func("f", (X, Y), promote_scalars(f.body))
    verify(after)
    assert_same(after, f)
    assert registers(after) == {"table", "place"}


@pytest.mark.parametrize(
    "body",
    [
        loop(j, 64, FILL, put(Y, i, j, value=at(T, i, Const(0)))),
        loop(j, 64, USE, FILL),
        loop(j, 64, FILL, FILL, USE),
        loop(j, 64, put(T, i, j, value=add(at(T, i, j), at(X, i, j))), USE),
        seq(loop(j, 64, FILL), loop(j, 64, USE)),
        loop(j, 64, FILL, loop(k, 2, USE)),
        loop(j, 64, seq(FILL, USE), If(binary(BinOp.lt, j, Const(3)), put(Y, i, j, value=at(T, i, j)))),
        loop(j, 64, If(binary(BinOp.lt, j, Const(3)), FILL), USE),
        loop(j, 64, Store(T, (i, j), f32(1.0), MASK), USE),
        loop(j, 64, FILL, put(Y, i, j, value=Load(T, (i, j), MASK))),
        loop(j, 64, FILL, USE, Brgemm(ROW, ROW, Slice(Y, (i, ZERO), ROWS_COLS), 1, 1, 1)),
        loop(j, 64, FILL, USE, Brgemm(Slice(X, (i, ZERO), ROWS_COLS), Slice(X, (i, ZERO), ROWS_COLS), ROW, 1, 1, 1)),
        loop(j, 64, FILL, USE, Pack(ROW, Slice(Y, (i, ZERO), ROWS_COLS), 1, 1)),
        loop(j, 64, FILL, USE, Prefetch(T, (i, j), 1)),
        loop(j, 64, FILL),
        seq(Store(T, (i, Ramp(ZERO, 1, 16)), Load(X, (i, Ramp(ZERO, 1, 16)))), put(Y, i, 0, value=at(T, i, 0))),
    ],
    ids=[
        "at another place", "loaded before", "stored twice", "stored from itself", "in two loops", "loaded in a loop", "loaded in a branch",
        "stored in a branch", "stored in part", "loaded in part", "a product's operand", "a product's result", "packed", "fetched",
        "never loaded", "a vector",
    ],
)  # fmt: skip
def test_other_temporaries_are_not_promoted(body: Stmt) -> None:
    before = Func("f", (X, Y), seq(Alloc(T), loop(i, 64, body)))
    assert promote_scalars(before.body) is before.body


def test_an_element_whose_index_may_have_changed_is_not_promoted() -> None:
    """The store between the two accesses changes where the second one is."""
    p = tensor("p", DType.s64, (1,))
    moved = [put(T, i, at(p, 0), value=f32(1.0)), put(p, 0, value=Const(5)), put(Y, i, j, value=at(T, i, at(p, 0)))]
    body = seq(Alloc(T), Alloc(p), put(p, 0, value=Const(0)), loop(i, 64, loop(j, 64, *moved)))
    assert registers(Func("f", (X, Y), promote_scalars(body))) == set()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_keep_their_results(program) -> None:
    f = program()
    after = Func(f.name, f.params, promote_scalars(f.body))
    verify(after)
    assert_same(after, f)
    assert promote_scalars(after.body) is after.body
