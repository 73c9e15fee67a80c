"""Reductions of everything, or of all axes but the last (vectors of channels): rows are split into tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.lower import parallel_reduction
from benchgraph.machine.target import LINE_BYTES, Target
from benchgraph.schedule.elements import MOST_TASKS
from benchgraph.tir.build import f32, seq, type_of
from benchgraph.tir.ir import Alloc, For, Func, LoopKind, Scope, Stmt, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import children, loads, walk
from tests.support.graph_ir import nests, scheduled
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import lowered, tir

Build = Callable[[GraphBuilder], object]
EVEN, RAGGED = (4, 32, 32, 64), (3, 53, 41, 19)  # tasks of as many rows, whole vectors; neither


def backward(shape: tuple[int, ...], dtype: DType = DType.f32) -> Build:
    def build(b: GraphBuilder) -> None:
        data, stats = (b.input(shape, dtype) for _ in range(2)), (b.input(shape[-1:]) for _ in range(3))
        b.outs("BatchNormTrainingBackward", *data, *stats, dtypes=(dtype, DType.f32, DType.f32), epsilon=0.1, data_format="NXC")

    return build


def training(shape: tuple[int, ...], dtype: DType = DType.f32) -> Build:
    def build(b: GraphBuilder) -> None:
        ins = (b.input(shape, dtype), *(b.input(shape[-1:]) for _ in range(4)))
        b.outs("BatchNormForwardTraining", *ins, dtypes=(dtype, *(DType.f32,) * 4), epsilon=0.1, momentum=0.5, data_format="NXC")

    return build


def op(kind: str, shape: tuple[int, ...], **attrs: object) -> Build:
    return lambda b: b.op(kind, b.input(shape), **attrs)


CASES: dict[str, Build] = {
    "backward": backward(EVEN),
    "backward, ragged": backward(RAGGED),
    "backward, bf16": backward(RAGGED, DType.bf16),
    "backward, one image": backward((1, 90, 1, 2000)),
    "training": training(EVEN),
    "training, ragged": training(RAGGED),
    "training, bf16": training(RAGGED, DType.bf16),
    "gradient of a bias": op("BiasAddBackward", RAGGED, data_format="NXC"),
    "sum": op("ReduceSum", RAGGED, axes=[0, 1, 2], keep_dims=False),
    "mean": op("ReduceMean", EVEN, axes=[0, 1, 2], keep_dims=True),
    "maximum": op("ReduceMax", RAGGED, axes=[0, 1, 2], keep_dims=True),
    "L2": op("ReduceL2", RAGGED, axes=[0, 1, 2], keep_dims=True),
    "softmax of columns": op("SoftMax", (6519, 19), axis=0),
    "two channels": op("ReduceSum", (60000, 2), axes=[0]),
    "one channel": op("ReduceMean", (400, 250, 1), axes=[0, 1]),
    "columns of several entries": op("ReduceSum", (3, 2000, 60), axes=[1]),
}


def distance(b: GraphBuilder) -> None:
    """The sum of squares of src minus a number per channel: the rows of the two operands do not collapse."""
    b.op("ReduceL2", b.op("Subtract", b.input(RAGGED), b.input(RAGGED[-1:])), axes=[0, 1, 2, 3])


def far(b: GraphBuilder) -> None:
    b.op("ReduceL2", b.op("Subtract", b.input((20, 10007)), b.input((10007,))), axes=[0, 1])


def spread(b: GraphBuilder) -> None:
    x = b.input((40, 2801))
    squares = b.op("Square", b.op("Subtract", x, b.op("ReduceMean", x, axes=[0, 1], keep_dims=True)))
    b.op("Multiply", squares, b.op("ReduceSum", squares, axes=[0, 1], keep_dims=True))


EVERYTHING: dict[str, Build] = {
    "all": op("ReduceSum", RAGGED, axes=[0, 1, 2, 3]),
    "all, kept": op("ReduceMax", EVEN, axes=[0, 1, 2, 3], keep_dims=True),
    "a vector": op("ReduceL1", (100003,), axes=[0]),
    "a vector's norm": op("SoftMax", (100003,), axis=0),
    "a row": op("ReduceMean", (1, 200000), axes=[1]),
    "rows that channels are taken off": distance,
    "few rows that columns are taken off": far,
    "more than one pass": spread,
    "columns that are short": op("ReduceMin", (50001, 2), axes=[0, 1]),
    "columns that are short, of one channel": op("ReduceMin", (50001, 2, 1), axes=[0, 1]),
}
CASES |= EVERYTHING


def main(build: Build, target: Target = TARGET) -> Func:
    return tir(build, target=target)


@pytest.mark.parametrize("name", CASES)
def test_reductions_are_right(name: str) -> None:
    assert matches_reference(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_tasks_do_not_depend_on_the_number_of_cores(name: str) -> None:
    """So the order of additions, and every bit, is the same for all numbers of threads. Columns can be cut anywhere."""
    one, many = (
        [n.schedule for n in nests(scheduled(CASES[name], replace(TARGET, cores=cores))) if n.schedule is not None] for cores in (1, 16)
    )
    assert [s for s in one if s.split] == [s for s in many if s.split]
    assert any(s.parallel for s in one)


PASSES = {"backward": 2, "training": 3, "gradient of a bias": 1, "sum": 1, "L2": 1, "all": 1, "more than one pass": 3}


@pytest.mark.parametrize(("name", "passes"), PASSES.items())
def test_each_pass_over_the_data_is_parallel(name: str, passes: int) -> None:
    f = main(CASES[name])
    spread = [s for s in walk(f.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert len(spread) == passes
    large = {p.name for p in f.params if prod(p.shape) >= prod(EVEN)}
    outside = [s for s in children(f.body) if s not in spread]
    assert not {x.tensor.name for s in outside for c in walk(s) for x in loads(c)} & large


def test_shared_inputs_are_cut_finer() -> None:
    """So a task's part of both inputs stays in L2 between the two nests."""

    def build(b: GraphBuilder) -> None:
        shape, stats = (64, 64, 20, 112), (64, 64, 20)
        ins = [b.input(s) for s in (shape, shape, stats, stats, (112,), (112,))]
        b.outs("LayerNormBackward", *ins, dtypes=(DType.f32,) * 3)

    (schedule,) = (n.schedule for n in nests(scheduled(build)) if n.schedule is not None and n.schedule.split)
    (rows,) = schedule.sizes(schedule.split)
    assert 2 * 4 * 112 * rows <= TARGET.l2_bytes / 2


