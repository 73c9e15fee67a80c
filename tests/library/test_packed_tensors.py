"""Tensors of s4 and u4: packed memory in place, ml_dtypes' arrays by copy, and an execution on each."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from benchgraph import Engine, Graph, LogicalTensor, Op, Stream, Tensor
from benchgraph.core.arrays import pack
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, Status

BY_ELEMENT = {DType.s4: ml_dtypes.int4, DType.u4: ml_dtypes.uint4}
VALUES = {DType.s4: np.array([[-8, 7, -1], [0, 3, -5]], np.int8), DType.u4: np.array([[15, 7, 0], [8, 3, 9]], np.uint8)}
every_packed = pytest.mark.parametrize("dtype", BY_ELEMENT, ids=lambda d: d.value)


def logical(dtype: DType, strides: tuple[int, int] = (3, 1)) -> LogicalTensor:
    return LogicalTensor(0, dtype, (2, 3), strides)


def dequantised(src: Tensor) -> np.ndarray:
    """The tensor through DynamicDequantize with a scale of 0.5."""
    scales, dst = LogicalTensor(1, DType.f32, (1,)), LogicalTensor(2, DType.f32)
    graph, engine = Graph(), Engine()
    graph.add_op(Op(0, "DynamicDequantize", inputs=(src.logical, scales), outputs=(dst,)))
    graph.finalize()
    (partition,) = graph.get_partitions()
    compiled = partition.compile([src.logical, scales], [dst], engine)
    result = Tensor(compiled.query_logical_tensor(2), engine)
    compiled.execute(Stream(engine), [src, Tensor(scales, engine, np.array([0.5], np.float32))], [result])
    return result.elements


@every_packed
@pytest.mark.parametrize("strides", [(3, 1), (1, 2), (5, 1), (7, 3)])
def test_packed_memory_is_used_in_place(dtype: DType, strides: tuple[int, int]) -> None:
    memory = pack(VALUES[dtype], dtype, strides)
    tensor = Tensor(logical(dtype, strides), Engine(), memory)
    assert tensor.array is memory
    assert tensor.logical.nbytes == memory.nbytes
    np.testing.assert_array_equal(tensor.elements, VALUES[dtype])
    np.testing.assert_array_equal(dequantised(tensor), VALUES[dtype] * 0.5)
    memory[0] ^= 0xF
    assert tensor.elements[0, 0] != VALUES[dtype][0, 0]


@every_packed
def test_an_array_of_ml_dtypes_is_packed_into_a_copy(dtype: DType) -> None:
    handle = VALUES[dtype].astype(BY_ELEMENT[dtype])
    tensor = Tensor(logical(dtype, (1, 2)), Engine(), handle)
    assert (tensor.array.dtype, tensor.array.shape) == (np.uint8, (3,))
    handle[0, 0] = 1
    np.testing.assert_array_equal(tensor.elements, VALUES[dtype])
    np.testing.assert_array_equal(dequantised(tensor), VALUES[dtype] * 0.5)


@every_packed
def test_the_engine_allocates_the_bytes_of_the_packed_memory(dtype: DType) -> None:
    tensor = Tensor(LogicalTensor(0, dtype, (3, 3)), Engine())
    assert (tensor.array.dtype, tensor.array.shape) == (np.uint8, (5,))


@every_packed
def test_there_is_no_dlpack_form(dtype: DType) -> None:
    with pytest.raises(
        BufferError, match=f"Tensor 0: {dtype.value} memory has no DLPack form: two elements share a byte; pass on the bytes"
    ):
        Tensor(logical(dtype), Engine()).__dlpack__()


@every_packed
def test_dlpack_brings_packed_memory_in(dtype: DType) -> None:
    memory = pack(VALUES[dtype], dtype, (3, 1))
    np.testing.assert_array_equal(Tensor.from_dlpack(memory, logical(dtype)).elements, VALUES[dtype])


def test_of_other_dtypes_the_elements_are_the_array() -> None:
    tensor = Tensor(LogicalTensor(0, DType.f32, (2, 3)), Engine())
    assert tensor.elements is tensor.array


@every_packed
def test_anything_else_is_refused_with_both_ways_out(dtype: DType) -> None:
    other = BY_ELEMENT[DType.u4 if dtype is DType.s4 else DType.s4]
    with pytest.raises(InvalidArguments, match=f"a list for {dtype.value}"):
        Tensor(logical(dtype), Engine(), [1, 2, 3])  # type: ignore[arg-type]
    memory = np.zeros(6, np.uint8)
    for wrong in (
        VALUES[dtype],
        memory,
        memory[::2],
        memory[:3].view(np.int8),
        np.zeros((2, 3), other),
        np.zeros((3, 2), BY_ELEMENT[dtype]),
    ):
        with pytest.raises(InvalidArguments) as refused:
            Tensor(logical(dtype), Engine(), wrong)
        assert refused.value.status is Status.invalid_arguments
        assert str(refused.value) == (
            f"Tensor 0: a {wrong.dtype} array of shape {wrong.shape} for {dtype.value}; give its memory, two elements to a byte: "
            f"3 contiguous bytes of uint8; or ml_dtypes.{BY_ELEMENT[dtype].__name__} of shape (2, 3), to be copied"
        )
