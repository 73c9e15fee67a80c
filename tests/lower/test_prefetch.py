"""What microkernel calls prefetch: all of what comes next, and nothing else. Prefetches do not affect results of other tests."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import ISAS, LINE_BYTES, Target
from benchgraph.runtime.constants import Constants
from benchgraph.tir.ir import Binary, BinOp, Brgemm, Const, Expr, For, If, Prefetch, Select, Stmt, Tensor, Var
from benchgraph.tir.visit import children, walk
from tests.support.graph_ir import scheduled
from tests.support.tensor_ir import lowered

TARGET = Target(ISAS["avx512_core_vnni"], l1_bytes=32 << 10, l2_bytes=512 << 10, cores=2)
At = tuple[int, ...]


OPERATIONS: dict[BinOp, Callable[[int, int], int]] = {
    BinOp.add: operator.add,
    BinOp.sub: operator.sub,
    BinOp.mul: operator.mul,
    BinOp.floordiv: operator.floordiv,
    BinOp.mod: operator.mod,
    BinOp.min: min,
    BinOp.max: max,
    BinOp.and_: operator.and_,
    BinOp.or_: operator.or_,
    BinOp.lt: operator.lt,
    BinOp.le: operator.le,
    BinOp.gt: operator.gt,
    BinOp.ge: operator.ge,
    BinOp.eq: operator.eq,
}


def number(e: Expr, at: Mapping[str, int]) -> int:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return at[e.name]
        case Binary():
            return int(OPERATIONS[e.op](number(e.a, at), number(e.b, at)))
        case Select():
            return number(e.a if number(e.cond, at) else e.b, at)
    raise AssertionError(f"no index: {e}")


def calls(s: Stmt, at: dict[str, int]) -> Iterator[tuple[dict[str, int], Brgemm]]:
    """Every microkernel call that s makes, with the loop variables' values."""
    match s:
        case For():
            for i in range(number(s.extent, at)):
                yield from calls(s.body, {**at, s.var.name: i})
        case If():
            taken = s.then if number(s.cond, at) else s.orelse
            yield from calls(taken, at) if taken is not None else ()
        case Brgemm():
            yield at, s
        case _:
            for inner in children(s):
                yield from calls(inner, at)


