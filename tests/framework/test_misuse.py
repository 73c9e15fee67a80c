"""What users do wrong: an error that names the op and the array, and every array as it was."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidDataType, InvalidShape, Status, Unimplemented
from benchgraph.core.layout import Layout
from benchgraph.framework.dispatch import Backend, invoke
from benchgraph.framework.executor import Executor
from benchgraph.framework.kernel import Kernel
from benchgraph.framework.memory_desc import describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.request import OpReq, Output, output
from benchgraph.framework.temp_space import TempSpace
from benchgraph.graph import Op
from benchgraph.library.engine import Engine
from benchgraph.library.partition import Partition
from tests.framework.models import arrays, mlp

BLOCKS = Layout((1, 0), ((1, 8),))
RELU, ADD, MATMUL = (Op(3, kind) for kind in ("ReLU", "Add", "MatMul"))


class World:
    """Arrays to go wrong with; `x` and `y` are f32 4x6, `half` is bf16, `wide` 4x7, `packed` lies in blocks, `locked` is frozen."""

    def __init__(self) -> None:
        values = np.arange(24, dtype=np.float32).reshape(4, 6)
        self.x, self.y = NDArray.of(values, name="x"), NDArray.of(values + 1, name="y")
        self.half, self.wide = NDArray.of(values, DType.bf16, "half"), NDArray.of(np.ones((4, 7), np.float32), name="wide")
        self.packed = NDArray.of(values, name="packed", layout=BLOCKS)
        self.locked = NDArray.over(values.copy(), "locked", frozen=True)
        self.nibbles = NDArray.of(np.ones((4, 6)), DType.s4, "nibbles")
        self.gone = NDArray.of(values, name="gone")
        self.gone.free()

    @property
    def state(self) -> list[tuple[bytes, object, int]]:
        alive = [a for a in vars(self).values() if isinstance(a, NDArray) and not a.chunk.is_free]
        return [(a.numpy().tobytes(), a.desc, a.version) for a in alive]


Misuse = Callable[[World], object]
MISUSES: list[tuple[str, Misuse, str, type[BenchgraphError]]] = [
    (
        "a request that is none",
        lambda w: invoke(RELU, [w.x], [w.y], "write_to"),  # type: ignore[arg-type]
        "op 3: ReLU: 8 requests for 1 outputs; give one request per output",
        InvalidArguments,
    ),
    (
        "a request of another kind",
        lambda w: invoke(RELU, [w.x], [w.y], [None]),  # type: ignore[list-item]
        "op 3: ReLU: array 'y': the request is None; use one of",
        InvalidArguments,
    ),
    ("too few requests", lambda w: invoke(ADD, [w.x, w.x], [w.y], []), "op 3: Add: 0 requests for 1 outputs", InvalidArguments),
    (
        "an output of another shape",
        lambda w: invoke(RELU, [w.x], [w.wide]),
        "op 3: ReLU: array 'wide': its shape is (4, 7), the op makes (4, 6); give an array of that shape",
        InvalidShape,
    ),
    (
        "inputs that do not fit",
        lambda w: invoke(MATMUL, [w.x, w.wide], [w.y]),
        "arrays 'x', 'wide', 'y': op 3: MatMul",
        InvalidShape,
    ),
    (
        "a dtype the op has not",
        lambda w: invoke(RELU, [w.nibbles], [w.y]),
        "arrays 'nibbles', 'y': op 3: ReLU: input src has",
        InvalidDataType,
    ),
    ("an output of another dtype", lambda w: invoke(RELU, [w.x], [w.half]), "arrays 'x', 'half': op 3: ReLU: output dst", InvalidDataType),
    (
        "memory that was freed, read",
        lambda w: invoke(RELU, [w.gone], [w.y]),
        "op 3: ReLU: array 'gone': its memory has been freed; free an array after the last op that uses it",
        InvalidArguments,
    ),
    (
        "memory that was freed, written",
        lambda w: invoke(RELU, [w.x], [w.gone]),
        "op 3: ReLU: array 'gone': its memory has been freed",
        InvalidArguments,
    ),
    ("memory that was freed, asked", lambda w: w.gone.numpy(), "array 'gone': its memory has been freed", InvalidArguments),
    (
        "frozen memory",
        lambda w: invoke(RELU, [w.x], [w.locked]),
        "op 3: ReLU: array 'locked': its memory is frozen: it is constant to its owner; write to another array",
        InvalidArguments,
    ),
    ("frozen memory, assigned", lambda w: w.locked.copy_from(np.zeros((4, 6))), "array 'locked': its memory is frozen", InvalidArguments),
    (
        "foreign memory",
        lambda w: invoke(RELU, [w.x], [np.zeros((4, 6), np.float32)]),  # type: ignore[list-item]
        "op 3: ReLU: output 0 is a ndarray; give an NDArray: NDArray.of copies, NDArray.over shares memory",
        InvalidArguments,
    ),
    (
        "foreign memory with gaps",
        lambda w: NDArray.over(np.zeros((4, 12), np.float32)[:, ::2], "strided"),
        "array 'strided': its memory has byte strides (48, 8); give contiguous, writeable memory, or a copy: NDArray.of",
        InvalidArguments,
    ),
    ("memory of another type", lambda w: NDArray.over([1, 2], "list"), "array 'list': its memory is a list", InvalidArguments),  # type: ignore[arg-type]
    (
        "a dtype that is numpy's alone",
        lambda w: NDArray.of(np.zeros(3), name="d"),
        "array 'd': no dtype is numpy's float64",
        InvalidDataType,
    ),
    ("adding to nibbles", lambda w: _write(w.nibbles, OpReq.add_to), "op 7: Copy: array 'nibbles': nothing adds to s4", Unimplemented),
    (
        "a gradient in place",
        lambda w: _write(w.x, OpReq.write_inplace, default_only=True),
        "op 7: Copy: array 'x': a gradient cannot",
        InvalidArguments,
    ),
    (
        "a handle of an op that is over",
        lambda w: _stale(w),
        "op 1: first: the handle of array 'x' is used after the op has ended",
        InvalidArguments,
    ),
    (
        "a handle of an array that is freed",
        lambda w: _freed_meanwhile(),
        "op 1: first: the memory of array 'brief' has been freed",
        InvalidArguments,
    ),
    ("an output committed twice", lambda w: _twice(w), "op 7: Copy: array 'x': its output is committed twice", InvalidArguments),
    (
        "a kernel on memory that lies otherwise",
        lambda w: _elsewhere(w),
        "op 7: Copy: the memory of array 'packed' is f32 4x6 Ba8b, the kernel was compiled for f32 4x6 ab",
        InvalidArguments,
    ),
    ("rows there are not", lambda w: w.x.slice(2, 9), "array 'x': rows 2 to 9 of shape (4, 6)", InvalidArguments),
    ("dims of other elements", lambda w: w.x.reshape((5, 5)), "array 'x': shape (4, 6) cannot be seen as (5, 5)", InvalidShape),
    ("values of another shape", lambda w: w.x.copy_from(np.zeros(3)), "array 'x': values of shape (3,) for (4, 6)", InvalidShape),
    ("a view reused", lambda w: w.x.slice(1, 2).as_array((2,), DType.f32), "array 'x[1:2]': a view cannot be reused", InvalidArguments),
    (
        "memory too small to be reused",
        lambda w: w.x.as_array((25,), DType.f32),
        "array 'x': 96 bytes cannot be reused as f32 25",
        InvalidArguments,
    ),
    ("a view converted", lambda w: w.x.slice(1, 2).reorder_(BLOCKS), "array 'x[1:2]': a view has no layout of its own", InvalidArguments),
    ("a layout of another rank", lambda w: w.x.reorder_(Layout((0, 2, 1))), "layout acb is for 3 dims, not 2", InvalidArguments),
    ("nibbles in blocks", lambda w: w.nibbles.reorder_(BLOCKS), "s4 in layout Ba8b: two elements share a byte", Unimplemented),
    (
        "a handle of an opaque view",
        lambda w: _view_of_packed(w),
        "op 7: Copy: array 'packed[1:2]': it is a view of memory in layout",
        InvalidArguments,
    ),
    (
        "another array's memory, read",
        lambda w: _overtaken(),
        "op 3: ReLU: array 'second': its memory holds another array, f32 4x6 Ba8b",
        InvalidArguments,
    ),
]


def _write(a: NDArray, req: OpReq, **more: bool) -> None:
    with TempSpace().op("op 7: Copy") as scope, output(a, a.plain_desc, req, scope, **more) as memory:
        memory.data.fill(0)


def _stale(w: World) -> object:
    space = TempSpace()
    with space.op("op 1: first") as scope:
        memory = w.x.memory(scope)
    with space.op("op 2: second"):
        return memory.array


def _freed_meanwhile() -> object:
    brief = NDArray.of([1.0], DType.f32, "brief")
    with TempSpace().op("op 1: first") as scope:
        memory = brief.memory(scope)
        brief.free()
        return memory.array


def _twice(w: World) -> None:
    with TempSpace().op("op 7: Copy") as scope:
        once = Output(w.x, w.x.plain_desc, OpReq.null, scope)
        once.commit()
        once.commit()


def _elsewhere(w: World) -> None:
    op = Op(0, "ReLU", inputs=(w.x.plain_desc.logical(0),), outputs=(w.x.plain_desc.logical(1),))
    kernel = Kernel(Partition(op), op.inputs, op.outputs, Engine())
    with TempSpace().op("op 7: Copy") as scope:
        kernel([w.packed.memory(scope)], [scope.alloc(w.x.plain_desc)], scope)


def _view_of_packed(w: World) -> None:
    with TempSpace().op("op 7: Copy") as scope:
        w.packed.slice(1, 2).memory(scope)


def _overtaken() -> None:
    slot = NDArray.empty((4 * 8 * 4,), DType.u8)
    first, second = slot.as_array((4, 6), DType.f32, "first"), slot.as_array((7,), DType.f32, "second")
    first.copy_from(np.zeros((4, 6)))
    first.reorder_(BLOCKS)
    invoke(RELU, [second], [NDArray.empty((7,))])


@pytest.mark.parametrize(("misuse", "says", "kind"), [m[1:] for m in MISUSES], ids=[m[0] for m in MISUSES])
def test_misuse(misuse: Misuse, says: str, kind: type[BenchgraphError]) -> None:
    world = World()
    before = world.state
    with pytest.raises(kind, match=re.escape(says)) as bad:
        misuse(world)
    assert bad.value.status is not Status.success
    assert world.state == before


@pytest.mark.parametrize("backend", Backend)
def test_a_kernel_that_fails_writes_nothing(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the op."""
    world = World()
    before = world.state

    def fail(*_: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr("benchgraph.framework.kernel.Kernel.__call__", fail)
    monkeypatch.setattr("benchgraph.framework.fallback.reference_kernel", fail)
    for req in OpReq:
        if req is not OpReq.null or backend is Backend.offload:
            with pytest.raises(MemoryError):
                invoke(RELU, [world.x], [world.packed], req, backend=backend)
    assert world.state == before


# ---- the executor ----------------------------------------------------------------------------------------------------

RUNS: list[tuple[str, Callable[[dict[int, NDArray]], object], str]] = [
    ("an input left out", lambda i: i.pop(0), "op 0: MatMul: tensor 0: no array is given; give forward an NDArray for input 0"),
    ("an input of numpy's", lambda i: i.update({0: i[0].numpy()}), "op 0: MatMul: tensor 0: it is a ndarray"),
    (
        "an input of another dtype",
        lambda i: i.update({0: NDArray.empty((4, 96), DType.bf16, "x")}),
        "op 0: MatMul: array 'x': it is bf16, tensor 0 is f32",
    ),
    ("an input that was freed", lambda i: i[0].free(), "op 0: MatMul: array 'tensor 0': its memory has been freed"),
    (
        "an input there is not",
        lambda i: i.update({99: NDArray.empty((1,), name="z")}),
        "array 'z': the graph has no input 99; its inputs are 0, 1, 2, 3",
    ),
    ("an input of another shape", lambda i: i.update({0: NDArray.empty((4, 95), name="x")}), "array 'x' of shape (4, 95): "),
]


@pytest.mark.parametrize(("change", "says"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS])
def test_runs_on_arrays_that_do_not_fit(change: Callable[[dict[int, NDArray]], object], says: str) -> None:
    g = mlp()
    _, inputs, params = arrays(g)
    out = NDArray.of(np.ones((4, 64), np.float32), name="y")
    change(inputs)
    with pytest.raises(BenchgraphError, match=re.escape(says)):
        Executor(g, params).forward(inputs, {8: out})
    assert (out.numpy() == 1).all()
    assert not params[1].is_opaque or "95" in says, "nothing was converted either"


WRITES: list[tuple[str, Callable[[NDArray], tuple[dict[int, object], dict[int, object]]], str]] = [
    ("an output there is not", lambda y: ({77: y}, {}), "Executor.forward: the graph has no output 77; its outputs are 8"),
    ("a request without array", lambda y: ({}, {8: OpReq.add_to}), "Executor.forward: a request for output 8, for which there is no array"),
    ("a request that is none", lambda y: ({8: y}, {8: "add"}), "op 4: Sigmoid: array 'y': the request is 'add'"),
    ("an output of numpy's", lambda y: ({8: np.zeros(3)}, {}), "Executor.forward: output 8 is a ndarray"),
    (
        "an output of another shape",
        lambda y: ({8: NDArray.empty((4, 63), name="z")}, {}),
        "op 4: Sigmoid: array 'z': its shape is (4, 63), the op has (4, 64)",
    ),
]


@pytest.mark.parametrize(("make", "says"), [w[1:] for w in WRITES], ids=[w[0] for w in WRITES])
def test_runs_into_arrays_that_do_not_fit(make: Callable[[NDArray], tuple[dict, dict]], says: str) -> None:
    g = mlp()
    _, inputs, params = arrays(g)
    y = NDArray.of(np.ones((4, 64), np.float32), name="y")
    dst, requests = make(y)
    with pytest.raises(BenchgraphError, match=re.escape(says)):
        Executor(g, params).forward(inputs, dst, requests)
    assert (y.numpy() == 1).all()


def test_nothing_is_printed_without_runs() -> None:
    with pytest.raises(InvalidArguments, match="nothing has run on this thread; call forward first"):
        _ = Executor(mlp()).last


def test_attributes_the_op_has_not() -> None:
    x, y = NDArray.of(np.zeros((2, 2), np.float32), name="x"), NDArray.empty((2, 2), name="y")
    with pytest.raises(BenchgraphError, match="arrays 'x', 'y': op 3: ReLU: "):
        invoke(Op(3, "ReLU", Attrs(alpha=1.0)), [x], [y])


def test_a_desc_of_another_array() -> None:
    x = NDArray.of(np.zeros((2, 2), np.float32), name="x")
    with TempSpace().op("op 1: Copy") as scope:
        with pytest.raises(InvalidDataType, match="op 1: Copy: array 'x': it is f32, the op has bf16"):
            x.reordered(describe(DType.bf16, (2, 2)), scope)
        with pytest.raises(InvalidShape, match=re.escape("op 1: Copy: array 'x': its shape is (2, 2), the op has (2, 3)")):
            x.reordered(describe(DType.f32, (2, 3)), scope)
