"""A machine's thresholds and its rates, read from `tables/*.toml`, where each value stands with its source (table_file.py).

generic.toml holds for every machine. The file of an ISA level (avx2.toml), of a vendor (amd.toml) and of a microarchitecture (zen5.toml)
hold what differs, and override it in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Protocol

from benchgraph.core.errors import ParseError, did_you_mean
from benchgraph.core.isa import ISAS, Isa
from benchgraph.machine.levels import at_level
from benchgraph.machine.rates import Rates, built, missing
from benchgraph.machine.table_file import MOST_RATE, ScheduleRow, TableFile, chain, shown


@dataclass(frozen=True)
class MachineTable:
    """The values of one machine. What each of them means, its unit and its source stand in the TOML file, in the same order."""

    # tasks
    tasks_per_core: int
    # how much of a cache is there for something
    shared_block_share: float
    l1_prefetched_share: float
    llc_factor: float
    llc_most_bytes: int
    # how much arithmetic hides a transfer, or costs as much as one
    macs_per_converted_element: int
    macs_per_packed_element: int
    rows_to_stream_weights: int
    # rows of a task
    working_set_share: float
    # weights that are read as they are stored
    gemv_rows: int
    widened_rows: int
    widened_bf16_rows: tuple[int, int]
    widened_bf16_rows_from_memory: tuple[int, int]
    widened_constant_rows: int
    compressed_rows: int
    repeated_conversions: int
    # streams of memory
    unrolled_columns: int
    stream_prefetch_bytes: int
    # stores
    non_temporal_reads: int
    followed_tiles: int
    # the microkernel
    weight_prefetch_rows: int
    # what cores do well by themselves
    l2_loads_keep_up: bool
    one_stream_is_fast: bool
    multiplies_s16_fast: bool

    def working_set(self, cache_bytes: int) -> int:
        """Bytes of an L1 or L2 of this size that what a task works on may take."""
        return int(self.working_set_share * cache_bytes)


class Cpu(Protocol):
    """What selects a table: of `Target`, which itself depends on tables."""

    @property
    def isa(self) -> Isa: ...

    @property
    def machine(self) -> str: ...

    @property
    def cores(self) -> int: ...


def table(target: Cpu) -> MachineTable:
    """The thresholds of a target. Raises ParseError for a file that is missing or broken."""
    return _thresholds(target.machine, target.isa.name)


def rates(target: Cpu) -> Rates:
    """The rates of a target, for vectors of its ISA level. Raises ParseError for a file that is missing or broken."""
    return _rates(target.machine, target.isa)


@cache
def _thresholds(machine: str, level: str) -> MachineTable:
    return MachineTable(**{key: _value(entry) for key, entry in entries(machine, level).items()})


def entries(machine: str, level: str) -> Mapping[str, Mapping[str, Any]]:
    """By field of MachineTable, the entry (value, unit, why, source). Raises ParseError for one that is missing or misspelt."""
    found, wanted = dict[str, Mapping[str, Any]](), {f.name: str(f.type) for f in fields(MachineTable)}
    for file in chain(machine, level):
        for key, entry in file.thresholds.items():
            where = f"{file.name}: [{key}]"
            if key not in wanted:
                raise ParseError("no such threshold", where=where, fix=did_you_mean(key, wanted) or "leave it out")
            if not isinstance(entry, dict) or _type_name(_value(entry)) != wanted[key]:
                needed, example = _EXAMPLES[wanted[key]]
                raise ParseError(f"needs {needed} as value", where=where, fix=f"write value = {example}, for instance")
            if not all(0 <= each <= MOST_RATE for each in _numbers(_value(entry))):
                raise ParseError(f"is {shown(entry['value'])}: no machine needs that", where=where, fix=f"give 0 to {MOST_RATE:g}")
            if lacking := next((part for part in ("unit", "why", "source") if not entry.get(part)), ""):
                raise ParseError(f"has no {lacking}", where=where, fix=f'write {lacking} = "..."')
        found |= file.thresholds
    if lacking := next((key for key in wanted if key not in found), ""):
        raise ParseError("is missing", where=f"{machine or level}: [{lacking}]", fix='base the table on another one, as base = "generic"')
    return found


@cache
def _rates(machine: str, isa: Isa) -> Rates:
    files = chain(machine, isa.name)
    native = _native(files, isa.name)
    own = _complete(machine, native)
    return own if ISAS[native] == isa else at_level(own, isa, _complete("", isa.name))


def schedule_rows(target: Cpu) -> tuple[str, tuple[ScheduleRow, ...]]:
    """The name of a target's table, and the schedules that it prescribes: for vectors and threads as the target's."""
    files = chain(target.machine, target.isa.name)
    is_native = _native(files, target.isa.name) == target.isa.name
    return files[-1].name, tuple(row for row in files[-1].schedules if is_native and row.threads == target.cores)


def _native(files: Sequence[TableFile], level: str) -> str:
    """The ISA level whose vectors a table's rates are of."""
    return next((f.level for f in reversed(files) if f.level), level)


def _complete(machine: str, level: str) -> Rates:
    """As the files have them, without conversion to another ISA level."""
    files, found = chain(machine, level), dict[str, float]()
    for file in files:
        found |= {name: value for name, (value, _) in file.rates.items()}
    if lacking := missing(found):
        fix = "base the table on another one, or write it anew with `benchgraph calibrate -o FILE`"
        raise ParseError("has no value", where=f"{files[-1].name}: [rates] {lacking[0]}", fix=fix)
    cores = next((f.cores for f in reversed(files) if f.cores), 1)
    datapath = next((f.datapath_bits for f in reversed(files) if f.datapath_bits), ISAS[level].vector_bits)
    return built(found, name=files[-1].name, provenance=files[-1].provenance, level=level, cores=cores, datapath_bits=datapath)


def _value(entry: Mapping[str, Any]) -> Any:
    """The value of an entry; a list is a pair or more of numbers."""
    value = entry.get("value")
    return tuple(value) if isinstance(value, list) else value


_EXAMPLES = {
    "int": ("a whole number", "1"),
    "float": ("a number with a point", "1.0"),
    "bool": ("true or false", "true"),
    "tuple[int, int]": ("two whole numbers", "[1, 2]"),
}


def _numbers(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _type_name(value: object) -> str:
    return f"tuple[{', '.join(map(_type_name, value))}]" if isinstance(value, tuple) else type(value).__name__
