"""Load balance: how evenly tasks are distributed over the cores."""

from __future__ import annotations

from math import ceil

MOST_IDLE = 0.05  # share of the cores' time that an uneven number of tasks may waste


def idle_share(tasks: int, cores: int) -> float:
    """Share of the cores' time that so many equal tasks leave unused."""
    return 1 - tasks / (ceil(tasks / cores) * cores)


def most_panels_per_core(entries: int, panels: int, width: int, cores: int) -> int:
    """Panels of the first core, which has most, where a task is a group of `width` panels of one batch entry; the last may have fewer.

    >>> most_panels_per_core(32, 16, 3, cores=2)
    288
    """
    whole, rest = divmod(panels, width)
    tasks = ceil(entries * ceil(panels / width) / cores)
    return min(tasks, entries * whole) * width + max(tasks - entries * whole, 0) * rest
