"""insert-prefetches: narrow floats that a loop folds from several places are fetched ahead, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import LINE_BYTES
from benchgraph.tir.affine import linear
from benchgraph.tir.build import add, binary, cast, constant, f32, mul
from benchgraph.tir.ir import Alloc, BinOp, Const, For, Func, Prefetch, Scope, Stmt, tensor
from benchgraph.tir.passes import run
from benchgraph.tir.visit import statements, substitute, walk
from tests.support.tir_programs import TARGET, assert_same, at, i, k, loop, parallel, param, put

DISTANCE_BYTES = 2048
LONG = DISTANCE_BYTES  # elements of 16 bits of a column that is just long enough


def largest(columns: int, size: int, dtype: DType = DType.bf16, kept: Scope = Scope.register) -> Func:
    """y[i, j] = the largest product of x and column i * columns + j of w, so many columns side by side."""
    x, w, y = param("x", size), param("w", 4 * columns, size, dtype=dtype), param("y", 4, columns)
    accs = [tensor(f"a{n}", DType.f32, (), Scope.register) for n in range(columns)]

    def product(n: int) -> Stmt:
        weight = cast(at(w, add(mul(i, columns), n), k), DType.f32)
        value = binary(BinOp.mul, at(x, k), weight)
        return put(accs[n], value=binary(BinOp.max, at(accs[n]), value)) if kept is Scope.register else put(y, i, n, value=value)

    begin = (put(acc, value=f32(0.0)) for acc in accs)
    end = (put(y, i, n, value=at(acc)) for n, acc in enumerate(accs)) if kept is Scope.register else ()
    return Func("largest", (x, w, y), parallel(i, 4, *map(Alloc, accs), *begin, loop(k, size, *map(product, range(columns))), *end))


def fetched(f: Func, stream_bytes: int = DISTANCE_BYTES) -> list[tuple[For, Prefetch]]:
    after = run(replace(f, prefetched=("w",), stream_bytes=stream_bytes), TARGET)
    assert_same(after, f)
    return [(s, c) for s in walk(after.body) if isinstance(s, For) for c in statements(s.body) if isinstance(c, Prefetch)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16])
@pytest.mark.parametrize("columns", [2, 4])
def test_every_stream_is_prefetched_line_by_line_at_the_distance(columns: int, dtype: DType) -> None:
    """What begins with the lines that come DISTANCE_BYTES behind a column's first one, and goes as far beyond its last."""
    found = [(s, c) for s, c in fetched(largest(columns, LONG, dtype)) if c.tensor.name == "w"]
    size, ahead = dtype.nbytes(LONG), set[int]()
    for s, fetch in found:
        for n in range(constant(s.extent) or 0):
            first = dtype.nbytes(linear(substitute(fetch.index[0], {s.var.name: Const(n)})).constant)
            ahead |= {first // LINE_BYTES + line for line in range(fetch.lines)}
    wanted = {(column * size + DISTANCE_BYTES + byte) // LINE_BYTES for column in range(columns) for byte in range(0, size, LINE_BYTES)}
    assert (len(found), ahead) == (columns, wanted)


@pytest.mark.parametrize(
    ("f", "stream_bytes"),
    [
        (largest(2, LONG), 0),
        (largest(1, LONG), DISTANCE_BYTES),
        (largest(2, LONG - 16), DISTANCE_BYTES),
        (largest(2, LONG, DType.f32), DISTANCE_BYTES),
        (largest(2, LONG, DType.s8), DISTANCE_BYTES),
        (largest(2, LONG, kept=Scope.param), DISTANCE_BYTES),
    ],
    ids=["hardware does it", "one column", "short ones", "f32", "bytes", "what is stored each time"],
)
def test_other_loads_are_not_prefetched(f: Func, stream_bytes: int) -> None:
    assert fetched(largest(2, LONG)) != []
    assert fetched(f, stream_bytes) == []
