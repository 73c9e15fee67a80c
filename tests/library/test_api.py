"""Every class and member of the oneDNN Graph API has its Python counterpart under `benchgraph`."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import benchgraph
from benchgraph import (
    Allocator,
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
)
from benchgraph.core.errors import InvalidArguments

T = LogicalTensor(0, DType.f32, (2, 3))
DST = LogicalTensor(1, DType.f32, (2, 3))
ENGINE = Engine()

# The enums, with oneDNN's names
ENUMS = {
    LayoutType: "undef any strided opaque",
    PropertyType: "undef variable constant host_scalar",
    DType: "undef f16 bf16 f32 s32 s8 u8 boolean f8_e5m2 f8_e4m3 s4 u4 s64",
    Policy: "fusion debug",
    FpmathMode: "strict bf16 f16 any tf32",
    GraphDumpMode: "none subgraph graph",
    Status: "success out_of_memory invalid_arguments unimplemented last_impl_reached runtime_error not_required invalid_graph "
    "invalid_graph_op invalid_shape invalid_data_type",
}
CONSTANTS = {"UNKNOWN_NDIMS": -1, "UNKNOWN_DIM": -(2**63), "MAX_NDIMS": 12, "UNKNOWN_SIZE": 2**64 - 1}

# section 2.2: C++ class.member -> Python. A name alone is one of `benchgraph`; after a dot comes a member of the class or its objects.
MEMBERS = {
    "logical_tensor(id, dtype, ndims, ltype, ptype)": "LogicalTensor.of_rank",
    "logical_tensor(id, dtype, ltype)": "LogicalTensor",
    "logical_tensor(id, dtype, dims, ltype, ptype)": "LogicalTensor",
    "logical_tensor(id, dtype, dims, strides, ptype)": "LogicalTensor.strides",
    "logical_tensor(id, dtype, dims, layout_id, ptype)": "LogicalTensor.layout_id",
    "logical_tensor.get_dims": "LogicalTensor.get_dims",
    "logical_tensor.get_id": "LogicalTensor.id",
    "logical_tensor.get_data_type": "LogicalTensor.dtype",
    "logical_tensor.get_property_type": "LogicalTensor.property_type",
    "logical_tensor.get_layout_type": "LogicalTensor.layout_type",
    "logical_tensor.get_layout_id": "LogicalTensor.get_layout_id",
    "logical_tensor.get_strides": "LogicalTensor.get_strides",
    "logical_tensor.get_mem_size": "LogicalTensor.get_mem_size",
    "logical_tensor.is_equal": "LogicalTensor.is_equal",
    "op": "Op",
    "op.add_input": "Op.add_input",
    "op.add_inputs": "Op.add_inputs",
    "op.add_output": "Op.add_output",
    "op.add_outputs": "Op.add_outputs",
    "op.set_attr": "Op.set_attr",
    "graph": "Graph",
    "graph.set_fpmath_mode": "Graph.set_fpmath_mode",
    "graph.get_fpmath_mode": "Graph.get_fpmath_mode",
    "graph.add_op": "Graph.add_op",
    "graph.finalize": "Graph.finalize",
    "graph.is_finalized": "Graph.is_finalized",
    "graph.get_partitions": "Graph.get_partitions",
    "partition(op, engine_kind)": "Partition",
    "partition.get_ops_num": "Partition.ops_num",
    "partition.get_ops": "Partition.ops",
    "partition.get_id": "Partition.id",
    "partition.get_engine_kind": "Partition.engine_kind",
    "partition.is_supported": "Partition.is_supported",
    "partition.get_input_ports": "Partition.input_ports",
    "partition.get_output_ports": "Partition.output_ports",
    "partition.compile": "Partition.compile",
    "compiled_partition": "CompiledPartition",
    "compiled_partition.query_logical_tensor": "CompiledPartition.query_logical_tensor",
    "compiled_partition.get_inplace_ports": "CompiledPartition.get_inplace_ports",
    "compiled_partition.get_scratchpad_logical_tensor": "CompiledPartition.get_scratchpad_logical_tensor",
    "compiled_partition.execute": "CompiledPartition.execute",
    "tensor": "Tensor",
    "tensor::make_scalar_tensor": "Tensor.make_scalar_tensor",
    "tensor.get_data_handle": "Tensor.get_data_handle",
    "tensor.set_data_handle": "Tensor.set_data_handle",
    "tensor.get_engine": "Tensor.engine",
    "tensor.get_logical_tensor": "Tensor.logical",
    "DNNL_MEMORY_ALLOCATE": "ALLOCATE",
    "allocator": "Allocator",
    "make_engine_with_allocator": "Engine.allocator",
    "engine": "Engine",
    "engine.get_kind": "Engine.kind",
    "stream": "Stream",
    "stream.wait": "Stream.wait",
    "threadpool_interop::make_stream": "Stream.threadpool",
    "threadpool_iface": "ThreadPool.parallel_for",
    "get_compiled_partition_cache_capacity": "get_compiled_partition_cache_capacity",
    "set_compiled_partition_cache_capacity": "set_compiled_partition_cache_capacity",
    "get_constant_tensor_cache": "get_constant_tensor_cache",
    "set_constant_tensor_cache": "set_constant_tensor_cache",
    "get_constant_tensor_cache_capacity": "get_constant_tensor_cache_capacity",
    "set_constant_tensor_cache_capacity": "set_constant_tensor_cache_capacity",
    "set_dump_mode": "set_dump_mode",
    "graph_dump_mode": "GraphDumpMode",
    "status": "Status",
    "error": "BenchgraphError.status",
}


def relu() -> Graph:
    g = Graph()
    g.add_op(Op(0, "ReLU", inputs=[T], outputs=[DST]))
    g.finalize()
    return g


def example(name: str) -> object:
    """An object of the class, for the members that only objects have."""
    (partition,) = relu().get_partitions()
    objects: dict[str, object] = {
        "ThreadPool": benchgraph.ThreadPool,
        "LogicalTensor": T,
        "Op": Op(0, "ReLU"),
        "Graph": Graph(),
        "Partition": partition,
        "CompiledPartition": partition.compile([T], [DST], ENGINE),
        "Tensor": Tensor(T, ENGINE),
        "Engine": ENGINE,
        "Stream": Stream(ENGINE),
        "BenchgraphError": benchgraph.BenchgraphError("x"),
    }
    return objects[name]


@pytest.mark.parametrize(("theirs", "ours"), MEMBERS.items())
def test_every_member_is_there_and_documented_or_obvious(theirs: str, ours: str) -> None:
    name, _, member = ours.partition(".")
    assert hasattr(benchgraph, name), theirs
    assert not member or hasattr(example(name), member), theirs


@pytest.mark.parametrize(("enum", "names"), ENUMS.items(), ids=lambda v: v.__name__ if isinstance(v, type) else "")
def test_every_enum_has_onednns_members(enum: type, names: str) -> None:
    assert set(names.split()) <= set(enum.__members__)
    assert getattr(benchgraph, enum.__name__) is enum


def test_status_codes_are_onednns() -> None:
    codes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [Status[name].value for name in ENUMS[Status].split()] == codes


@pytest.mark.parametrize(("name", "value"), CONSTANTS.items())
def test_the_constants_have_onednns_values(name: str, value: int) -> None:
    assert getattr(benchgraph, name) == value


def test_type_checkers_see_the_imported_names() -> None:
    """The names stand three times in the package's file: for people, for type checkers, and for the lazy import."""
    tree = ast.parse(Path(benchgraph.__file__).read_text())
    shown = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name: f"benchgraph.{home}" for name, home in benchgraph._HOME.items()} == shown
    assert set(benchgraph.__all__) == set(shown)
    for name, home in shown.items():
        value = getattr(benchgraph, name)
        assert not inspect.isclass(value) or value.__module__ == home


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'benchgraph' has no attribute 'Grpah'"):
        _ = benchgraph.Grpah


