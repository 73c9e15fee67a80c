from __future__ import annotations

import pytest

from benchgraph.core.pages import HUGE_BYTES, HUGE_FROM, address, pages
from benchgraph.machine.target import PAGE_BYTES


@pytest.mark.parametrize("nbytes", [0, 1, PAGE_BYTES + 1, HUGE_FROM - 1, HUGE_FROM, HUGE_BYTES, 2 * HUGE_BYTES + 1])
def test_pages_are_zeroed_writable_and_aligned(nbytes: int) -> None:
    mapping, start = pages(nbytes)
    assert (address(mapping) + start) % (HUGE_BYTES if nbytes >= HUGE_FROM else PAGE_BYTES) == 0
    assert mapping[start : start + nbytes] == bytes(nbytes)
    mapping[start : start + nbytes] = b"\7" * nbytes


def test_freed_pages_do_not_keep_their_contents() -> None:
    mapping, start = pages(HUGE_FROM)
    mapping[start : start + 3] = b"old"
    mapping.close()
    mapping, start = pages(HUGE_FROM)
    assert mapping[start : start + 3] == bytes(3)


def test_large_memory_is_whole_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of them too: a tensor's end is read as often as its beginning."""
    advised = []

    class Mapping(bytearray):
        def madvise(self, option: int, start: int, length: int) -> None:
            advised.append((start, length))

    monkeypatch.setattr("benchgraph.core.pages.anonymous", Mapping)
    _, start = pages(HUGE_BYTES + 1)
    assert advised == [(start, 2 * HUGE_BYTES)]


@pytest.mark.parametrize("nbytes", [1 << 60, 1 << 80])
def test_too_many_pages_raise_an_os_error(nbytes: int) -> None:
    with pytest.raises(OSError):
        pages(nbytes)
