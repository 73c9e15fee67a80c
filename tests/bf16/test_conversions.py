"""f32 to bf16 as processors with vcvtneps2bf16 round it: in every number of lanes, where rows end, and on the way into packed weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.isa import Isa
from benchgraph.tir.ir import Cast
from tests.bf16.conftest import BELOW, BF16, Cpu
from tests.bf16.rounding import numbers, to_bf16
from tests.support.packings import check_packing
from tests.support.tir_maps import Mapping, run_maps

TO_BF16 = partial(Cast, dtype=DType.bf16)


def rounded(x: np.ndarray, isa: Isa, lanes: int) -> np.ndarray:
    """The bits of x in bf16."""
    (found,) = run_maps([Mapping(TO_BF16, [x], [DType.f32], DType.bf16)], isa, lanes)
    return found.view(np.uint16)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32])
def test_every_class_of_number_is_rounded_as_the_manual_says(lanes: int, cpu: Cpu) -> None:
    """The last vector is masked: nothing is written behind the result. Packing has the widest, of two registers."""
    x = numbers(np.random.default_rng(lanes), 1000 + lanes // 2)
    with cpu.executes("vcvtneps2bf16"):
        np.testing.assert_array_equal(rounded(x.view(np.float32), BF16, lanes), to_bf16(x))


def test_subnormal_numbers_differ_from_the_level_below(cpu: Cpu) -> None:
    x = numbers(np.random.default_rng(0), 1 << 16)
    is_subnormal = ((x & 0x7F800000) == 0) & ((x & 0x7FFFFFFF) > 0x8000)  # and more than half of the smallest bf16
    native, below = (rounded(x.view(np.float32), isa, 16) for isa in (BF16, BELOW))
    np.testing.assert_array_equal(native != below, is_subnormal)
    np.testing.assert_array_equal(native[is_subnormal], x[is_subnormal] >> 16 & 0x8000)


@pytest.mark.parametrize("dense", ["rows", "columns"])
def test_weights_are_rounded_while_they_are_packed(dense: str, cpu: Cpu) -> None:
    with cpu.executes("vcvtneps2bf16"):
        check_packing(DType.f32, DType.bf16, dense, BF16)
