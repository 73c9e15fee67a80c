"""The backward graph of attention: gradients of keys and values are summed while the queries' rows are in cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.graph.build import GraphBuilder
from benchgraph.lower.split_k import SplitKProduct
from benchgraph.lower.storage import ZERO
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir.build import seq
from benchgraph.tir.ir import For, LoopKind, Seq
from tests.lower.attention_backward import TARGET, assert_right, built
from tests.support.graph_ir import nests, scheduled
from tests.support.partitions import partition_of
from tests.support.tensor_ir import tir


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queries": 128, "keys": 64},
        {"queries": 1, "keys": 5},
        {"queries": 131, "keys": 1},
        {"d": 70},
        {"batch": (2, 2, 3), "groups": (2, 2, 1)},
        {"dropped": True},
    ],
    ids=str,
)
def test_gradients_are_right(options: dict[str, object]) -> None:
    assert_right(built(**options))


@pytest.mark.parametrize("options", [{}, {"dropped": True}, {"queries": 1, "keys": 577}], ids=str)
def test_backward_is_one_nest_and_one_region(options: dict[str, object]) -> None:
    partition = partition_of(built(**options))
    (nest,) = nests(scheduled(partition, TARGET))
    assert sum(stage.reduces_rows for stage in nest.stages) == 2
    main = tir(partition, target=TARGET)
    top = main.body.stmts if isinstance(main.body, Seq) else (main.body,)
    assert [isinstance(s, For) and s.kind is LoopKind.parallel for s in top] == [True]


def test_head_groups_are_summed_in_the_same_region() -> None:
    partition = partition_of(built(batch=(2, 2, 3), groups=(2, 2, 1), queries=128, keys=128, d=64))
    assert len(nests(scheduled(partition, TARGET))) == 3
    main = tir(partition, target=TARGET)
    assert isinstance(main.body, For)
    assert main.shared_bytes == 0


def thread_bytes(**options: object) -> int:
    return tir(built(**options), target=TARGET).thread_bytes


def test_temporaries_grow_neither_with_the_batch_nor_with_the_square_of_the_sequence() -> None:
    assert thread_bytes(batch=(4, 4)) == thread_bytes(batch=(16, 16))
    for n in (512, 1024, 2048):
        keys_and_values = 2 * n * 64 * 4
        assert thread_bytes(batch=(4, 4), queries=n, keys=n, d=64) <= keys_and_values + 2 * TARGET.l2_bytes


def test_one_entry_keeps_its_rows_parallel() -> None:
    """Threads cannot add to the same sum."""
    found = nests(scheduled(built(batch=(1, 1), queries=256, keys=256), TARGET))
    assert not any(stage.reduces_rows for nest in found for stage in nest.stages)
    assert_right(built(batch=(1, 1), queries=256, keys=256))


def test_weight_gradients_are_not_fused() -> None:
    b = GraphBuilder()
    x, dy = b.input((256, 32)), b.input((256, 48))
    b.op("MatMul", x, b.op("Tanh", b.op("MatMul", x, b.input((32, 48)))), transpose_a=True)
    b.op("ReLU", dy)
    (partition,) = (p for p in partitions(b.graph(), Policy.fused) if len(p.ops) > 1)
    assert not any(stage.reduces_rows for nest in nests(scheduled(partition, TARGET)) for stage in nest.stages)


def test_missing_clear_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SplitKProduct, "clear", lambda self: seq())
    with pytest.raises(AssertionError):
        assert_right(built())


def test_adding_the_wrong_rows_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    add_task = SplitKProduct.add_task

    def add_first_task(self: SplitKProduct) -> object:
        task, self.task = self.task, replace(self.task, row_block=ZERO)
        try:
            return add_task(self)
        finally:
            self.task = task

    monkeypatch.setattr(SplitKProduct, "add_task", add_first_task)
    with pytest.raises(AssertionError):
        assert_right(built(queries=128))
