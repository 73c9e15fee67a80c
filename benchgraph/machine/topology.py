"""How the processors that this process may use lie on cores, sockets and caches, and how much of them it gets.

Two virtual machines with processors of one name differ most in this: 4 processors are 4 cores or the threads of 2, on one or two blocks
of last-level cache; and a container may have all processors of its host and the time of one and a half.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from benchgraph.core.files import text_or_nothing as text
from benchgraph.core.formats import counted
from benchgraph.machine.cpu_affinity import allowed_cpus

CPUS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
CGROUP_OF_SELF = Path("/proc/self/cgroup")


def topology() -> str:
    """As `4 CPUs, 2 cores, 1 L3`; sockets and NUMA nodes if there are several, and the quota if there is one. '' if it is not known."""
    cpus = allowed_cpus()
    cores = {_of(cpu, "topology/core_cpus_list", "topology/thread_siblings_list") for cpu in cpus}
    if not cpus or "" in cores:
        return ""
    sockets = {_of(cpu, "topology/physical_package_id") for cpu in cpus}
    nodes = {path.name for cpu in cpus for path in (CPUS / f"cpu{cpu}").glob("node*")}
    parts = [counted(len(cpus), "CPU"), counted(len(cores), "core"), *_last_level(cpus)]
    parts += [counted(len(found), name) for name, found in (("socket", sockets), ("NUMA node", nodes)) if len(found) > 1]
    limit = quota()
    return ", ".join(parts) + (f", {limit:.3g} CPUs by quota" if limit is not None and limit < len(cpus) else "")


def _last_level(cpus: tuple[int, ...]) -> Iterator[str]:
    """The number of last-level caches, as `2 L3`."""
    last, count = _last_level_caches(cpus)
    if last:
        yield f"{count} L{last}"


def last_level_caches() -> int:
    """How many of them the processors that this process may use lie on; 1 where it is not known."""
    return max(1, _last_level_caches(allowed_cpus())[1])


def _last_level_caches(cpus: tuple[int, ...]) -> tuple[int, int]:
    """Their level and number, 0 where it is not known."""
    first = CPUS / f"cpu{cpus[0]}" / "cache" if cpus else CPUS / "none"
    levels = {int(text(index / "level") or 0): index.name for index in sorted(first.glob("index*"))}
    last = max(levels, default=0)
    return last, len({_of(cpu, f"cache/{levels[last]}/shared_cpu_list") for cpu in cpus}) if last else 0


def _of(cpu: int, *names: str) -> str:
    """The first of these files of a CPU that there is; '' without any."""
    return next(filter(None, (text(CPUS / f"cpu{cpu}" / name) for name in names)), "")


def quota() -> float | None:
    """The processors' worth of time that this process's control groups, or those above them, allow at most; None for no limit."""
    limits = [limit for group in _groups() for limit in (_limit(group),) if limit is not None]
    return min(limits, default=None)


def _groups() -> Iterator[Path]:
    """The folders of this process's control groups for processor time, of version 2 and 1, and of those above them."""
    for line in text(CGROUP_OF_SELF).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        inside = PurePosixPath(name.lstrip("/"))
        if number == "0" and not controllers:
            yield from (CGROUPS / folder for folder in (inside, *inside.parents))
        elif "cpu" in controllers.split(","):
            yield from (CGROUPS / mount / folder for mount in dict.fromkeys(("cpu", controllers)) for folder in (inside, *inside.parents))


def _limit(group: Path) -> float | None:
    found = text(group / "cpu.max") or f"{text(group / 'cpu.cfs_quota_us')} {text(group / 'cpu.cfs_period_us')}"
    allowed, _, period = found.partition(" ")
    if not allowed.isdecimal() or not period.isdecimal() or not int(period):  # "max", "-1", or no such file
        return None
    return int(allowed) / int(period)
