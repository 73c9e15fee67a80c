"""Tasks of a product whose weights are packed on the fly: the busiest core has least work."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.divisors import block_sizes
from benchgraph.gir.packed_task_grid import TaskGrid, packed_task_grid
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from tests.support.targets import TARGET


def loads(m: int, n: int, nb: int, found: TaskGrid, target: Target) -> list[int]:
    """Blocks of rows times vectors of columns of each core: tasks panel by panel, as many consecutive ones for each core."""
    panels = [ceil(min(nb, n - first) / target.lanes) for first in range(0, n, nb)] if found.split_n else [ceil(n / target.lanes)]
    tasks = [vectors for vectors in panels for _ in range(ceil(m / found.mb))]
    share = ceil(len(tasks) / target.cores)
    return [sum(tasks[i * share : (i + 1) * share]) for i in range(target.cores)]


@pytest.mark.parametrize(
    ("m", "n", "mb", "split", "why"),
    [
        (64, 512, 64, True, "four panels for each core"),
        (512, 512, 256, False, "as many rows for each, and no panel to spare"),
        (256, 100, 128, False, "panels of four and three vectors, each by all rows: eight sevenths"),
        (77, 320, 39, False, "five panels: twelve tenths"),
        (12, 400, 12, True, "sixteen by 12 rows are soon done, all 25 have to be made for 6 rows too"),
        (1000, 64, 250, False, "one panel; of so many rows that a piece stays in cache"),
        (700, 64, 175, False, "350 are too many"),
    ],
)
def test_packed_blocks_leave_the_busiest_core_least(m: int, n: int, mb: int, split: bool, why: str) -> None:
    found = packed_task_grid(m, n, 64, TARGET)
    assert (found.mb, found.split_n) == (mb, split), why


def test_computed_rows_are_one_block_where_packed_blocks_are_tasks() -> None:
    packing = table(TARGET).rows_per_packed_block
    assert packed_task_grid(577, 768, 384, TARGET) == TaskGrid(193, True, (193 + packing) * 3 * 24)
    assert packed_task_grid(577, 768, 384, TARGET, makes_rows=True) == TaskGrid(145, False, (145 + packing) * 2 * 48)
    assert packed_task_grid(64, 768, 384, TARGET, makes_rows=True).split_n


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from([16, 48, 64, 256]), st.sampled_from([1, 2, 3, 16]))
def test_no_other_grid_of_packed_blocks_costs_less(m: int, n: int, ns: int, cores: int) -> None:
    target = replace(TARGET, cores=cores)

    def most(g: TaskGrid) -> int:
        return (g.mb + table(TARGET).rows_per_packed_block) * max(loads(m, n, ns, g, target))

    others = [TaskGrid(mb, split, 0) for mb in block_sizes(m) if mb <= table(TARGET).packed_task_rows for split in (False, True)]
    found = packed_task_grid(m, n, ns, target)
    assert found.cost == most(found) == min(map(most, others))
