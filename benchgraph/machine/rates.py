"""What a machine does in a nanosecond: the rates that costs are computed from, and nothing about choices.

Units are the last words of a name: `_cycles` of one core's clock, `_ns`, `_per_cycle`, `_per_ns`. A vector is one of the ISA level's
registers, of f32 lanes. Throughputs are those of one core unless the name begins with `all_`. Values with their sources: tables/*.toml.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.core.memoise import memoised_by

Level = Literal["l1", "l2", "l3", "dram"]
LEVELS: tuple[Level, ...] = get_args(Level)  # fastest first


@dataclass(frozen=True)
class Product:
    """Multiply-adds of one group of dtypes (tir/groups.py) on one core.

    macs_per_cycle: multiply-adds of elements, sums included. latency_cycles: from one instruction to the next one that adds to the same
    accumulator.
    """

    macs_per_cycle: float
    latency_cycles: float

    def accumulators(self, macs: float) -> float:
        """How many independent accumulators keep the core busy. macs: multiply-adds of one instruction (for a tile, of one product)."""
        return self.latency_cycles * self.macs_per_cycle / macs


@dataclass(frozen=True)
class Products:
    """By the group's src (u8s8: u8 by s8), on vector registers. None: the ISA level has no instruction for it."""

    f32: Product
    s16: Product
    bf16: Product | None = None
    u8s8: Product | None = None


@dataclass(frozen=True)
class Tiles:
    """Tile registers. load_cycles: of a whole tile from L1. configure_ns: setting their shapes and releasing them."""

    bf16: Product
    u8s8: Product
    load_cycles: float
    configure_ns: float


@dataclass(frozen=True)
class Vector:
    """Cycles per vector of f32 lanes in registers, when many independent ones are under way.

    simple: an addition, multiplication, comparison, maximum or bit operation. latency: from one addition to the next that needs its
    result. exp: e**x of codegen/vmath.py; tanh, log and the normal distribution take as much to within a factor of two. shuffle: a
    permutation of one register's elements. transpose: a square tile of f32, for each of its vectors. gather: elements from as many
    addresses in L1. from_*, to_*: conversions from and to f32, of as many elements as a vector has f32 lanes (byte: u8 and s8; to_byte
    rounds and saturates).
    """

    simple_cycles: float
    latency_cycles: float
    divide_cycles: float
    square_root_cycles: float
    exp_cycles: float
    shuffle_cycles: float
    transpose_cycles: float
    gather_cycles: float
    from_bf16_cycles: float
    to_bf16_cycles: float
    from_f16_cycles: float
    to_f16_cycles: float
    from_byte_cycles: float
    to_byte_cycles: float

    def conversion_cycles(self, src: DType, dst: DType) -> float:
        """From one dtype to another by way of f32."""
        widen = {DType.f32: 0.0, DType.bf16: self.from_bf16_cycles, DType.f16: self.from_f16_cycles}
        narrow = {DType.f32: 0.0, DType.bf16: self.to_bf16_cycles, DType.f16: self.to_f16_cycles}
        return 0.0 if src is dst else widen.get(src, self.from_byte_cycles) + narrow.get(dst, self.to_byte_cycles)


@dataclass(frozen=True)
class CoreCache:
    """A cache that each core has for itself. latency_ns: from an address to the use of what is there."""

    read_bytes_per_cycle: float
    write_bytes_per_cycle: float
    latency_ns: float


@dataclass(frozen=True)
class CoreL2(CoreCache):
    """rows_read: several long rows side by side, which hardware fetches into L1 more slowly than one on some cores."""

    rows_read_bytes_per_cycle: float


@dataclass(frozen=True)
class SharedCache:
    """A cache that cores share. all_*: of `Rates.cores` cores together."""

    read_bytes_per_ns: float
    all_read_bytes_per_ns: float
    write_bytes_per_ns: float
    all_write_bytes_per_ns: float
    latency_ns: float


@dataclass(frozen=True)
class Dram(SharedCache):
    """Memory. write: bytes stored, where each line is read before and written back later. non_temporal: bytes stored past the caches.
    page_rows_read: several rows of a page side by side, by one core and less than a line at a time; hardware fetches ahead by pages."""

    page_rows_read_bytes_per_ns: float
    non_temporal_bytes_per_ns: float
    all_non_temporal_bytes_per_ns: float


@dataclass(frozen=True)
class WrittenLines:
    """Cache lines that another core has written. latency_ns: one of them. line_ns: each of many that are read one after the other."""

    latency_ns: float
    line_ns: float