@pytest.mark.parametrize("build", [backward(EVEN), training(EVEN), backward((8, 32, 32, 64)), backward(EVEN, DType.bf16)])
def test_temporaries_hold_only_partial_sums(build: Build) -> None:
    """The second pass recomputes values of the first."""
    assert main(build).shared_bytes <= 4 * 64 * (2 * MOST_TASKS + 16)


@pytest.mark.parametrize("name", EVERYTHING)
def test_partial_sums_have_cache_lines_of_their_own(name: str) -> None:
    """Cores that write to the same line would wait for it."""
    f = lowered(CASES[name]).main
    small = (s.tensor for s in walk(f.body) if isinstance(s, Alloc) and prod(s.tensor.shape) <= 16 * MOST_TASKS)
    parts = [t for t in small if len(t.shape) == 2 and t.shape[0] > 1]
    assert parts
    assert all(t.dtype.nbytes(t.shape[-1]) == LINE_BYTES for t in parts)


@pytest.mark.parametrize("name", EVERYTHING)
def test_full_reductions_are_vectorised(name: str) -> None:
    f = main(CASES[name])
    (task, *_) = (s for s in walk(f.body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    assert any(type_of(x)[1] == TARGET.lanes for s in walk(task) for x in loads(s) if x.tensor.scope is Scope.param)


def test_expensive_values_are_stored() -> None:
    """A softmax of columns computes its exponentials once, in full vectors and in the masked rest."""
    text = print_tir(main(CASES["softmax of columns"]))
    assert text.count("exp(") == 1 + bool(RAGGED[-1] % TARGET.lanes)


def test_results_of_long_chains_are_stored() -> None:
    """It is not recomputed, nor searched to its end for each reader."""

    def build(b: GraphBuilder) -> None:
        x = b.input((6000, 19))
        for _ in range(40):
            x = b.op("Add", x, x)
        b.op("Subtract", x, b.op("ReduceSum", x, axes=[0], keep_dims=True))

    assert main(build).shared_bytes >= 6000 * 19 * 4
    assert matches_reference(build)


def test_vectors_run_along_the_channels() -> None:
    stores = [s for s in walk(main(backward(EVEN)).body) if isinstance(s, Store)]
    assert stores
    assert all(type_of(s.value)[1] == TARGET.lanes for s in stores)


def test_sums_of_the_same_input_share_a_nest() -> None:
    """The sums of dy and of dy times x."""
    folding = [n for n in nests(scheduled(backward(EVEN))) if any(o.kind == "ReduceSum" for o in n.ops)]
    assert [sum(o.kind == "ReduceSum" for o in n.ops) for n in folding] == [2]


def test_small_nests_are_serial() -> None:
    assert "parallel for" not in print_tir(main(op("ReduceSum", (500, 64), axes=[0])))


@pytest.mark.parametrize("fault", ["a part that is not added", "a part that begins elsewhere"])
def test_fault_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, is_lost = parallel_reduction.ParallelReductionRegion.finish, fault == "a part that is not added"

    def broken(self: parallel_reduction.ParallelReductionRegion) -> Stmt:
        for phase, parts in self.parts.items():
            stores = ((first, added) for first, added in parts if isinstance(first, Store))
            self.parts[phase] = [(first, seq()) if is_lost else (replace(first, value=f32(1.0)), added) for first, added in stores]
        return finish(self)

    monkeypatch.setattr(parallel_reduction.ParallelReductionRegion, "finish", broken)
    columns = 20 + len(fault)  # another shape for each fault, because compiled code is cached
    assert not matches_reference(op("ReduceSum", (3, 53, 41, columns), axes=[0, 1, 2]))
