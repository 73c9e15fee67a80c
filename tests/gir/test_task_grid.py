"""The task grid of the only product of a nest: no core is idle; few rows mean split columns, many rows do not."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.load_balance import MOST_IDLE
from benchgraph.gir.product import Product
from benchgraph.gir.row_blocks import RowBlock
from benchgraph.gir.search_space import row_blocks
from benchgraph.gir.task_grid import TOLERANCE, TaskGrid, packed_task_grid, split_rows_of_short_sums, task_grid
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Call, Contraction
from tests.support.targets import TARGET


def matmul(m: int, k: int, n: int, dtype: DType = DType.f32, batch: tuple[int, ...] = ()) -> Product:
    how = spec("MatMul").lowering.form
    assert isinstance(how, Contraction)
    src, wei, dst = (
        TensorType(t, shape) for t, shape in ((dtype, (*batch, m, k)), (dtype, (*(1,) * len(batch), k, n)), (DType.f32, (*batch, m, n)))
    )
    return Product(Call("MatMul", with_defaults("MatMul", Attrs()), (src, wei), (dst,)), how)


def chosen(m: int, k: int, n: int, target: Target = TARGET, usual: int = 0, dtype: DType = DType.f32) -> TaskGrid | None:
    """usual: rows of a task by the other heuristic; 0: a block of rows that keeps one core busy and no other."""
    p = matmul(m, k, n, dtype)
    return task_grid(p, column_block(p, target), usual or m, target)


@pytest.mark.parametrize("cores", [2, 4, 8])
@pytest.mark.parametrize(("k", "n"), [(479, 1024), (1024, 1024), (777, 2048)])
def test_few_rows_by_many_columns_are_one_block_whose_columns_are_spread(k: int, n: int, cores: int) -> None:
    found = chosen(32, k, n, replace(TARGET, cores=cores))
    assert found is not None
    assert (found.mb, found.split_n) == (32, True)


@pytest.mark.parametrize(("m", "k", "n"), [(32, 256, 128), (512, 256, 128), (4096, 64, 64)])
def test_products_that_l2_holds_keep_whole_rows(m: int, k: int, n: int) -> None:
    """Nothing is read from beyond L2 either way; one core then writes whole rows."""
    assert chosen(m, k, n, usual=min(m // 2, 64)) is None


@pytest.mark.parametrize(("usual", "rows"), [(64, 16), (32, 16), (22, 11), (16, 16), (7, 7)])
@pytest.mark.parametrize("batch", [(), (4,)])
def test_rows_of_short_sums_are_cut_evenly(usual: int, rows: int, batch: tuple[int, ...]) -> None:
    """Stores are so fast there that prefetches ahead of a tall block take lines from another core."""
    found = RowBlock(usual, "so")
    cut = split_rows_of_short_sums(matmul(512, table(TARGET).short_sum_terms, 512, batch=batch), found, TARGET)
    assert cut.mb == rows
    assert (cut is found) == (rows == usual)
    assert split_rows_of_short_sums(matmul(512, table(TARGET).short_sum_terms + 1, 512, batch=batch), found, TARGET) is found


def test_batch_entries_with_the_same_weights_are_whole_tasks_of_many_rows() -> None:
    """The width of a row of dst does not matter where no op needs whole rows."""
    p = matmul(64, 4096, 14336, batch=(8,))
    found = task_grid(p, column_block(p, TARGET), usual=7, target=TARGET)
    assert found is not None
    assert (found.mb, found.split_n) == (64, False)


def test_one_batch_entry_of_few_rows_has_its_columns_spread() -> None:
    p = matmul(16, 1024, 4096, batch=(1,))
    found = task_grid(p, column_block(p, TARGET), usual=8, target=TARGET)
    assert found is not None
    assert (found.mb, found.split_n) == (16, True)


def test_many_rows_keep_their_columns_together() -> None:
    found = chosen(4096, 1024, 64)
    assert found is not None
    assert not found.split_n


def test_one_core_has_no_columns_to_spread() -> None:
    assert chosen(32, 1024, 1024, replace(TARGET, cores=1), usual=32) is None


def test_problems_without_a_balanced_grid_have_none() -> None:
    """One row, one panel, two cores."""
    assert chosen(1, 256, 1) is None


def test_narrower_dtypes_read_less() -> None:
    """960 x 512 weights are nearly half of L2 as s8, and four times that as f32."""
    usual = 16
    assert chosen(32, 960, 512, usual=usual) is not None
    assert chosen(32, 960, 512, usual=usual, dtype=DType.s8) is None


def loads(m: int, n: int, nb: int, found: TaskGrid, target: Target) -> list[int]:
    """Blocks of rows times vectors of columns of each core: tasks panel by panel, as many consecutive ones for each core."""
    panels = [ceil(min(nb, n - first) / target.lanes) for first in range(0, n, nb)] if found.split_n else [ceil(n / target.lanes)]
    tasks = [vectors for vectors in panels for _ in range(ceil(m / found.mb))]
    share = ceil(len(tasks) / target.cores)
    return [sum(tasks[i * share : (i + 1) * share]) for i in range(target.cores)]


@given(st.integers(1, 700), st.integers(1, 2000), st.integers(1, 2000), st.sampled_from([1, 2, 3, 4, 16]))
def test_the_grid_is_legal_balanced_and_has_the_most_rows_of_equal_costs(m: int, k: int, n: int, cores: int) -> None:
    target = replace(TARGET, cores=cores)
    found = chosen(m, k, n, target)
    if found is None:
        return
    each = loads(m, n, column_block(matmul(m, k, n), target), found, target)
    assert found.mb in row_blocks(m)
    assert sum(each) >= (1 - MOST_IDLE) * max(each) * cores
    assert found.cost >= 0
    assert TOLERANCE < 1


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

    others = [TaskGrid(mb, split, 0.0) for mb in row_blocks(m) if mb <= table(TARGET).packed_task_rows for split in (False, True)]
    found = packed_task_grid(m, n, ns, target)
    assert found.cost == most(found) == min(map(most, others))
