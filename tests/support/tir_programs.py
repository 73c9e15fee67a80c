"""Hand-built TIR functions that together use every node and hurt every pass; and how to run one on random data."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS, Target
from benchgraph.tir.build import add, binary, cast, f32, minimum, mul, seq, sub, unary
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import (
    Alloc,
    Binary,
    BinOp,
    Brgemm,
    Const,
    Expr,
    For,
    Func,
    If,
    Load,
    LoopKind,
    Pack,
    Prefetch,
    Random,
    Scope,
    Select,
    Seq,
    Slice,
    Stmt,
    Store,
    Tensor,
    UnOp,
    Var,
    tensor,
)

TARGET = Target(ISAS["avx512_core"], l1_bytes=48 << 10, l2_bytes=1 << 20, cores=4)
F32 = DType.f32
ZERO = Const(0)
ROWS_COLS = ((0, 1), (1, 1))
LAST_TWO = ((1, 1), (2, 1))


def param(name: str, *shape: int, dtype: DType = F32, strides: tuple[int, ...] | None = None) -> Tensor:
    return tensor(name, dtype, shape, Scope.param, strides)


def at(t: Tensor, *index: Expr | int) -> Load:
    return Load(t, tuple(Const(i) if isinstance(i, int) else i for i in index))


def put(t: Tensor, *index: Expr | int, value: Expr) -> Store:
    return Store(t, tuple(Const(i) if isinstance(i, int) else i for i in index), value)


def loop(var: Var, extent: Expr | int, *body: Stmt) -> For:
    return For(var, Const(extent) if isinstance(extent, int) else extent, seq(*body))


def parallel(var: Var, extent: Expr | int, *body: Stmt) -> For:
    return For(var, Const(extent) if isinstance(extent, int) else extent, seq(*body), LoopKind.parallel)


b, mo, no, i, j, k, p, q, r = (Var(name) for name in ("b", "mo", "no", "i", "j", "k", "p", "q", "r"))


def relu() -> Func:
    x, y = param("x", 4, 40), param("y", 4, 40)
    return Func("relu", (x, y), parallel(i, 4, loop(j, 40, put(y, i, j, value=binary(BinOp.max, at(x, i, j), f32(0.0))))))


def matmul_relu() -> Func:
    """y = relu(x @ w + c), M = 70 in tasks of 32 rows (the last has 6), N = 48 in tiles of 32 (and 16), K = 24."""
    x, w, c, y = param("x", 70, 24), param("w", 24, 48), param("c", 48), param("y", 70, 48)
    t, u = tensor("t", F32, (70, 48)), tensor("u", F32, (70, 48))
    rows = minimum(32, sub(70, mul(mo, 32)))

    def tile(n0: Expr, width: int) -> Stmt:
        def call(m: int) -> Stmt:
            start = mul(mo, 32)
            return Brgemm(
                Slice(x, (start, ZERO), ROWS_COLS), Slice(w, (ZERO, n0), ROWS_COLS), Slice(t, (start, n0), ROWS_COLS), m, width, 24
            )

        whole = binary(BinOp.le, add(mul(mo, 32), 32), Const(70))
        m, n = add(mul(mo, 32), i), add(n0, j)
        biased = put(u, m, n, value=binary(BinOp.add, at(t, m, n), at(c, n)))
        post = loop(i, rows, loop(j, width, biased, put(y, m, n, value=binary(BinOp.max, at(u, m, n), f32(0.0)))))
        return seq(If(whole, call(32), call(6)), post)

    columns = seq(loop(no, 1, tile(mul(no, 32), 32)), tile(Const(32), 16))
    return Func("matmul_relu", (x, w, c, y), seq(Alloc(t), Alloc(u), parallel(mo, 3, columns)))


def batch_reduce() -> Func:
    """acc = sum over 3 blocks of K, added to twice, the next columns fetched meanwhile; the weights are packed [N/16][K][16]."""
    x, w, y = param("x", 8, 24), param("w", 2, 24, 16), param("y", 8, 32)
    acc = tensor("acc", F32, (8, 32))
    src, wei = Slice(x, (ZERO, ZERO), (*ROWS_COLS, (1, 8))), Slice(w, (no, ZERO, ZERO), (*LAST_TWO, (1, 8)))
    out = Slice(acc, (ZERO, mul(no, 16)), ROWS_COLS)
    ahead = (Prefetch(w, (add(no, 1), ZERO, ZERO), 24),)
    calls = [Brgemm(src, wei, out, 8, 16, 8, (3,), prefetches=ahead), Brgemm(src, wei, out, 8, 16, 8, (3,), accumulate=True)]
    copy = loop(i, 8, loop(j, 32, put(y, i, j, value=at(acc, i, j))))
    return Func("batch_reduce", (x, w, y), seq(Alloc(acc), loop(no, 2, *calls), copy))


def attention() -> Func:
    """One task is 8 rows of one batch entry: scores, scale and mask, softmax, product with the values."""
    B, M, K, N = 4, 16, 8, 20  # noqa: N806
    x, w, v, mask, y = param("x", B, M, K), param("w", B, K, N), param("v", B, N, K), param("mask", B, 1, N), param("y", B, M, K)
    s, t1, t2, e, pr = (tensor(n, F32, (B, M, N)) for n in ("s", "t1", "t2", "e", "pr"))
    mx, sm = (tensor(n, F32, (B, M, 1)) for n in ("mx", "sm"))
    m0 = mul(mo, 8)
    m = add(m0, i)
    scores = [
        Brgemm(Slice(x, (b, m0, ZERO), LAST_TWO), Slice(w, (b, ZERO, n0), LAST_TWO), Slice(s, (b, m0, n0), LAST_TWO), 8, n, K)
        for n0, n in ((ZERO, 16), (Const(16), 4))
    ]
    row = loop(
        i,
        8,
        put(mx, b, m, 0, value=f32(-math.inf)),
        loop(
            j,
            N,
            put(t1, b, m, j, value=binary(BinOp.mul, at(s, b, m, j), f32(0.25))),
            put(t2, b, m, j, value=binary(BinOp.add, at(t1, b, m, j), at(mask, b, 0, j))),
            put(mx, b, m, 0, value=binary(BinOp.max, at(mx, b, m, 0), at(t2, b, m, j))),
        ),
        put(sm, b, m, 0, value=f32(0.0)),
        loop(
            j,
            N,
            put(e, b, m, j, value=unary(UnOp.exp, binary(BinOp.sub, at(t2, b, m, j), at(mx, b, m, 0)))),
            put(sm, b, m, 0, value=binary(BinOp.add, at(sm, b, m, 0), at(e, b, m, j))),
        ),
        loop(j, N, put(pr, b, m, j, value=binary(BinOp.div, at(e, b, m, j), at(sm, b, m, 0)))),
    )
    out = Brgemm(Slice(pr, (b, m0, ZERO), LAST_TWO), Slice(v, (b, ZERO, ZERO), LAST_TWO), Slice(y, (b, m0, ZERO), LAST_TWO), 8, K, N)
    nest = parallel(b, B, parallel(mo, 2, *scores, row, out))
    return Func("attention", (x, w, v, mask, y), seq(*(Alloc(t) for t in (s, t1, t2, e, pr, mx, sm)), nest))


def transpose() -> Func:
    """y[j, i] = x[i, j], the source column-major with gaps."""
    x, y = param("x", 6, 20, strides=(1, 8)), param("y", 20, 6)
    return Func("transpose", (x, y), parallel(j, 20, loop(i, 6, put(y, j, i, value=at(x, i, j)))))


def worked_on_across() -> Func:
    """y[j, i] of much work for each x[i, j], along the rows of x: what is stored lies far apart."""
    x, y = param("x", 6, 37), param("y", 37, 6)
    value: Expr = unary(UnOp.exp, unary(UnOp.neg, at(x, i, j)))
    for k in range(20):
        value = binary(BinOp.add, binary(BinOp.mul, value, f32(0.5)), binary(BinOp.max, at(x, i, j), f32(k / 4)))
    return Func("worked_on_across", (x, y), parallel(i, 6, loop(j, 37, put(y, j, i, value=value))))


def two_stages() -> Func:
    """Two nests over the same rows, the first's result a temporary that only the second reads, in s32 and bf16."""
    x, y = param("x", 6, 33), param("y", 6, 33, dtype=DType.bf16)
    t, u = tensor("t", DType.s32, (6, 33)), tensor("u", F32, (6, 33))
    first = parallel(i, 6, loop(j, 33, put(t, i, j, value=cast(binary(BinOp.mul, at(x, i, j), f32(10.0)), DType.s32))))
    half = put(u, p, q, value=binary(BinOp.mul, cast(at(t, p, q), F32), f32(0.5)))
    second = parallel(p, 6, loop(q, 33, half), loop(q, 33, put(y, p, q, value=cast(unary(UnOp.neg, at(u, p, q)), DType.bf16))))
    return Func("two_stages", (x, y), seq(Alloc(t), Alloc(u), first, second))


