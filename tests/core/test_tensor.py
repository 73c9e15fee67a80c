"""Logical tensors: what they say, what they refuse, and when one may stand for another."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import (
    MAX_NDIMS,
    UNKNOWN_DIM,
    UNKNOWN_NDIMS,
    UNKNOWN_SIZE,
    LayoutType,
    LogicalTensor,
    PropertyType,
    Shape,
    dense_strides,
)

f32, s4 = DType.f32, DType.s4
T = LogicalTensor(7, f32, (2, 3))


def test_unspecified_fields_are_unknown() -> None:
    t = LogicalTensor(7, f32)
    assert (t.ndims, t.shape, t.strides, t.layout_type) == (UNKNOWN_NDIMS, None, None, LayoutType.strided)
    assert not t.has_known_shape
    assert t.get_mem_size() == UNKNOWN_SIZE == 2**64 - 1


@pytest.mark.parametrize(("ndims", "shape"), [(UNKNOWN_NDIMS, None), (0, ()), (3, (UNKNOWN_DIM,) * 3)])
def test_the_rank_may_be_known_without_dims(ndims: int, shape: Shape | None) -> None:
    t = LogicalTensor.of_rank(7, f32, ndims, LayoutType.any, PropertyType.constant)
    assert (t.ndims, t.shape, t.layout_type, t.is_constant) == (ndims, shape, LayoutType.any, True)


def test_strides_follow_from_dims() -> None:
    """Row-major; a dim of size 0 counts as 1; unknown while a dim is."""
    assert T.get_strides() == (3, 1)
    assert LogicalTensor(7, f32, (2, 0, 4)).get_strides() == (4, 4, 1)
    assert LogicalTensor(7, f32, (2, UNKNOWN_DIM)).get_strides() == (UNKNOWN_DIM, UNKNOWN_DIM)
    assert LogicalTensor(7, f32, (2, UNKNOWN_DIM), (8, 1)).get_strides() == (8, 1)
    assert LogicalTensor(7, f32, ()).get_strides() == ()


def test_any_sequence_of_integers_is_a_shape() -> None:
    assert LogicalTensor(7, f32, [2, np.int64(3)], np.array([3, 1])) == LogicalTensor(7, f32, (2, 3), (3, 1))  # type: ignore[arg-type]
    assert hash(LogicalTensor(7, f32, [2, 3])) == hash(T)  # type: ignore[arg-type]


def test_twelve_dims_are_the_most() -> None:
    assert LogicalTensor(7, f32, (1,) * MAX_NDIMS).ndims == LogicalTensor.of_rank(7, f32, MAX_NDIMS).ndims == 12


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LogicalTensor(7, f32, (1,) * 13), "logical tensor 7: 13 dims; oneDNN allows 12"),
        (lambda: LogicalTensor.of_rank(7, f32, 13), "logical tensor 7: 13 dims; use 0 to 12, or -1 for an unknown rank"),
        (lambda: LogicalTensor.of_rank(7, f32, -2), "logical tensor 7: -2 dims; use 0 to 12"),
        (lambda: LogicalTensor(7, f32, (2, -1)), "logical tensor 7: a dim of -1; a dim is 0 or more; UNKNOWN_DIM stands for"),
        (lambda: LogicalTensor(7, f32, (2, 3), (1,)), "logical tensor 7: 1 strides for 2 dims; give one stride, in elements, per dim"),
        (lambda: LogicalTensor(7, f32, None, (3, 1)), r"logical tensor 7: strides \(3, 1\) without dims; give the dims"),
        (lambda: LogicalTensor(7, f32, 5), "logical tensor 7: shape is 5; give a sequence of integers"),
        (lambda: LogicalTensor(7, f32, (2.5,)), r"logical tensor 7: shape is \(2.5,\); give a sequence of integers"),
        (lambda: LogicalTensor(7, f32, (2,), "a"), "logical tensor 7: strides is 'a'; give a sequence of integers"),
        (lambda: LogicalTensor(7, "f32"), "logical tensor 7: dtype is 'f32'; use one of DType.undef, DType.f32"),
        (lambda: LogicalTensor(7, f32, layout_type="any"), "logical tensor 7: layout_type is 'any'; use one of LayoutType.undef"),
        (lambda: LogicalTensor(7, f32, property_type=None), "logical tensor 7: property_type is None; use one of PropertyType.undef"),
        (lambda: LogicalTensor(-1, f32), "logical tensor -1: the id is -1; use an integer from 0"),
        (lambda: LogicalTensor("x", f32), "logical tensor x: the id is 'x'; use an integer from 0"),
        (lambda: LogicalTensor(7, f32, (2,), layout_id=3), "logical tensor 7: layout id 3 with a layout that is strided; only opaque"),
        (lambda: replace(T, property_type=PropertyType.host_scalar), r"a host scalar that is no single number; give it shape \(\)"),
        (lambda: LogicalTensor(7, DType.s8, (), property_type=PropertyType.host_scalar), "give it shape .. and dtype f32 or s32 or s64"),
        (lambda: LogicalTensor(7, f32, property_type=PropertyType.host_scalar), "a host scalar that is no single number"),
        (lambda: LogicalTensor(7, f32).get_dims(), "logical tensor 7: its rank is unknown; give it a shape, or query it after compile"),
        (lambda: LogicalTensor(7, f32).get_strides(), "logical tensor 7: its rank is unknown"),
        (lambda: replace(T, layout_type=LayoutType.any).get_strides(), "logical tensor 7: its layout is any; only strided layouts have"),
        (lambda: T.get_layout_id(), "logical tensor 7: its layout is strided; only opaque layouts have an id"),
    ],
)
def test_invalid_tensors_are_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        make()


def test_equal_tensors_compare_and_hash_equal() -> None:
    """Immutable, copied and sent as it is."""
    with pytest.raises(FrozenInstanceError):
        T.id = 8  # type: ignore[misc]
    assert copy.deepcopy(T) == pickle.loads(pickle.dumps(T)) == T


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "want"),
    [
        ((), None, f32, 4),
        ((2, 3), None, f32, 24),
        ((2, 3), None, DType.bf16, 12),
        ((2, 0, 3), None, f32, 0),
        ((2, 3), (8, 1), f32, 64),
        ((1, 3), (8, 1), f32, 12),
        ((3, 2), (1, 3), f32, 24),
        ((3, 3), (1, 1), f32, 20),
        ((3,), None, s4, 2),
        ((5, 3), None, s4, 8),
        ((4, 1), (1, 100), f32, 16),
    ],
)
def test_the_memory_size_is_the_largest_dim_times_stride(shape: Shape, strides: Shape | None, dtype: DType, want: int) -> None:
    assert LogicalTensor(7, dtype, shape, strides).get_mem_size() == want


@given(st.lists(st.integers(0, 4), max_size=4), st.randoms(use_true_random=False))
def test_the_memory_size_suffices(dims: list[int], random: Random) -> None:
    """Whatever element the strides reach lies inside."""
    strides = tuple(random.randint(0, 30) for _ in dims) if random.random() < 0.5 else dense_strides(tuple(dims))
    t = LogicalTensor(7, DType.u8, tuple(dims), strides)
    reached = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*dims)]
    assert all(offset < t.get_mem_size() for offset in reached)


@pytest.mark.parametrize("layout", [LayoutType.any, LayoutType.undef])
def test_the_size_of_a_layout_that_is_not_settled_is_unknown(layout: LayoutType) -> None:
    assert replace(T, layout_type=layout).get_mem_size() == UNKNOWN_SIZE


def test_equal_means_usable_without_a_reorder() -> None:
    opaque = LogicalTensor(7, f32, (2, 3), layout_type=LayoutType.opaque, layout_id=5)
    assert T.is_equal(LogicalTensor(7, f32, (2, 3), (3, 1))), "strides that are not given are row-major"
    assert T.is_equal(replace(T, property_type=PropertyType.variable)), "undef means variable"
    assert opaque.is_equal(replace(opaque))
    others = [
        replace(T, id=8),
        replace(T, dtype=DType.s32),
        replace(T, shape=(3, 2)),
        replace(T, shape=None),
        replace(T, shape=(2, UNKNOWN_DIM)),
        replace(T, strides=(1, 2)),
        replace(T, property_type=PropertyType.constant),
        replace(T, layout_type=LayoutType.any),
        replace(T, layout_type=LayoutType.undef),
        opaque,
        replace(opaque, layout_id=6),
    ]
    for other in others:
        assert not T.is_equal(other)
        assert not other.is_equal(T)
        assert other.is_equal(other)
    assert not opaque.is_equal(others[-1])
    scalar = LogicalTensor(7, f32, ())
    assert not scalar.is_equal(replace(scalar, property_type=PropertyType.host_scalar))
