"""The cost of nests without a product: rows that are added to one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.isa import ISAS
from benchgraph.machine.table import rates
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.schedule.elements import Access, ElementNest, space
from benchgraph.schedule.elements_cost import ElementCosts, choose_elements, rows_together
from benchgraph.schedule.primitives import Schedule

TARGET = Target(ISAS["avx512_core"], 32 << 10, 1 << 20, 1, llc_bytes=32 << 20, machine="zen4")
RATES = rates(TARGET)
COMING = RATES.latency_ns("dram") * RATES.read_bytes_per_ns("dram", 1)  # bytes that come in the latency of memory


def rows_of(columns: int, apart: int, *, rows: int = 64, images: int = 1) -> ElementNest:
    """The sums of rows of f32, so many elements apart, of each image."""
    src = Access(0, 32, (rows * apart, apart, 1), 0)
    dst = Access(1, 32, (columns, 0, 1), 0, is_store=True)
    return ElementNest((images, rows, columns), frozenset({1}), (src, dst), (1,), (1,), is_pointwise=False)


def blocks_of(nest: ElementNest, size: int) -> Schedule:
    return next(s for s in space(nest, TARGET) if size in s.sizes("d2"))


def passes(nest: ElementNest, size: int) -> float:
    return ElementCosts(nest, TARGET)(blocks_of(nest, size), 1).passes


def test_blocks_of_rows_that_are_far_apart_in_memory_are_long() -> None:
    (columns,) = choose_elements(rows_of(401408, 401408), replace(TARGET, cores=2)).schedule.sizes("d2")
    assert 4 * columns > COMING


@given(st.sampled_from([512, 2048]), st.sampled_from([512, 2048]))
def test_the_latency_of_a_row_is_hidden_by_as_much_as_it_is_long(one: int, other: int) -> None:
    nest = rows_of(401408, 401408)
    shares = [COMING / (4 * size + COMING) for size in (one, other)]
    of_one, of_other = (passes(nest, size) for size in (one, other))
    assert of_one / of_other == pytest.approx(shares[0] / shares[1], rel=0.01)


ZEN5 = Target(ISAS["avx512_core_bf16"], 48 << 10, 1 << 20, 1, llc_bytes=32 << 20, machine="zen5")


@pytest.mark.parametrize(
    ("rows", "columns", "target", "together"),
    [(512, 256, ZEN5, 1), (512, 64, ZEN5, 4), (16, 256, ZEN5, 4), (512, 256, TARGET, 4)],
    ids=["from L2", "less than half a page together", "from L1", "as fast side by side"],
)
def test_rows_are_summed_together_unless_l2_is_slower_side_by_side(rows: int, columns: int, target: Target, together: int) -> None:
    src, one = Access(0, 32, (columns, 1), 0), Access(1, 32, (0, 1), 0)
    nest = ElementNest((rows, columns), frozenset({1}), (src, one), (2,), (1,), is_pointwise=False)
    assert rows_together(nest, target).count == together


def test_rows_within_a_page_are_one_stream() -> None:
    near, far = (rows_of(768, apart, images=1024) for apart in (PAGE_BYTES // 4 - 1, PAGE_BYTES // 4))
    assert passes(near, 256) < passes(far, 256) / 10