def dependent_stages() -> Func:
    """The second nest reads whole columns of the first's result: the loops must stay apart."""
    x, y = param("x", 6, 16), param("y", 16)
    t, acc = tensor("t", F32, (6, 16)), tensor("acc", F32, (16,))
    first = parallel(i, 6, loop(j, 16, put(t, i, j, value=unary(UnOp.tanh, at(x, i, j)))))
    total = loop(k, 6, put(acc, p, value=binary(BinOp.add, at(acc, p), at(t, k, p))))
    second = parallel(p, 16, put(acc, p, value=f32(0.0)), total, put(y, p, value=at(acc, p)))
    return Func("dependent_stages", (x, y), seq(Alloc(t), Alloc(acc), first, second))


def column_sums() -> Func:
    """Reduce along the first of two axes: the accumulators are a row that the inner loop runs along."""
    x, y = param("x", 5, 37), param("y", 37)
    acc = tensor("acc", F32, (37,))
    body = seq(
        loop(j, 37, put(acc, j, value=f32(0.0))),
        loop(i, 5, loop(j, 37, put(acc, j, value=binary(BinOp.add, at(acc, j), at(x, i, j))))),
        loop(j, 37, put(y, j, value=at(acc, j))),
    )
    return Func("column_sums", (x, y), seq(Alloc(acc), body))


