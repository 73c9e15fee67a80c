"""regions: what two iterations of a loop never share is found, and nothing is said to be apart that meets."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.tir.accesses import accesses_of, is_partitioned
from benchgraph.tir.build import add, f32, mul, seq
from benchgraph.tir.ir import Const, Expr, For, Stmt, Var
from benchgraph.tir.visit import bound_names
from tests.support.tir_programs import loop, param, put

Y = param("y", 100000)
V, A, B = Var("v"), Var("a"), Var("b")
Form = tuple[int, int, int, int]  # of v, a and b, and a constant


def index(form: Form) -> Expr:
    *terms, constant = form
    e: Expr = Const(constant)
    for c, var in zip(terms, (V, A, B), strict=True):
        e = add(e, mul(var, c))
    return e


def nest(extents: tuple[int, int, int], *forms: Form) -> For:
    """for v { for a { for b { y[form] = 0 ... } } }"""
    v, a, b = extents
    stores: list[Stmt] = [put(Y, index(f), value=f32(0.0)) for f in forms]
    return loop(V, v, loop(A, a, loop(B, b, seq(*stores))))


def says(nest: For) -> bool:
    return is_partitioned(list(accesses_of("y", nest, {})), "v", bound_names(nest.body))


def apart(extents: tuple[int, int, int], *forms: Form) -> bool:
    """By going through all iterations."""
    v, a, b = map(range, extents)
    touched = [{f[0] * i + f[1] * j + f[2] * k + f[3] for f in forms for j, k in product(a, b)} for i in v]
    return sum(map(len, touched)) == len(set[int]().union(*touched))


@pytest.mark.parametrize(
    ("extents", "forms", "answer"),
    [
        ((4, 3, 16), [(16, 64, 1, 0)], True),  # panels of columns, row by row
        ((4, 3, 16), [(16, 64, 1, 0), (16, 128, 1, 0)], True),  # rows of other operands, at other distances
        ((4, 3, 16), [(16, 64, 1, 0), (16, 64, 1, 1)], False),  # the last column of a panel, and the first of the next
        ((5, 3, 16), [(16, 64, 1, 0)], False),  # the panel that is one too many lies on the next row
        ((4, 3, 16), [(16, 64, 1, 0), (16, 96, 1, 0)], False),  # rows 64 and 96 apart are 32 apart
        ((4, 1, 16), [(16, 24, 1, 0)], True),  # there is one row only
    ],
)
def test_distant_accesses_are_independent(extents: tuple[int, int, int], forms: list[Form], answer: bool) -> None:
    assert says(nest(extents, *forms)) is answer


few = st.integers(0, 12)


@settings(max_examples=400)
@given(st.tuples(*3 * [st.integers(1, 4)]), st.lists(st.tuples(st.integers(1, 8), few, few, few), min_size=1, max_size=2))
def test_accesses_reported_disjoint_never_overlap(extents: tuple[int, int, int], forms: list[Form]) -> None:
    assert apart(extents, *forms) or not says(nest(extents, *forms))
