"""How many rows a task has: what L2 holds, an even share for each core, and if possible a divisor of all rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.gir.row_blocks import rows_per_task
from tests.support.targets import TARGET


@pytest.mark.parametrize(
    ("m", "rows"),
    [
        (1024, 32),
        (1500, 30),  # 32 leave 28
        (1000, 40),  # rather than 25: a multiple of four
        (784, 28),
        (1160, 40),  # a quarter more
        (5040, 28),  # rather than 40: close to 32
        (1230, 30),  # not 41
        (2092, 32),  # of 523, a prime
    ],
)
def test_a_divisor_close_by_leaves_no_last_task(m: int, rows: int) -> None:
    found = rows_per_task(16, m, 64, TARGET, works_on_rows=True)
    assert found.mb == rows
    assert (f"{rows} divide {m}" in found.why) == (rows != 32)


def test_l2_holds_them_still() -> None:
    """32 rows of 4096 columns of f32 are half of it: 40 are too many."""
    assert rows_per_task(16, 1000, 4096, TARGET, works_on_rows=True).mb == 25
    assert rows_per_task(16, 1000, 4096, replace(TARGET, l2_bytes=2 << 20), works_on_rows=True).mb == 40


def test_few_tasks_are_shared_evenly_instead() -> None:
    """50 rows would be three tasks for two cores."""
    found = rows_per_task(1, 150, 64, TARGET, works_on_rows=False)
    assert found.mb == 38
    assert "2 cores get equal shares" in found.why
