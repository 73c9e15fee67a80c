"""s4 and u4: two elements to a byte in memory, one to a byte in numpy, and nothing lost between the two."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.arrays import elements, pack, put, unpack, view
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor, Shape, dense_strides, reach

PACKED = [d for d in DType if d.is_packed]
every_packed = pytest.mark.parametrize("dtype", PACKED, ids=lambda d: d.value)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """A shape of rank 0 to 3, zero sizes included, with the dims in any order in memory and gaps between them."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    order = draw(st.permutations(range(len(shape))))
    strides, step = [0] * len(shape), draw(st.integers(1, 3))
    for axis in order:
        strides[axis] = step
        step = step * max(shape[axis], 1) + draw(st.integers(0, 2))
    return shape, tuple(strides)


def numbers(dtype: DType, shape: Shape, seed: int = 0) -> np.ndarray:
    low, high = dtype.range
    return np.random.default_rng(seed).integers(int(low), int(high), shape, dtype=dtype.numpy.type, endpoint=True)


def test_s4_and_u4_are_the_packed_types() -> None:
    assert set(PACKED) == {DType.s4, DType.u4}


def test_the_first_element_is_in_the_low_nibble_and_s4_is_twos_complement() -> None:
    assert pack(np.array([1, 2, 15]), DType.u4, (1,)).tolist() == [0x21, 0x0F]
    assert pack(np.array([-8, 7, -1], np.int8), DType.s4, (1,)).tolist() == [0x78, 0x0F]
    assert unpack(np.array([0x78, 0xFF], np.uint8), DType.s4, (3,), (1,)).tolist() == [-8, 7, -1]
    assert unpack(np.array([0x78, 0xFF], np.uint8), DType.u4, (3,), (1,)).tolist() == [8, 7, 15]


@every_packed
@given(layout=layouts(), seed=st.integers(0, 1000))
def test_packed_values_unpack_to_themselves(dtype: DType, layout: tuple[Shape, Shape], seed: int) -> None:
    shape, strides = layout
    values = numbers(dtype, shape, seed)
    memory = pack(values, dtype, strides)
    assert (memory.dtype, memory.shape) == (np.uint8, ((reach(shape, strides) + 1) // 2,))
    back = unpack(memory, dtype, shape, strides)
    assert back.dtype == dtype.numpy
    np.testing.assert_array_equal(back, values)


@every_packed
@given(layout=layouts())
def test_an_element_is_where_its_strides_say_and_gaps_are_zero(dtype: DType, layout: tuple[Shape, Shape]) -> None:
    shape, strides = layout
    values = numbers(dtype, shape)
    memory = pack(values, dtype, strides)
    left = memory.tolist()
    for index in np.ndindex(*shape):
        at = sum(i * s for i, s in zip(index, strides, strict=True))
        assert memory[at // 2] >> 4 * (at % 2) & 15 == int(values[index]) % 16
        left[at // 2] &= 0xF0 if at % 2 == 0 else 0x0F
    assert not any(left)


@every_packed
@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 17])
def test_every_byte_unpacks_and_packs_back(dtype: DType, n: int) -> None:
    memory = np.random.default_rng(n).integers(0, 256, (n + 1) // 2, dtype=np.uint8)
    if n % 2:
        memory[-1] &= 15
    np.testing.assert_array_equal(pack(unpack(memory, dtype, (n,), (1,)), dtype, (1,)), memory)


@every_packed
def test_unpacking_reads_no_more_than_the_elements_need(dtype: DType) -> None:
    memory = np.arange(8, dtype=np.uint8)
    assert unpack(memory, dtype, (3, 1), (1, 1)).shape == (3, 1)
    with pytest.raises((ValueError, TypeError)):
        unpack(memory[:1], dtype, (3,), (1,))


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (DType.u4, 16, "pack: values from 0 to 16 for u4; keep them within 0 to 15"),
        (DType.u4, -1, "pack: values from -1 to 0 for u4; keep them within 0 to 15"),
        (DType.s4, 8, "pack: values from 0 to 8 for s4; keep them within -8 to 7"),
        (DType.s4, -9, "pack: values from -9 to 0 for s4; keep them within -8 to 7"),
    ],
)
def test_a_value_of_more_than_four_bits_is_refused(dtype: DType, value: int, message: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        pack(np.array([0, value]), dtype, (1,))
    assert str(refused.value) == message


@pytest.mark.parametrize("dtype", [DType.s4, DType.u4, DType.s8, DType.f32, DType.bf16, DType.f8_e5m2], ids=lambda d: d.value)
@pytest.mark.parametrize(("shape", "strides"), [((3, 5), (5, 1)), ((3, 5), (1, 3)), ((3, 5), (17, 3)), ((), ()), ((0, 4), (4, 1))])
def test_a_view_of_memory_stores_and_loads_elements(dtype: DType, shape: Shape, strides: Shape) -> None:
    tensor = LogicalTensor(0, dtype, shape, strides)
    memory = np.full(tensor.nbytes + 1, 0xFF, np.uint8)
    values = np.arange(prod(shape)).reshape(shape) % 8
    array = view(memory, tensor)
    put(array, tensor, values.astype(dtype.numpy))
    assert np.may_share_memory(array, memory) or not array.size
    assert memory[-1] == 0xFF
    held = elements(array, tensor)
    assert (held.dtype, held.shape) == (dtype.numpy, shape)
    np.testing.assert_array_equal(held.astype(np.int64), values)
    assert (held is array) != dtype.is_packed


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [((2, 3), (8, 2), 13), ((), (), 1), ((3,), (0,), 1), ((4, 0), (1, 1), 0), ((5, 7), dense_strides((5, 7)), 35)],
)
def test_reach_counts_to_the_last_element(shape: Shape, strides: Shape, elements: int) -> None:
    assert reach(shape, strides) == elements
