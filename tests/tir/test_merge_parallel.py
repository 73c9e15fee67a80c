"""merge-parallel and collapse-parallel: siblings merge only when no iteration needs another, nests become one loop."""

from __future__ import annotations

import pytest

from benchgraph.tir.build import add, binary, f32, minimum, mul, seq, sub
from benchgraph.tir.ir import BinOp, Brgemm, Expr, For, Func, LoopKind, Slice, Stmt
from benchgraph.tir.passes.collapse_parallel import collapse_parallel
from benchgraph.tir.passes.merge_parallel import merge_parallel
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import walk
from tests.support.tir_programs import (
    ROWS_COLS,
    TARGET,
    ZERO,
    assert_same,
    at,
    i,
    j,
    k,
    loop,
    mo,
    p,
    parallel,
    param,
    put,
    q,
    r,
    two_stages,
)

X, Y, T = param("x", 8, 8), param("y", 8, 8), param("t", 8, 8)


def merged(*body: Stmt, tasks: int = 1) -> Func:
    f = Func("f", (X, Y, T), seq(*body), tasks=tasks)
    after = collapse_parallel(merge_parallel(f, TARGET), TARGET)
    assert_same(after, f)
    return after


def loops(f: Func) -> list[str]:
    return [print_tir(s).splitlines()[0] for s in walk(f.body) if isinstance(s, For)]


def copy(src: Expr, a: Expr, b: Expr) -> Stmt:
    return put(T, a, b, value=binary(BinOp.mul, src, f32(2.0)))


def use(a: Expr, b: Expr, x: Expr) -> Stmt:
    return put(Y, a, b, value=binary(BinOp.add, x, f32(1.0)))


def test_second_loop_that_reads_whole_rows_keeps_the_inner_loops_apart() -> None:
    """The outer loops have iterations enough, and the inner ones become serial."""
    first = parallel(i, 8, parallel(j, 8, copy(at(X, i, j), i, j)))
    second = parallel(p, 8, parallel(q, 8, use(p, q, at(T, p, sub(7, q)))))
    assert loops(merged(first, second, tasks=8)) == ["parallel for i in 8 {", "for j in 8 {", "for q in 8 {"]


def test_merging_keeps_the_fewest_tasks() -> None:
    first = parallel(i, 8, parallel(j, 8, copy(at(X, i, j), i, j)))
    second = parallel(p, 8, parallel(q, 8, use(p, q, at(T, p, sub(7, q)))))
    assert loops(merged(first, second, tasks=9)) == ["parallel for i_j in 64 {", "parallel for p_q in 64 {"]


def test_merged_loops_keep_the_fewest_tasks_beside_a_third() -> None:
    """The first two have their inner loops in common, the last has not."""
    first = parallel(i, 8, parallel(j, 8, put(T, i, j, value=at(X, i, j))))
    second = parallel(i, 8, parallel(j, 8, put(Y, i, j, value=at(T, i, j))))
    third = parallel(p, 8, parallel(q, 8, put(X, p, q, value=at(Y, p, sub(7, q)))))
    assert loops(merged(first, second, third, tasks=9)) == ["parallel for i_j in 64 {", "parallel for p_q in 64 {"]


@pytest.mark.parametrize(
    ("a", "b"),
    [(sub(7, p), q), (q, p), (mul(p, 0), q)],
    ids=["reversed", "transposed", "always the first row"],
)
def test_dependent_siblings_stay_apart(a: Expr, b: Expr) -> None:
    first = parallel(i, 8, loop(j, 8, copy(at(X, i, j), i, j)))
    second = parallel(p, 8, loop(q, 8, use(p, q, at(T, a, b))))
    assert len([line for line in loops(merged(first, second)) if line.startswith("parallel")]) == 2


def test_second_loop_that_overwrites_what_the_first_reads_stays_apart() -> None:
    first = parallel(i, 8, loop(j, 8, use(i, j, at(T, sub(7, i), j))))
    second = parallel(p, 8, loop(q, 8, copy(at(X, p, q), p, q)))
    assert len([line for line in loops(merged(first, second)) if line.startswith("parallel")]) == 2


def test_blocks_of_rows_merge_also_through_a_microkernel() -> None:
    call = Brgemm(
        Slice(X, (mul(mo, 2), ZERO), ROWS_COLS), Slice(X, (ZERO, ZERO), ROWS_COLS), Slice(T, (mul(mo, 2), ZERO), ROWS_COLS), 2, 8, 8
    )
    second = parallel(p, 4, loop(i, minimum(2, sub(8, mul(p, 2))), loop(j, 8, use(add(mul(p, 2), i), j, at(T, add(mul(p, 2), i), j)))))
    assert loops(merged(parallel(mo, 4, call), second))[0] == "parallel for mo in 4 {"
    assert len(loops(merged(parallel(mo, 4, call), second))) == 3


def test_overlapping_blocks_stay_apart() -> None:
    """Blocks of 3 rows, 2 apart: neighbours share a row."""
    first = parallel(i, 3, loop(k, 3, loop(j, 8, copy(at(X, i, j), add(mul(i, 2), k), j))))
    second = parallel(p, 3, loop(r, 3, loop(q, 8, use(add(mul(p, 2), r), q, at(T, add(mul(p, 2), r), q)))))
    f = Func("f", (X, Y, T), seq(first, second))
    assert merge_parallel(f, TARGET) is f


def test_merged_variable_does_not_capture_an_inner_one() -> None:
    first = parallel(i, 8, loop(j, 8, copy(at(X, i, j), i, j)))
    second = parallel(j, 8, loop(i, 8, use(j, i, at(T, j, i))))
    f = merged(first, second)
    assert len([line for line in loops(f) if line.startswith("parallel")]) == 1


def test_parallel_loop_inside_serial_code_of_another_becomes_serial() -> None:
    inner = parallel(j, 8, copy(at(X, i, j), i, j))
    f = merged(parallel(i, 8, put(Y, i, 0, value=f32(0.0)), inner))
    assert [s.kind for s in walk(f.body) if isinstance(s, For)] == [LoopKind.parallel, LoopKind.serial]


def test_different_extents_stay_apart() -> None:
    first, second = parallel(i, 8, copy(at(X, i, 0), i, ZERO)), parallel(p, 4, use(p, ZERO, at(T, p, 0)))
    f = Func("f", (X, Y, T), seq(first, second))
    assert merge_parallel(f, TARGET) is f


def test_two_stages_become_one_loop() -> None:
    assert loops(merge_parallel(two_stages(), TARGET)).count("parallel for i in 6 {") == 1
