"""The machine we compile for: vector width, register file, caches, cores."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from pathlib import Path

from benchgraph.core.config import config
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented, within
from benchgraph.core.isa import ISAS, Isa
from benchgraph.machine import cpu_affinity
from benchgraph.machine.identify import identified
from benchgraph.machine.table import rates, table

__all__ = [
    "ISAS", "LINE_BYTES", "PAGE_BYTES", "TILES_OF_SUMS", "TILE_COLUMNS", "TILE_ROWS", "Isa", "Target", "caches", "cpu_info",
    "cpu_name", "current", "host", "last_level_bytes", "missing", "on_line",
]  # fmt: skip

LINE_BYTES = 64  # of a cache line, on every CPU we know
TILE_ROWS, TILE_COLUMNS = 16, 16  # of a tile register, whose columns have 32 bits
TILES_OF_SUMS = 4  # of the eight tile registers; the others are operands
PAGE_BYTES = 4096  # of memory, within which hardware fetches ahead
FEWEST_LANES = 4  # of a vector
ALIAS_BYTES = 4096  # addresses this far apart fall in one set of a first-level cache, whose ways are one page each
FEWEST_WAYS = 8  # of a first-level cache, on every CPU we know


def on_line(position: int) -> int:
    """The first cache line from there on; of a size, that in whole lines."""
    return -(-position // LINE_BYTES) * LINE_BYTES


def lanes_for(count: int | None, most: int) -> int:
    """Of vectors for so many elements: no more than hold them all, which some hardware works on in half the time. None: it is not known."""
    lanes = most
    while count is not None and count <= lanes // 2 >= FEWEST_LANES:
        lanes //= 2
    return lanes


@dataclass(frozen=True)
class Target:
    """What schedules and code generation may know of the machine.

    l1_bytes, l2_bytes: per core. cores: how many threads a parallel loop uses. emulated: dtypes whose products are to be computed as on a
    machine that has them, from plain instructions: s16 where that pays (`pays_in_s16`), others in tests. shares_all: threads share
    loops that are too short for it as well (tests). llc_bytes: of the last-level cache, which cores share; 0 where it is not known, and
    counts as holding everything. machine: which table (`table.py`) it has, by the name of a built-in one or the path of a file; "" is
    that of the ISA level.
    """

    isa: Isa
    l1_bytes: int
    l2_bytes: int
    cores: int
    emulated: frozenset[DType] = frozenset()
    shares_all: bool = False
    llc_bytes: int = 0
    machine: str = ""

    @property
    def lanes(self) -> int:
        """f32 lanes of one vector."""
        return self.isa.lanes

    def narrowed(self, count: int) -> Target:
        """With vectors for so many elements."""
        lanes = lanes_for(count, self.lanes)
        return self if lanes == self.lanes else replace(self, isa=replace(self.isa, lanes=lanes))

    def multiplies(self, dtype: DType) -> bool:
        """Whether products are computed from src of this dtype: u8 (with wei in s8) and bf16 as they are stored, bytes as s16."""
        has = {DType.u8: self.isa.has_vnni, DType.bf16: self.isa.has_bf16, DType.s16: False}
        return has[dtype] or dtype in self.emulated

    def in_tiles(self, src: DType) -> bool:
        """Whether tile registers multiply src of this dtype."""
        return self.isa.has_amx and src in (DType.bf16, DType.u8)

    def rows_in_l1(self, apart: int, nbytes: int) -> int:
        """How many rows of so many bytes L1 holds when they begin so many bytes apart."""
        return int(self.l1_bytes // (nbytes * crowding(apart, nbytes)))

    def is_far(self, nbytes: int) -> bool:
        """Whether so many bytes are taken to come from memory whenever they are read from end to end: half of the last-level cache is not
        theirs."""
        return 0 < self.llc_bytes < 2 * nbytes

    @property
    def panel_width(self) -> int:
        """Columns of a packed weight panel: the widest register tile that leaves room for enough rows."""
        return self.isa.lanes * (4 if self.isa.registers >= 32 else 2)


def rows_in_sets(apart: int, ways: int = FEWEST_WAYS) -> int:
    """Of how many rows so many bytes apart a first-level cache holds a line each."""
    return ways * ALIAS_BYTES // gcd(ALIAS_BYTES, apart)


def crowding(apart: int, nbytes: float) -> float:
    """How many times its bytes a row of so many takes in a cache, when rows begin so many bytes apart: of all sets they may fall in few.

    >>> crowding(4096, 256), crowding(4352, 256), crowding(256, 256)
    (16.0, 1.0, 1.0)
    """
    return max(ALIAS_BYTES / (rows_in_sets(apart, 1) * nbytes), 1.0)


# LLVM's names of features, where Linux has another.
_LINUX_NAMES = {"avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "avxvnni": "avx_vnni"}


def missing(isa: Isa) -> tuple[str, ...]:
    """What this CPU lacks for an instruction set level, by Linux's names; nothing for one that it has."""
    names = (_LINUX_NAMES.get(need, need.replace("-", "_")) for need in isa.needs)
    return tuple(name for name in names if name not in _cpu_flags())