def row_extremes() -> Func:
    """min, max, product and sum of long rows, each straight into the result; the index is data, too."""
    x, y = param("x", 3, 150), param("y", 3, 4)
    ops = ((0, BinOp.min, math.inf), (1, BinOp.max, -math.inf), (2, BinOp.mul, 1.0))
    start = [put(y, i, n, value=f32(value)) for n, _, value in ops] + [put(y, i, 3, value=f32(0.0))]
    fold = [put(y, i, n, value=binary(op, at(y, i, n), at(x, i, j))) for n, op, _ in ops]
    weighted = binary(BinOp.add, binary(BinOp.mul, cast(j, F32), at(x, i, j)), at(y, i, 3))
    each = [loop(j, 150, f) for f in (*fold, put(y, i, 3, value=weighted))]
    return Func("row_extremes", (x, y), parallel(i, 3, *start, *each))


def ragged_chunks() -> Func:
    """One long axis in chunks of 64, the last one short, where the loop's extent is an expression."""
    n = 150
    x, y = param("x", n), param("y", n)
    t = tensor("t", F32, (n,))
    e = add(mul(mo, 64), i)
    square = put(t, e, value=binary(BinOp.mul, at(x, e), at(x, e)))
    chosen = Select(binary(BinOp.gt, at(t, e), f32(0.5)), at(t, e), f32(0.5))
    rest = minimum(64, sub(n, mul(mo, 64)))
    return Func("ragged_chunks", (x, y), seq(Alloc(t), parallel(mo, 3, loop(i, rest, square, put(y, e, value=chosen)))))


def shared_temporary() -> Func:
    """Temporaries that a serial loop fills again each time, one live after the other: private to an iteration, bytes to be reused."""
    x, y = param("x", 4, 50), param("y", 4, 50)
    t, u, v = (tensor(n, F32, (50,)) for n in "tuv")
    body = (
        loop(j, 50, put(t, j, value=binary(BinOp.add, at(x, i, j), f32(1.0)))),
        loop(j, 50, put(u, j, value=binary(BinOp.mul, at(t, j), at(t, sub(49, j))))),
        loop(j, 50, put(v, j, value=binary(BinOp.sub, at(u, sub(49, j)), f32(2.0)))),
        loop(j, 50, put(y, i, j, value=at(v, sub(49, j)))),
    )
    return Func("shared_temporary", (x, y), seq(Alloc(t), Alloc(u), Alloc(v), loop(i, 4, *body)))


