"""Every misuse of the API: the status, and a message with place, error and remedy.

A row is (where in section 2.2 or 2.3 it is said, the misuse, the error class, the beginning of the message).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchgraph import (
    ALLOCATE,
    UNKNOWN_DIM,
    Allocator,
    BenchgraphError,
    CompiledPartition,
    DType,
    Engine,
    FpmathMode,
    Graph,
    GraphDumpMode,
    LayoutType,
    LogicalTensor,
    Op,
    Partition,
    Policy,
    PropertyType,
    Status,
    Stream,
    Tensor,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
    set_dump_mode,
)
from benchgraph.core import errors
from benchgraph.core.errors import InvalidArguments, InvalidDataType, InvalidGraph, InvalidGraphOp, InvalidShape, OutOfMemory

f32 = DType.f32
SRC, WEI = LogicalTensor(0, f32, (5, 16)), LogicalTensor(1, f32, (16, 9))
ACC, DST = LogicalTensor(2, f32, (5, 9)), LogicalTensor(3, f32, (5, 9))
SCALAR = LogicalTensor(4, f32, (), property_type=PropertyType.host_scalar)
ENGINE = Engine()
STREAM = Stream(ENGINE)


def matmul(id: int = 10) -> Op:
    return Op(id, "MatMul", inputs=[SRC, WEI], outputs=[ACC])


def relu(id: int = 11, src: LogicalTensor = ACC, dst: LogicalTensor = DST) -> Op:
    return Op(id, "ReLU", inputs=[src], outputs=[dst])


def graph(*ops: Op, engine_kind: str = "cpu") -> Graph:
    g = Graph(engine_kind)
    for op in ops:
        g.add_op(op)
    return g


def finalized(*ops: Op, engine_kind: str = "cpu") -> Graph:
    g = graph(*ops, engine_kind=engine_kind)
    g.finalize()
    return g


def partition(engine_kind: str = "cpu") -> Partition:
    return finalized(matmul(), relu(), engine_kind=engine_kind).get_partitions()[0]


def compiled() -> CompiledPartition:
    return partition().compile([SRC, WEI], [DST], ENGINE)


def tensor(t: LogicalTensor) -> Tensor:
    return Tensor(t, ENGINE)


def compile_with(inputs: object, outputs: object, engine: object = ENGINE) -> CompiledPartition:
    return partition().compile(inputs, outputs, engine)  # type: ignore[arg-type]


def execute(stream: object, inputs: object, outputs: object) -> None:
    compiled().execute(stream, inputs, outputs)  # type: ignore[arg-type]


Misuse = tuple[str, Callable[[], object], type[BenchgraphError], str]

MEMBERS: tuple[Misuse, ...] = (
    ("logical_tensor", lambda: LogicalTensor(7, f32, (1,) * 13), InvalidArguments, "logical tensor 7: 13 dims; "),
    ("logical_tensor", lambda: LogicalTensor.of_rank(7, f32, 13), InvalidArguments, "logical tensor 7: 13 dims; "),
    ("logical_tensor", lambda: LogicalTensor(7, f32, (-3,)), InvalidArguments, "logical tensor 7: a dim of -3; "),
    ("logical_tensor", lambda: LogicalTensor(7, f32, (2,), 0), InvalidArguments, "logical tensor 7: strides is 0; "),  # type: ignore[arg-type]
    ("logical_tensor", lambda: replace(SCALAR, shape=(1,)), InvalidArguments, "logical tensor 4: a host scalar that is no single number; "),
    ("logical_tensor", lambda: replace(SCALAR, dtype=DType.f16), InvalidArguments, "logical tensor 4: a host scalar that is no single"),
    ("get_dims", lambda: LogicalTensor(7, f32).get_dims(), InvalidArguments, "logical tensor 7: its rank is unknown; "),
    ("get_layout_id", lambda: SRC.get_layout_id(), InvalidArguments, "logical tensor 0: its layout is strided; "),
    ("get_strides", lambda: LogicalTensor(7, f32).get_strides(), InvalidArguments, "logical tensor 7: its rank is unknown; "),
    (
        "get_strides",
        lambda: replace(SRC, layout_type=LayoutType.any).get_strides(),
        InvalidArguments,
        "logical tensor 0: its layout is any; ",
    ),
    ("op", lambda: Op(0, "ReLU", None), InvalidArguments, "op 0: the name is None; "),  # type: ignore[arg-type]
    ("set_attr", lambda: relu().set_attr("x", [True]), InvalidArguments, "op 11: ReLU: attribute 'x': the value is [True]; "),
    ("set_attr", lambda: relu().set_attr("x", ""), InvalidArguments, "op 11: ReLU: attribute 'x': the string is empty; "),
    ("graph", lambda: Graph("tpu"), InvalidArguments, "Graph: the engine kind is 'tpu'; use one of cpu, gpu"),
    ("fpmath", lambda: finalized(relu()).set_fpmath_mode(FpmathMode.any), InvalidGraph, "set_fpmath_mode: the graph is finalized; "),
    ("fpmath", lambda: finalized(relu()).get_fpmath_mode(), InvalidGraph, "get_fpmath_mode: the graph is finalized; "),
    ("fpmath", lambda: Graph(fpmath_mode="bf16"), InvalidArguments, "set_fpmath_mode: the mode is 'bf16'; "),  # type: ignore[arg-type]
    ("add_op", lambda: finalized(relu()).add_op(matmul()), InvalidGraph, "op 10: MatMul: the graph is finalized; "),
    ("add_op", lambda: graph(relu().set_attr("alpha", 1)), InvalidGraphOp, "op 11: ReLU: unknown attribute 'alpha'; "),
    ("add_op", lambda: graph(relu(dst=replace(DST, dtype=DType.s8))), InvalidDataType, "op 11: ReLU: output dst has dtype s8; "),
    ("add_op", lambda: Graph().add_op(None), InvalidArguments, "add_op: cannot add a NoneType; "),  # type: ignore[arg-type]
    ("add_op", lambda: graph(matmul(), relu(id=10)), InvalidGraphOp, "op 10: ReLU: op id 10 is taken by MatMul; "),
    (
        "finalize",
        lambda: finalized(matmul(), relu(src=replace(ACC, shape=(9, 5)))),
        InvalidGraph,
        "op 11: ReLU: tensor 2 is described as f32[9,5] here and as f32[5,9] elsewhere; ",
    ),
    (
        "finalize",
        lambda: finalized(relu(10, DST, ACC), relu()),
        InvalidGraph,
        "op 10: ReLU: the ops form a cycle (each needs the next): 10 -> 11 -> 10; ",
    ),
    ("finalize", lambda: finalized(matmul(), relu(dst=ACC, src=DST)), InvalidGraph, "op 11: ReLU: ops 10 and 11 both produce tensor 2; "),
    ("get_partitions", lambda: graph(relu()).get_partitions(), InvalidGraph, "get_partitions: the graph is not finalized; "),
    (
        "get_partitions",
        lambda: finalized(relu()).get_partitions("fusion"),  # type: ignore[arg-type]
        InvalidArguments,
        "get_partitions: the policy is 'fusion'; use one of Policy.fused, ",
    ),
    ("partition", lambda: Partition(relu().set_attr("alpha", 1)), InvalidGraphOp, "op 11: ReLU: unknown attribute 'alpha'; "),
    ("partition", lambda: Partition(3), InvalidArguments, "Partition: cannot partition a int; "),  # type: ignore[arg-type]
    ("partition", lambda: Partition(relu(), "tpu"), InvalidArguments, "Partition: the engine kind is 'tpu'; "),
    ("query_logical_tensor", lambda: compiled().query_logical_tensor(2), InvalidArguments, "query_logical_tensor: tensor 2 is no port of"),
    ("execute", lambda: execute(None, [tensor(SRC), tensor(WEI)], [tensor(DST)]), InvalidArguments, "execute: the stream is a NoneType; "),
    ("execute", lambda: execute(STREAM, None, [tensor(DST)]), InvalidArguments, "execute: the inputs are a NoneType; "),
    (
        "execute",
        lambda: execute(STREAM, [tensor(SRC), SRC], [tensor(DST)]),
        InvalidArguments,
        "execute: cannot execute on a LogicalTensor; ",
    ),
    (
        "execute",
        lambda: execute(STREAM, [tensor(WEI), tensor(SRC)], [tensor(DST)]),
        InvalidArguments,
        "execute: input tensors [1, 0], compiled",
    ),
    (
        "execute",
        lambda: execute(STREAM, [tensor(SRC)], [tensor(DST)]),
        InvalidArguments,
        "execute: input tensors [0], compiled with [0, 1]; ",
    ),
    (
        "execute",
        lambda: execute(STREAM, [Tensor(SRC, ENGINE, None), tensor(WEI)], [tensor(DST)]),
        InvalidArguments,
        "Tensor 0: it has no memory; ",
    ),
    (
        "execute",
        lambda: execute(STREAM, [tensor(replace(SRC, shape=(16, 5))), tensor(WEI)], [tensor(DST)]),
        InvalidArguments,
        "bind: input 0 (tensor 0): shape (16, 5) with strides (5, 1), compiled for shape (5, 16) with strides (16, 1); ",
    ),
    ("tensor", lambda: tensor(SCALAR), InvalidArguments, "Tensor 4: it is a host scalar; "),
    (
        "tensor",
        lambda: Tensor(SRC, Engine(allocator=Allocator(lambda size, alignment: 0, lambda address: None))),
        OutOfMemory,
        "Engine: the engine's allocator has no 320 bytes",
    ),
    ("tensor", lambda: Tensor(SRC, None), InvalidArguments, "Tensor 0: the engine is a NoneType; "),  # type: ignore[arg-type]
    ("make_scalar_tensor", lambda: Tensor.make_scalar_tensor(SRC, 1), InvalidArguments, "Tensor 0: it is no host scalar; "),
    ("make_scalar_tensor", lambda: Tensor.make_scalar_tensor(SCALAR, None), InvalidArguments, "Tensor 4: the value is None; "),  # type: ignore[arg-type]
    ("make_scalar_tensor", lambda: Tensor.make_scalar_tensor(SCALAR, ALLOCATE), InvalidArguments, "Tensor 4: the value is "),  # type: ignore[arg-type]
    (
        "set_data_handle",
        lambda: Tensor.make_scalar_tensor(SCALAR, 1).set_data_handle(np.zeros((), np.float32)),
        InvalidArguments,
        "Tensor 4: a host scalar has no memory to exchange; ",
    ),
    ("set_data_handle", lambda: tensor(SRC).set_data_handle(np.zeros(3)), InvalidArguments, "Tensor 0: a float64 array of shape (3,); "),
    ("engine", lambda: Engine("gpu"), InvalidArguments, "Engine: there is no engine gpu:0; "),
    ("engine", lambda: Engine("cpu", 1), InvalidArguments, "Engine: there is no engine cpu:1; "),
    ("stream", lambda: Stream(None), InvalidArguments, "Stream: the engine is a NoneType; "),  # type: ignore[arg-type]
    ("cache_capacity", lambda: set_compiled_partition_cache_capacity(-1), InvalidArguments, "a cache of capacity -1; "),
    ("constant_cache", lambda: set_constant_tensor_cache(-1), InvalidArguments, "set_constant_tensor_cache: the flag is -1; "),
    ("constant_cache", lambda: set_constant_tensor_cache_capacity("cpu", -1), InvalidArguments, "a constant-tensor cache of -1 MB; "),
    (
        "constant_cache",
        lambda: set_constant_tensor_cache_capacity("gpu", 1),
        InvalidArguments,
        "constant tensor cache: there is no engine 'gpu'; ",
    ),
    ("set_dump_mode", lambda: set_dump_mode(8), InvalidArguments, "set_dump_mode: the dump mode is 8; "),  # type: ignore[arg-type]
)

COMPILE: tuple[Misuse, ...] = (
    (
        "2.3.1",
        lambda: finalized(Op(1, "Wildcard", inputs=[SRC], outputs=[DST])).get_partitions()[0].compile([SRC], [DST], ENGINE),
        InvalidArguments,
        "compile: op 1: Wildcard: the partition is unsupported: a Wildcard stands for an unknown operation; ",
    ),
    ("2.3.1", lambda: compile_with([SRC, WEI], [DST], None), InvalidArguments, "compile: the engine is a NoneType; "),
    ("2.3.1", lambda: partition("gpu").compile([SRC, WEI], [DST], ENGINE), InvalidArguments, "compile: engine cpu for a graph on gpu; "),
    ("2.3.2", lambda: compile_with([SRC], [DST]), InvalidArguments, "compile: no logical tensor for input port 1, only 0; "),
    ("2.3.2", lambda: compile_with([SRC, WEI], []), InvalidArguments, "compile: no logical tensor for output port 3, only none; "),
    ("2.3.2", lambda: compile_with([SRC, tensor(WEI)], [DST]), InvalidArguments, "compile: an input is a Tensor; "),
    (
        "2.3.2",
        lambda: compile_with([SRC, WEI, replace(WEI, shape=(16, 8))], [DST]),
        InvalidArguments,
        "compile: the logical tensors given for ",
    ),
    (
        "2.3.2",
        lambda: compile_with([SRC, replace(WEI, dtype=DType.undef)], [DST]),
        InvalidArguments,
        "compile: input port 1 is f32, the tensor undef",
    ),
    (
        "2.3.2",
        lambda: compile_with([SRC, WEI], [replace(DST, layout_type=LayoutType.undef)]),
        InvalidArguments,
        "compile: tensor 3: its layout is ",
    ),
    (
        "2.3.2",
        lambda: compile_with([SRC, LogicalTensor(1, f32)], [DST]),
        InvalidArguments,
        "compile: tensor 1: dims or layout of an input are ",
    ),
    (
        "2.3.2",
        lambda: compile_with([SRC, replace(WEI, shape=(16, UNKNOWN_DIM))], [DST]),
        InvalidArguments,
        "compile: tensor 1: dims or layout of",
    ),
    (
        "2.3.3",
        lambda: compile_with([replace(SRC, dtype=DType.bf16), WEI], [DST]),
        InvalidArguments,
        "compile: input port 0 is f32, the tensor bf16; ",
    ),
    (
        "2.3.3",
        lambda: compile_with([SRC, WEI], [replace(DST, dtype=DType.f16)]),
        InvalidArguments,
        "compile: output port 3 is f32, the tensor f16; ",
    ),
    ("2.3.4", lambda: compile_with([replace(SRC, layout_type=LayoutType.any), WEI], [DST]), InvalidArguments, "compile: tensor 0: "),
    (
        "2.3.6",
        lambda: compile_with([SRC, WEI], [replace(DST, shape=(5, 8))]),
        InvalidShape,
        "op 11: ReLU: output 3 has shape 5x8, but its inputs ",
    ),
    ("2.3.6", lambda: compile_with([SRC, replace(WEI, shape=(15, 9))], [DST]), InvalidShape, "op 10: MatMul: inner dimensions differ: "),
)


@pytest.mark.parametrize(
    ("said", "misuse", "error", "message"), MEMBERS + COMPILE, ids=lambda v: v if isinstance(v, str) and len(v) < 24 else ""
)
def test_misuse_is_refused_with_who_what_and_the_remedy(
    said: str, misuse: Callable[[], object], error: type[BenchgraphError], message: str
) -> None:
    with pytest.raises(BenchgraphError) as raised:
        misuse()
    assert type(raised.value) is error
    assert str(raised.value).startswith(message)
    assert raised.value.fix, "a remedy"


def test_statuses_belong_to_classes() -> None:
    """What is raised carries oneDNN's status, and each status that we can give has its class."""
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, BenchgraphError)]
    assert {c.status for c in classes} == set(Status) - {Status.success, Status.last_impl_reached, Status.not_required}
    assert errors.InvalidGraph("x").status is Status.invalid_graph


