"""Packing against its definition: every conversion, both ways src may lie, sizes that end within vectors and groups, on every ISA."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.codegen import ir
from benchgraph.codegen.blocks import advanced
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.intrinsics import I64, PTR, VOID
from benchgraph.codegen.pack import Packing, define, transposed
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS, Isa
from benchgraph.core.target import Target
from benchgraph.runtime.code import assembly, load
from benchgraph.tir import values
from benchgraph.tir.groups import PACKED_FROM, WEI_GROUPS
from tests.support.guard_pages import fenced
from tests.support.table import all_hold

SIZES = [(1, 1), (13, 17), (71, 36), (9, 83)]
PAIRS = [(src, dst) for dst, sources in PACKED_FROM.items() for src in sorted(sources, key=lambda d: d.value)]


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
                advanced(builder, src, part.src_offset, memory_type(p.src)),
                advanced(builder, dst, part.dst_offset, memory_type(p.dst)),
            )
            builder.call(part.function, [*places, *map(I64, part.numbers)])
        builder.ret_void()
    return str(module)


@pytest.mark.parametrize("dense", ["rows", "columns"])
@pytest.mark.parametrize(("src", "dst"), PAIRS, ids=lambda d: d.value)
def test_every_element_is_converted_to_its_place(src: DType, dst: DType, dense: str, isa: Isa) -> None:
    """Nothing beyond src is touched, and nothing written but groups of columns that there are."""
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


SHUFFLE = r"v?p?unpck[lh]\w+|v?shuf[fi]\w+|v?shufp\w+|v?pshuf\w+|vperm\w+|v?(?:insert|extract)[fi]\w+|v?mov[lh]+ps|v?palignr|vp?movzx\w+"


def shuffles(text: str) -> list[str]:
    """The names of those that need the unit for shuffles: not of insertions from memory."""
    lines = (line.strip() for line in text.splitlines())
    return [line.split()[0] for line in lines if re.match(SHUFFLE, line) and not re.match(r"vinsert\w+\s+\$\d, -?\d*\(", line)]


@pytest.mark.parametrize(("src", "dst"), [(DType.u8, DType.s8), (DType.bf16, DType.bf16)], ids=lambda d: d.value)
def test_tiles_are_transposed_by_shuffles(src: DType, dst: DType, isa: Isa) -> None:
    """lanes for each of log2(lanes) steps, one of them by loads if there are three, no element by itself, no gather, nothing spilled."""
    text = assembly(text_of(packing(WEI_GROUPS[dst] * isa.lanes, isa.lanes, src, dst, dense="columns"), isa=isa), isa)
    steps = {16: 3, 8: 2, 4: 2}[isa.lanes]
    assert len(shuffles(text)) == isa.lanes * steps
    assert not re.search(r"gather|pinsr|pextr|movzbl", text)
    assert not re.search(r"mov[aud]\w+\s+%[xyz]mm\d+, .*\(%rsp\)", text)


@pytest.mark.parametrize(("src", "dst"), [(DType.u8, DType.s8), (DType.bf16, DType.bf16)], ids=lambda d: d.value)
def test_rows_are_interleaved_by_shuffles(src: DType, dst: DType, isa: Isa) -> None:
    """One group of as many columns as are done at once: two shuffles for a vector, three where 128 bits are exchanged, two unpacks."""
    columns = WEI_GROUPS[dst] * min(isa.lanes, 8)
    text = assembly(text_of(packing(WEI_GROUPS[dst], columns, src, dst, dense="rows"), isa=isa), isa)
    found, vectors = shuffles(text), columns // isa.lanes
    steps = {2: 1, 4: 2}[WEI_GROUPS[dst]]
    assert len(found) == vectors * {16: 2, 8: steps + 1, 4: steps}[isa.lanes]
    assert not re.search(r"gather|pinsr|pextr|movzbl", text)
    assert not re.search(r"mov[aud]\w+\s+%[xyz]mm\d+, .*\(%rsp\)", text)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_columns_of_a_tile(lanes: int, exchanged: bool) -> None:
    """Shuffles, done by hand: every element goes to the place across the diagonal."""

    class Shuffles:
        def shuffle_vector(self, a: np.ndarray, b: np.ndarray, mask: ir.Constant) -> np.ndarray:
            return np.concatenate([a, b])[list(mask.value)]

    tile = np.arange(lanes * lanes).reshape(lanes, lanes)
    rows = list(tile)
    if exchanged and lanes > 4:
        sides = np.split(tile, 2, axis=1)
        rows = [np.concatenate([sides[r // 4 % 2][r & ~4], sides[r // 4 % 2][r | 4]]) for r in range(lanes)]
    np.testing.assert_array_equal(transposed(Shuffles(), rows, exchanged=exchanged), tile.T)


def test_packings_that_run_once_share_their_code_whatever_k_and_strides_are() -> None:
    """And what the last group has is a function of its own."""
    same = [packing(k, 20, DType.s8, DType.s8, dense="rows") for k in (8, 400, 7, 11)]
    wider = replace(same[0], src_row_stride=1000)

    def functions(*packings: Packing, runs_once: bool = True) -> int:
        return text_of(*packings, isa=ISAS["portable"], runs_once=runs_once).count("define hidden")

    assert [functions(*same[:2], wider), functions(*same, wider)] == [1, 2]
    assert functions(*same[:2], same[0], wider, runs_once=False) == 3
    assert functions(same[0], packing(8, 20, DType.u8, DType.s8, dense="rows")) == 2
    assert functions(same[0], packing(8, 21, DType.s8, DType.s8, dense="rows")) == 2


def test_packings_of_columns_share_the_code_for_a_vector_of_them() -> None:
    """Panels of 64 and 40 columns; the 8 that are left are a function of their own."""

    def functions(*sizes: tuple[int, int]) -> int:
        given = (replace(packing(k, 64, DType.bf16, DType.bf16, dense="columns"), n=n) for k, n in sizes)
        return text_of(*given, isa=ISAS["avx512_core"]).count("define hidden")

    assert [functions((8, 64)), functions((8, 64), (8, 32)), functions((8, 64), (8, 40), (8, 8)), functions((8, 64), (12, 64))] == [
        1,
        1,
        2,
        2,
    ]
