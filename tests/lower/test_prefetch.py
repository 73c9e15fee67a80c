"""What microkernel calls prefetch: all of what comes next, and nothing else. Prefetches do not affect results of other tests."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import prod

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
    begin = p.tensor.dtype.nbytes(sum(number(i, at) * stride for i, stride in zip(p.index, p.tensor.strides, strict=True)))
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
def test_calls_prefetch_the_next_entry(rows: int, keys: int, dtype: DType) -> None:
    """Each line once, except where sizes are rounded up."""
    g = scheduled(attention(rows, keys, dtype), TARGET)
    (nest,) = (n for n in g.nodes if isinstance(n, FusedOp) and n.prefetched_entries)
    tensors: dict[str, Tensor] = {}
    found: dict[tuple[str, int], Counter[int]] = {}
    for at, call in calls(lower(g, TARGET).main.body, {}):
        b, h = (value for name, value in at.items() if name[:2] in ("b0", "b1"))
        for p in call.prefetches:
            tensors[p.tensor.name] = p.tensor
            found.setdefault((p.tensor.name, b * 4 + h), Counter()).update(lines(p, at))
    assert len(found) == 2 * 8
    for name in (f"v{v}" for v in nest.prefetched_entries):
        for entry, each in enumerate([lines_per_entry(tensors[name], (2, 4))] * 8):
            _once_and_little_more(found[name, entry], (entry + 1) * each, each)


def _once_and_little_more(found: Counter[int], first: int, count: int) -> None:
    assert set(found) >= set(range(first, first + count))
    assert max(found) < first + count * 1.2
    assert set(found.values()) == {1}


@pytest.mark.parametrize(("keys", "is_fetched"), [(128, True), (768, False)])
def test_entries_are_prefetched_where_l2_holds_two(keys: int, is_fetched: bool) -> None:
    nests = [n for n in scheduled(attention(128, keys, DType.f32), TARGET).nodes if isinstance(n, FusedOp)]
    assert any(nest.prefetched_entries for nest in nests) == is_fetched


def mlp(rows: int, wide: int, dtype: DType = DType.f32) -> Graph:
    b = GraphBuilder()
    x = b.input((rows, wide), dtype)
    for _ in range(2):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((wide, wide), dtype)))
    return b.graph()


def test_calls_prefetch_the_next_panel_of_weights() -> None:
    g = scheduled(mlp(128, 512), TARGET)
    seen = set[Tensor]()
    for at, call in calls(lower(g, TARGET).main.body, {}):
        (p,) = call.prefetches
        assert p.tensor == call.wei.tensor
        panel = p.tensor.nbytes // LINE_BYTES // p.tensor.shape[0]
        no = number(call.wei.index[0], at)
        assert list(lines(p, at)) == list(range((no + 1) * panel, (no + 2) * panel))
        seen.add(p.tensor)
    assert len(seen) == 2


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