def lines(p: Prefetch, at: Mapping[str, int]) -> Iterator[int]:
    """Numbers of the tensor's lines, if it begins at the begin of one."""
    first = sum(number(i, at) * stride for i, stride in zip(p.index, p.tensor.strides, strict=True))
    for each in range(p.count):
        begin = p.tensor.dtype.nbytes(first + each * p.stride)
        assert begin % LINE_BYTES == 0
        yield from range(begin // LINE_BYTES, begin // LINE_BYTES + p.lines)


def lines_per_entry(t: Tensor, batch: At) -> int:
    return t.nbytes // prod(batch) // LINE_BYTES


def attention(rows: int, keys: int, dtype: DType) -> Graph:
    b = GraphBuilder()
    q, k, v = (b.input((2, 4, rows if i == 0 else keys, 64), dtype) for i in range(3))
    if dtype is DType.u8:
        q, k, v = (b.op("Dequantize", x, qtype="per_tensor", scales=[0.1], zps=[zp]) for x, zp in ((q, 0), (k, 3), (v, 3)))
    p = b.op("SoftMax", b.op("MatMul", q, k, transpose_b=True), axis=-1)
    if dtype is DType.u8:
        p = b.op("Dequantize", b.op("Quantize", p, qtype="per_tensor", scales=[0.01], zps=[0], dtype=dtype), scales=[0.01], zps=[0])
    b.op("MatMul", p, v)
    return b.graph()


@pytest.mark.parametrize("dtype", [DType.f32, DType.u8])
@pytest.mark.parametrize(("rows", "keys"), [(64, 128), (80, 96)])
def test_calls_prefetch_the_next_entry_and_the_next_rows(rows: int, keys: int, dtype: DType) -> None:
    """Each line once, except where sizes are rounded up, and where an entry's last task has fewer rows."""
    g = scheduled(attention(rows, keys, dtype), TARGET)
    (nest,) = (n for n in g.nodes if isinstance(n, FusedOp) and n.prefetched_entries)
    tensors: dict[str, Tensor] = {}
    by_entry, by_task = (f"v{v}" for v in nest.prefetched_entries), [f"v{v}" for v in nest.prefetched_rows]
    found: dict[tuple[str, int], Counter[int]] = {}
    tasks = -(-rows // nest.mb)
    for at, call in calls(lower(g).main.body, {}):
        b, h, task = (value for name, value in at.items() if name[:2] in ("b0", "b1", "mo"))
        for p in call.prefetches:
            tensors[p.tensor.name] = p.tensor
            number_ = b * 4 + h if p.tensor.name not in by_task else (b * 4 + h) * tasks + task
            found.setdefault((p.tensor.name, number_), Counter()).update(lines(p, at))
    assert len(found) == 2 * 8 + 8 * tasks
    for name in by_entry:
        for entry, each in enumerate([lines_per_entry(tensors[name], (2, 4))] * 8):
            _once_and_little_more(found[name, entry], (entry + 1) * each, each)
    for name in by_task:
        row = tensors[name].dtype.nbytes(64)
        for entry, task in product(range(8), range(tasks)):
            first = entry * rows + min((task + 1) * nest.mb, rows)
            _once_and_little_more(found[name, entry * tasks + task], first * row // LINE_BYTES, nest.mb * row // LINE_BYTES)


def _once_and_little_more(found: Counter[int], first: int, count: int) -> None:
    assert set(found) >= set(range(first, first + count))
    assert max(found) < first + count * 1.2
    assert set(found.values()) == {1}


def test_rows_are_prefetched_where_the_next_entry_does_not_fit() -> None:
    target = replace(TARGET, l2_bytes=384 << 10)
    (nest,) = (n for n in scheduled(attention(128, 512, DType.f32), target).nodes if isinstance(n, FusedOp) and n.prefetched_rows)
    assert not nest.prefetched_entries


@pytest.mark.parametrize(("rows", "is_fetched"), [(64, False), (320, True)])
def test_masks_are_prefetched_where_l2_does_not_keep_them(rows: int, is_fetched: bool) -> None:
    b = GraphBuilder()
    q, k, mask = b.input((2, 4, rows, 64)), b.input((2, 4, 64, 128)), b.input((2, 4, rows, 128))
    b.op("SoftMax", b.op("Add", b.op("MatMul", q, k), mask), axis=-1)
    (nest,) = (n for n in scheduled(b.graph(), TARGET).nodes if isinstance(n, FusedOp))
    assert (mask.id in nest.prefetched_rows) == is_fetched


def mlp(rows: int, wide: int, dtype: DType = DType.f32) -> Graph:
    b = GraphBuilder()
    x = b.input((rows, wide), dtype)
    for _ in range(2):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((wide, wide), dtype)))
    return b.graph()


def test_calls_prefetch_the_next_panel_of_weights() -> None:
    g = scheduled(mlp(128, 512), TARGET)
    seen = set[Tensor]()
    for at, call in calls(lower(g).main.body, {}):
        (p,) = call.prefetches
        assert p.tensor == call.wei.tensor
        panel = p.tensor.nbytes // LINE_BYTES // p.tensor.shape[0]
        no = number(call.wei.index[0], at)
        assert list(lines(p, at)) == list(range((no + 1) * panel, (no + 2) * panel))
        seen.add(p.tensor)
    assert len(seen) == 2


@pytest.mark.covering(2)
@pytest.mark.parametrize("k", [512, 1024, 1280])
@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16])
@pytest.mark.parametrize("transposed", [False, True])
def test_calls_prefetch_what_the_next_block_is_packed_from(dtype: DType, transposed: bool, k: int) -> None:
    """After the last block of some columns, the first block of the next columns; nothing twice."""
    n = 4096
    b = GraphBuilder()
    b.op("MatMul", b.input((32, k), dtype), b.input((n, k) if transposed else (k, n), dtype), transpose_b=transposed)
    g = scheduled(b.graph(), replace(TARGET, isa=ISAS["avx512_core_bf16"]))
    (p,) = (s.parameters for n in g.nodes if isinstance(n, FusedOp) for s in n.stages if s.parameters is not None)
    found, pieces = dict[At, Counter[int]](), -(-k // p.ks)
    for at, call in calls(lower(g).main.body, {}):
        (ahead,) = call.prefetches
        assert ahead.tensor.name == "v1"
        piece = number(call.acc.index[-1], at) // p.ns, number(call.src.index[-1], at) // p.ks
        found.setdefault(piece, Counter()).update(lines(ahead, at))
    assert len(found) == pieces * n // p.ns
    per_line = LINE_BYTES * 8 // dtype.bits
    for (so, ko), fetched in found.items():
        following, begin = (so, (ko + 1) * p.ks) if ko + 1 < pieces else (so + 1, 0)
        rows, columns = range(begin, min(begin + p.ks, k)), range(following * p.ns, (following + 1) * p.ns)
        places = np.add.outer(rows, np.multiply(columns, k)) if transposed else np.add.outer(np.multiply(rows, n), columns)
        assert set(fetched) >= {*np.unique(places // per_line).tolist()}
        assert set(fetched.values()) == {1}
        assert len(fetched) == p.ks * p.ns // per_line


def test_the_next_weights_follow_the_last_panel_in_memory() -> None:
    """Constants are in memory in the order in which they are read."""
    low = lowered(mlp(128, 512), TARGET)
    read = dict.fromkeys(call.wei.tensor for _, call in calls(low.main.body, {}))
    assert [t for t in low.constants if t in read] == list(read)
    made = Constants(low.constants, low.literals, None, ready=False)
    for one, after in itertools.pairwise(made.buffers):
        assert one.ctypes.data + one.nbytes == after.ctypes.data


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (mlp(128, 192), "L2 keeps the weights"),
        (mlp(96, 2048, DType.f16), "pieces of the weights are made, and are in cache then"),
    ],
)
def test_nothing_is_prefetched_where_it_does_not_pay(graph: Graph, why: str) -> None:
    written = [s for s in walk(lowered(graph, TARGET).main.body) if isinstance(s, Brgemm)]
    assert written
    assert not any(call.prefetches for call in written), why


def test_init_does_not_prefetch_its_own_temporaries() -> None:
    """Temporaries of init are not parameters, so no call may prefetch them."""
    b = GraphBuilder()
    b.op("Add", b.op("MatMul", b.constant((128, 512)), b.constant((512, 512))), b.input((128, 512)))
    lower_init = lowered(b.graph(), TARGET).lower_init
    assert lower_init is not None
    written = [s for s in walk(lower_init().body) if isinstance(s, Brgemm)]
    assert written
    assert not any(call.prefetches for call in written)


def test_explain_gives_the_reason() -> None:
    (nest,) = (n for n in scheduled(mlp(128, 512), TARGET).nodes if isinstance(n, FusedOp) and len(n.stages) > 1)
    assert all(any(r.parameter == "prefetch" and "the next panel" in r.text for r in s.parameters.why) for s in nest.stages if s.parameters)
