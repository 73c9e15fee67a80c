"""simplify: canonical indices, decided branches, loops of one and no iterations."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.tir.build import add, binary, cast, f32, floordiv, minimum, mod, mul, seq, sub
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Alloc, Binary, BinOp, Const, Expr, Func, If, Ramp, Select, Seq, Var, tensor
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import substitute
from tests.support.tir_programs import TARGET, at, i, j, k, loop, p, param, put, split_and_join

x = at(param("x", 8), i)
flat_64, flat_83 = add(mul(i, 64), j), add(mul(i, 4096), j)
RANGES = {"i": (0, 7), "j": (0, 63), "k": (0, 2), "c": (0, 7), "e": (0, 4095)}
element = add(mul(Var("c"), 4096), Var("e"))  # of a nest that was cut into chunks


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (add(add(mul(i, 8), 3), mul(i, 2)), "i*10 + 3"),
        (add(add(j, 1), mul(i, 64)), "i*64 + j + 1"),
        (sub(add(i, j), i), "j"),
        (sub(sub(Const(9), i), 10), "-1 - i"),
        (mul(add(i, 2), 4), "i*4 + 8"),
        (floordiv(add(mul(i, 64), j), 64), "i"),
        (mod(add(mul(i, 64), j), 64), "j"),
        (mod(add(mul(i, 65), j), 64), "(i*65 + j)%64"),  # not (i + j)%64: (i*65 + j)//64 is next to it often, and the two recombine
        (floordiv(add(mul(i, 64), add(j, 1)), 64), "i + (j + 1)//64"),
        (floordiv(add(mul(i, 64), j), 128), "i//2"),  # j is below 64
        (mod(add(mul(i, 64), j), 128), "i%2*64 + j"),
        (add(mul(floordiv(flat_64, 128), 128), mod(flat_64, 128)), "i*64 + j"),
        (floordiv(add(mul(i, 64), add(j, 1)), 128), "(i*64 + j + 1)//128"),
        (mod(add(mul(i, 64), sub(j, 1)), 128), "(i*64 + j + 127)%128"),
        (floordiv(mul(i, 32), 64), "i//2"),
        (mod(mul(i, 32), 64), "i%2*32"),
        (floordiv(floordiv(j, 4), 8), "j//32"),
        (mod(mod(j, 32), 8), "j%8"),
        (floordiv(mod(j, 32), 8), "j//8%4"),
        (floordiv(mod(j, 32), 7), "j%32//7"),
        (add(add(mul(mod(j, 5), 3), mul(floordiv(mod(j, 15), 5), 15)), mul(floordiv(j, 15), 45)), "j*3"),
        (add(mul(floordiv(j, 4), 4), mod(j, 4)), "j"),
        (add(mul(floordiv(j, 4), 128), mul(mod(j, 4), 32)), "j*32"),
        (add(mul(floordiv(flat_83, 83), 83), mod(flat_83, 83)), "i*4096 + j"),
        (add(add(mul(floordiv(j, 35), 35), mul(mod(floordiv(j, 7), 5), 7)), mod(j, 7)), "j"),
        (add(mul(floordiv(j, 35), 35), mul(mod(floordiv(j, 7), 4), 7)), "j//35*35 + j//7%4*7"),  # 4*7 is not 35
        (add(add(mul(floordiv(element, 96), 96), mul(mod(floordiv(element, 32), 3), 32)), mod(element, 32)), "c*4096 + e"),
        (add(mul(floordiv(j, 7), 7), mod(add(j, 1), 7)), "(j + 1)%7 + j//7*7"),
        (minimum(j, 64), "j"),
        (minimum(j, add(i, 64)), "j"),
        (minimum(32, sub(90, mul(k, 32))), "min(32, 90 - k*32)"),
        (minimum(32, sub(96, mul(k, 32))), "32"),
        (binary(BinOp.lt, i, Const(8)), "true"),
        (binary(BinOp.ge, i, Const(8)), "false"),
        (binary(BinOp.eq, i, Const(7)), "i == 7"),
        (binary(BinOp.and_, binary(BinOp.lt, i, Const(8)), binary(BinOp.lt, i, j)), "i < j"),
        (Select(binary(BinOp.lt, i, Const(8)), x, f32(0.0)), "x[i]"),
        (binary(BinOp.mul, x, f32(1.0)), "x[i]"),
        (binary(BinOp.mul, f32(1.0), x), "x[i]"),
        (binary(BinOp.sub, x, f32(0.0)), "x[i]"),
        (binary(BinOp.add, x, f32(0.0)), "x[i] + 0.0"),  # -0.0 + 0.0 is 0.0
        (binary(BinOp.sub, x, f32(-0.0)), "x[i] - -0.0"),
        (binary(BinOp.div, f32(1.0), f32(3.0)), "0.33333334"),
        (binary(BinOp.max, f32(math.nan), f32(1.0)), "1.0"),
        (binary(BinOp.maximum, f32(math.nan), f32(1.0)), "nan"),
        (binary(BinOp.minimum, f32(2.0), f32(1.0)), "1.0"),
        (cast(Const(3), DType.f32), "3.0"),
        (cast(Ramp(j, 4, 16), DType.s32), "s32(j):+16*4"),
        (cast(Ramp(mul(k, 2**30), 1, 16), DType.s32), "s32(k*1073741824:+16)"),  # the last lanes saturate
        (cast(Ramp(sub(j, 64), 1, 16), DType.s32), "s32(j - 64):+16"),
        (cast(Ramp(Var("n"), 1, 16), DType.s32), "s32(n:+16)"),  # nothing is known of n
    ],
)  # fmt: skip
def test_expression(e: Expr, text: str) -> None:
    assert print_tir(Simplifier(RANGES)(e)) == text


def test_nothing_simpler_is_the_same_object() -> None:
    e = add(mul(i, 64), j)
    assert Simplifier(RANGES)(e) is e


EXTENTS = {"i": 3, "j": 5, "k": 4}
_leaves = st.one_of(st.sampled_from([i, j, k]), st.integers(-9, 9).map(Const))


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    free = st.sampled_from([BinOp.add, BinOp.sub, BinOp.mul, BinOp.min, BinOp.max])
    divided = st.builds(Binary, st.sampled_from([BinOp.floordiv, BinOp.mod]), inner, st.integers(1, 12).map(Const))
    return st.one_of(
        st.builds(Binary, free, inner, inner), st.builds(Binary, st.just(BinOp.mul), inner, st.integers(-8, 8).map(Const)), divided
    )


@settings(max_examples=150, derandomize=True)
@given(st.recursive(_leaves, _grow, max_leaves=8))
def test_simplified_index_has_the_same_value_everywhere(e: Expr) -> None:
    simple = Simplifier({name: (0, extent - 1) for name, extent in EXTENTS.items()})(e)
    for point in itertools.product(*(range(n) for n in EXTENTS.values())):
        values = {name: Const(v) for name, v in zip(EXTENTS, point, strict=True)}
        assert value(substitute(simple, values)) == value(substitute(e, values))


def value(e: Expr) -> int:
    """An independent evaluation of a closed index expression."""
    if isinstance(e, Const):
        return int(e.value)
    assert isinstance(e, Binary)
    a, b = value(e.a), value(e.b)
    return {
        BinOp.add: lambda: a + b, BinOp.sub: lambda: a - b, BinOp.mul: lambda: a * b, BinOp.min: lambda: min(a, b),
        BinOp.max: lambda: max(a, b), BinOp.floordiv: lambda: a // b, BinOp.mod: lambda: a % b,
    }[e.op]()  # fmt: skip


def test_nothing_to_do_returns_the_same_function() -> None:
    once = simplify(split_and_join(), TARGET)
    assert simplify(once, TARGET) is once


def test_branch_narrows_ranges() -> None:
    """Where k < 3 all 32 rows are there; in the last block only 4."""
    y = param("y", 100)
    rows = minimum(32, sub(100, mul(k, 32)))
    fill = loop(i, rows, put(y, add(mul(k, 32), i), value=f32(0.0)))
    f = simplify(Func("f", (y,), loop(k, 4, If(binary(BinOp.lt, k, Const(3)), fill, fill))), TARGET)
    text = print_tir(f)
    assert "for i in 32 {" in text
    assert "for i in 4 {" in text


def test_block_with_a_declaration_keeps_its_scope() -> None:
    y, t = param("y", 4), tensor("t", DType.f32, (4,))
    inner = loop(p, 1, Alloc(t), put(t, 0, value=f32(1.0)), put(y, 0, value=at(t, 0)))
    f = simplify(Func("f", (y,), seq(inner, put(y, 1, value=f32(2.0)))), TARGET)
    assert isinstance(f.body, Seq)
    assert isinstance(f.body.stmts[0], Seq)


def test_loop_variable_of_the_same_name_in_a_sibling_loop_has_its_own_range() -> None:
    y = param("y", 100)
    small = loop(i, 4, put(y, minimum(i, 10), value=f32(0.0)))
    large = loop(i, 100, put(y, minimum(Var("i"), 10), value=f32(0.0)))
    text = print_tir(simplify(Func("f", (y,), seq(small, large)), TARGET))
    assert "y[i] = " in text
    assert "y[min(i, 10)] = " in text
