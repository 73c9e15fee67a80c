"""Weights: converted once for inference, back for training, and never stale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray as Array

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.tensor import PropertyType
from benchgraph.framework.counters import counted
from benchgraph.framework.dispatch import invoke
from benchgraph.framework.executor import Executor
from benchgraph.framework.memory_desc import describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.prepack import prepack_
from benchgraph.framework.request import OpReq, output
from benchgraph.framework.temp_space import TempSpace
from benchgraph.graph import Graph, GraphBuilder, Op
from benchgraph.library.cache import get_constant_tensor_cache_capacity, set_constant_tensor_cache_capacity
from benchgraph.partition.ir import Policy
from tests.framework.models import arrays, mlp, panelled, right

POLICIES = list(Policy)
Update = Callable[[NDArray, Array], None]


def assign(w: NDArray, values: Array) -> None:
    w.copy_from(values)


def assign_rows(w: NDArray, values: Array) -> None:
    """A view at a time."""
    half = w.shape[0] // 2
    w.slice(0, half).copy_from(values[:half])
    w.slice(half, w.shape[0]).copy_from(values[half:])


def by_an_op(w: NDArray, values: Array) -> None:
    """As an optimizer does: an op of the framework writes the parameter."""
    invoke(Op(0, "Reorder"), [NDArray.of(values, w.dtype, "new")], [w], OpReq.write_to)


def by_adding(w: NDArray, values: Array) -> None:
    delta = values.astype(np.float64) - w.numpy().astype(np.float64)
    invoke(Op(0, "Reorder"), [NDArray.of(delta, w.dtype, "delta")], [w], OpReq.add_to)


UPDATES = [assign, assign_rows, by_an_op, by_adding]


def transposed() -> Graph:
    """A weight that the library packs for itself: it is constant, and transposed."""
    b = GraphBuilder()
    b.op("MatMul", b.input((4, 32)), b.constant((128, 32)), transpose_b=True)
    return b.graph()


def convolution() -> Graph:
    b = GraphBuilder()
    attrs = {
        "strides": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 1],
        "weights_format": "OIX",
        "data_format": "NCX",
    }
    b.op("Convolution", b.input((1, 8, 6, 6)), b.constant((16, 8, 3, 3)), b.constant((16,)), **attrs)
    return b.graph()


def normalised() -> Graph:
    """Constants folded into constants."""
    b = GraphBuilder()
    x = b.input((2, 4, 3, 3))
    b.op("BatchNormInference", x, *(b.constant((4,)) for _ in range(4)), epsilon=0.1, data_format="NCX")
    return b.graph()


@pytest.mark.parametrize("shared", [0, 16], ids=["own constants", "shared constants"])
@pytest.mark.parametrize("policy", [Policy.fused, Policy.one_op_each])
@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [mlp, transposed, convolution, normalised], ids=lambda f: f.__name__)
def test_a_new_value_is_seen_on_every_path(make: Callable[[], Graph], update: Update, policy: Policy, shared: int) -> None:
    """I7 (B10): packed by the framework, packed by the library, folded: no run after an update uses what was computed before it."""
    before = get_constant_tensor_cache_capacity()
    set_constant_tensor_cache_capacity("cpu", shared)
    try:
        g = make()
        values, inputs, params = arrays(g)
        executor = Executor(g, params, policy=policy)
        for seed in (2, 3):
            right(g, executor.forward(inputs), values)
            for id, w in params.items():
                fresh = np.abs(np.roll(values[id], seed, axis=-1)) + np.float32(seed)
                update(w, fresh)
                values = values | {id: fresh}
            right(g, executor.forward(inputs), values)
    finally:
        set_constant_tensor_cache_capacity("cpu", before)


def test_a_batch_of_views_of_constants() -> None:
    """What is lent to the library as constant is not written: an update moves to other memory, a run without one stays where it is."""
    w = NDArray.of(np.ones((4, 4), np.float32), name="w")
    first = w.chunk.lend("")
    w.copy_from(np.full((4, 4), 2, np.float32))
    second = w.chunk.store("")
    assert second.buffer is not first.buffer
    assert (first.desc.array(first.data) == 1).all()
    assert w.chunk.lend("").buffer is second.buffer


def test_memory_of_the_users_is_no_constant_unless_it_is_frozen() -> None:
    """The user may write it at any time, and does here."""
    g = mlp()
    values, inputs, _ = arrays(g)
    mine = {id: values[id].copy() for id in (1, 2, 3)}
    for frozen in (False, True):
        params = {id: NDArray.over(a, f"tensor {id}", frozen=frozen) for id, a in mine.items()}
        executor = Executor(g, params)
        right(g, executor.forward(inputs), values | mine)
        assert executor.last.counters.weight_reorders == 0
        if not frozen:
            mine[1][...] += 1
            right(g, executor.forward(inputs), values | mine)


# ---- there and back --------------------------------------------------------------------------------------------------


def test_inference_training_inference_and_saving() -> None:
    """I8: the bits of the weights survive; they are packed at inference, row-major in training, once each time."""
    g = mlp()
    values, inputs, params = arrays(g)
    executor = Executor(g, params)
    for is_train in (False, False, True, True, False):
        right(g, executor.forward(inputs, is_train=is_train), values)
        assert params[1].is_opaque is not is_train
        assert all(w.numpy().tobytes() == values[id].tobytes() for id, w in params.items())
    versions = {w.version for w in params.values()}
    assert versions == {1}, "a change of layout is no new value"


def test_conversions_are_counted_once() -> None:
    g = mlp()
    _, inputs, params = arrays(g)
    weights = panelled(params)
    executor = Executor(g, params)
    found = []
    for is_train in (False, False, True, True, False):
        executor.forward(inputs, is_train=is_train)
        found.append(executor.last.counters.weight_reorders)
    assert found == [weights, 0, weights, 0, weights]


def backward() -> Graph:
    """The gradients of y = relu(x w): by w, to be summed up, and by x."""
    b = GraphBuilder()
    x, w, dy = b.input((6, 96)), b.constant((96, 128)), b.input((6, 128))
    h = b.op("MatMul", x, w)
    dh = b.op("ReLUBackward", h, dy)
    b.op("MatMul", x, dh, transpose_a=True, name="dw")
    b.op("MatMul", dh, w, transpose_b=True, name="dx")
    return b.graph()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lies", [None, Layout((1, 0)), Layout((1, 0), ((1, 64),))], ids=str)
def test_gradients_are_row_major(policy: Policy, lies: Layout | None) -> None:
    """I8: written or summed up, whatever layout the array had before; a second step adds a second time."""
    g = backward()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    dw = next(op.outputs[0].id for op in g.ops if op.name == "dw")
    plain = executor.forward(inputs, is_train=True)[dw].numpy()
    start = NDArray.of(np.ones((96, 128), np.float32), name="dw", layout=lies)
    want = start.numpy()
    for _ in range(2):
        executor.forward(inputs, {dw: start}, {dw: OpReq.add_to}, is_train=True)
        assert not start.is_opaque
        want += plain
        np.testing.assert_array_equal(start.numpy(), want)
    right(g, executor.forward(inputs, is_train=True), values)


def test_a_blocked_gradient_is_copied() -> None:
    """create_weight_grad: only row-major memory may be the array's own."""
    desc = describe(DType.f32, (8, 16), Layout((1, 0), ((1, 8),)))
    for default_only in (False, True):
        grad = NDArray.empty((8, 16), name="grad")
        with TempSpace().op("dw") as scope, output(grad, desc, OpReq.write_to, scope, default_only=default_only) as memory:
            memory.array[...] = 3
        assert grad.is_opaque is not default_only
        assert (grad.numpy() == 3).all()


