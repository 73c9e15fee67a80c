"""The f32 microkernel against its twin, at the sizes that hurt, on every ISA this CPU has."""

from __future__ import annotations

import ctypes
import random
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import ir
from numpy.lib.stride_tricks import as_strided

from benchgraph.codegen.intrinsics import has_fma
from benchgraph.codegen.microkernel import Kernel, define, even_split, register_tiles, tile_rows
from benchgraph.core.config import override
from benchgraph.core.errors import Unimplemented
from benchgraph.core.target import ISAS, Target, current, host
from benchgraph.runtime.code import Code, load
from tests.fence import fenced

M, N, K, BATCH = (1, 2, 5, 6, 7, 13, 14, 15, 29), (1, 15, 16, 17, 31, 33, 63, 64, 65, 100), (1, 2, 3, 13, 64, 65), (1, 2, 3)
ENTRY = "entry"
GUARD = -77.0


def supported() -> dict[str, Target]:
    """This machine at each ISA level it has."""
    found = {}
    for name in ISAS:
        with suppress(Unimplemented), override(isa=name):
            found[name] = current()
    return found


TARGETS = supported()
target_of_every_isa = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def twin(kernel: Kernel, src: np.ndarray, wei: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """The definition: acc, 1-d as all operands, after the kernel ran, in float64."""
    out = acc.astype(np.float64)
    for m in range(kernel.m):
        for n in range(kernel.n):
            total = float(acc[m * kernel.acc_row_stride + n]) if kernel.accumulate else 0.0
            for at in np.ndindex(*(extent for extent, _, _ in kernel.batch)):
                b, w = (sum(i * axis[side] for i, axis in zip(at, kernel.batch, strict=True)) for side in (1, 2))
                row = src[b + m * kernel.src_row_stride :: kernel.src_col_stride][: kernel.k].astype(np.float64)
                column = wei[w + n :: kernel.wei_row_stride][: kernel.k].astype(np.float64)
                total += float(row @ column)
            out[m * kernel.acc_row_stride + n] = total
    return out


def sizes(kernel: Kernel) -> tuple[int, int, int]:
    """Elements from the first to the last one that src, wei and acc reach."""
    src = (kernel.m - 1) * kernel.src_row_stride + (kernel.k - 1) * kernel.src_col_stride + 1
    wei = (kernel.k - 1) * kernel.wei_row_stride + kernel.n
    src += sum((extent - 1) * stride for extent, stride, _ in kernel.batch)
    wei += sum((extent - 1) * stride for extent, _, stride in kernel.batch)
    return src, wei, (kernel.m - 1) * kernel.acc_row_stride + kernel.n


def compile_kernel(kernel: Kernel, target: Target) -> Code:
    """The kernel behind an external function of the same parameters."""
    module = ir.Module()
    body = define(module, kernel, target)
    entry = ir.Function(module, body.function_type, ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    builder.call(body, entry.args)
    builder.ret_void()
    return load(str(module), target.isa, {})


def run(kernel: Kernel, target: Target, *operands: np.ndarray) -> None:
    code = compile_kernel(kernel, target)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address(ENTRY))(*(a.ctypes.data for a in operands))


def dense(m: int, n: int, k: int, batch: int = 1, *, gap: int = 0, accumulate: bool = False) -> Kernel:
    """Row-major operands, batch entries one after the other, `gap` unused elements after each row and each entry."""
    strides = m * (k + gap) + gap, k * (n + gap) + gap
    row_strides = {"src_row_stride": k + gap, "wei_row_stride": n + gap, "acc_row_stride": n + gap}
    return Kernel(m, n, k, batch=((batch, *strides),), **row_strides, accumulate=accumulate)


def integers(rng: np.random.Generator, size: int) -> np.ndarray:
    """Small enough that every sum here is exact in f32."""
    return rng.integers(-8, 9, size).astype(np.float32)


def sampled(count: int) -> list[Kernel]:
    """Each value of every axis at least once, in shuffled company."""
    draw = random.Random(20)
    axes = [[*axis, *draw.choices(axis, k=count - len(axis))] for axis in (M, N, K, BATCH, (0, 3), (False, True))]
    for axis in axes:
        draw.shuffle(axis)
    return [dense(m, n, k, batch, gap=gap, accumulate=acc) for m, n, k, batch, gap, acc in zip(*axes, strict=True)]


def name_of(kernel: object) -> str:
    return kernel.name if isinstance(kernel, Kernel) else str(kernel)


@target_of_every_isa
@pytest.mark.parametrize("kernel", sampled(24), ids=name_of)
def test_integers_are_exact_and_only_acc_is_written(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(kernel.m * 1000 + kernel.n)
    src, wei, acc = (integers(rng, size) for size in sizes(kernel))
    guarded = np.concatenate([np.full(64, GUARD), acc, np.full(64, GUARD)], dtype=np.float32)
    got = guarded[64:-64]
    if kernel.acc_row_stride > kernel.n:
        as_strided(got[kernel.n :], (kernel.m - 1, kernel.acc_row_stride - kernel.n), (4 * kernel.acc_row_stride, 4))[:] = GUARD
    want = twin(kernel, src, wei, got)
    run(kernel, target, src, wei, got)
    np.testing.assert_array_equal(got, want)
    assert (guarded[:64] == GUARD).all()
    assert (guarded[-64:] == GUARD).all()


@target_of_every_isa
@pytest.mark.parametrize("kernel", [dense(29, 100, 513), dense(13, 65, 64, 3, gap=5, accumulate=True)], ids=name_of)
def test_reals_are_within_the_error_of_a_long_sum(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(1)
    src, wei, acc = (rng.standard_normal(size).astype(np.float32) for size in sizes(kernel))
    want, bound = twin(kernel, src, wei, acc), twin(kernel, abs(src), abs(wei), abs(acc))
    run(kernel, target, src, wei, acc)
    assert (abs(acc - want) <= 8 * np.finfo(np.float32).eps * bound).all()


@target_of_every_isa
@pytest.mark.parametrize(
    "kernel",
    [dense(7, 17, 13, accumulate=True), dense(5, 100, 65, 2), dense(15, 1, 3), dense(1, 31, 64, accumulate=True), dense(2, 64, 1)],
    ids=name_of,
)
def test_nothing_beyond_the_operands_is_touched(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(0)
    operands = [fenced(integers(rng, size)) for size in sizes(kernel)]
    want = twin(kernel, *operands)
    run(kernel, target, *operands)  # a touch of the fence would kill the process
    np.testing.assert_array_equal(operands[2], want)


def test_src_and_wei_may_be_one_buffer() -> None:
    kernel = dense(16, 16, 16)
    both, acc = integers(np.random.default_rng(3), 256), np.zeros(256, np.float32)
    run(kernel, host(), both, both, acc)
    np.testing.assert_array_equal(acc, twin(kernel, both, both, acc))


@target_of_every_isa
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("missing", [0, 3])
def test_the_loops_spill_nothing_and_use_the_widest_registers(vectors: int, missing: int, target: Target) -> None:
    assembly = compile_kernel(dense(53, vectors * target.lanes - missing, 64, accumulate=True), target).assembly()
    fmas = re.findall(r"vfmadd.*", assembly)
    register = {16: "%zmm", 8: "%ymm", 4: ""}[target.lanes]
    assert bool(fmas) == has_fma(target.isa)
    assert all(register in line for line in fmas)
    assert not re.search(r"mov[au]ps.*\(%rsp\)", assembly)


def test_a_kernel_is_defined_once_per_module() -> None:
    module = ir.Module()
    kernel = dense(4, 16, 8)
    first = define(module, kernel, host())
    assert define(module, replace(kernel), host()) is first
    assert define(module, replace(kernel, accumulate=True), host()) is not first


def test_a_batch_that_continues_along_k_is_a_longer_k() -> None:
    module = ir.Module()
    blocked = Kernel(4, 16, 8, batch=((3, 8, 128),), src_row_stride=24, wei_row_stride=16, acc_row_stride=16)
    plain = Kernel(4, 16, 24, src_row_stride=24, wei_row_stride=16, acc_row_stride=16)
    assert define(module, blocked, host()) is define(module, plain, host())


def test_axes_of_the_batch_that_continue_each_other_are_one() -> None:
    module = ir.Module()
    axes = Kernel(
        4, 16, 8, batch=((2, 300, 1000), (1, 7, 7), (3, 100, 400), (4, 25, 100)), src_row_stride=9, wei_row_stride=16, acc_row_stride=16
    )
    merged = replace(axes, batch=((2, 300, 1000), (12, 25, 100)))
    assert define(module, axes, host()) is define(module, merged, host())


def window(m: int, n: int, k: int, *, step: int = 1, accumulate: bool = False) -> Kernel:
    """A row of a 3 x 2 convolution of stride `step` over k channels in rows of 2 * step * m pixels: two axes of batch, overlapping rows."""
    batch = ((3, (2 + step * m) * k, 2 * k * n), (2, k, k * n))
    return Kernel(m, n, k, batch=batch, src_row_stride=step * k, wei_row_stride=n, acc_row_stride=n, accumulate=accumulate)


def transposed(m: int, n: int, k: int) -> Kernel:
    """src by columns, as the gradient by weights reads it."""
    return Kernel(m, n, k, batch=((5, m * k, 0),), src_row_stride=1, src_col_stride=m, wei_row_stride=n, acc_row_stride=n)


@target_of_every_isa
@pytest.mark.parametrize(
    "kernel", [window(7, 16, 3), window(13, 70, 5, step=2), window(1, 5, 1, accumulate=True), transposed(9, 33, 4), transposed(64, 64, 7)],
    ids=name_of,
)  # fmt: skip
def test_axes_of_the_batch_and_columns_of_src_may_have_any_stride(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(kernel.m)
    src, wei, acc = (integers(rng, size) for size in sizes(kernel))
    want = twin(kernel, src, wei, acc)
    run(kernel, target, src, wei, acc)
    np.testing.assert_array_equal(acc, want)


def test_an_empty_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Kernel(4, 16, 0, src_row_stride=1, wei_row_stride=16, acc_row_stride=16)


@pytest.mark.parametrize(("total", "most", "want"), [(16, 6, ((1, 6), (2, 5))), (12, 6, ((2, 6),)), (5, 6, ((1, 5),)), (7, 1, ((7, 1),))])
def test_parts_differ_by_at_most_one(total: int, most: int, want: tuple[tuple[int, int], ...]) -> None:
    assert even_split(total, most) == want


@target_of_every_isa
@pytest.mark.parametrize("n", [*N, 13, 96, 511, 512])
@pytest.mark.parametrize("m", [1, 2, 3, 7, 64])
def test_panels_cover_the_columns_and_tiles_fit_the_registers(m: int, n: int, target: Target) -> None:
    panels = register_tiles(n, target, m=m, src_row_stride=1024)
    assert sum(p.count * p.columns for p in panels) == n
    for p in panels:
        assert (p.vectors - 1) * target.lanes < p.columns <= p.vectors * target.lanes
        assert p.rows * p.vectors <= target.isa.registers * 3 // 4
        assert min(m, p.rows) == 1 or (p.rows + 1) * p.vectors < target.isa.registers
    assert all(p.columns == p.vectors * target.lanes for p in panels[:-1])


def test_the_preferred_tiles() -> None:
    tiles = {name: [(p.vectors, p.rows) for p in register_tiles(64, t, m=64, src_row_stride=256)] for name, t in TARGETS.items()}
    assert tiles == {name: [(4 if t.isa.registers == 32 else 2, 6)] for name, t in TARGETS.items()}


@pytest.mark.parametrize(("m", "vectors"), [(1, 8), (2, 4), (64, 4)])
def test_few_rows_get_wider_panels(m: int, vectors: int) -> None:
    target = replace(host(), isa=ISAS["avx512_core"])
    assert [p.vectors for p in register_tiles(512, target, m=m, src_row_stride=512)] == [vectors]


def test_no_panel_is_a_lone_vector_where_a_wider_split_exists() -> None:
    target = replace(host(), isa=ISAS["avx2"])
    assert [(p.count, p.vectors) for p in register_tiles(24, target, m=64, src_row_stride=256)] == [(1, 3)]


def test_rows_that_share_a_cache_set_are_no_more_than_its_ways() -> None:
    target = replace(host(), isa=ISAS["avx512_core"], l1_bytes=32 << 10)
    assert [tile_rows(1, target, src_row_stride=stride) for stride in (1000, 256, 512, 1024, 2048)] == [24, 24, 16, 8, 8]
