"""share: what is used twice is computed once, and means what it meant."""

from __future__ import annotations

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, mod, mul, seq, unary
from benchgraph.tir.cse import eliminate_common_subexpressions
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import BinOp, Expr, Func, Stmt, UnOp
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify
from tests.support.tir_programs import at, i, loop, param, put

X, Y, Z, S = param("x", 8), param("y", 8), param("z", 8), param("s", 8, dtype=DType.s64)


def shared(*values: Expr) -> tuple[list[Stmt], tuple[Expr, ...]]:
    names = iter("abcdefgh")
    return eliminate_common_subexpressions(values, lambda: next(names))


def text(*values: Expr) -> list[str]:
    stmts, made = shared(*values)
    return [print_tir(s) for s in stmts if "alloc" not in print_tir(s)] + [print_tir(v) for v in made]


def times(a: Expr, b: Expr) -> Expr:
    return binary(BinOp.mul, a, b)


def test_an_expression_used_twice_gets_a_register() -> None:
    e = unary(UnOp.exp, at(X, i))
    assert text(times(binary(BinOp.add, e, f32(1.0)), e)) == ["a = exp(x[i])", "(a + 1.0) * a"]


def test_equal_expressions_of_two_objects_are_not_merged() -> None:
    assert text(times(unary(UnOp.exp, at(X, i)), unary(UnOp.exp, at(X, i)))) == ["exp(x[i]) * exp(x[i])"]


def test_several_values_share_too_and_inner_registers_come_first() -> None:
    e = unary(UnOp.exp, at(X, i))
    square = times(e, e)
    assert text(square, square) == ["a = exp(x[i])", "b = a * a", "b", "b"]


def test_loads_casts_of_them_and_index_arithmetic_are_repeated() -> None:
    load, narrow, place = at(X, i), cast(at(S, i), DType.f32), mod(add(mul(i, 8), 3), 4)
    sums = times(times(load, load), times(narrow, narrow))
    assert text(times(sums, cast(binary(BinOp.mul, place, place), DType.f32))) == [
        "x[i] * x[i] * (f32(s[i]) * f32(s[i])) * f32((i*8 + 3)%4*((i*8 + 3)%4))"
    ]


def test_arithmetic_on_loaded_integers_is_not_index_arithmetic() -> None:
    e = add(at(S, i), 1)
    assert text(binary(BinOp.mul, e, e)) == ["a = s[i] + 1", "a * a"]


def test_a_chain_of_squares_is_as_long_as_it_was_written() -> None:
    """As a tree it would have 2**40 leaves."""
    e: Expr = at(X, i)
    for _ in range(40):
        e = binary(BinOp.add, times(e, f32(0.5)), times(e, f32(0.5)))
    stmts, (value,) = eliminate_common_subexpressions((e,), iter(f"r{n}" for n in range(100)).__next__)
    f = Func("f", (X, Y), loop(i, 8, seq(*stmts, put(Y, i, value=value))))
    verify(f)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    interpret(f, [x, y])
    assert np.array_equal(x, y)
