"""Making data cold: every line of every array, nothing else, and no data changed."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from benchgraph.core.errors import OutOfMemory, Unimplemented
from benchgraph.machine.target import LINE_BYTES, PAGE_BYTES, host
from benchgraph.measure import cache_eviction
from benchgraph.measure.cache_eviction import CHUNK_BYTES, Eviction

x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="clflush is x86-64's")


def lines(chunks: np.ndarray) -> list[int]:
    """The lines that the flush visits, as its loop does: from the first on, one by one, below the end."""
    return [at for begin, end in chunks.tolist() for at in range(begin, end, LINE_BYTES)]


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 100])
@pytest.mark.parametrize("offset", [0, 1, 60])
def test_every_line_that_an_array_touches_is_flushed_once(nbytes: int, offset: int) -> None:
    array = np.zeros(nbytes + offset, np.uint8)[offset:]
    first, last = array.ctypes.data // LINE_BYTES, (array.ctypes.data + nbytes - 1) // LINE_BYTES
    assert lines(cache_eviction._chunks([array])) == [line * LINE_BYTES for line in range(first, last + 1)]


def test_a_view_is_flushed_from_its_first_to_its_last_element() -> None:
    whole = np.zeros((16, 1024), np.float32)
    view = whole[3:9, 100:200].T
    found = lines(cache_eviction._chunks([view]))
    assert min(found) <= whole[3, 100:].ctypes.data < min(found) + LINE_BYTES
    assert max(found) <= whole[8, 199:].ctypes.data < max(found) + LINE_BYTES


def test_empty_knobs_have_no_words() -> None:
    assert len(cache_eviction._chunks([np.zeros((0, 4))])) == len(cache_eviction._chunks([])) == 0


@x86
@pytest.mark.parametrize("tlb_bytes", [0, 1 << 20])
def test_data_stay_as_they_are(tlb_bytes: int) -> None:
    arrays = [np.arange(100_000, dtype=np.float32), np.arange(7, dtype=np.int8), np.zeros(0)]
    before = [a.copy() for a in arrays]
    make_cold = Eviction(arrays, tlb_bytes, 2, host())
    for _ in range(3):
        make_cold()
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))


@x86
def test_the_code_flushes_and_waits_for_it() -> None:
    text = cache_eviction._code(host()).assembly()
    assert "clflush" in text
    assert text.index("clflush") < text.index("mfence")


@x86
def test_flushing_comes_before_touching(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round, flushing would bring the translations back."""
    done = list[tuple[str, int]]()
    make_cold = Eviction([np.zeros(4)], 8 * PAGE_BYTES, 3, host())
    monkeypatch.setattr(make_cold, "_flush", lambda address, count: done.append(("flush", count)))
    monkeypatch.setattr(make_cold, "_touch", lambda address, count: done.append(("touch", count)))
    make_cold()
    assert done == [("flush", len(make_cold._chunks)), ("touch", 3)]
    begin, end = make_cold._region
    assert end - begin == 8 * PAGE_BYTES


def test_other_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Unimplemented, match=r"clflush, which this aarch64 processor lacks; measure with --cold-cache=none"):
        Eviction([], 0, 1, host())


@x86
def test_too_many_pages_are_refused() -> None:
    with pytest.raises(OutOfMemory, match=r"give a smaller \+tlb:SIZE"):
        Eviction([], 1 << 60, 1, host())
