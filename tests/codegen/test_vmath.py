from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from benchgraph.codegen import ir, vmath
from benchgraph.codegen.intrinsics import F32, I64, PTR, VOID, has_scaling, vector
from benchgraph.machine.target import Isa, host
from benchgraph.runtime.code import Code, load
from tests.support.table import all_hold
from tests.support.tir_maps import isa_levels

F = np.float32
LEVELS = "exp", "normal_tail", "gauss"  # which are computed in other ways on other isa_levels
BOUNDS: dict[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float]] = {
    "exp": (np.exp, 1.8),
    "decay": (lambda x: np.expm1(-np.abs(x)), 2.3),
    "log": (np.log, 1.0),
    "tanh": (np.tanh, 3.5),
    "normal_tail": (lambda x: ndtr(-np.abs(x)), 7.6),
    "gauss": (lambda x: np.exp(-x * x / 2), 2.3),
}


def compiled(name: str, isa: Isa, lanes: int) -> Code:
    """`f(src, dst, n)`: n vectors through vmath.<name>."""
    module = ir.Module()
    f = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, I64]), "f")
    entry, loop, done = (f.append_basic_block(b) for b in ("entry", "loop", "done"))
    builder = ir.IRBuilder(entry)
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(I64)
    src, dst = (builder.gep(p, [builder.mul(i, I64(lanes))], source_etype=F32) for p in f.args[:2])
    value = builder.load(src, typ=vector(F32, lanes), align=4)
    function = getattr(vmath, name)
    builder.store(function(builder, value, *((isa,) if name in LEVELS else ())), dst, align=4)
    after = builder.add(i, I64(1))
    i.add_incoming(I64(0), entry)
    i.add_incoming(after, loop)
    builder.cbranch(builder.icmp_signed("<", after, f.args[2]), loop, done)
    builder.position_at_end(done)
    builder.ret_void()
    return load(str(module), isa, {})


def apply(code: Code, x: NDArray[np.float32], lanes: int) -> NDArray[np.float32]:
    y = np.empty_like(x)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address("f"))
    call(x.ctypes.data, y.ctypes.data, x.size // lanes)
    return y


def samples(stride: int) -> NDArray[np.float32]:
    """Every stride-th bit pattern of f32, and a dense walk through the range where the functions are busy."""
    patterns = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32).view(F)
    busy = np.arange(0x3A000000, 0x41200000, 97, dtype=np.uint32).view(F)  # 0.0005 to 10
    x = np.concatenate([patterns, busy, -busy, np.linspace(-90, 90, 1 << 20, dtype=F)])
    return x[: x.size // 240 * 240]


def worst_ulp(got: NDArray[np.float32], want: NDArray[np.float64]) -> float:
    ulp = np.spacing(np.maximum(np.abs(want), 2.0**-126).astype(F)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - want) / ulp, initial=0.0))


@pytest.mark.parametrize("name", BOUNDS)
def test_error_stays_within_the_stated_bound(name: str) -> None:
    reference, bound = BOUNDS[name]
    x = samples(2503)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
        overflows = np.abs(want) > np.finfo(F).max
    keep = np.isfinite(want) & ~overflows
    low = np.zeros(x.shape, bool)
    if name in ("exp", "normal_tail", "gauss"):
        low = want < 1.17551e-38  # a millionth more than the least normal number
        keep &= ~low

    def check(isa: Isa) -> None:
        got = apply(compiled(name, isa, isa.lanes), x, isa.lanes)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got[overflows], want[overflows].astype(F))
        assert np.all((got[low] >= 0) & (got[low] <= 1.17551e-38))
        assert name == "normal_tail" or np.all((got[low] == 0) | (got[low] >= np.finfo(F).tiny)), "no slow subnormal numbers"
        assert worst_ulp(got[keep], want[keep]) <= (1.0 if name in ("exp", "gauss") and has_scaling(isa) else bound)

    all_hold(check, {level: (isa,) for level, isa in isa_levels().items()})


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 48])
def test_any_lane_count_gives_the_same_bits(lanes: int) -> None:
    x = samples(400009)
    for name in BOUNDS:
        want = apply(compiled(name, host().isa, 16), x[: x.size // 16 * 16], 16)
        got = apply(compiled(name, host().isa, lanes), x[: want.size], lanes)
        np.testing.assert_array_equal(got[: want.size // lanes * lanes], want[: want.size // lanes * lanes])


def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38], F)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(compiled("exp", host().isa, 8), x, 8), np.array([1, 1, np.inf, 0, np.nan, 1, 1, np.inf], F))
        np.testing.assert_array_equal(
            apply(compiled("log", host().isa, 8), x, 8)[:5], np.array([-np.inf, -np.inf, np.inf, np.nan, np.nan], F)
        )
    got = apply(compiled("tanh", host().isa, 8), x, 8)
    np.testing.assert_array_equal(got[[2, 3, 4, 7]], np.array([1, -1, np.nan, 1], F))
    np.testing.assert_array_equal(np.signbit(got[[0, 1, 5, 6]]), [False, True, False, True])
    half = [0.5, 0.5, 0, 0, np.nan, 0.5, 0.5, 0]
    np.testing.assert_array_equal(apply(compiled("normal_tail", host().isa, 8), x, 8), np.array(half, F))
    np.testing.assert_array_equal(apply(compiled("gauss", host().isa, 8), x, 8), np.array([1, 1, 0, 0, np.nan, 1, 1, 0], F))


def test_exp_reaches_both_ends_of_the_normal_numbers() -> None:
    """And beyond them, where x / ln2 has no room for a fraction, there is 0 and inf still."""
    x = np.array([-87.3365, -87.33, -87.0, -86.99, 88.72283, 88.7229, -87.33655, -104.0, -2e5, -3e6, -1e30, 3e6, 1e30, 0.0, 1e-8, -1e-8], F)

    def check(isa: Isa) -> None:
        got = apply(compiled("exp", isa, 16), x, 16)
        np.testing.assert_allclose(got[:5], np.exp(x[:5].astype(np.float64)), rtol=1.5e-7)
        np.testing.assert_array_equal(got[5:], np.array([np.inf, 0, 0, 0, 0, 0, np.inf, np.inf, 1, 1, 1], F))

    all_hold(check, {level: (isa,) for level, isa in isa_levels().items()})


def test_exp_with_large_nan_payloads_stays_nan() -> None:
    x = np.array([0x7FC00001, 0x7FFFFFFF, 0xFFC12345, 0x7F800001] * 2, np.uint32).view(F)
    for name in BOUNDS:
        assert np.isnan(apply(compiled(name, host().isa, 8), x, 8)).all()


def _fitter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fit_vmath", Path(__file__).with_name("fit_vmath.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("problem", "coefficients"),
    [("expm1", vmath.EXPM1), ("exp", vmath.EXP), ("exp_step", vmath.STEP), ("log1p", vmath.LOG1P), ("tail", vmath.TAIL)],
)
def test_coefficients_are_as_good_as_a_fresh_fit(problem: str, coefficients: tuple[float, ...]) -> None:
    fitter = _fitter()
    task = getattr(fitter, problem)()
    assert list(vmath.TAIL_BELOW) == fitter.tail_below()
    assert all(float(F(c)) == c for c in coefficients)
    assert task.error(coefficients) <= 1.05 * task.error(fitter.fit(task, iterations=60))
