"""Random numbers that depend only on seed, tensor and position: not on the division of work, nor on other tensors.

Numbers that elements share, or rows, come from a hash of their position; plain sequences, of which there may be millions, from a generator
per chunk of the tensor. The hash is the finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.int64]  # of elements in row-major order, or of pairs or rows that share a number
Words: TypeAlias = NDArray[np.uint64]

_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))  # splitmix64's


def _mixed(z: Words) -> Words:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.asarray(z ^ (z >> np.uint64(31)))


@dataclass(frozen=True)
class Noise:
    """The random numbers of one tensor. lane: independent numbers of one element have different lanes."""

    seed: int
    tensor: int

    def chunk(self, number: int) -> np.random.Generator:
        """The generator of one chunk's elements."""
        return np.random.Generator(np.random.SFC64((self.seed, self.tensor, number)))

    def words(self, at: Positions, lane: int = 0) -> Words:
        """64 random bits per position."""
        key = np.zeros(1, np.uint64)
        for part in (self.seed, self.tensor, lane):
            key = _mixed((key + np.uint64(part % 2**64)) * _GOLDEN + _GOLDEN)
        return _mixed(at.astype(np.uint64) * _GOLDEN + key)

    def integers(self, low: int, high: int, at: Positions, lane: int = 0) -> NDArray[np.int64]:
        """Uniform integers from low to high, both included; at most 2**32 of them."""
        span = np.uint64(high - low + 1)
        return np.asarray(((self.words(at, lane) >> np.uint64(32)) * span >> np.uint64(32)).astype(np.int64) + low)

    def unit(self, at: Positions, lane: int = 0) -> NDArray[np.float64]:
        """Uniform reals in [0, 1), of 53 bits."""
        return np.asarray((self.words(at, lane) >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def chance(self, share: float, at: Positions, lane: int = 0) -> NDArray[np.bool_]:
        """True at this share of the positions."""
        return np.asarray(self.unit(at, lane) < share)
