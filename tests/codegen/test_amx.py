"""How a microkernel is split into tiles, on any processor; test_microkernel.py and tests/amx check the results."""

from __future__ import annotations

import ctypes
import doctest
import re
from collections.abc import Iterator

import pytest

from benchgraph.codegen import ir, tile_plan
from benchgraph.codegen.emit import emit
from benchgraph.codegen.kernel import Kernel
from benchgraph.codegen.microkernel import define
from benchgraph.machine import target
from benchgraph.machine.target import ISAS, Target
from benchgraph.tir.build import seq
from benchgraph.tir.groups import BYTES, DTypes
from benchgraph.tir.ir import Brgemm, Const, For, Func, LoopKind, Scope, Stmt, Tensor, Var, flat_slice, tensor
from tests.support.microkernels import BF16
from tests.support.table import all_hold

EXTENTS = (1, 2, 13, 16, 17, 31, 32, 33, 48, 64, 65, 100, 479)


def kernel(m: int, n: int, k: int, dtypes: DTypes = BF16) -> Kernel:
    group = 2 if dtypes is BF16 else 4
    return Kernel(m, n, k, src_row_stride=k, wei_row_stride=n * group, acc_row_stride=n, dtypes=dtypes)


def covered(ranges: tuple[tile_plan.BlockRange, ...]) -> Iterator[int]:
    for r in ranges:
        yield from range(r.first, r.first + r.count * r.tiles * r.size)


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(tile_plan).failed == 0


def test_blocks_cover_acc_once_and_fit_the_registers() -> None:
    def check(m: int, n: int) -> None:
        plan = tile_plan.plan(kernel(m, n, 64))
        assert list(covered(plan.rows)) == list(range(m))
        assert list(covered(plan.columns)) == list(range(n))
        for blocks in (*plan.rows, *plan.columns):
            assert 1 <= blocks.size <= tile_plan.TILE_ROWS
        for row in plan.rows:
            for column in plan.columns:
                assert row.tiles * column.tiles <= len(tile_plan.ACC_TILES), "each tile has a register of its own"
                assert row.tiles <= len(plan.src) or column.tiles == 1, "a tile that is loaded is multiplied by all tiles that stay"
        assert sorted((*tile_plan.ACC_TILES, *plan.src, *plan.wei)) == list(range(8))

    all_hold(check, {f"{m} x {n}": (m, n) for m in EXTENTS for n in EXTENTS})


@pytest.mark.parametrize("dtypes", [BF16, BYTES], ids=["bf16", "u8"])
def test_steps_and_the_remainder_are_all_of_k(dtypes: DTypes) -> None:
    def check(k: int) -> None:
        one = kernel(16, 16, k, dtypes)
        plan = tile_plan.plan(one)
        assert plan.steps * plan.groups * one.group + plan.remainder == k
        assert 1 <= plan.groups <= tile_plan.TILE_ROWS
        assert plan.remainder < tile_plan.ROW_BYTES // dtypes[0].nbytes(1)

    all_hold(check, {str(k): (k,) for k in range(1, 300)})


def test_a_single_row_of_tiles_takes_four_columns_by_one_tile_of_src() -> None:
    assert [(blocks.count, blocks.tiles) for blocks in tile_plan.plan(kernel(13, 128, 64)).columns] == [(2, 4)]
    assert [(blocks.count, blocks.tiles) for blocks in tile_plan.plan(kernel(64, 16, 64)).rows] == [(1, 4)]
    assert [(blocks.count, blocks.tiles) for blocks in tile_plan.plan(kernel(64, 64, 64)).rows] == [(2, 2)]


def count(instruction: str, one: Kernel) -> int:
    module = ir.Module()
    define(module, one, Target(ISAS["avx512_core_amx"], 48 << 10, 2 << 20, 1))
    return str(module).count(f'call void @"llvm.x86.{instruction}"')


def test_shapes_of_tiles_are_set_only_where_they_change() -> None:
    assert count("ldtilecfg", kernel(64, 64, 64)) == 1
    assert count("ldtilecfg", kernel(64, 72, 64)) == 2
    assert count("ldtilecfg", kernel(33, 64, 64)) == 1, "three tiles of eleven rows"


def test_tiles_are_given_back() -> None:
    assert count("tilerelease", kernel(33, 72, 13)) == 1


def test_a_process_that_may_not_use_tiles_stays_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux refuses where a signal stack of the process is too small for them, and hypervisors may."""
    tiles = {"amx_tile", "amx_bf16", "amx_int8"}
    monkeypatch.setattr(target, "cpu_info", lambda: {"flags": " ".join(("avx2", *tiles))})
    for granted in (0, -1):
        monkeypatch.setattr(ctypes, "CDLL", lambda _, granted=granted: type("Libc", (), {"syscall": lambda self, *args: granted})())
        assert target._cpu_flags.__wrapped__() == {"avx2", *(tiles if granted == 0 else ())}


def task(*products: tuple[int, int, int]) -> str:
    """LLVM IR of a parallel loop of products of bf16, each a batch of so many entries along k: (m, k of an entry, entries)."""
    i, statements = Var("i"), list[Stmt]()
    params = list[Tensor]()
    for number, (m, k, entries) in enumerate(products):
        src, wei, acc = (
            tensor(f"{name}{number}", dtype, (size,), Scope.param)
            for name, dtype, size in zip("swa", BF16, (m * k * entries, k * entries * 16, m * 16), strict=True)
        )
        params += [src, wei, acc]
        strides = {src: (k * entries, 1, k), wei: (32, 1, k * 16), acc: (16, 1)}
        pieces = (flat_slice(t, Const(0), along) for t, along in strides.items())
        statements.append(Brgemm(*pieces, m, 16, k, (entries,)))
    body = For(i, Const(2), seq(*statements), LoopKind.parallel)
    return "".join(emit([Func("main", tuple(params), body)], Target(ISAS["avx512_core_amx"], 48 << 10, 2 << 20, 2)))


def shapes_set(text: str) -> list[str]:
    return re.findall(r'ldtilecfg"\(ptr @"tiles_(\w+)"\)', text)


def test_a_task_sets_the_shapes_once_for_all_its_kernels() -> None:
    """Of the kernels as they are compiled: 3 entries of 8 along k are 24, 12 groups deep."""
    text = task((14, 8, 3), (14, 8, 3))
    assert shapes_set(text) == ["_".join(["14x16"] * 4 + ["14x12"] * 1 + ["12x16"] * 3)]
    assert text.count('call void @"llvm.x86.tilerelease"') == 1


def test_kernels_of_different_shapes_set_their_own() -> None:
    text = task((14, 8, 3), (13, 24, 1))
    assert len(shapes_set(text)) == 2
    assert text.count('call void @"llvm.x86.tilerelease"') == 2
