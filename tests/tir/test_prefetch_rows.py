"""insert-prefetches: where several loops read a row of a tensor in memory, one of them prefetches the next row, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES
from benchgraph.tir.affine import linear
from benchgraph.tir.build import add, binary, cast, constant, f32, mul, seq, unary
from benchgraph.tir.ir import Alloc, BinOp, Brgemm, Const, Expr, For, Func, Prefetch, Scope, Slice, Stmt, Store, Tensor, UnOp, tensor
from benchgraph.tir.passes import run
from benchgraph.tir.visit import children, statements, substitute, walk
from tests.support.tir_programs import ROWS_COLS, TARGET, ZERO, assert_same, at, i, j, k, loop, p, parallel, param, put

COLUMNS = PAGE_BYTES // 4


def compiled(f: Func) -> Func:
    """Where all parameters may be prefetched."""
    return run(replace(f, prefetched=tuple(t.name for t in f.params)), TARGET)


def fetched(f: Func) -> list[For]:
    """The loops that prefetch something once the whole pipeline has run. The result must compute what `f` does."""
    after = compiled(f)
    assert_same(after, f)
    return [s for s in walk(after.body) if isinstance(s, For) and any(isinstance(c, Prefetch) for c in statements(s.body))]


def largest(src: Tensor, acc: Tensor, op: UnOp | None, columns: int) -> Stmt:
    return seq(put(acc, value=f32(0.0)), loop(j, columns, put(acc, value=binary(BinOp.max, at(acc), of(op, src)))))


def of(op: UnOp | None, src: Tensor) -> Expr:
    value = cast(at(src, i, j), DType.f32)
    return binary(BinOp.mul, value, value) if op is None else unary(op, value)


def scaled(
    columns: int = COLUMNS, rows: int = 4, dtype: DType = DType.f32, largest_of: UnOp | None = None, then: UnOp | None = None
) -> Func:
    """y[i, j] = then(x[i, j]) * the largest square of x[i, :] * the largest of largest_of(x[i, :])."""
    x, y = param("x", rows, columns, dtype=dtype), param("y", rows, columns)
    accs = [tensor(name, DType.f32, (), Scope.register) for name in ("a", "b")]
    value = binary(BinOp.mul, of(then, x), binary(BinOp.mul, *map(at, accs)))
    folds = [largest(x, acc, op, columns) for acc, op in zip(accs, (None, largest_of), strict=True)]
    return Func("scaled", (x, y), parallel(i, rows, *map(Alloc, accs), *folds, loop(j, columns, put(y, i, j, value=value))))


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16, DType.u8])
@pytest.mark.parametrize("columns", [4 * COLUMNS, 5 * COLUMNS])
@pytest.mark.parametrize("largest_of", [None, UnOp.exp], ids=["a line at a time", "four lines at a time"])
def test_exactly_the_next_row_is_prefetched(columns: int, dtype: DType, largest_of: UnOp | None) -> None:
    (host,) = fetched(scaled(columns, rows=4, dtype=dtype, largest_of=largest_of))
    (fetch,) = (c for c in statements(host.body) if isinstance(c, Prefetch))
    nbytes = dtype.nbytes(columns)
    lines = set[int]()
    for n in range(constant(host.extent) or 0):
        form = linear(substitute(fetch.index[0], {host.var.name: Const(n)}))
        assert list(form.terms.values()) == [columns], "from row to row"
        first = dtype.nbytes(form.constant)
        assert first + (fetch.lines - 1) * LINE_BYTES < 2 * nbytes
        lines |= {first // LINE_BYTES + line for line in range(fetch.lines)}
    assert lines == set(range(nbytes // LINE_BYTES, 2 * nbytes // LINE_BYTES))


@pytest.mark.parametrize(("largest_of", "then", "host"), [(None, None, 2), (UnOp.exp, None, 1), (UnOp.exp, UnOp.exp, 2)])
def test_the_longest_running_loop_prefetches(largest_of: UnOp | None, then: UnOp | None, host: int) -> None:
    f = scaled(largest_of=largest_of, then=then)
    (found,) = fetched(f)
    rows = compiled(f).body
    loops = [s for s in walk(rows) if isinstance(s, For) and s is not rows]
    assert len(loops) == 3
    assert loops.index(found) == host


def test_short_rows_are_not_prefetched() -> None:
    assert fetched(scaled(COLUMNS - 64)) == []


def test_other_parameters_are_not_prefetched() -> None:
    after = run(replace(scaled(), prefetched=("y",)), TARGET)
    assert not any(isinstance(s, Prefetch) for s in walk(after.body))


def test_a_later_loop_prefetches_even_if_the_first_runs_longest() -> None:
    x, y, acc = param("x", 16, COLUMNS), param("y", 16, COLUMNS), tensor("a", DType.f32, (), Scope.register)
    value = binary(BinOp.mul, at(x, i, j), at(acc))
    f = Func("f", (x, y), parallel(i, 16, Alloc(acc), largest(x, acc, UnOp.exp, COLUMNS), loop(j, COLUMNS, put(y, i, j, value=value))))
    (host,) = fetched(f)
    assert any(isinstance(s, Store) and s.tensor.name == "y" for s in walk(host))


def test_tensors_first_read_by_the_prefetching_loop_are_not_prefetched() -> None:
    x, z, y = param("x", 16, COLUMNS), param("z", 16, COLUMNS), param("y", 16, COLUMNS)
    acc = tensor("a", DType.f32, (), Scope.register)
    value = binary(BinOp.mul, binary(BinOp.mul, at(x, i, j), at(z, i, j)), at(acc))
    (host,) = fetched(
        Func("f", (x, y, z), parallel(i, 16, Alloc(acc), largest(x, acc, None, COLUMNS), loop(j, COLUMNS, put(y, i, j, value=value))))
    )
    assert [c.tensor.name for c in children(host.body) if isinstance(c, Prefetch)] == ["x"]


def test_a_single_loop_does_not_prefetch() -> None:
    x, y = param("x", 16, COLUMNS), param("y", 16, COLUMNS)
    assert fetched(Func("one", (x, y), parallel(i, 16, loop(j, COLUMNS, put(y, i, j, value=of(UnOp.exp, x)))))) == []


def test_tensors_that_every_row_reads_are_not_prefetched() -> None:
    x, y, weights = param("x", 16, COLUMNS), param("y", 16, COLUMNS), param("w", 16 * COLUMNS)
    acc = tensor("a", DType.f32, (), Scope.register)
    value = binary(BinOp.mul, at(weights, j), at(acc))
    (host,) = fetched(
        Func("f", (x, y, weights), parallel(i, 16, Alloc(acc), largest(x, acc, None, COLUMNS), loop(j, COLUMNS, put(y, i, j, value=value))))
    )
    assert [c.tensor.name for c in children(host.body) if isinstance(c, Prefetch)] == ["x"]


def test_rows_of_blocks_are_prefetched_in_the_loop_over_rows() -> None:
    """The rows of the next block follow those of this one."""
    x, y, z, acc = param("x", 12, COLUMNS), param("y", 12, COLUMNS), param("z", 4, COLUMNS), tensor("a", DType.f32, (), Scope.register)
    row = add(mul(i, 3), k)
    folds = loop(j, COLUMNS, put(acc, value=binary(BinOp.max, at(acc), at(x, row, j))))
    products = loop(j, COLUMNS, put(y, row, j, value=binary(BinOp.mul, at(x, row, j), at(acc))))
    before = loop(j, COLUMNS, put(z, i, j, value=f32(0.0)))
    (host,) = fetched(Func("f", (x, y, z), parallel(i, 4, before, loop(k, 3, Alloc(acc), put(acc, value=f32(0.0)), folds, products))))
    (fetch,) = (c for c in statements(host.body) if isinstance(c, Prefetch))
    assert sorted(linear(fetch.index[0]).terms.values()) == [16, COLUMNS, 3 * COLUMNS]


@pytest.mark.parametrize("column", [mul(j, 32), add(mul(j, 16), mul(p, COLUMNS))], ids=["half of it", "by turns"])
def test_rows_that_are_read_in_part_are_not_prefetched(column: Expr) -> None:
    x, y, acc = param("x", 16, 8 * COLUMNS), param("y", 16, COLUMNS), tensor("a", DType.f32, (), Scope.register)
    part = at(x, i, add(column, k))
    folds = put(acc, value=binary(BinOp.max, at(acc), part))
    products = put(y, i, add(mul(j, 16), k), value=binary(BinOp.mul, part, at(acc)))
    body = (loop(j, COLUMNS // 16, loop(p, 4, loop(k, 16, s))) for s in (folds, products))
    assert fetched(Func("f", (x, y), parallel(i, 16, Alloc(acc), put(acc, value=f32(0.0)), *body))) == []


def test_nests_with_a_product_do_not_prefetch() -> None:
    f, w, z = scaled(), param("w", COLUMNS, 16), param("z", 16, 16)
    assert isinstance(f.body, For)
    product = Brgemm(
        Slice(f.params[0], (i, ZERO), ROWS_COLS), Slice(w, (ZERO, ZERO), ROWS_COLS), Slice(z, (i, ZERO), ROWS_COLS), 1, 16, COLUMNS
    )
    assert fetched(f) != []
    assert fetched(replace(f, params=(*f.params, w, z), body=replace(f.body, body=seq(product, f.body.body)))) == []
