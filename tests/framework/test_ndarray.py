"""Arrays: their properties, windows, conversions."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.layout import Layout
from benchgraph.framework.counters import counted
from benchgraph.framework.memory_desc import describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.temp_space import TempSpace

BLOCKS = Layout((1, 0), ((1, 8),))
VALUES = np.arange(24 * 20, dtype=np.float32).reshape(24, 20)


def array(layout: Layout | None = None) -> NDArray:
    return NDArray.of(VALUES, name="a", layout=layout)


def test_the_default_layout_is_what_numpy_shows() -> None:
    a = array(BLOCKS)
    assert a.is_opaque
    assert a.desc.nbytes == 24 * 24 * 4
    np.testing.assert_array_equal(a.numpy(), VALUES)
    assert a.is_opaque, "reading does not convert"
    got = a.numpy()
    got[...] = 0
    np.testing.assert_array_equal(a.numpy(), VALUES)


@pytest.mark.parametrize("other", [(480,), (24, 5, 4), (6, 4, 20)])
def test_memory_may_have_dims_of_another_rank(other: tuple[int, ...]) -> None:
    """I1 (B1): read again and again, nothing changes."""
    a = array()
    layout = Layout((*range(1, len(other)), 0)) if len(other) > 1 else None
    assert a.reorder_(describe(DType.f32, other, layout)) is (layout is not None)
    for _ in range(3):
        state = a.chunk.store(""), a.version
        np.testing.assert_array_equal(a.numpy(), VALUES)
        np.testing.assert_array_equal(a.slice(3, 5).numpy(), VALUES[3:5])
        with TempSpace().op("op") as scope:
            np.testing.assert_array_equal(a.reordered(describe(DType.f32, (24, 20)), scope).array, VALUES)
        assert (a.chunk.store(""), a.version) == state


def test_handles_of_plain_memory_are_aliases_in_any_rank() -> None:
    a = array()
    with TempSpace().op("op") as scope, counted() as c:
        flat = a.reordered(describe(DType.f32, (480,)), scope)
        assert np.shares_memory(flat.data, a.memory(scope).data)
        assert a.try_memory(describe(DType.f32, (24, 20), BLOCKS), scope) is None
    assert c.reorders == 0


def test_a_view_shows_the_parent_and_writes_it() -> None:
    a = array()
    view = a.slice(4, 6).reshape((4, 10))
    assert view.is_view
    np.testing.assert_array_equal(view.numpy(), VALUES[4:6].reshape(4, 10))
    view.copy_from(np.zeros((4, 10)))
    want = VALUES.copy()
    want[4:6] = 0
    np.testing.assert_array_equal(a.numpy(), want)


def test_writing_a_view_converts_the_parent_and_keeps_its_rows() -> None:
    """I3 (B4)."""
    a = array(BLOCKS)
    a.at(7).copy_from(np.full(20, -1))
    want = VALUES.copy()
    want[7] = -1
    assert not a.is_opaque
    np.testing.assert_array_equal(a.numpy(), want)


def test_the_whole_is_no_view_and_a_slice_of_a_reused_array_is_one() -> None:
    """B2."""
    a = array()
    assert not a.is_view
    assert not a.slice(0, 24).is_view
    assert not a.reshape((480,)).is_view
    reused = NDArray.empty((4 * 480,), DType.u8).as_array((24, 20), DType.f32)
    assert not reused.is_view
    assert reused.slice(0, 12).is_view


def test_an_assignment_keeps_the_layout_and_counts_as_a_version() -> None:
    a = array(BLOCKS)
    layout, version = a.desc, a.version
    a.copy_from(VALUES + 1)
    assert (a.desc, a.version) == (layout, version + 1)
    np.testing.assert_array_equal(a.numpy(), VALUES + 1)


def test_conversions_are_no_versions() -> None:
    """R7."""
    a = array()
    for layout in (BLOCKS, Layout((1, 0)), Layout((0, 1))):
        assert a.reorder_(layout)
        assert not a.reorder_(layout)
        assert a.version == 1
        np.testing.assert_array_equal(a.numpy(), VALUES)


def test_reused_memory_does_not_grow() -> None:
    a = NDArray.empty((480,)).as_array((24, 20), DType.f32, "a")
    a.copy_from(VALUES)
    assert not a.reorder_(BLOCKS), "24 columns do not fit into memory for 20"
    assert a.reorder_(Layout((1, 0)))
    np.testing.assert_array_equal(a.numpy(), VALUES)
    assert a.chunk.store("").buffer.size == 480 * 4


def test_another_array_in_the_same_memory() -> None:
    """B3: the layout before is forgotten with the first write."""
    slot = NDArray.empty((24 * 24 * 4,), DType.u8)
    first, second = slot.as_array((24, 20), DType.f32, "first"), slot.as_array((100,), DType.s32, "second")
    first.copy_from(VALUES)
    assert first.reorder_(BLOCKS)
    second.copy_from(np.arange(100))
    assert not second.is_opaque
    np.testing.assert_array_equal(second.numpy(), np.arange(100))


@pytest.mark.parametrize("dtype", [d for d in GRAPH_DTYPES if d is not DType.undef])
def test_every_dtype_in_and_out_of_a_layout(dtype: DType) -> None:
    values = (np.arange(30) % 7).reshape(5, 6).astype(dtype.numpy)
    a = NDArray.of(values, dtype, "a")
    np.testing.assert_array_equal(a.numpy(), values)
    if not dtype.is_packed:
        assert a.reorder_(Layout((1, 0), ((1, 4),)))
        np.testing.assert_array_equal(a.numpy(), values)
        np.testing.assert_array_equal(a.slice(1, 3).numpy(), values[1:3])
    else:
        np.testing.assert_array_equal(a.slice(1, 3).numpy(), values[1:3])


def test_the_users_memory_is_shared() -> None:
    mine = VALUES.copy()
    a = NDArray.over(mine, "mine")
    a.slice(0, 1).copy_from(np.zeros((1, 20)))
    assert (mine[0] == 0).all()
    mine[1] = 5
    np.testing.assert_array_equal(a.numpy()[1], mine[1])
    assert not a.reorder_(BLOCKS), "it stays as the user has it"


def test_two_windows_on_the_users_memory_overlap() -> None:
    mine = VALUES.copy()
    a, b = NDArray.over(mine, "a"), NDArray.over(mine[2:4], "b")
    assert a.overlaps(b)
    assert not NDArray.over(mine[:2], "c").overlaps(b)


def test_to_default_is_a_copy_only_where_it_must_be() -> None:
    plain, opaque = array(), array(BLOCKS)
    assert plain.to_default() is plain
    assert not opaque.to_default().is_opaque
    assert opaque.is_opaque


@pytest.mark.parametrize("layout", [Layout((1, 0)), BLOCKS, Layout((0, 1), ((0, 16), (1, 8)))], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 17), (17, 1), (16, 8), (15, 9), (0, 4)])
def test_packing_agrees_with_arithmetic(layout: Layout, shape: tuple[int, int]) -> None:
    """Every element where its index puts it, zeros elsewhere: R6."""
    values = np.arange(1, shape[0] * shape[1] + 1, dtype=np.float32).reshape(shape)
    desc = describe(DType.f32, shape, layout)
    a = NDArray.of(values, layout=layout)
    memory = desc.array(a.chunk.store("").data)
    want, sizes = np.zeros(desc.physical, np.float32), dict(desc.layout.blocks)
    for at in np.ndindex(shape):
        outer = [at[axis] // sizes.get(axis, 1) for axis in desc.layout.order]
        want[tuple(outer + [at[axis] % size for axis, size in desc.layout.blocks])] = values[at]
    np.testing.assert_array_equal(memory, want)
    np.testing.assert_array_equal(a.numpy(), values)