def running_sum() -> Func:
    """Each element needs the one before: neither shrinking nor vectors may break that."""
    x, y = param("x", 40), param("y", 40)
    t = tensor("t", F32, (41,))
    step = put(t, add(i, 1), value=binary(BinOp.add, at(t, i), at(x, i)))
    copy = loop(i, 40, put(y, i, value=at(t, add(i, 1))))
    return Func("running_sum", (x, y), seq(Alloc(t), put(t, 0, value=f32(0.0)), loop(i, 40, step), copy))


def split_and_join() -> Func:
    """Indices by floordiv and mod, loops of one and no iterations, a branch that is decided, blocks in blocks."""
    x, y = param("x", 4, 64), param("y", 256)
    from_flat = Binary(BinOp.floordiv, k, Const(64)), Binary(BinOp.mod, k, Const(64))
    copy = loop(k, 256, put(y, k, value=binary(BinOp.mul, at(x, *from_flat), f32(1.0))))
    whole = add(mul(i, 64), j)
    again = put(
        y,
        whole,
        value=binary(BinOp.add, at(y, whole), at(x, Binary(BinOp.floordiv, whole, Const(64)), Binary(BinOp.mod, whole, Const(64)))),
    )
    nest = loop(p, 1, Seq((Seq(()), loop(i, 4, loop(j, 64, again)))), loop(q, 0, put(y, 0, value=f32(9.0))))
    branch = If(binary(BinOp.lt, Const(3), Const(2)), put(y, 1, value=f32(8.0)), nest)
    return Func("split_and_join", (x, y), seq(copy, branch))


def dequantised() -> Func:
    """Two elements to a byte, read along rows of odd length that begin in either half of one, and across them."""
    x, z, s, y = param("x", 5, 40, dtype=DType.s4, strides=(43, 1)), param("z", 40, dtype=DType.u4), param("s", 5), param("y", 5, 40)
    t = tensor("t", F32, (40,))
    across = loop(i, 5, put(y, i, 0, value=binary(BinOp.add, at(y, i, 0), cast(at(x, i, 39), F32))))
    body = (
        loop(j, 40, put(t, j, value=binary(BinOp.sub, cast(at(x, i, j), F32), cast(at(z, j), F32)))),
        loop(j, 40, put(y, i, j, value=binary(BinOp.mul, at(t, j), at(s, i)))),
    )
    return Func("dequantised", (x, z, s, y), seq(Alloc(t), parallel(i, 5, *body), across))


def matmul_bf16() -> Func:
    """Rows of a temporary in bf16, weights in pairs along k in three panels, k of 13 in a batch of two, the second one added."""
    x, w, y = param("x", 6, 26), param("w", 3, 2, 7, 16, 2, dtype=DType.bf16), param("y", 6, 48)
    t, acc = tensor("t", DType.bf16, (6, 26)), tensor("acc", F32, (6, 48))
    narrow = loop(i, 6, loop(j, 26, put(t, i, j, value=cast(at(x, i, j), DType.bf16))))
    src, out = Slice(t, (mul(mo, 2), ZERO), (*ROWS_COLS, (1, 13))), Slice(acc, (mul(mo, 2), mul(no, 16)), ROWS_COLS)
    wei = Slice(w, (no, ZERO, ZERO, ZERO, ZERO), ((2, 1), (3, 1), (1, 1)))
    calls = [Brgemm(src, wei, out, 2, 16, 13, (2,), accumulate=more) for more in (False, True)]
    copy = loop(i, 2, loop(j, 48, put(y, add(mul(mo, 2), i), j, value=at(acc, add(mul(mo, 2), i), j))))
    return Func("matmul_bf16", (x, w, y), seq(Alloc(t), Alloc(acc), narrow, parallel(mo, 3, loop(no, 3, *calls), copy)))


def matmul_u8_s8() -> Func:
    """One panel of weights in fours along k, the last of 11 alone in its group but for two; dequantised row by row."""
    x, w, s, y = param("x", 8, 11, dtype=DType.u8), param("w", 3, 20, 4, dtype=DType.s8), param("s", 20), param("y", 8, 20)
    acc = tensor("acc", DType.s32, (8, 20))
    m = add(mul(mo, 4), i)
    rows = Slice(x, (mul(mo, 4), ZERO), ROWS_COLS)
    call = Brgemm(rows, Slice(w, (ZERO, ZERO, ZERO), ROWS_COLS), Slice(acc, (mul(mo, 4), ZERO), ROWS_COLS), 4, 20, 11)
    scaled = loop(i, 4, loop(j, 20, put(y, m, j, value=binary(BinOp.mul, cast(at(acc, m, j), F32), at(s, j)))))
    return Func("matmul_u8_s8", (x, w, s, y), seq(Alloc(acc), parallel(mo, 2, call, scaled)))


