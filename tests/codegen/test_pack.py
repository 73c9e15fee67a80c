"""Packing against its definition: every conversion, both ways src may lie, sizes that end within vectors and groups, on every ISA."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.codegen import ir
from benchgraph.codegen.pack import Packing, transposed
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import ISAS, Isa
from benchgraph.tir.groups import PACKED_FROM, WEI_GROUPS
from tests.support.machine_code import assembly
from tests.support.packings import check_packing, packing, text_of

PAIRS = [(src, dst) for dst, sources in PACKED_FROM.items() for src in sorted(sources, key=lambda d: d.value)]


@pytest.mark.covering(2)
@pytest.mark.parametrize("dense", ["rows", "columns"])
@pytest.mark.parametrize(("src", "dst"), PAIRS, ids=lambda d: d.value)
def test_every_element_is_converted_to_its_place(src: DType, dst: DType, dense: str, isa: Isa) -> None:
    """Nothing beyond src is touched, and nothing written but groups of columns that there are."""
    check_packing(src, dst, dense, isa)


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
    np.testing.assert_array_equal(transposed(Shuffles(), rows, halves_exchanged=exchanged), tile.T)


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