@cache
def cpu_info() -> Mapping[str, str]:
    """What Linux tells of the first CPU; nothing elsewhere."""
    info = Path("/proc/cpuinfo")
    first = info.read_text().split("\n\n", 1)[0] if info.exists() else ""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


@cache
def _cpu_flags() -> frozenset[str]:
    """What this CPU has, by Linux's names, and this process may use."""
    flags = frozenset(cpu_info().get("flags", "").split())
    return flags if "amx_tile" not in flags or _may_use_tiles() else flags - {"amx_tile", "amx_bf16", "amx_int8"}


def _may_use_tiles() -> bool:
    """Ask Linux for tile registers, which a process and all that it forks have to ask for before they use them."""
    arch_prctl, ask, tile_data = 158, 0x1023, 18  # on x86-64; Documentation/arch/x86/xstate.rst
    return int(ctypes.CDLL(None).syscall(arch_prctl, ask, tile_data)) == 0


def cpu_name() -> str:
    """What the processor calls itself."""
    return cpu_info().get("model name") or platform.processor() or platform.machine()


@cache
def caches() -> Mapping[int, int]:
    """Bytes of what holds data, by level; every warm start asks."""
    folder, found = "/sys/devices/system/cpu/cpu0/cache", dict[int, int]()
    for index in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if index.startswith("index"):
            kind, level, size = (Path(folder, index, name).read_text().strip() for name in ("type", "level", "size"))
            if kind in ("Data", "Unified"):
                found.setdefault(int(level), int(size.rstrip("KM")) * (1 << 20 if size.endswith("M") else 1 << 10))
    return found


def last_level_bytes() -> int:
    """The largest cache of this machine; 32 MB where the system does not tell, which is more than most have."""
    return host().llc_bytes or 32 << 20


def pays_in_s16(target: Target) -> bool:
    """Whether products of bytes take less time as s16, summed in pairs, than in f32, where one instruction does not do all of it.

    The portable level has no fma, so f32 needs two instructions for half of the products. docs/measurements/low-precision.md, Products of
    s16.
    """
    return not target.isa.has_vnni and ("fma" in target.isa.without or table(target).multiplies_s16_fast)


def _at(isa: Isa, machine: Target) -> Target:
    """The machine at this level, and what pays there."""
    target = replace(machine, isa=isa)
    return replace(target, emulated=frozenset({DType.s16} if pays_in_s16(target) else ()))


@cache
def _with_table(target: Target, name: str) -> Target:
    """The machine with another table, which is read as a whole."""
    target = replace(target, machine=name)
    with within("BENCHGRAPH_MACHINE_TABLE"):
        rates(target), table(target)
    return _at(target.isa, target)


@cache
def host() -> Target:
    """This machine at its best instruction set, one thread per core that this process may use."""
    isa = next(isa for isa in ISAS.values() if not missing(isa))
    cores = len(cpu_affinity.allowed_cpus()) or os.cpu_count() or 1
    l1_bytes, l2_bytes = caches().get(1, 32 << 10), caches().get(2, 1 << 20)
    machine = identified(cpu_info(), isa.name)
    return _at(isa, Target(isa, l1_bytes, l2_bytes, cores, llc_bytes=max(caches().values(), default=0), machine=machine))


def current() -> Target:
    """The host, changed by BENCHGRAPH_ISA, _THREADS, _PARALLEL and _MACHINE_TABLE. Raises Unimplemented for an ISA the CPU lacks,
    ParseError for a machine table that cannot be read.
    """
    flags = config()
    target = replace(host(), shares_all=flags.parallel == "always")
    if flags.machine_table:
        target = _with_table(target, flags.machine_table)
    if flags.threads:
        target = replace(target, cores=flags.threads)
    if flags.isa != "auto":
        isa = ISAS[flags.isa]
        if lacking := missing(isa):
            what = f"this {platform.machine()} CPU lacks {', '.join(lacking)}"
            fix = f"the highest it has is {host().isa.name}: choose that, a lower one, or auto"
            raise Unimplemented(what, where=f"BENCHGRAPH_ISA={flags.isa}", fix=fix)
        target = _at(isa, target)
    return target