@dataclass(frozen=True)
class Overheads:
    """What control flow takes. fork_join_ns: waking one thread that spins and waiting for it. further_thread_ns: each thread more.
    kernel_call_ns: a call of a microkernel, with the ends of its tiles. iteration_cycles: counter and branch of a loop's iteration.
    """

    fork_join_ns: float
    further_thread_ns: float
    kernel_call_ns: float
    iteration_cycles: float


@dataclass(frozen=True)
class Kernels:
    """What microkernels take besides products and bytes, as far as no loop shows it by itself: fitted to times of products.

    vector_end_cycles, tile_end_cycles: of a vector and of a tile of sums, to clear and to store it. split_tile_cycles: a load of a tile
    whose rows begin within cache lines. copied_row_cycles, copied_line_cycles: of such a row and of each of its lines, where a call copies
    them. padded_src_row_cycles, padded_wei_row_cycles: of a row, to pad what is left of k. hidden_share: of arithmetic and transfers from
    beyond L2, what the longest of all hides; l2_hidden_share: of transfers from L2.
    """

    vector_end_cycles: float
    tile_end_cycles: float
    split_tile_cycles: float
    copied_row_cycles: float
    copied_line_cycles: float
    padded_src_row_cycles: float
    padded_wei_row_cycles: float
    hidden_share: float
    l2_hidden_share: float


@dataclass(frozen=True)
class Windows:
    """What windows take besides loads and arithmetic: fitted to times of windows.

    condition_cycles: of a tap's condition, or of what else a loop of one element takes. sum_cycles: of a vector of sums, to load and to
    store it. scattered_streams: elements in one expression, each of a stream of its own, with which what is beyond L2 takes twice as long.
    load_hidden_share: of the shorter of a vector's loads and arithmetic, what the longer hides; nests of elements have the same.
    """

    condition_cycles: float
    sum_cycles: float
    scattered_streams: float
    load_hidden_share: float


def _group(src: DType) -> str:
    """The name of the group of dtypes with this src."""
    return "u8s8" if src in (DType.u8, DType.s8) else src.name


def _of_group(products: Products | Tiles | None, src: DType) -> Product | None:
    found = getattr(products, _group(src), None)
    return found if isinstance(found, Product) else None


@dataclass(frozen=True)
class Rates:
    """The rates of one machine at one ISA level.

    name: of the table (tables/NAME.toml, or a file's path). provenance: in a sentence, where the values come from; the file has it value by
    value. level: the ISA level whose vectors are meant. cores: those whose throughputs together are the `all_*` ones. clock_ghz: cycles per
    nanosecond under load. datapath_bits: of vectors that the core works on in one pass; wider ones take several.
    """

    name: str
    provenance: str
    level: str
    cores: int
    datapath_bits: int
    clock_ghz: float
    products: Products
    vector: Vector
    l1: CoreCache
    l2: CoreL2
    l3: SharedCache
    dram: Dram
    written: WrittenLines
    overheads: Overheads
    kernels: Kernels
    windows: Windows
    tiles: Tiles | None = None

    def ns(self, cycles: float) -> float:
        """Nanoseconds of so many cycles."""
        return cycles / self.clock_ghz

    def share_of_vector(self, lanes: int) -> float:
        """The passes of an instruction on so many f32 lanes, over those of a whole vector."""
        vector_bits = ISAS[self.level].vector_bits
        return max(lanes * DType.f32.bits, self.datapath_bits) / max(vector_bits, self.datapath_bits)

    def product(self, src: DType, in_tiles: bool = False) -> Product:
        """Of the group with this src (f32, bf16, u8, s16), on vector or tile registers. Raises KeyError where the level has none."""
        found = _of_group(self.tiles if in_tiles else self.products, src)
        if found is None:
            raise KeyError(f"{self.name} at {self.level} has no products of {_group(src)}{' in tiles' if in_tiles else ''}")
        return found

    def product_or_f32(self, src: DType) -> Product:
        """Of the group with this src on vector registers, or of f32, which src is converted to where the level has none."""
        return _of_group(self.products, src) or self.products.f32

    def read_bytes_per_ns(self, level: Level, cores: int = 1) -> float:
        """Of so many cores together."""
        return self._throughput(level, "read", cores)

    def l2_rows_read_bytes_per_ns(self, cores: int = 1) -> float:
        """Of so many cores together, which read several rows side by side from L2."""
        return self._throughput("l2", "rows_read", cores)

    @property
    def page_rows_late(self) -> float:
        """How much longer memory takes to give several rows of a page side by side, less than a line at a time: a share."""
        return max(self.dram.read_bytes_per_ns / self.dram.page_rows_read_bytes_per_ns - 1, 0.0)

    def write_bytes_per_ns(self, level: Level, cores: int = 1) -> float:
        """Of so many cores together, by stores that go through the caches."""
        return self._throughput(level, "write", cores)

    def non_temporal_bytes_per_ns(self, cores: int = 1) -> float:
        """Of so many cores together, by stores to memory past the caches."""
        return self._throughput("dram", "non_temporal", cores)

    def latency_ns(self, level: Level) -> float:
        found: CoreCache | SharedCache = getattr(self, level)
        return found.latency_ns

    def fork_join_ns(self, threads: int) -> float:
        """An empty parallel loop on so many threads."""
        return 0.0 if threads < 2 else self.overheads.fork_join_ns + (threads - 2) * self.overheads.further_thread_ns

    def at_cores(self, cores: int) -> Rates:
        """The same machine, its `all_*` rates of so many cores."""
        together = {
            name: {f"all_{what}_bytes_per_ns": self._throughput(name, what, cores) for what in _ALL[name]} for name in ("l3", "dram")
        }
        return replace(self, cores=cores, l3=replace(self.l3, **together["l3"]), dram=replace(self.dram, **together["dram"]))

    @memoised_by
    def _throughput(self, level: Level, what: str, cores: int) -> float:
        found: CoreCache | SharedCache = getattr(self, level)
        if isinstance(found, CoreCache):
            return cores * self.clock_ghz * float(getattr(found, f"{what}_bytes_per_cycle"))
        one, together = (float(getattr(found, f"{prefix}{what}_bytes_per_ns")) for prefix in ("", "all_"))
        return min(cores * one, together)


