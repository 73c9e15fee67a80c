"""Numbers of every sort, and how the manual rounds them to bf16."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint32]


def to_bf16(x: Bits) -> NDArray[np.uint16]:
    """Of the neighbours in bf16, the nearer one, and of two that are as near the even one."""
    below, rest = x >> 16, x & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (below % 2 == 1))
    result = np.where(np.isnan(x.view(np.float32)), below | 0x40, np.where((x & 0x7F800000) == 0, below & 0x8000, below + up))
    return result.astype(np.uint16)


def numbers(rng: np.random.Generator, size: int) -> Bits:
    """f32, or pairs of bf16, of every sort: all bits random, sizes near 1, around the smallest normal, special ones, halfway cases."""
    special = np.array([0, 0x8000, 0x3F80, 0x7F80, 0xFF80, 0x7FC1, 0x7F81, 0xFFC3, 0x0080, 0x8080, 0x0001, 0x807F, 0x7F7F], np.uint32)
    pairs = rng.choice(special, size) << 16 | rng.choice(special, size)
    near_one = (rng.standard_normal(size) * 2.0 ** rng.integers(-12, 12, size)).astype(np.float32).view(np.uint32)
    small = (rng.integers(0, 4 << 23, size) | rng.integers(0, 2, size) << 31).astype(np.uint32)
    half = rng.integers(0, 1 << 16, size, np.uint32) << 16 | 0x8000
    anything = rng.integers(0, 1 << 32, size, np.uint32)
    sorts = np.stack([near_one, near_one, anything, small, half, pairs])
    return sorts[rng.integers(0, len(sorts), size), np.arange(size)].astype(np.uint32)
