"""Divisors, block sizes and even splits. Dims exceed 2**31, so loops run to their square root only."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isqrt


def block_sizes(total: int, blocks: int = 1) -> Iterator[int]:
    """ceil(total / n) for n = blocks, blocks + 1, ... total, each once, largest first: at most twice the square root of total.

    >>> list(block_sizes(10)), list(block_sizes(10, 3))
    ([10, 5, 4, 3, 2, 1], [4, 3, 2, 1])
    """
    while blocks <= total:
        size = -(-total // blocks)
        yield size
        blocks = total + 1 if size == 1 else (total - 1) // (size - 1) + 1  # the first number with smaller blocks


def divisors(n: int) -> list[int]:
    """The divisors of a positive number, smallest first.

    >>> divisors(12), divisors(7)
    ([1, 2, 3, 4, 6, 12], [1, 7])
    """
    few = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return few + [n // d for d in reversed(few) if d * d != n]


def divisor_from(n: int, least: int) -> int | None:
    """The first divisor of n in [least, 2 * least), if there is one; tries at most as many numbers as the square root of n.

    >>> divisor_from(12, 3), divisor_from(100, 30), divisor_from(7, 2)
    (3, 50, None)
    """
    if least <= n // least:
        return next((d for d in range(least, 2 * least) if n % d == 0), None)
    return next((n // parts for parts in range(n // least, n // (2 * least), -1) if n % parts == 0), None)


def even_split(total: int, most: int) -> tuple[tuple[int, int], ...]:
    """Split total into the fewest parts of at most `most`, whose sizes differ by at most one: (count, size) pairs, larger parts first.

    >>> even_split(16, 6)
    ((1, 6), (2, 5))
    """
    parts = ceil(total / most)
    size, larger = divmod(total, parts)
    return tuple((count, size) for count, size in ((larger, size + 1), (parts - larger, size)) if count)