def packed_matmul() -> Func:
    """Weights that each entry of a batch brings along, transposed: packed into a temporary of two panels that the row tasks read."""
    x, w, y = param("x", 3, 4, 7, dtype=DType.bf16), param("w", 3, 40, 7), param("y", 3, 4, 40)
    packed, acc = tensor("packed", DType.bf16, (3, 2, 4, 20, 2)), tensor("acc", F32, (3, 4, 40))
    src = Slice(w, (b, mul(no, 20), ZERO), ((2, 1), (1, 1)))
    panel = Slice(packed, (b, no, ZERO, ZERO, ZERO), ((2, 1), (3, 1)))
    m0, n0 = mul(mo, 2), mul(no, 20)
    call = Brgemm(Slice(x, (b, m0, ZERO), LAST_TWO), panel, Slice(acc, (b, m0, n0), LAST_TWO), 2, 20, 7)
    copy = loop(i, 2, loop(j, 20, put(y, b, add(m0, i), add(n0, j), value=at(acc, b, add(m0, i), add(n0, j)))))
    body = parallel(b, 3, loop(no, 2, Pack(src, panel, 7, 20)), parallel(mo, 2, loop(no, 2, call, copy)))
    return Func("packed_matmul", (x, w, y), seq(Alloc(packed), Alloc(acc), body))


def dropped() -> Func:
    """Random numbers of neighbours, of which a half are above what is asked for."""
    x, y, stream = param("x", 3, 5, 40), param("y", 3, 5, 40), param("stream", 2, dtype=DType.s64)
    place = add(add(mul(b, 200), mul(i, 40)), j)
    kept = Binary(BinOp.gt, Random(place, at(stream, 0), at(stream, 1)), Const(0, DType.s32))
    body = parallel(b, 3, loop(i, 5, loop(j, 40, put(y, b, i, j, value=Select(kept, at(x, b, i, j), f32(0.0))))))
    return Func("dropped", (x, stream, y), body)


PROGRAMS: tuple[Callable[[], Func], ...] = (
    relu, matmul_relu, batch_reduce, attention, transpose, two_stages, dependent_stages, column_sums, row_extremes, ragged_chunks,
    shared_temporary, running_sum, split_and_join, dequantised, matmul_bf16, matmul_u8_s8,
    packed_matmul, worked_on_across, dropped,
)  # fmt: skip


def arguments(f: Func, seed: int = 0) -> list[NDArray[np.generic]]:
    """Random arrays for a function whose params are N-d, with the strides they have."""
    rng = np.random.default_rng(seed)
    return [_array(t, rng) for t in f.params]


def _array(t: Tensor, rng: np.random.Generator) -> NDArray[np.generic]:
    if t.dtype.is_packed:
        return rng.integers(0, 256, t.nbytes, dtype=np.uint8)
    size = t.dtype.numpy.itemsize
    if t.dtype.is_integer:
        ends = np.iinfo(t.dtype.numpy)
        memory = rng.integers(ends.min, ends.max, t.nbytes // size, dtype=t.dtype.numpy, endpoint=True)
    else:
        memory = rng.uniform(-1.0, 1.0, t.nbytes // size).astype(t.dtype.numpy)
    return np.lib.stride_tricks.as_strided(memory, t.shape, tuple(s * size for s in t.strides))


def results(f: Func, original: Func, seed: int = 0) -> list[NDArray[np.float64]]:
    """What f leaves in its arguments; original: the function before any pass, which says what shapes they have."""
    args = arguments(original, seed)
    interpret(f, args, seed=seed)
    return [a.astype(np.float64) for a in args]


def assert_same(f: Func, original: Func, seed: int = 0) -> None:
    """f does to its arguments what original does, up to the order of float sums."""
    for t, got, want in zip(original.params, results(f, original, seed), results(original, original, seed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=f"{original.name}: parameter {t.name}")
