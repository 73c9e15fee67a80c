"""A machine's rates, costs and cache shares, read from `tables/*.toml`, where each value stands with its unit and its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from benchgraph.machine.target import Target

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
    # streams of memory
    unrolled_columns: int
    unrolled_columns_one_stream: int
    stream_prefetch_bytes: int


def table(target: Target) -> MachineTable:
    """The table of a target's ISA level, which is the generic one for levels without values of their own."""
    return _of_level(target.isa.name)


@cache
def _of_level(name: str) -> MachineTable:
    return MachineTable(**{key: entry["value"] for key, entry in entries(name).items()})


def entries(name: str) -> Mapping[str, Mapping[str, Any]]:
    """By field, the entries (value, unit, why, source) of a level. Raises ValueError for a file that lacks or misspells one."""
    found = _read(GENERIC) | (_read(name) if name != GENERIC else {})
    wanted = {f.name: f.type for f in fields(MachineTable)}
    for key in sorted(wanted.keys() ^ found.keys()):
        raise ValueError(f"{FOLDER}: {key} is {'missing' if key in wanted else 'no field of MachineTable'}")
    for key, entry in found.items():
        if type(entry.get("value")).__name__ != wanted[key] or not all(entry.get(part) for part in ("unit", "why", "source")):
            raise ValueError(f"{FOLDER}: {key} needs a value of type {wanted[key]}, a unit, why it is so, and a source")
    return found


def _read(name: str) -> dict[str, dict[str, Any]]:
    path = FOLDER / f"{name}.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}
