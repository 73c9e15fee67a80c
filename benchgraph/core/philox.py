"""philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011): random numbers as a function of their position.

A block of four 32-bit words is computed from a counter of four words and a key of two, in ten rounds.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
MULTIPLIERS, KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)  # from the paper
WORD_BITS, BLOCK = 32, 4  # BLOCK: words per block
LARGEST, WORDS = 2**WORD_BITS - 1, 2**WORD_BITS  # the largest word, and the number of words
MIDDLE = WORDS // 2  # word - MIDDLE is in the range of s32

Words: TypeAlias = NDArray[np.uint32]
Block: TypeAlias = tuple[Words, Words, Words, Words]


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> Block:
    """The four words of each block. counter, key: words, as numbers or as arrays of one shape."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = list(key)
    lower, half = np.uint64(LARGEST), np.uint64(WORD_BITS)
    for _ in range(ROUNDS):
        first, second = np.uint64(MULTIPLIERS[0]) * c[0], np.uint64(MULTIPLIERS[1]) * c[2]
        c = [(second >> half) ^ c[1] ^ np.uint64(k[0]), second & lower, (first >> half) ^ c[3] ^ np.uint64(k[1]), first & lower]
        k = [(word + step) % WORDS for word, step in zip(k, KEY_STEPS, strict=True)]
    a, b, c_, d = (word.astype(np.uint32) for word in c)
    return a, b, c_, d


def blocks(position: Any, seed: Any, offset: Any) -> Block:
    """The blocks that contain word number `position` of a stream, at position % BLOCK. All arguments: 64-bit numbers or arrays."""
    return philox((*_halves(offset), *_halves(position // BLOCK * BLOCK)), _halves(seed))


def _halves(x: Any) -> tuple[Any, Any]:
    """The low and the high word of 64 bits."""
    return x % WORDS, (x >> WORD_BITS) % WORDS
