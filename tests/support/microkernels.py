"""Microkernels: their operands, their definition in numpy, and checks of what they compute."""

from __future__ import annotations

import ctypes
import random

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.kernel import F32, Kernel
from benchgraph.codegen.microkernel import define
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target
from benchgraph.runtime.code import load
from benchgraph.tir.groups import GROUPS, DTypes
from tests.support.guard_pages import fenced

BF16 = DType.bf16, DType.bf16, DType.f32
M, N, K, BATCH = (1, 2, 5, 6, 7, 13, 14, 15, 29), (1, 4, 7, 8, 15, 16, 17, 33, 63, 64, 65, 100), (1, 2, 3, 13, 64, 65), (1, 2, 3)
COUNTS = (24, 12, 12, 12, 12, 12)  # kernels that are drawn for each key of GROUPS
ENTRY = "entry"
GUARD = -77


def places(kernel: Kernel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where src[batch, m, k], wei[batch, k, n] and acc[m, n] lie, in elements."""
    m, n, k = (np.arange(extent) for extent in (kernel.m, kernel.n, kernel.k))
    entries = list(np.ndindex(*(extent for extent, _, _ in kernel.batch)))
    src0, wei0 = (np.array([sum(i * axis[side] for i, axis in zip(at, kernel.batch, strict=True)) for at in entries]) for side in (1, 2))
    src = src0[:, None, None] + m[:, None] * kernel.src_row_stride + k * kernel.src_col_stride
    row = k // kernel.group * kernel.wei_row_stride + k % kernel.group
    return src, wei0[:, None, None] + row[:, None] + n * kernel.group, m[:, None] * kernel.acc_row_stride + n


def twin(kernel: Kernel, src: np.ndarray, wei: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """The definition: acc, 1-d as all operands, after the kernel ran, in float64."""
    out = acc.astype(np.float64)
    at_src, at_wei, at_acc = places(kernel)
    total = (src[at_src].astype(np.float64) @ wei[at_wei].astype(np.float64)).sum(0)
    out[at_acc] = (out[at_acc] if kernel.accumulate else 0.0) + total
    return out


def sizes(kernel: Kernel) -> tuple[int, int, int]:
    """Elements from the first to the last one that src, wei and acc reach; of wei whole groups."""
    src, wei, acc = (int(at.max()) + 1 for at in places(kernel))
    return src, -(-wei // kernel.group) * kernel.group, acc


def text_of(kernel: Kernel, target: Target) -> str:
    """IR of the kernel behind an external function of the same parameters."""
    module = ir.Module()
    body = define(module, kernel, target)
    entry = ir.Function(module, body.function_type, ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    builder.call(body, entry.args)
    builder.ret_void()
    return str(module)


def run(kernel: Kernel, target: Target, *operands: np.ndarray) -> None:
    code = load(text_of(kernel, target), target.isa, {})
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address(ENTRY))(*(a.ctypes.data for a in operands))


def dense(
    m: int, n: int, k: int, batch: int = 1, *, gap: int = 0, accumulate: bool = False, dtypes: DTypes = F32, odd: bool = False
) -> Kernel:
    """Row-major operands, batch entries one after the other, `gap` unused elements (groups, in wei) after each row and each entry.

    odd: src has one more, so that groups of k do not begin at multiples of their size.
    """
    group = GROUPS[dtypes]
    row_strides = {"src_row_stride": k + gap + odd, "wei_row_stride": (n + gap) * group, "acc_row_stride": n + gap}
    strides = m * row_strides["src_row_stride"] + gap, -(-k // group) * row_strides["wei_row_stride"] + gap * group
    return Kernel(m, n, k, batch=((batch, *strides),), **row_strides, accumulate=accumulate, dtypes=dtypes)


def integers(rng: np.random.Generator, size: int, dtype: DType = DType.f32) -> np.ndarray:
    """All of an integer dtype of 8 bits; in others so small that every sum here is exact."""
    least, most = dtype.range if dtype.bits == 8 else (-8, 8)
    return rng.integers(int(least), int(most) + 1, size).astype(dtype.numpy)


def operands(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    """src, wei and acc. What no element of k owns is NaN in floats, and anything in integers."""
    rng = np.random.default_rng(seed)
    made = [integers(rng, size, dtype) for size, dtype in zip(sizes(kernel), kernel.dtypes, strict=True)]
    for array, at in zip(made, places(kernel), strict=True):
        unowned = np.setdiff1d(np.arange(array.size), at)
        if unowned.size and array.dtype.kind not in "iu":
            array[unowned] = np.nan
    return made


def sampled(*counts: int) -> list[Kernel]:
    """Each value of every axis at least once for each of the dtypes, in shuffled company."""
    draw = random.Random(20)
    found = []
    for dtypes, count in zip(GROUPS, counts, strict=True):
        axes = [[*axis, *draw.choices(axis, k=count - len(axis))] for axis in (M, N, K, BATCH, (0, 3), (False, True), (False, True))]
        for axis in axes:
            draw.shuffle(axis)
        found += [
            dense(m, n, k, b, gap=gap, accumulate=acc, dtypes=dtypes, odd=odd) for m, n, k, b, gap, acc, odd in zip(*axes, strict=True)
        ]
    return found


REALS = [(29, 100, 513, 1, 0, False), (13, 65, 64, 3, 5, True)]


def check_integers(kernel: Kernel, target: Target) -> None:
    """Sums of integers are exact, and nothing but acc is written."""
    src, wei, acc = operands(kernel, seed=kernel.m * 1000 + kernel.n)
    guarded = np.full(acc.size + 128, GUARD, acc.dtype)
    got, (_, _, owned) = guarded[64:-64], places(kernel)
    got[owned] = acc[owned]
    want = twin(kernel, src, wei, got)
    run(kernel, target, src, wei, got)
    np.testing.assert_array_equal(got, want)
    assert (guarded[:64] == GUARD).all()
    assert (guarded[-64:] == GUARD).all()


def check_bounds(end: bool, shape: tuple[int, int, int, int, bool], dtypes: DTypes, target: Target) -> None:
    """Nothing beyond the operands is read or written: they end (or start) at an unreadable page. shape: m, n, k, batch, accumulate."""
    kernel = dense(*shape[:4], accumulate=shape[4], dtypes=dtypes)
    src, wei, acc = (fenced(a, end=end) for a in operands(kernel))
    want = twin(kernel, src, wei, acc)
    run(kernel, target, src, wei, acc)  # a touch of the fence would kill the process
    np.testing.assert_array_equal(acc, want)
