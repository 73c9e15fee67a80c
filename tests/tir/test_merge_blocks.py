"""merge-blocks: loops over the same memory become one, block by block, where the function says that they share it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.tir.build import add, binary, f32, floordiv, mul, seq, sub
from benchgraph.tir.ir import Alloc, BinOp, Const, Expr, For, Func, LoopKind, Shared, Stmt, tensor
from benchgraph.tir.passes.merge_blocks import merge_blocks
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import statements, walk, written
from tests.support.tir_programs import F32, TARGET, assert_same, at, i, j, loop, p, parallel, param, put, q

ROWS, TASKS, COLUMNS = 96, 32, 20
X, Y, Z = param("x", ROWS * COLUMNS), param("y", ROWS * COLUMNS + 1), param("z", TASKS * COLUMNS)
T = tensor("t", F32, (COLUMNS,))
BLOCKS = Shared(("x",), TASKS)
ROW_BY_ROW = replace(BLOCKS, by_rows=True)


def row(by: Expr, columns: Expr) -> Expr:
    return add(mul(by, COLUMNS), columns)


def rows(count: int = ROWS) -> Stmt:
    """Each row of y is that of x, doubled."""
    place = row(i, j)
    return parallel(i, count, loop(j, COLUMNS, put(Y, place, value=binary(BinOp.mul, at(X, place), f32(2.0)))))


def sums(*more: Expr, each: int = 3) -> Stmt:
    """Each row of z is the sum of some rows of x times more."""
    z, found = row(p, j), at(X, row(add(mul(p, each), q), j))
    for value in more:
        found = binary(BinOp.mul, found, value)
    added = put(Z, z, value=binary(BinOp.add, at(Z, z), found))
    return parallel(p, TASKS, loop(j, COLUMNS, put(Z, z, value=f32(0.0))), loop(q, each, loop(j, COLUMNS, added)))


def sum_of_row() -> Stmt:
    """A row of x, added to z."""
    return loop(j, COLUMNS, put(Z, row(p, j), value=binary(BinOp.add, at(Z, row(p, j)), at(X, row(add(mul(p, 3), q), j)))))


def function(*body: Stmt, shared: Shared = ROW_BY_ROW) -> Func:
    return Func("f", (X, Y, Z), seq(*body), shared=(shared,))


def merged(f: Func) -> Func:
    return merge_blocks(f, TARGET)


@pytest.mark.parametrize("body", [(rows(), sums()), (sums(), rows())], ids=["rows first", "sums first"])
def test_merged_loops_have_the_smaller_number_of_tasks(body: tuple[Stmt, ...]) -> None:
    f = function(*body, shared=BLOCKS)
    after = merged(f)
    assert_same(after, f)
    assert merged(after) is after
    assert row_loops(after) == 2


def row_loops(f: Func) -> int:
    """Loops over the rows of a task."""
    return sum(isinstance(s, For) and s.extent == Const(ROWS // TASKS) for s in walk(f.body))


@pytest.mark.parametrize("body", [(rows(), sums()), (sums(), rows())], ids=["rows first", "sums first"])
def test_loops_over_rows_are_fused(body: tuple[Stmt, ...]) -> None:
    f = function(*body)
    after = merged(f)
    assert_same(after, f)
    assert row_loops(after) == 1


@pytest.mark.parametrize(
    "body",
    [
        (rows(), sums(at(Y, row(add(mul(p, 3), sub(2, q)), j)))),  # the rows of a task, the last one first
        (sums(), rows(), sums(at(Y, row(add(mul(p, 3), q), j)))),  # what a task begins with is what the rows are for
        (rows(), parallel(p, TASKS, loop(j, COLUMNS, put(Y, row(mul(p, 3), j), value=f32(0.0))), loop(q, 3, sum_of_row()))),
    ],
    ids=["rows in another order", "three loops", "a beginning that the rows would undo"],
)
def test_rows_that_depend_on_other_rows_are_not_fused(body: tuple[Stmt, ...]) -> None:
    f = function(*body)
    after = merged(f)
    assert after is not f
    assert_same(after, f)
    assert row_loops(after) >= 2


def test_declarations_between_the_loops_come_first() -> None:
    after = merged(function(rows(), Alloc(T), sums()))
    assert print_tir(after.body).startswith("alloc t")
    assert sum(isinstance(s, For) and s.kind is LoopKind.parallel for s in walk(after.body)) == 1


def test_a_later_loop_may_read_what_the_same_block_wrote() -> None:
    f = function(rows(), sums(at(Y, row(add(mul(p, 3), q), j))))
    assert_same(merged(f), f)
    assert merged(f) is not f


def test_of_three_loops_the_two_that_share_most_merge_first() -> None:
    """What is read by the first and the second, in other tasks, is less than what the second and the third read."""
    few = param("few", ROWS * COLUMNS // 2)
    begun = parallel(p, 48, loop(q, COLUMNS, put(few, row(p, q), value=f32(0.5))))
    place = row(i, j)
    doubled = put(Y, place, value=binary(BinOp.mul, at(X, place), at(few, add(mul(i, COLUMNS // 2), floordiv(j, 2)))))
    shared = Shared(("few",), 48), ROW_BY_ROW
    f = Func("f", (X, Y, Z, few), seq(begun, parallel(i, ROWS, loop(j, COLUMNS, doubled)), sums()), shared=shared)
    after = merged(f)
    assert_same(after, f)
    spread = [s for s in statements(after.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert [(s.extent, {t.name for t in written(s)}) for s in spread] == [(Const(48), {"few"}), (Const(TASKS), {"y", "z"})]


STAYS = {
    "a block reads what another one wrote": ((rows(), sums(at(Y, row(add(mul(p, 3), q), add(j, 1))))), BLOCKS),
    "they share something else": ((rows(), sums()), Shared(("y",), TASKS)),
    "blocks are others": ((rows(), sums()), Shared(("x",), TASKS // 2)),
    "tasks read other memory": ((rows(TASKS), sums()), BLOCKS),
    "tasks cut rows otherwise": ((rows(80), sums(each=2)), BLOCKS),
    "something else is in between": ((rows(), loop(i, 4, put(Z, i, value=f32(1.0))), sums()), BLOCKS),
}


@pytest.mark.parametrize("name", STAYS)
def test_loops_are_not_merged_where(name: str) -> None:
    body, shared = STAYS[name]
    f = function(*body, shared=shared)
    assert merged(f) is f