# ---- members that are facts rather than acts -------------------------------------------------------------------------


def test_a_graph_starts_with_the_librarys_math_mode_and_tells_it_to_its_partitions() -> None:
    g = Graph()
    assert g.get_fpmath_mode() == (FpmathMode.strict, False)
    g.set_fpmath_mode(FpmathMode.bf16, apply_to_int=True)
    g.add_op(Op(0, "ReLU", inputs=[T], outputs=[DST]))
    g.finalize()
    (partition,) = g.get_partitions()
    assert (partition.fpmath_mode, partition.fpmath_apply_to_int) == (FpmathMode.bf16, True)
    assert Graph(fpmath_mode=FpmathMode.tf32).get_fpmath_mode() == (FpmathMode.tf32, False)


def test_a_partition_of_one_op_needs_no_graph() -> None:
    partition = Partition(Op(9, "ReLU", inputs=[T], outputs=[DST]))
    assert (partition.ops_num, partition.ops, partition.engine_kind, partition.is_supported) == (1, (9,), "cpu", True)
    compiled = partition.compile([T], [DST], ENGINE)
    out = Tensor(DST, ENGINE)
    compiled.execute(Stream(ENGINE), [Tensor(T, ENGINE, np.full((2, 3), -1, np.float32))], [out])
    assert (out.array == 0).all()
    assert not Partition(Op(9, "Wildcard")).is_supported