@pytest.mark.parametrize(
    "op",
    [relu().set_attr("alpha", 1), relu(dst=replace(DST, dtype=DType.s8)), None, Op(0, "Relu"), relu(id=10)],
    ids=lambda op: str(op)[:20],
)
def test_add_op_returns_the_status_it_would_raise(op: Op) -> None:
    first, second = graph(matmul()), graph(matmul())
    with pytest.raises(BenchgraphError) as raised:
        first.add_op(op)
    assert second.add_op(op, allow_exception=False) is raised.value.status is not Status.success


# ---- what section 2.3 allows -----------------------------------------------------------------------------------------


def test_2_3_2_order_is_free_and_strangers_are_ignored() -> None:
    stranger = LogicalTensor(77, DType.s8)
    c = compile_with([stranger, WEI, SRC], [DST, stranger])
    assert c.query_logical_tensor(3).shape == (5, 9)


@pytest.mark.parametrize("dims", [None, (5, UNKNOWN_DIM), (UNKNOWN_DIM, UNKNOWN_DIM), (5, 9)])
@pytest.mark.parametrize("strides", [None, (16, 1), (1, 5)])
def test_2_3_5_outputs_may_be_open_and_may_have_strides(dims: tuple[int, ...] | None, strides: tuple[int, ...] | None) -> None:
    strides = None if dims is None else strides
    c = compile_with([SRC, WEI], [LogicalTensor(3, f32, dims, strides)])
    assert (c.query_logical_tensor(3).shape, c.query_logical_tensor(3).strides) == ((5, 9), strides or (9, 1))


