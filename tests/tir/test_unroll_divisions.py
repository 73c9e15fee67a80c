"""unroll-divisions: short loops that look up places by division become straight code; all else stays."""

from __future__ import annotations

import pytest

from benchgraph.tir.build import add, binary, f32, floordiv, minimum, mod, mul, seq, sub
from benchgraph.tir.ir import BinOp, Expr, For, Func, If, LoopKind, Store
from benchgraph.tir.passes.unroll_divisions import MOST_STORES, unroll_divisions
from benchgraph.tir.visit import exprs, walk, walk_expr
from tests.support.tir_programs import TARGET, assert_same, at, i, j, k, loop, param, put


def lookup(outputs: Expr | int, size: int, *, rows: int = 3, kind: LoopKind = LoopKind.serial) -> Func:
    """y[i, j] = x[i, j'], the nearest element."""
    most = 200
    x, y = param("x", rows * size), param("y", rows * most)
    step, unit = 2 * size, 2 * (outputs if isinstance(outputs, int) else most)
    place = minimum(floordiv(add(mul(j, step), 1), unit), size - 1) if step * most // unit >= size else floordiv(add(mul(j, step), 1), unit)
    line = For(j, add(0, outputs), put(y, add(mul(i, most), j), value=at(x, add(mul(i, size), place))), kind)
    return Func("lookup", (x, y), loop(i, rows, line))


def unrolled(f: Func) -> Func:
    """What the pass makes of it computes the same."""
    after = unroll_divisions(f, TARGET)
    assert_same(after, f)
    return after


def stays(f: Func) -> bool:
    return unrolled(f) is f


def divides(f: Func) -> bool:
    return any(getattr(d, "op", None) in (BinOp.floordiv, BinOp.mod) for s in walk(f.body) for e in exprs(s) for d in walk_expr(e))


def stores(f: Func) -> list[Store]:
    return [s for s in walk(f.body) if isinstance(s, Store)]


@pytest.mark.parametrize("outputs", [2, 3, MOST_STORES])
def test_a_line_is_unrolled_into_one_store_for_each_output(outputs: int) -> None:
    after = unrolled(lookup(outputs, 7))
    assert len(stores(after)) == outputs
    assert not divides(after)


def test_conditions_of_taps_are_folded_with_the_line() -> None:
    """Whether an output takes a share of an element, as in the gradient of interpolation."""
    x, y = param("x", 3 * 12), param("y", 3 * 9)
    behind = mod(add(mul(j, 7), 2), 5)
    tap = put(y, add(mul(i, 9), j), value=binary(BinOp.add, at(y, add(mul(i, 9), j)), at(x, add(mul(i, 12), add(j, k)))))
    clear = loop(j, 9, put(y, add(mul(i, 9), j), value=f32(0.0)))
    taken = If(binary(BinOp.lt, sub(mul(k, 5), behind), add(0, 3)), tap)
    after = unrolled(Func("taps", (x, y), loop(i, 3, seq(clear, loop(k, 2, loop(j, 9, taken))))))
    assert not any(isinstance(s, If) for s in walk(after.body))
    assert not divides(after)


def test_loops_that_can_be_vectorised_are_unchanged() -> None:
    """One element for each vector of sixteen."""
    x, y = param("x", 4), param("y", 64)
    assert stays(Func("spread", (x, y), loop(j, 64, put(y, j, value=at(x, floordiv(j, 16))))))


@pytest.mark.parametrize(
    "f",
    [
        lookup(11, 7, kind=LoopKind.parallel),
        lookup(minimum(i, 9), 7),
        lookup(MOST_STORES + 1, 67),
    ],
    ids=["in parallel", "of unknown extent", "long"],
)
def test_other_loops_are_unchanged(f: Func) -> None:
    assert stays(f)


def test_reorders_are_unchanged() -> None:
    x, y = param("x", 40), param("y", 40)
    assert stays(Func("turn", (x, y), loop(j, 40, put(y, add(mul(mod(j, 5), 8), floordiv(j, 5)), value=at(x, j)))))


def test_a_function_without_divisions_is_unchanged() -> None:
    x, y = param("x", 9), param("y", 9)
    f = Func("plain", (x, y), loop(j, 9, put(y, j, value=at(x, j))))
    assert unroll_divisions(f, TARGET) is f
