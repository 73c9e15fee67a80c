"""How evenly tasks come out on the cores."""

from __future__ import annotations

from math import ceil

IDLE = 0.05  # share of the cores' time that may be lost to tasks that do not come out even


def idle(tasks: int, cores: int) -> float:
    """Share of the cores' time that so many equal tasks leave unused."""
    return 1 - tasks / (ceil(tasks / cores) * cores)


def idle_of_groups(entries: int, panels: int, width: int, cores: int) -> float:
    """The same where the tasks are panels by so many, group after group, each for all batch entries; the last group may have fewer.

    >>> round(idle_of_groups(32, 16, 3, cores=2), 2), idle_of_groups(32, 16, 2, cores=2)
    (0.11, 0.0)
    """
    return 1 - entries * panels / (most_of_groups(entries, panels, width, cores) * cores)


def most_of_groups(entries: int, panels: int, width: int, cores: int) -> int:
    """Panels that the first core has then, which has most: its groups are whole."""
    whole, rest = divmod(panels, width)
    tasks = ceil(entries * ceil(panels / width) / cores)
    return min(tasks, entries * whole) * width + max(tasks - entries * whole, 0) * rest
