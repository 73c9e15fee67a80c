"""Transposing copies, at sizes that end within tiles and vectors, with the vectors of every ISA level of this CPU."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.codegen import ir, transpose
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS, Target, host
from benchgraph.runtime.code import load
from tests.support.guard_pages import fenced
from tests.support.targets import MACHINE_LEVELS

STORED = {DType.u8: np.uint8, DType.bf16: np.uint16, DType.f32: np.uint32}
TARGETS = {f"{t.lanes} lanes": t for t in MACHINE_LEVELS.values()}  # the code depends on the level by the lanes alone
ROWS, COLUMNS = (1, 3, 15, 16, 17, 33, 56), (1, 3, 4, 5, 16, 31, 33, 64, 65, 100)


@pytest.mark.parametrize("dtype", STORED, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_element_changes_places_and_nothing_else_is_touched(target: Target, dtype: DType) -> None:
    """Columns of src and rows of dst have gaps between them; both end beside pages that nobody may touch."""
    rng = np.random.default_rng(0)
    sizes = [(ROWS[i % len(ROWS)], n) for i, n in enumerate(COLUMNS)] + [(k, COLUMNS[-2 - i]) for i, k in enumerate(ROWS)]
    module = ir.Module()
    functions = {}
    for k, n in sizes:
        functions[k, n] = transpose.define(module, transpose.Transposition(k, n, dtype, dtype, k + 3, n + 5), target)
        functions[k, n].linkage = ""
    code = load(str(module), target.isa, {})
    for (k, n), function in functions.items():
        src = rng.integers(0, 256, n * (k + 3) - 3).astype(STORED[dtype])
        dst = np.full(k * (n + 5) - 5, 77, STORED[dtype])
        at_src = np.arange(k)[:, None] + np.arange(n) * (k + 3)
        at_dst = np.arange(k)[:, None] * (n + 5) + np.arange(n)
        want = dst.copy()
        want[at_dst] = src[at_src]
        given, got = fenced(src), fenced(dst)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address(function.name))(given.ctypes.data, got.ctypes.data)
        np.testing.assert_array_equal(got, want, err_msg=f"{k} x {n}")


@pytest.mark.parametrize(("k", "stores"), [(16, 16), (20, 16 + 4), (31, 16 + 15), (3, 3)])
def test_every_row_is_stored_once(k: int, stores: int) -> None:
    """A tile that begins with rows of the one before loads those again, and no more."""
    module, target = ir.Module(), replace(host(), isa=ISAS["avx512_core"])
    transpose.define(module, transpose.Transposition(k, 16, DType.f32, DType.f32, k, 16), target)
    assert str(module).count("\nstore ") == stores


def test_a_transposition_is_defined_once_per_module() -> None:
    module, target = ir.Module(), next(iter(MACHINE_LEVELS.values()))
    one = transpose.Transposition(16, 64, DType.u8, DType.u8, 100, 64)
    assert transpose.define(module, one, target) is transpose.define(module, one, target)
    assert transpose.define(module, transpose.Transposition(16, 64, DType.s8, DType.u8, 100, 64), target) is not transpose.define(
        module, one, target
    )


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_s8_becomes_u8_128_more(target: Target) -> None:
    module = ir.Module()
    function = transpose.define(module, transpose.Transposition(17, 70, DType.s8, DType.u8, 17, 70), target)
    function.linkage = ""
    code = load(str(module), target.isa, {})
    src = np.random.default_rng(1).integers(-128, 128, (70, 17), np.int8)
    dst = np.zeros((17, 70), np.uint8)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address(function.name))(src.ctypes.data, dst.ctypes.data)
    np.testing.assert_array_equal(dst, src.T.astype(np.int16) + 128)