# ---- shared weights --------------------------------------------------------------------------------------------------


def shared() -> Graph:
    """A weight that one product reads as it is and another transposed."""
    b = GraphBuilder()
    x, w = b.input((4, 128)), b.constant((128, 128))
    b.op("MatMul", b.op("MatMul", x, w), w, transpose_b=True)
    return b.graph()


def tied() -> Graph:
    """A weight that two products read alike."""
    b = GraphBuilder()
    x, w = b.input((4, 128)), b.constant((128, 128))
    b.op("MatMul", b.op("ReLU", b.op("MatMul", x, w)), w)
    return b.graph()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("make", "conversions"), [(shared, 0), (tied, 1)])
def test_a_weight_with_two_readers(make: Callable[[], Graph], conversions: int, policy: Policy) -> None:
    """I9: converted at most once, and only if that is what all of them want."""
    g = make()
    values, inputs, params = arrays(g)
    executor = Executor(g, params, policy=policy)
    total = 0
    for _ in range(3):
        right(g, executor.forward(inputs), values)
        total += executor.last.counters.weight_reorders
    assert total == conversions


def test_two_models_that_want_other_layouts_of_one_weight() -> None:
    """I9: the first one's choice stands; the other has a copy at each of its runs, and nothing goes to and fro."""
    values = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    w = NDArray.of(values, name="w")
    first, other = (describe(DType.f32, (128, 64), Layout((1, 0), ((1, n),))) for n in (8, 16))
    assert prepack_(w, first)
    store = w.chunk.store("")
    for _ in range(3):
        assert not prepack_(w, other)
        with TempSpace().op("product") as scope, counted() as c:
            packed = w.reordered(other, scope)
            assert packed.desc == other
            np.testing.assert_array_equal(packed.array[0, :, :8], values[:, :8])
        assert c.reorders == 1
        assert w.chunk.store("") is store


def test_a_weight_the_graph_does_not_call_constant_is_one_when_it_is_a_parameter() -> None:
    b = GraphBuilder()
    b.op("MatMul", b.input((4, 96)), b.input((96, 128), property_type=PropertyType.variable))
    g = b.graph()
    values, inputs, _ = arrays(g)
    executor = Executor(g, {1: inputs.pop(1)})
    right(g, executor.forward(inputs), values)
    assert executor.last.counters.weight_reorders == 1


def test_padding_of_a_packed_weight_is_zero() -> None:
    """R6: 100 columns in panels of 64."""
    b = GraphBuilder()
    b.op("MatMul", b.input((4, 96)), b.constant((96, 100)))
    g = b.graph()
    values, inputs, params = arrays(g)
    right(g, Executor(g, params).forward(inputs), values)
    store = params[1].chunk.store("")
    assert store.desc.nbytes > values[1].nbytes
    assert np.count_nonzero(store.desc.array(store.data)) == np.count_nonzero(values[1])
