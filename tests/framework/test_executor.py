"""The executor: graphs through the framework, compared with the reference; steady state; opaque values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchgraph.core.errors import Unimplemented
from benchgraph.core.files import data_dir
from benchgraph.framework import program
from benchgraph.framework.executor import Executor
from benchgraph.framework.kernel import Kernel
from benchgraph.framework.kernel_cache import set_kernel_cache_capacity
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import OpReq
from benchgraph.graph import Graph, GraphBuilder, load, with_batch
from benchgraph.library.partition import Partition
from benchgraph.partition.ir import Policy
from tests.framework.models import arrays, mlp, panelled, right

POLICIES = list(Policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_second_run_makes_nothing_anew(policy: Policy) -> None:
    """I5, I6: no compilation, no weight converted, no temporary allocated, the same bits."""
    g = mlp()
    values, inputs, params = arrays(g)
    weights = panelled(params)
    executor = Executor(g, params, policy=policy)
    first = {id: a.numpy() for id, a in executor.forward(inputs).items()}
    c = executor.last.counters
    assert c.misses == len(executor.last.partitions)
    assert c.weight_reorders == c.reorders == weights
    for _ in range(4):
        outs = executor.forward(inputs)
        c = executor.last.counters
        assert (c.misses, c.reorders, c.weight_reorders, c.spills, c.lazy_reorders) == (0, 0, 0, 0, 0)
        assert c.hits == len(executor.last.partitions)
        assert all(a.numpy().tobytes() == first[id].tobytes() for id, a in outs.items())
    right(g, outs, values)


GRAPHS = data_dir("inputs") / "graph"
CASES = ["attention", "quantised_mlp", "pattern/mlp_residual", "pattern/two_islands", "pattern/mlp_backward", "pattern/matmul_interior_end"]


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES)
def test_graphs_through_the_framework(case: str, policy: Policy) -> None:
    g = with_batch(load(Path(GRAPHS / f"{case}.json")), 2) if case == "attention" else load(Path(GRAPHS / f"{case}.json"))
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    for _ in range(2):
        right(g, executor.forward(inputs), values)
    assert executor.last.counters.lazy_reorders == 0
    assert not executor.last.counters.fallbacks


@pytest.mark.usefixtures("in_blocks")
def test_values_between_partitions_are_opaque_and_only_there() -> None:
    """I19: blocks where partitions alone read, row-major where the graph ends."""
    g = mlp(rows=5)  # which no other test has compiled
    _, inputs, params = arrays(g)
    for propagates in (True, False):
        executor = Executor(g, params, policy=Policy.post_ops, propagates=propagates)
        outs = executor.forward(inputs)
        (workspace,) = executor._per_thread.workspaces.values()
        assert [a.is_opaque for a in workspace.values.values()] == [propagates]
        assert not any(a.is_opaque for a in outs.values())


# ---- fallback --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("op", range(5))
def test_each_op_by_numpy_and_its_neighbours_by_the_library(op: int, policy: Policy) -> None:
    """I11: with integers for data every way gives the same numbers; nothing opaque reaches numpy."""
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy, fallback={op})
    for _ in range(2):
        right(g, executor.forward(inputs), values)
        c = executor.last.counters
        assert list(c.fallbacks) == [g.ops[op].label]
        assert c.offloaded == 4
        assert c.lazy_reorders == 0
        assert params[1].is_opaque is (op != 0), "a weight that numpy reads is left alone"


def test_all_by_numpy() -> None:
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, fallback={op.kind for op in g.ops})
    right(g, executor.forward(inputs), values)
    assert len(executor.last.counters.fallbacks) == 5
    assert executor.last.partitions == ()


def refusing(monkeypatch: pytest.MonkeyPatch, kind: str, *, after: int = 0) -> None:
    """The library says that it cannot compile partitions with such an op, but for the first `after` times that it is asked."""
    asked = 0

    def kernel(partition: Partition, *rest: object) -> Kernel:
        nonlocal asked
        if any(op.kind == kind for op in partition.description.ops):
            asked += 1
            if asked > after:
                raise Unimplemented("no code for it", where="compile")
        return Kernel(partition, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(program, "Kernel", kernel)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["ReLU", "Sigmoid", "MatMul"])
def test_numpy_runs_what_the_library_cannot_compile(kind: str, policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours are cut and compiled without it, so nothing opaque reaches it."""
    refusing(monkeypatch, kind)
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    right(g, executor.forward(inputs), values)
    c = executor.last.counters
    assert not params[1].is_opaque or kind != "MatMul"
    assert {op.label for op in g.ops if op.kind == kind} <= set(c.fallbacks)
    assert set(c.fallbacks.values()) == {"compile: no code for it"}
    assert c.lazy_reorders == 0
    assert c.offloaded + len(c.fallbacks) == 5


