"""What a microkernel's calls load ahead into L1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS
from benchgraph.machine.target import host
from benchgraph.schedule.gemm import kernel
from benchgraph.schedule.microkernel import wei_ahead


@pytest.mark.parametrize(
    ("k", "taps", "columns", "machine", "want"),
    [
        (64, 1, 64, "", True),
        (32, 1, 64, "", False),
        (32, 2, 64, "", True),
        (64, 1, 32, "", False),
        (32, 1, 128, "", False),  # of which a tile of rows reads 64 at a time
        (64, 1, 64, "zen4", False),  # keeps up with L2
    ],
)
def test_wei_is_loaded_ahead_where_a_tile_of_rows_reads_half_of_l1(k: int, taps: int, columns: int, machine: str, want: bool) -> None:
    target = replace(host(), isa=ISAS["avx512_core"], l1_bytes=32 << 10, machine=machine)
    assert bool(wei_ahead(kernel(k, taps, DType.f32, 4 * k, target), DType.f32, columns, target)) == want


def test_tile_registers_read_all_columns_of_a_call() -> None:
    target = replace(host(), isa=ISAS["avx512_core_amx"], l1_bytes=32 << 10, machine="")
    ahead = [wei_ahead(kernel(64, 1, DType.bf16, 128, target), DType.bf16, columns, target) for columns in (64, 128)]
    assert [rows > 0 for rows in ahead] == [False, True]
