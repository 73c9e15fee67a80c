"""Numbers as text, in one place, so that a table on a terminal and a page about the same run never differ in a digit."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

NOTHING = "\N{EN DASH}"  # in place of an interval that says nothing
SAYS_NOTHING = 4.0  # high over low of the interval of a ratio, from which not even a factor of two either way is known
COARSE_S = 1e-6  # below it four digits of milliseconds say one


def computer(cpu: str, cores: int, isa: str, threads: int) -> str:
    """What a run computed on, in a few words."""
    return f"{cpu}, {counted(cores, 'core')}, {isa}, {counted(threads, 'thread')}"


def unit(arithmetic: str) -> str:
    """Of its rates, in billions of operations a second."""
    return "GOP/s" if arithmetic == "int8" else "GFLOP/s"


def counted(n: int, noun: str) -> str:
    """1 op, 2 ops."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.3g} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.3g} KB"


def ranges(ids: Iterable[int]) -> str:
    """Numbers in ascending order, three or more neighbours as a range, and how many they are where one stands for several: `0-59 (60)`."""
    all_ids = list(ids)
    said = runs(all_ids)
    return " ".join(said) + (f" ({len(all_ids)})" if len(said) < len(all_ids) else "")


def runs(ids: Iterable[int], sign: str = "") -> list[str]:
    """Numbers in ascending order behind a sign, three or more neighbours as one text: `p0-p2`."""
    found = list[list[int]]()
    for id in sorted(ids):
        if found and id == found[-1][-1] + 1:
            found[-1].append(id)
        else:
            found.append([id])
    return [text for run in found for text in ([f"{sign}{run[0]}-{sign}{run[-1]}"] if len(run) > 2 else [f"{sign}{id}" for id in run])]


def milliseconds(seconds: float, digits: int = 4) -> str:
    """A number of milliseconds; where four digits of them say next to nothing, microseconds, which then say so: `0.104 us`."""
    if digits >= 4 and 0 < seconds < COARSE_S:
        return f"{seconds * 1e6:.3f} us"
    return f"{seconds * 1e3:.{digits}f}"


def interval(low: float, high: float, form: str, between: str) -> str:
    """The ends of the interval of a ratio; NOTHING where it has none, or one that would hold any ratio at all. form: of a number."""
    if not (isfinite(low) and isfinite(high)) or low <= 0 or high >= SAYS_NOTHING * low:
        return NOTHING
    return f"{low:{form}}{between}{high:{form}}"


def number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.1f}"


def short(value: float | None, unit: float = 1.0) -> str:
    """Five characters at most, for anything a machine reads: the table is to fit 120 columns."""
    return "-" if value is None else f"{value / unit:.1f}" if value < 100 * unit else f"{value / unit:.0f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
