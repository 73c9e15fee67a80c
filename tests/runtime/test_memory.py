from __future__ import annotations

import pytest

from benchgraph.core.errors import OutOfMemory
from benchgraph.runtime.memory import HUGE_BYTES, aligned


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4096, 2 * HUGE_BYTES, 2 * HUGE_BYTES + 1])
def test_buffers_are_aligned_and_of_the_asked_size(nbytes: int) -> None:
    buffer = aligned(nbytes)
    assert buffer.nbytes == nbytes
    assert buffer.ctypes.data % (HUGE_BYTES if nbytes >= 2 * HUGE_BYTES else 64) == 0
    buffer[:1] = buffer[-1:] = 7


def test_an_empty_buffer_has_an_address_of_its_own() -> None:
    a, b = aligned(0), aligned(0)
    assert a.ctypes.data != b.ctypes.data


def test_more_than_the_machine_has_is_out_of_memory() -> None:
    with pytest.raises(OutOfMemory, match="cannot allocate"):
        aligned(1 << 60)
