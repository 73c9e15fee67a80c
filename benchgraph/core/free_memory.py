"""How much memory is free, within the limits of a container."""

from __future__ import annotations

from pathlib import Path

from benchgraph.core.errors import OutOfMemory


def free_bytes() -> int:
    """Memory available without swapping, within the container's limit. Raises OutOfMemory if Linux does not report it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    if kib is None:
        raise OutOfMemory("the system does not say how much memory is free", where="/proc/meminfo")
    free, group = kib << 10, Path("/sys/fs/cgroup")
    limit, used = group / "memory.max", group / "memory.current"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    return free
