"""How much memory is free, within the limits of a container."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchgraph.core.errors import OutOfMemory
from benchgraph.core.files import is_file
from benchgraph.core.formats import size


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


def need_memory_for(files: Iterable[Path], copies: int) -> None:
    """Raise OutOfMemory where so many copies of the files do not fit into memory. Those that do not exist take none."""
    need = copies * sum(file.stat().st_size for file in files if is_file(file))
    if need and need > (free := free_bytes()):
        what = f"not enough RAM: {size(need)} are needed to read it, {size(free)} are free"
        raise OutOfMemory(what, fix="use a machine with more memory, or a smaller model")