_ALL = {"l3": ("read", "write"), "dram": ("read", "write", "non_temporal")}
T = TypeVar("T")


def names(group: type = Rates, prefix: str = "") -> Iterator[str]:
    """Of every rate there can be, as `products.f32.macs_per_cycle`, in order."""
    for name, kind, _ in _parts(group):
        if kind is float:
            yield f"{prefix}{name}"
        elif is_dataclass(kind):
            yield from names(kind, f"{prefix}{name}.")


def values(group: object, prefix: str = "") -> dict[str, float]:
    """By name, what a table has."""
    found = dict[str, float]()
    record: Any = type(group)
    for name, kind, _ in _parts(record):
        part = getattr(group, name)
        if kind is float:
            found[f"{prefix}{name}"] = part
        elif is_dataclass(kind) and part is not None:
            found |= values(part, f"{prefix}{name}.")
    return found


def missing(given: Mapping[str, float], group: type = Rates, prefix: str = "") -> list[str]:
    """Names of rates that the given ones lack. A group that may be left out is complete or not there at all."""
    lacking = list[str]()
    for name, kind, is_optional in _parts(group):
        if kind is float and f"{prefix}{name}" not in given:
            lacking.append(f"{prefix}{name}")
        elif is_dataclass(kind) and not (is_optional and not _begins(given, f"{prefix}{name}.")):
            lacking += missing(given, kind, f"{prefix}{name}.")
    return lacking


def built(given: Mapping[str, float], **told: Any) -> Rates:
    """From values by name, none of which is missing. told: name, provenance, level, cores and datapath_bits."""
    return _built(Rates, given, "", told)


def _built(group: Callable[..., T], given: Mapping[str, float], prefix: str, told: Mapping[str, Any]) -> T:
    made = dict(told)
    for name, kind, is_optional in _parts(group):
        if kind is float:
            made[name] = float(given[f"{prefix}{name}"])
        elif is_dataclass(kind):
            is_there = not is_optional or _begins(given, f"{prefix}{name}.")
            made[name] = _built(kind, given, f"{prefix}{name}.", {}) if is_there else None
    return group(**made)


def _begins(given: Mapping[str, float], prefix: str) -> bool:
    return any(name.startswith(prefix) for name in given)


@cache
def _parts(group: Any) -> tuple[tuple[str, type, bool], ...]:
    """Name, type, and whether it may be None, of each field."""
    hints, found = get_type_hints(group), list[tuple[str, type, bool]]()
    for f in fields(group):
        hint = hints[f.name]
        is_optional = isinstance(hint, types.UnionType)
        found.append((f.name, get_args(hint)[0] if is_optional else hint, is_optional))
    return tuple(found)
