"""The random stream: the published answers, and which word stands where."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.philox import blocks, philox

# (counter, key, words) of philox4x32-10: the known answers published with Random123, the authors' own library.
ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
SEED, OFFSET = -6510615555426900571, 1234567890123  # a seed with its highest bit set, an offset beyond 32 bits


@pytest.mark.parametrize(("counter", "key", "words"), ANSWERS, ids=["zeros", "ones", "pi"])
def test_the_published_words(counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]) -> None:
    assert tuple(map(int, philox(counter, key))) == words


def test_a_block_is_of_offset_and_place_with_seed_as_key() -> None:
    places = np.array([0, 3, 4, 6, 8, 2**32 + 5])
    found = np.stack(blocks(places, SEED, OFFSET), axis=-1)
    for place, block in zip(places.tolist(), found, strict=True):
        group = place - place % 4
        counter = OFFSET % 2**32, OFFSET // 2**32, group % 2**32, group // 2**32
        assert block.tolist() == [int(w) for w in philox(counter, (SEED % 2**32, SEED // 2**32 % 2**32))]
