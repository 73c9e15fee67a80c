"""Numbers as text, in one place, so that tables and pages about the same run have the same digits."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

NOTHING = "\N{EN DASH}"  # in place of an interval that says nothing
SAYS_NOTHING = 4.0  # high over low of the interval of a ratio, from which not even a factor of two either way is known
COARSE_S = 1e-6  # below it, four decimals of milliseconds have one significant digit


def computer(cpu: str, cores: int, isa: str, threads: int) -> str:
    """What a run computed on, in a few words."""
    return f"{cpu}, {counted(cores, 'core')}, {isa}, {counted(threads, 'thread')}"


def unit(arithmetic: str) -> str:
    """The unit of rates in this arithmetic: billions of operations per second."""
    return "GOP/s" if arithmetic == "int8" else "GFLOP/s"


def counted(n: int, noun: str, plural: str = "") -> str:
    """1 op, 2 ops. plural: where it is not the noun with an s."""
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"


def size(nbytes: int) -> str:
    """4 B, 12.5 kB, 1.05 MB, 640 GB."""
    unit, name = next(((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if nbytes >= unit), (1, "B"))
    return f"{nbytes / unit:.{max(3, len(str(int(nbytes // unit))))}g} {name}"


def ranges(ids: Iterable[int]) -> str:
    """Numbers in ascending order, three or more neighbours as a range, and their count if there is a range: `0-59 (60)`."""
    all_ids = list(ids)
    texts = runs(all_ids)
    return " ".join(texts) + (f" ({len(all_ids)})" if len(texts) < len(all_ids) else "")


def runs(ids: Iterable[int], sign: str = "") -> list[str]:
    """Numbers in ascending order, each after a sign; three or more neighbours are one text: `p0-p2`."""
    neighbours = list[list[int]]()
    for id in sorted(ids):
        if neighbours and id == neighbours[-1][-1] + 1:
            neighbours[-1].append(id)
        else:
            neighbours.append([id])
    return [t for run in neighbours for t in ([f"{sign}{run[0]}-{sign}{run[-1]}"] if len(run) > 2 else [f"{sign}{id}" for id in run])]


def milliseconds(seconds: float, digits: int = 4) -> str:
    """Milliseconds as a number without unit; below COARSE_S microseconds with their unit: `0.104 us`."""
    if digits >= 4 and 0 < seconds < COARSE_S:
        return f"{seconds * 1e6:.3f} us"
    return f"{seconds * 1e3:.{digits}f}"


def with_unit(seconds: float) -> str:
    """As `milliseconds`, but with the unit: `0.0123 ms`, `0.104 us`."""
    text = milliseconds(seconds)
    return text if text.endswith("us") else f"{text} ms"


def interval(low: float, high: float, form: str, between: str) -> str:
    """The ends of the interval of a ratio; NOTHING if it is not finite, or so wide that it says nothing. form: the format of a number."""
    if not (isfinite(low) and isfinite(high)) or low <= 0 or high >= SAYS_NOTHING * low:
        return NOTHING
    return f"{low:{form}}{between}{high:{form}}"


def number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:.1f}"


def short(value: float | None, unit: float = 1.0) -> str:
    """At most five characters for any rate that a machine reaches, so that tables fit 120 columns."""
    return "-" if value is None else f"{value / unit:.1f}" if value < 100 * unit else f"{value / unit:.0f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def metric(n: float) -> str:
    """Three significant digits with the prefix of a unit: 512, 49.2k, 1.18G."""
    for prefix, unit in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= unit * 0.9995:
            return f"{n / unit:.0f}{prefix}" if n >= 99.95 * unit else f"{n / unit:.3g}{prefix}"
    return f"{n:.0f}"