def test_partition_ids_are_unique_in_the_process() -> None:
    ids = [p.id for _ in range(3) for p in relu().get_partitions()] + [Partition(Op(9, "ReLU", inputs=[T], outputs=[DST])).id]
    assert len(set(ids)) == 4


def test_input_ports_repeat_a_tensor_that_is_read_twice() -> None:
    """And compile and execute take it once per port, or once."""
    g, out = Graph(), LogicalTensor(2, DType.f32, (2, 3))
    g.add_op(Op(0, "Sigmoid", inputs=[T], outputs=[DST]))
    g.add_op(Op(1, "Multiply", inputs=[T, DST], outputs=[out]))
    g.finalize()
    (partition,) = g.get_partitions()
    assert [t.id for t in partition.input_ports] == [0, 0]
    assert [t.id for t in partition.output_ports] == [2]
    src, dst = Tensor(T, ENGINE, np.arange(6, dtype=np.float32).reshape(2, 3)), Tensor(out, ENGINE)
    for given in ([T, T], [T]):
        compiled = partition.compile(given, partition.output_ports, ENGINE)
        compiled.execute(Stream(ENGINE), [src] * len(given), [dst])
        np.testing.assert_allclose(dst.array, src.array / (1 + np.exp(-src.array)), rtol=1e-6)
    compiled = partition.compile([T, T], [out], ENGINE)
    with pytest.raises(InvalidArguments, match="execute: input tensor 0 comes with two memories; give the same tensor wherever"):
        compiled.execute(Stream(ENGINE), [src, Tensor(T, ENGINE)], [dst])


def test_an_allocator_without_functions_is_the_librarys() -> None:
    for allocator in (Allocator(), Allocator(malloc=lambda size, alignment: 1 / 0)):
        assert Tensor(T, Engine(allocator=allocator)).array.shape == (2, 3)


def test_an_engine_keeps_its_allocator() -> None:
    """The user's name for it may go."""
    calls = list[int]()
    allocator = Allocator(malloc=lambda size, alignment: calls.append(size) or 0, free=lambda address: None)
    engine = Engine(allocator=allocator)
    del allocator
    with pytest.raises(benchgraph.BenchgraphError) as raised:
        Tensor(T, engine)
    assert calls == [24]
    assert raised.value.status is Status.out_of_memory


def test_a_compiled_partition_of_a_gone_graph_still_runs() -> None:
    """Partitions hold what they need (section 2.4)."""
    g = relu()
    (partition,) = g.get_partitions()
    del g
    compiled: CompiledPartition = partition.compile([T], [DST], ENGINE)
    del partition
    out = Tensor(DST, ENGINE)
    compiled.execute(Stream(ENGINE), [Tensor(T, ENGINE, np.ones((2, 3), np.float32))], [out])
    assert (out.array == 1).all()
