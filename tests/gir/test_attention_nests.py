"""Attention is one nest and one parallel region with tiles as temporaries, for all ops between the products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.graph.build import GraphBuilder
from benchgraph.lower import lower
from benchgraph.machine.target import Target
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import For, Func, LoopKind, Seq
from tests.support.graph_ir import scheduled
from tests.support.partitions import Build
from tests.support.targets import TARGET

BF16, F32, S8 = DType.bf16, DType.f32, DType.s8


def compiled(build: Build, target: Target = TARGET) -> tuple[Graph, Func]:
    """The Graph IR and the Tensor IR of a graph that is one partition."""
    g = scheduled(build, target)
    return g, tir_passes.run(lower(g).main, target)


def nests(g: Graph) -> list[FusedOp]:
    return [n for n in g.nodes if isinstance(n, FusedOp) and not all(g.value(v).is_constant for v in n.outs)]


def regions(f: Func) -> int:
    """The number of parallel loops of the function."""
    top = f.body.stmts if isinstance(f.body, Seq) else (f.body,)
    return sum(isinstance(s, For) and s.kind is LoopKind.parallel for s in top)


def along(node: FusedOp) -> dict[str, tuple[int | None, ...]]:
    """`along` of every batch-invariant stage, by the kind of its first op."""
    return {stage.ops[0].kind: stage.along for stage in node.stages if stage.is_batch_invariant}


# ---- attention as it comes -------------------------------------------------------------------------------------------


def scores(b: GraphBuilder, q: Shape, k: Shape, dtype: DType = F32) -> LogicalTensor:
    return b.op("MatMul", b.input(q, dtype), b.input(k, dtype), transpose_b=True, dtype=F32)


def attend(b: GraphBuilder, s: LogicalTensor, v: LogicalTensor) -> LogicalTensor:
    p = b.op("SoftMax", s, axis=-1, mode="inf_as_zero")
    return b.op("MatMul", p if v.dtype is F32 else b.op("TypeCast", p, dtype=v.dtype), v)


def plain(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    s = b.op("Divide", scores(b, (batch, 4, seq, 64), (batch, 4, seq, 64)), b.input((1,)))
    attend(b, b.op("Add", s, b.input((batch, 1, 1, seq))), b.input((batch, 4, seq, 64)))


def narrow(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    attend(b, scores(b, (batch, 4, seq, 64), (batch, 4, seq, 64), BF16), b.input((batch, 4, seq, 64), BF16))


def grouped(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    """Queries of eight heads as two groups, by reshapes on both sides."""
    q = b.op("StaticReshape", b.input((batch, 8, seq, 64)), shape=[batch, 2, 4, seq, 64], special_zero=False)
    k = b.op("StaticReshape", b.input((batch, 2, seq, 64)), shape=[batch, 2, 1, seq, 64], special_zero=False)
    v = b.op("StaticReshape", b.input((batch, 2, seq, 64)), shape=[batch, 2, 1, seq, 64], special_zero=False)
    o = attend(b, b.op("MatMul", q, k, transpose_b=True), v)
    b.op("StaticReshape", o, shape=[batch, 8, seq, 64], special_zero=False)


def causal(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    s = scores(b, (batch, 4, seq, 64), (batch, 4, seq, 64), BF16)
    row = b.op("Add", b.op("GenIndex", s, axis=-2), b.input((), DType.s32))
    mask = b.op("GreaterEqual", row, b.op("GenIndex", s, axis=-1))
    attend(b, b.op("Select", mask, s, b.input((1,))), b.input((batch, 4, seq, 64), BF16))


def capped(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    cap = b.input((1,))
    s = b.op("Divide", scores(b, (batch, 4, seq, 64), (batch, 4, seq, 64)), cap)
    attend(b, b.op("Multiply", b.op("Tanh", s), cap), b.input((batch, 4, seq, 64)))


def compressed(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    def wide(shape: Shape) -> LogicalTensor:
        per_row = (*shape[:-1], 1)
        scales, zps = b.input(per_row), b.input(per_row, S8)
        return b.op("DynamicDequantize", b.input(shape, S8), scales, zps, dtype=F32, qtype="per_group", group_shape=[1, 1, 1, shape[-1]])

    s = b.op("MatMul", b.input((batch, 4, seq, 64)), wide((batch, 4, seq, 64)), transpose_b=True)
    attend(b, s, wide((batch, 4, seq, 64)))


def with_statistics(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    s = scores(b, (batch, 4, seq, 64), (batch, 4, seq, 64), BF16)
    p, _ = b.outs("SoftMax", s, dtypes=(BF16, F32), axis=-1, mode="inf_as_zero")
    b.op("MatMul", p, b.input((batch, 4, seq, 64), BF16))


def heads_in_columns(b: GraphBuilder, seq: int = 128, batch: int = 4) -> None:
    """One head of keys; the queries of four heads are adjacent columns, and the second product reduces over the keys."""
    s = b.op("MatMul", b.input((batch, seq, 64)), b.input((batch, 64, 4 * seq)))
    s = b.op("StaticTranspose", b.op("StaticReshape", s, shape=[batch, seq, 4, seq], special_zero=False), order=[0, 2, 1, 3])
    p = b.op("StaticTranspose", b.op("SoftMax", s, axis=-1), order=[0, 2, 1, 3])
    b.op("MatMul", b.input((batch, 64, seq)), b.op("StaticReshape", p, shape=[batch, seq, 4 * seq], special_zero=False))


FORMS = (plain, narrow, grouped, causal, capped, compressed, with_statistics, heads_in_columns)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_attention_is_one_nest_and_one_region(form: Build) -> None:
    g, main = compiled(form)
    assert len(nests(g)) == 1
    assert regions(main) == 1
    assert main.shared_bytes == 0


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_temporaries_do_not_grow_with_the_batch(form: Callable[..., object]) -> None:
    few, many = (compiled(lambda b, n=n: form(b, batch=n))[1] for n in (4, 32))
    assert many.thread_bytes <= 2 * few.thread_bytes  # rows of a task are those of least cost


@pytest.mark.parametrize("seq", [197, 1500], ids=["few ragged rows", "many"])
def test_ragged_rows_need_temporaries_of_one_task_only(seq: int) -> None:
    _, main = compiled(lambda b: plain(b, seq=seq))
    operands = 2 * 64 * (seq + 64) * 4
    assert main.thread_bytes <= operands + TARGET.l2_bytes


# ---- where a stage at the batch anchor lies ----------------------------------------------------------------------------


def test_keys_are_packed_once_for_the_heads_that_share_them() -> None:
    (nest,) = nests(compiled(grouped)[0])
    assert along(nest)["Reorder"] == (0, 1)


def test_with_too_few_groups_for_the_cores_each_head_packs_its_keys() -> None:
    """One batch entry, one group, and much more to multiply than to pack."""

    def build(b: GraphBuilder, seq: int, heads: int = 8) -> None:
        attend(b, scores(b, (1, heads, seq, 64), (1, 1, seq, 64)), b.input((1, 1, seq, 64)))

    (nest,) = nests(compiled(lambda b: build(b, 512))[0])
    assert along(nest)["Reorder"] == (None, None)
    assert len(nests(compiled(lambda b: build(b, 17))[0])) == 2  # packing would cost more than a second nest
    assert len(nests(compiled(lambda b: build(b, 512, heads=3))[0])) == 2  # one of two cores would have two of three heads


def test_one_entry_keeps_its_rows_parallel() -> None:
    def build(b: GraphBuilder) -> None:
        attend(b, scores(b, (1, 1, 512, 64), (1, 1, 512, 64)), b.input((1, 1, 512, 64)))

    g, main = compiled(build)
    assert [len(n.stages) for n in nests(g)] == [1, 2]
    assert regions(main) == 2  # packing of all keys, and rows


def test_an_output_is_written_by_one_batch_entry_only() -> None:
    """Two threads must not write one output, even the same numbers."""

    def build(b: GraphBuilder) -> None:
        k = b.op("Sigmoid", b.input((1, 1, 64, 512)))
        b.op("MatMul", b.input((1, 8, 512, 64)), k)
        b.end(k)

    g, _ = compiled(build)
    assert len(nests(g)) == 2


def test_an_odd_number_of_batch_entries_leaves_no_core_idle() -> None:
    def build(b: GraphBuilder) -> None:
        attend(b, scores(b, (5, 1, 128, 64), (5, 1, 128, 64)), b.input((5, 1, 128, 64)))

    busy, idle = (compiled(build, replace(TARGET, cores=cores))[0] for cores in (2, 4))
    assert [len(n.stages) for n in nests(busy)] == [3]
    assert [len(n.stages) for n in nests(idle)] == [1, 2]
