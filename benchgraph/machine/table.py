"""A machine's rates, costs and cache shares, read from `tables/*.toml`, where each value stands with its unit and its source.

generic.toml holds for every machine. The files of a vendor (AuthenticAMD.toml), of its families from some number on (AuthenticAMD-26.toml)
and of an ISA level (avx2.toml) hold what differs, and override it in this order.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from benchgraph.core.isa import Isa

FOLDER = Path(__file__).parent / "tables"
GENERIC = "generic"


@dataclass(frozen=True)
class MachineTable:
    """The values of one machine. What each of them means, its unit and its source stand in the TOML file, in the same order."""

    # time on one core
    fork_join_ns: float
    short_task_ns: float
    vector_step_ns: float
    macs_per_ns: float
    l2_bytes_per_ns: float
    microkernel_call_ns: float
    # cache lines that another core has written
    remote_line_ns: float
    shared_line_ns: float
    private_l2_factor: int
    tasks_per_core: int
    private_saved_share: float
    # bytes by the level of cache that they come from
    l2_byte_cost: float
    l3_byte_cost: float
    # how much of a cache is there for something
    l2_panel_share: float
    l2_panel_group_share: float
    l2_repeated_panel_share: float
    l2_tile_weights_share: float
    l2_weights_factor: int
    shared_block_share: float
    l1_prefetched_share: float
    llc_factor: float
    llc_most_bytes: int
    # how much arithmetic hides a transfer, or costs as much as one
    macs_per_converted_element: int
    macs_per_packed_element: int
    rows_per_packed_block: int
    rows_to_prefetch_panel: int
    rows_to_prefetch_panel_from_memory: int
    rows_to_stream_weights: int
    tile_rows_to_stream_weights: int
    # rows of a task
    working_set_share: float
    rows_per_task: int
    rows_between_products: int
    tile_rows_per_task: int
    short_sum_terms: int
    rows_of_short_sums: int
    masked_blocks: int
    masked_blocks_of_two: int
    folded_rows: int
    folded_rows_of_large_weights: int
    # columns of a microkernel call
    tile_call_columns: int
    tile_copied_row_bytes: int
    tile_read_row_bytes: int
    narrow_panel_rows: tuple[int, int]
    narrow_panel_vectors: int
    large_weights_factor: int
    result_block_columns: int
    l2_panel_vectors: int
    l2_blocking_saving: int
    l2_part_terms: int
    # weights that are packed or converted block by block
    converted_few_rows: int
    converted_block_of_few_rows: tuple[int, int]
    converted_block: tuple[int, int]
    unpacked_columns: int
    unpacked_rows: int
    unpacked_rows_from_memory: int
    packed_block: tuple[int, int]
    prefetched_block: tuple[int, int]
    packed_panel_rows: int
    packed_task_rows: int
    repeated_conversions: int
    # weights that are read as they are stored, and weights that change
    gemv_rows: int
    gemv_rows_of_short_columns: int
    gemv_short_terms: int
    gemv_terms_per_row: int
    long_row_bytes: int
    widened_rows: int
    widened_bf16_rows: tuple[int, int]
    widened_bf16_rows_from_memory: tuple[int, int]
    widened_constant_rows: int
    compressed_rows: int
    rounded_uses: int
    packed_rows_per_entry: int
    packed_rows: int
    packed_macs: int
    packed_rows_per_miss: int
    packed_rows_per_miss_of_entry: int
    # stencils
    stencil_registers: int
    stencil_taps_from_memory: int
    unrolled_taps: int
    padded_plane_elements: int
    padded_elements_per_tap: int
    padded_narrow_elements_per_tap: int
    least_saved_taps: float
    least_tap_terms: int
    # loops over elements
    parallel_elements: int
    chunk_elements: int
    least_chunk_elements: int
    tile_elements: int
    stored_vectors: int
    stored_row_bytes: int
    inner_loop_elements: int
    split_elements: int
    split_task_elements: int
    shared_task_elements: int
    shared_task_rows: int
    # streams of memory
    unrolled_columns: int
    stream_prefetch_bytes: int
    # loops over rows
    interleaved_rows: int
    interleaved_reductions: int
    interleaved_instructions: int
    interleaved_row_elements: int
    streamed_row_elements: int
    far_row_bytes: int
    jammed_rows: int
    jammed_row_elements: int
    # vectors
    reduction_accumulators: int
    accumulator_rounds: int
    scattered_instructions: int
    unrolled_loads: int
    generated_numbers: int
    transposed_tile_bytes: int
    non_temporal_reads: int
    # the microkernel
    accumulators_in_flight: int
    narrow_tile_rows: int
    weight_prefetch_rows: int
    lines_per_step: int
    lines_per_tile_step: int
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
    def vendor(self) -> str: ...

    @property
    def family(self) -> int: ...


def table(target: Cpu) -> MachineTable:
    """The table of a target."""
    return _of(target.isa.name, target.vendor, target.family)


@cache
def _of(level: str, vendor: str, family: int) -> MachineTable:
    starts = sorted(int(path.stem.rpartition("-")[2]) for path in FOLDER.glob(f"{vendor}-*.toml"))
    files = (vendor, *(f"{vendor}-{start}" for start in starts if start <= family), level)
    return MachineTable(**{key: _value(entry) for key, entry in entries(*files).items()})


def entries(*files: str) -> Mapping[str, Mapping[str, Any]]:
    """By field, the entries (value, unit, why, source) of the generic file, overridden by these. Raises ValueError for a missing or
    misspelt one."""
    found = _read(GENERIC)
    for name in files:
        found |= _read(name)
    wanted = {f.name: f.type for f in fields(MachineTable)}
    for key in sorted(wanted.keys() ^ found.keys()):
        raise ValueError(f"{FOLDER}: {key} is {'missing' if key in wanted else 'no field of MachineTable'}")
    for key, entry in found.items():
        if _type_name(_value(entry)) != wanted[key] or not all(entry.get(part) for part in ("unit", "why", "source")):
            raise ValueError(f"{FOLDER}: {key} needs a value of type {wanted[key]}, a unit, why it is so, and a source")
    return found


def _value(entry: Mapping[str, Any]) -> Any:
    """The value of an entry; a list is a pair or more of numbers."""
    value = entry.get("value")
    return tuple(value) if isinstance(value, list) else value


def _type_name(value: object) -> str:
    return f"tuple[{', '.join(map(_type_name, value))}]" if isinstance(value, tuple) else type(value).__name__


def _read(name: str) -> dict[str, dict[str, Any]]:
    path = FOLDER / f"{name}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}
