from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.errors import OutOfMemory
from benchgraph.core.pages import HUGE_BYTES, HUGE_FROM
from benchgraph.runtime.memory import Use, aligned, allocate, mapped


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4096, 2 * HUGE_BYTES, 2 * HUGE_BYTES + 1])
def test_buffers_are_aligned_and_of_the_asked_size(nbytes: int) -> None:
    buffer = aligned(nbytes)
    assert buffer.nbytes == nbytes
    assert buffer.ctypes.data % (HUGE_BYTES if nbytes >= 2 * HUGE_BYTES else 64) == 0
    buffer[:1] = buffer[-1:] = 7


@pytest.mark.parametrize("nbytes", [0, 1, 65, HUGE_FROM - 1, HUGE_FROM, HUGE_BYTES + 1])
def test_measured_and_constant_buffers_have_separate_pages(nbytes: int) -> None:
    for buffer in (mapped(nbytes), allocate(nbytes, Use.persistent)):
        assert buffer.nbytes == max(nbytes, 1)
        assert buffer.ctypes.data % (HUGE_BYTES if nbytes >= HUGE_FROM else 64) == 0
        buffer[:1] = buffer[-1:] = 7


def test_an_empty_buffer_has_an_address_of_its_own() -> None:
    a, b = aligned(0), aligned(0)
    assert a.ctypes.data != b.ctypes.data


@pytest.mark.parametrize("of", [aligned, mapped])
def test_a_buffer_larger_than_memory_raises_out_of_memory(of: Callable[[int], object]) -> None:
    with pytest.raises(OutOfMemory, match="cannot allocate"):
        of(1 << 60)
