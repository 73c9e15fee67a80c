"""Choices by limits that were measured, where the cost of schedules is too far off or has no term; the machine table has the limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from benchgraph.machine.table import table
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.schedule.traffic import beyond_all_l2

T = TypeVar("T")


def ranks_dot_products(rows: int, target: Target) -> bool:
    """Whether the cost is near enough for dot products of so few rows with columns of weights.
    docs/measurements/gemv.md, Dot products by cost"""
    return rows <= table(target).gemv_rows


def unrolled_columns(rows: int, nbytes: int, target: Target) -> int:
    """How many columns of weights, of so many bytes each, are multiplied by so few rows at a time.
    docs/measurements/gemv.md, Columns at a time"""
    machine = table(target)
    if nbytes <= PAGE_BYTES or (machine.one_stream_is_fast and rows == 1):
        return 1
    return max(min(machine.unrolled_columns, target.isa.registers // 2 // rows), 1)


def stream_bytes(target: Target) -> int:
    """How far ahead such columns are prefetched; 0 where hardware does it. docs/measurements/prefetch.md, Streams of 16-bit floats"""
    return table(target).stream_prefetch_bytes


def widened_rows(nbytes: int, target: Target, *, is_multiplied: bool, by_columns: bool) -> int:
    """Up to how many rows read narrow floats that change, so many bytes, as they are stored. is_multiplied: the machine multiplies their
    dtype. docs/measurements/compressed-weights.md, Narrow floats that change"""
    machine = table(target)
    limits = machine.widened_bf16_rows_from_memory if target.is_far(nbytes) else machine.widened_bf16_rows
    return min(machine.widened_rows, limits[by_columns]) if is_multiplied else machine.widened_rows


def widens_constants(rows: int, target: Target) -> bool:
    """Whether so few rows widen constant narrow floats as they load them. docs/measurements/compressed-weights.md, Narrow floats that are
    constant"""
    return rows <= table(target).widened_constant_rows


def stays_compressed(rows: int, target: Target) -> bool:
    """Whether large constant weights are converted at every execution for so few rows, each task of which may convert all.
    docs/measurements/compressed-weights.md, Compressed or widened by init"""
    machine = table(target)
    return rows <= machine.compressed_rows and min(rows, target.cores) <= machine.repeated_conversions


def sums_stay_in_l1(count: int, target: Target) -> bool:
    """Whether L1 holds so many sums beside what comes and goes. docs/measurements/passes.md"""
    return F32_BYTES * count <= table(target).working_set(target.l1_bytes)


def is_summed_in_l1(entries: int, n: int, nbytes: int, target: Target) -> bool:
    """Whether one row of n sums of each batch entry stays in L1, while narrow weights of so many bytes that no other core reads come from
    end to end, which cores do faster than the cost says. docs/measurements/on-the-fly-packing.md, Rows read together"""
    has_own = entries >= target.cores
    return has_own and beyond_all_l2(nbytes, target) and sums_stay_in_l1(n, target)


def converted_macs(elements: int, target: Target, *, packs: bool = False) -> int:
    """Multiply-adds that take as long as to load, convert and store so many elements, or to pack them beside their neighbours.
    docs/measurements/low-precision.md, Elements copied for a product"""
    machine = table(target)
    return elements * (machine.macs_per_packed_element if packs else machine.macs_per_converted_element)


def rows_ahead(lengths: Mapping[T, int], target: Target) -> Iterator[T]:
    """Of what loops go along a row of, by bytes of it, those whose next rows are prefetched. docs/measurements/prefetch.md, Rows of
    reductions"""
    if sum(lengths.values()) > table(target).l1_prefetched_share * target.l1_bytes:
        yield from (each for each, nbytes in lengths.items() if nbytes <= target.l1_bytes)


def goes_past_caches(nbytes: int, reads: int, target: Target) -> bool:
    """Whether results of nests that access so many bytes, and read so many elements for a result, are stored past the caches.
    docs/measurements/non-temporal-stores.md"""
    machine = table(target)
    held = min(target.llc_bytes * (machine.llc_factor if target.cores > 1 else 1), machine.llc_most_bytes)
    return 0 < held <= nbytes and reads <= machine.non_temporal_reads


def shares_blocks(nbytes: int, tasks: int, target: Target) -> bool:
    """Whether neighbouring nests read so many bytes, which L2 does not hold, block by block: one for each task, enough for all cores, and
    L2 holds it beside everything else."""
    machine, is_held = table(target), nbytes <= target.l2_bytes
    return not is_held and nbytes <= machine.shared_block_share * target.l2_bytes * tasks and tasks >= machine.tasks_per_core * target.cores


def shares_rows(nbytes: int, rows: int, target: Target) -> bool:
    """Whether L1 holds one of so many rows, which take so many bytes, beside everything else."""
    return nbytes <= table(target).shared_block_share * target.l1_bytes * rows
