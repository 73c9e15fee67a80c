"""Microkernels in bf16 as processors with its instructions run them: right, as many products as are due, and the same as without."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.codegen.kernel import Kernel
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import current
from benchgraph.measure import peak
from tests.bf16.conftest import BELOW, BF16, Cpu
from tests.support.dot_products import check_pairs_of_bf16
from tests.support.microkernels import COUNTS, REALS, check_bounds, check_integers, dense, operands, run, sampled, sizes, twin
from tests.support.table import all_hold

DTYPES = (DType.bf16, DType.bf16, DType.f32)
SAMPLED = {k.name: k for k in sampled(*COUNTS) if k.dtypes == DTYPES}
LONG = {k.name: k for k in (dense(m, n, k, b, gap=gap, accumulate=acc, dtypes=DTYPES) for m, n, k, b, gap, acc in REALS)}
TINY = np.float32(2.0**-126)  # the smallest normal number


def products(kernel: Kernel) -> int:
    """vdpbf16ps that the kernel takes: each makes two products in every lane."""
    entries = np.prod([extent for extent, _, _ in kernel.batch], dtype=int)
    return int(entries) * kernel.m * -(-kernel.n // BF16.lanes) * -(-kernel.k // 2)


def test_the_step_multiplies_exactly_and_adds_the_odd_product_first(cpu: Cpu) -> None:
    with cpu.executes("vdpbf16ps"):
        check_pairs_of_bf16(BF16)


def test_integers_are_exact_only_acc_is_written_and_no_product_is_wasted(cpu: Cpu, tuned_for: str) -> None:
    def check(kernel: Kernel) -> None:
        before = cpu.executed()["vdpbf16ps"]
        check_integers(kernel, current())
        assert cpu.trap is None or cpu.executed()["vdpbf16ps"] - before == products(kernel)

    all_hold(check, {name: (kernel,) for name, kernel in SAMPLED.items()})


@pytest.mark.parametrize("end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("shape", [(7, 17, 13, 1, True), (5, 100, 65, 2, False), (1, 31, 64, 1, True), (3, 5, 6, 2, True)], ids=str)
def test_nothing_beyond_the_operands_is_touched(cpu: Cpu, shape: tuple[int, int, int, int, bool], end: bool) -> None:
    with cpu.executes("vdpbf16ps"):
        check_bounds(end, shape, DTYPES, current())


def both(kernel: Kernel, *data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """acc, by the instruction and by what stands in for it a level below."""
    found = []
    for isa in (BF16, BELOW):
        src, wei, acc = (a.copy() for a in data)
        run(kernel, replace(current(), isa=isa), src, wei, acc)
        found.append(acc)
    return found[0], found[1]


@pytest.mark.parametrize("kernel", LONG.values(), ids=LONG)
def test_sums_of_reals_are_those_of_the_level_below_to_the_bit(cpu: Cpu, kernel: Kernel) -> None:
    """Each level tiles as it likes, and in every element of acc adds the odd product of a pair and then the even one, k after k."""
    rng = np.random.default_rng(1)
    src, wei, acc = (rng.standard_normal(size).astype(d.numpy) for size, d in zip(sizes(kernel), kernel.dtypes, strict=True))
    want, bound = twin(kernel, src, wei, acc), twin(kernel, abs(src), abs(wei), abs(acc))
    with cpu.executes("vdpbf16ps"):
        native, emulated = both(kernel, src, wei, acc)
    np.testing.assert_array_equal(native, emulated)
    assert (abs(native - want) <= 8 * np.finfo(np.float32).eps * bound).all()


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(abs(x.astype(np.float32)) < TINY, np.copysign(np.float32(0), x.astype(np.float32)), x).astype(x.dtype)


def test_subnormal_operands_differ_from_the_level_below(cpu: Cpu) -> None:
    """The instruction takes them as zeros. Here they are multiplied by what makes them as large as the others."""
    kernel, rng = dense(5, 40, 16, dtypes=DTYPES), np.random.default_rng(4)
    src, wei, acc = operands(kernel)
    src[:] = np.where(np.arange(src.size) % 3, 2.0**-60, 2.0**-128) * rng.integers(-8, 9, src.size)
    wei[:] = 2.0**127 * rng.choice([-1, 0, 1], wei.size)
    native, emulated = both(kernel, src, wei, acc)
    np.testing.assert_array_equal(native, both(kernel, flushed(src), wei, acc)[1])
    assert (native != emulated).any()


def test_subnormal_sums_become_zeros(cpu: Cpu) -> None:
    kernel = dense(3, 20, 2, dtypes=DTYPES)
    src, wei, acc = operands(kernel)
    src[:], wei[:] = 2.0**-70, 2.0**-60  # two products of 2**-130
    native, emulated = both(kernel, src, wei, acc)
    np.testing.assert_array_equal(emulated, np.float32(2.0**-129))
    np.testing.assert_array_equal(native, 0)


def test_the_loop_that_measures_the_peak_runs_the_counted_instructions(cpu: Cpu) -> None:
    turns, before = 7, cpu.executed()["vdpbf16ps"]
    code, operations = peak._peak_code(1, current(), "seq", "bf16")
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(code.address("run"))(turns, 1)
    per_instruction = BF16.lanes * 2 * 2  # pairs; a product and its sum
    assert cpu.trap is None or cpu.executed()["vdpbf16ps"] - before == turns * operations // per_instruction
