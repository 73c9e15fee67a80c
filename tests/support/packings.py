"""Packing of weights: sources, the definition in numpy, and a check of what is packed."""

from __future__ import annotations

import ctypes

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import offset_pointer
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I64, PTR, VOID
from benchgraph.codegen.pack import Packing, define
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import Isa
from benchgraph.machine.target import Target
from benchgraph.runtime.code import load
from benchgraph.tir import values
from benchgraph.tir.groups import WEI_GROUPS
from tests.support.guard_pages import fenced
from tests.support.table import all_hold

SIZES = [(1, 1), (13, 17), (71, 36), (9, 83)]


def packing(k: int, n: int, src: DType, dst: DType, *, dense: str, gap: int = 0) -> Packing:
    """dense: rows or columns of src. gap: unused elements of src after each row or column, and unused columns of dst."""
    strides = (n + gap, 1) if dense == "rows" else (1, k + gap)
    group = WEI_GROUPS.get(dst, 1)
    return Packing(
        k, n, src=src, dst=dst, group=group, src_row_stride=strides[0], src_col_stride=strides[1], dst_row_stride=(n + gap) * group
    )


def source(p: Packing) -> np.ndarray:
    """Elements up to the last one, all bits of narrow dtypes but NaN, no two rows or columns alike."""
    size = (p.k - 1) * p.src_row_stride + (p.n - 1) * p.src_col_stride + 1
    rng = np.random.default_rng(p.k)
    if p.src is DType.f32:
        return rng.standard_normal(size).astype(np.float32)
    bits = rng.integers(0, 1 << p.src.bits, size).astype(f"u{p.src.bits // 8}")
    found = bits.view(p.src.numpy)
    return np.where(np.isnan(found.astype(np.float32)), np.ones(1, found.dtype), found)


def packed(p: Packing, src: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The definition: out, of whole rows of groups, after the packing ran."""
    matrix = src[np.arange(p.k)[:, None] * p.src_row_stride + np.arange(p.n) * p.src_col_stride]
    view = out.copy().reshape(-1, p.dst_row_stride // p.group, p.group)[:, : p.n].swapaxes(1, 2)
    values.pack(lambda _: matrix, lambda _: view if p.group > 1 else view[:, 0], p.dst)
    return view.swapaxes(1, 2)


def text_of(*packings: Packing, isa: Isa, runs_once: bool = False) -> str:
    """IR of the functions run0, run1 ..., one per packing."""
    module = ir.Module()
    for number, p in enumerate(packings):
        entry = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR]), f"run{number}")
        builder = ir.IRBuilder(entry.append_basic_block())
        for part in define(module, p, Target(isa, l1_bytes=32 << 10, l2_bytes=1 << 20, cores=1), runs_once=runs_once):
            src, dst = entry.args
            places = (
                offset_pointer(builder, src, part.src_offset, memory_type(p.src)),
                offset_pointer(builder, dst, part.dst_offset, memory_type(p.dst)),
            )
            builder.call(part.function, [*places, *map(I64, part.sizes)])
        builder.ret_void()
    return str(module)


def check_packing(src: DType, dst: DType, dense: str, isa: Isa) -> None:
    """Nothing beyond src is read, and nothing is written but the groups of columns that exist."""
    cases = {f"{k}x{n}, gap {gap}": packing(k, n, src, dst, dense=dense, gap=gap) for gap in (0, 3) for k, n in SIZES}
    code = load(text_of(*cases.values(), isa=isa), isa, {})

    def check(p: Packing, function: str) -> None:
        gap = p.dst_row_stride - p.n * p.group
        data, used = fenced(source(p)), -(-p.k // p.group) * p.dst_row_stride - gap
        out = fenced(np.full(used, 77).astype(dst.numpy))
        before = np.concatenate([out, np.full(gap, 77).astype(dst.numpy)])
        want = packed(p, data, before)
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(code.address(function))(data.ctypes.data, out.ctypes.data)
        after = np.concatenate([out, np.full(gap, 77).astype(dst.numpy)]).reshape(-1, p.dst_row_stride // p.group, p.group)
        np.testing.assert_array_equal(after[:, : p.n].view(f"u{dst.bits // 8}"), want.view(f"u{dst.bits // 8}"))
        assert (after[:, p.n :].astype(np.float32) == 77).all()

    all_hold(check, {name: (p, f"run{number}") for number, (name, p) in enumerate(cases.items())})
