"""Load balance: how evenly tasks are distributed over the cores."""

from __future__ import annotations

from math import ceil

MOST_IDLE = 0.05  # share of the cores' time that an uneven number of tasks may waste


def idle_share(tasks: int, cores: int) -> float:
    """Share of the cores' time that so many equal tasks leave unused."""
    return 1 - tasks / (ceil(tasks / cores) * cores)


def idle_share_of_groups(entries: int, panels: int, width: int, cores: int) -> float:
    """The same where a task is a group of `width` panels of one batch entry, group after group; the last group may have fewer panels.

    >>> round(idle_share_of_groups(32, 16, 3, cores=2), 2), idle_share_of_groups(32, 16, 2, cores=2)
    (0.11, 0.0)
    """
    return 1 - entries * panels / (most_panels_per_core(entries, panels, width, cores) * cores)


def most_panels_per_core(entries: int, panels: int, width: int, cores: int) -> int:
    """Panels of the first core then, which has most, since its groups are whole."""
    whole, rest = divmod(panels, width)
    tasks = ceil(entries * ceil(panels / width) / cores)
    return min(tasks, entries * whole) * width + max(tasks - entries * whole, 0) * rest