@pytest.mark.usefixtures("in_blocks")
def test_numpy_runs_what_the_library_cannot_compile_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled when the program was built, refused at a later run, with opaque values on both sides: they are converted, and counted."""
    refusing(monkeypatch, "ReLU", after=1)
    g = mlp(rows=6)  # which no other test has compiled
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=Policy.one_op_each)
    right(g, executor.forward(inputs), values)
    assert not executor.last.counters.fallbacks
    set_kernel_cache_capacity(0)
    right(g, executor.forward(inputs), values)
    c = executor.last.counters
    assert list(c.fallbacks) == ["op 1: ReLU"]
    assert c.lazy_reorders == 1


def test_an_op_of_the_frameworks_own() -> None:
    """A kernel by op id; to the library the op is a Wildcard, whatever its kind."""
    b = GraphBuilder()
    x, w = b.input((4, 64)), b.constant((64, 64))
    y = b.op("MatMul", b.op("Abs", b.op("MatMul", x, w)), w)
    g = b.graph()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, kernels={1: lambda ins: [np.sort(ins[0], axis=-1)]})
    got = executor.forward(inputs)[y.id].numpy()
    want = np.sort(values[0] @ values[1], axis=-1).astype(np.float64) @ values[1]  # beyond 2**24, where f32 rounds whole numbers
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert executor.last.counters.fallbacks == {"op 1: Abs": "the framework has a kernel of its own"}


# ---- outputs and requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("req", OpReq)
def test_outputs_of_the_user_as_requested(req: OpReq, policy: Policy) -> None:
    """Into a row of a larger array, whose other rows stay."""
    g = mlp()
    _, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    (out,) = g.outputs
    want = executor.forward(inputs)[out.id].numpy()
    whole = NDArray.of(np.full((3, *want.shape), 2, np.float32), name="whole")
    for _ in range(2):
        executor.forward(inputs, {out.id: whole.at(1)}, {out.id: req})
    expected = {OpReq.null: np.full_like(want, 2), OpReq.add_to: want + (want + 2)}.get(req, want)
    np.testing.assert_allclose(whole.numpy()[1], expected, rtol=1e-6)
    assert (whole.numpy()[::2] == 2).all()


@pytest.mark.parametrize("req", [OpReq.write_to, OpReq.write_inplace, OpReq.add_to])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("terms", range(2, 7))
def test_an_output_over_an_input_of_the_graph(terms: int, policy: Policy, req: OpReq) -> None:
    """I12 (B7): nothing is written before everything has been read; add_to adds once."""
    b = GraphBuilder()
    ins = [b.input((3, 8)) for _ in range(terms)]
    y = b.op("Add", ins[0], ins[1])
    for t in ins[2:]:
        y = b.op("Add", y, t)
    g = b.graph()
    values = {t.id: np.arange(24, dtype=np.float32).reshape(3, 8) + t.id for t in ins}
    for over in range(terms):
        inputs = {id: NDArray.of(v, name=f"tensor {id}") for id, v in values.items()}
        Executor(g, policy=policy).forward(inputs, {y.id: inputs[over]}, {y.id: req})
        want = sum(values.values()) + (values[over] if req is OpReq.add_to else 0)
        np.testing.assert_array_equal(inputs[over].numpy(), want)


def test_an_output_that_other_steps_read() -> None:
    """A request for it does not reach them: they read the value, not the array."""
    b = GraphBuilder()
    x = b.input((3, 8))
    y = b.op("ReLU", x)
    b.end(y)
    z = b.op("Square", y)
    g = b.graph()
    values, inputs, _ = arrays(g)
    for policy in POLICIES:
        kept = NDArray.of(np.ones((3, 8), np.float32), name="kept")
        outs = Executor(g, policy=policy).forward(inputs, {y.id: kept}, {y.id: OpReq.add_to})
        np.testing.assert_array_equal(kept.numpy(), np.maximum(values[0], 0) + 1)
        np.testing.assert_array_equal(outs[z.id].numpy(), np.maximum(values[0], 0) ** 2)


def test_exported_memory_stays_valid() -> None:
    """I18 (B11): numpy() owns its memory; a later run does not change it."""
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params)
    (out,) = g.outputs
    first = executor.forward(inputs)[out.id].numpy()
    kept = first.copy()
    inputs[0].copy_from(-values[0])
    second = executor.forward(inputs)[out.id].numpy()
    np.testing.assert_array_equal(first, kept)
    assert (second != first).any()


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_other_shapes_are_other_programs() -> None:
    """Every batch size is compiled once, and found again."""
    g = mlp()
    values, _, params = arrays(g)
    executor = Executor(g, params, policy=Policy.post_ops)
    for turn in range(2):
        for rows in (4, 1, 7):
            x = np.resize(values[0], (rows, 96))
            outs = executor.forward({0: NDArray.of(x, name="x")})
            assert (executor.last.counters.misses > 0) is (turn == 0)
            right(mlp(rows), outs, values | {0: x})


def empty() -> Graph:
    b = GraphBuilder()
    b.op("ReLU", b.op("Add", b.input((0, 4)), b.input((4,))))
    return b.graph()


def scalar() -> Graph:
    b = GraphBuilder()
    b.op("ReLU", b.op("Add", b.input(()), b.input(())))
    return b.graph()


def deep() -> Graph:
    b = GraphBuilder()
    b.op("Square", b.op("Add", b.input((1, 2) * 6), b.input((2,))))
    return b.graph()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("make", [empty, scalar, deep])
@pytest.mark.parametrize("fallback", [(), ("Add",)])
def test_no_elements_no_dims_and_many_dims(make, policy: Policy, fallback: tuple[str, ...]) -> None:
    """I16 (B13)."""
    g = make()
    values, inputs, params = arrays(g)
    right(g, Executor(g, params, policy=policy, fallback=fallback).forward(inputs), values)


# ---- memory ----------------------------------------------------------------------------------------------------------


def chain(length: int = 6) -> Graph:
    b = GraphBuilder()
    t = b.input((8, 16))
    for n in range(length):
        t = b.op("Abs" if n % 2 else "Square", t)
    return b.graph()


def test_a_chain_of_values_lives_in_one_slot_in_place() -> None:
    """I17: what the library may overwrite, it does; nothing is copied."""
    g = chain()
    values, inputs, _ = arrays(g)
    executor = Executor(g, policy=Policy.one_op_each)
    for _ in range(2):
        right(g, executor.forward(inputs), values)
        c = executor.last.counters
        assert executor.last.arena_bytes == 8 * 16 * 4
        assert (c.copies_back, c.temp_bytes) == (0, 0)


def test_values_that_live_together_have_memory_of_their_own() -> None:
    """I17: a value that is read at the end survives what is made and forgotten meanwhile, in the library's steps and in numpy's."""
    b = GraphBuilder()
    x = b.input((8, 16))
    kept = b.op("Abs", x)
    t = kept
    for _ in range(4):
        t = b.op("Square", b.op("Add", t, x))
    b.op("Subtract", t, kept)
    g = b.graph()
    values = {x.id: np.linspace(-0.5, 0.5, 128, dtype=np.float32).reshape(8, 16)}
    for fallback in ((), ("Square",), ("Add", "Subtract")):
        executor = Executor(g, policy=Policy.one_op_each, fallback=fallback)
        for _ in range(2):
            right(g, executor.forward({x.id: NDArray.of(values[x.id], name="x")}), values)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_output_fed_back_as_an_input(policy: Policy) -> None:
    """B7: the array is the thread's own, and steps after the one that writes it read what it held."""
    b = GraphBuilder()
    x = b.input((3, 8))
    y = b.op("Add", x, x)
    b.end(y)
    z = b.op("Add", b.op("Square", y), x)
    g = b.graph()
    executor = Executor(g, policy=policy)
    state, want = NDArray.of(np.ones((3, 8), np.float32), name="x"), 1.0
    for _ in range(4):
        outs = executor.forward({x.id: state})
        np.testing.assert_array_equal(outs[z.id].numpy(), np.full((3, 8), (2 * want) ** 2 + want, np.float32))
        state, want = outs[y.id], 2 * want
        assert (state.numpy() == want).all()