def test_2_3_8_the_users_logical_tensors_stay_as_they_are() -> None:
    open_dst = LogicalTensor(3, f32, layout_type=LayoutType.any)
    c = compile_with([SRC, WEI], [open_dst])
    assert open_dst == LogicalTensor(3, f32, layout_type=LayoutType.any)
    assert c.query_logical_tensor(3).has_known_shape


def test_2_3_10_an_output_without_elements_is_no_work() -> None:
    src, acc, dst = LogicalTensor(0, f32, (0, 16)), LogicalTensor(2, f32), LogicalTensor(3, f32)
    g = finalized(Op(10, "MatMul", inputs=[src, WEI], outputs=[acc]), relu(11, acc, dst))
    c = g.get_partitions()[0].compile([src, WEI], [dst], ENGINE)
    out = c.query_logical_tensor(3)
    assert (out.shape, out.get_mem_size()) == ((0, 9), 0)
    c.execute(STREAM, [tensor(src), tensor(WEI)], [tensor(out)])


def test_an_empty_graph_has_no_partitions() -> None:
    g = Graph()
    g.finalize()
    assert g.get_partitions() == g.get_partitions(Policy.debug) == ()


def test_finalizing_again_changes_nothing() -> None:
    g = finalized(matmul(), relu())
    g.finalize()
    assert g.is_finalized
    assert [p.ops for p in g.get_partitions()] == [(10, 11)]


def test_the_modes_of_a_dump_combine() -> None:
    assert set_dump_mode(GraphDumpMode.none) is Status.success
