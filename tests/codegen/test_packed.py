"""Loads of s4 and u4: every value, every parity, step and mask, and no byte read but those that hold a wanted element."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.core.arrays import pack
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Isa, host
from benchgraph.runtime.jit import jit
from benchgraph.tir.build import add, cast, mul, seq
from benchgraph.tir.ir import (
    Binary,
    BinOp,
    Broadcast,
    Cast,
    Const,
    For,
    Func,
    Load,
    Ramp,
    Scope,
    Select,
    Stmt,
    Store,
    Tensor,
    Var,
    tensor,
)
from benchgraph.tir.verify import verify
from tests.support.guard_pages import fenced
from tests.support.table import all_hold
from tests.support.tir_maps import Mapping, Together

Array = NDArray[np.generic]
Mapped = Callable[..., Array]
Run = Callable[..., list[Array]]
PACKED = [DType.s4, DType.u4]
every_packed = pytest.mark.parametrize("dtype", PACKED, ids=lambda d: d.value)
VAR = Var("i")


def every_pair(dtype: DType) -> NDArray[np.generic]:
    """All 256 bytes, as elements: every value beside every other, in either half."""
    low, high = (int(v) for v in dtype.range)
    values = np.arange(low, high + 1)
    return np.stack(np.meshgrid(values, values), axis=-1).ravel().astype(dtype.numpy)


def numbers(dtype: DType, n: int) -> NDArray[np.generic]:
    low, high = (int(v) for v in dtype.range)
    return np.random.default_rng(n).integers(low, high, n, dtype=dtype.numpy.type, endpoint=True)


WIDER = [DType.f32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2, DType.s8, DType.u8, DType.s32, DType.s64, DType.boolean]


def test_every_value_converts(together: Together) -> None:
    """Of an even number of elements and of an odd one."""
    cases, want = {}, dict[str, Array]()
    for dtype, dst, n in product(PACKED, WIDER, (511, 512)):
        name, x = f"{n} {dtype.value}-{dst.value}", every_pair(dtype)[:n]
        cases[name] = Mapping(partial(Cast, dtype=dst), [x], [dtype], dst)
        want[name] = (np.maximum(x, 0) if dst is DType.u8 else x).astype(np.float32).astype(dst.numpy)
    got = together(cases)
    all_hold(np.testing.assert_array_equal, {name: (got[name], want[name]) for name in cases})


@every_packed
def test_elements_can_be_selected(dtype: DType, mapped: Mapped) -> None:
    x, y = numbers(dtype, 77), numbers(dtype, 77)[::-1].copy()
    on = np.arange(77) % 3 == 0
    got = mapped(lambda a, b, c: Cast(Select(c, a, b), DType.f32), [x, y, on], [dtype, dtype, DType.boolean], DType.f32)
    np.testing.assert_array_equal(got, np.where(on, x, y).astype(np.float32))


@dataclass(frozen=True)
class Access:
    """src[start + r * step + k * stride] in lane k, for round r; only the first `active` lanes are on, all when that is None."""

    start: int
    stride: int
    step: int = 0
    rounds: int = 1
    active: int | None = None

    def places(self, lanes: int) -> NDArray[np.int64]:
        """Elements read, lane by lane and round by round; -1 where the lane is off."""
        lane, r = np.arange(lanes), np.arange(self.rounds)[:, None]
        at = self.start + r * self.step + lane * self.stride
        return np.where(lane < (lanes if self.active is None else self.active), at, -1).ravel()

    def statement(self, src: Tensor, dst: Tensor, lanes: int) -> Stmt:
        base = add(mul(VAR, self.step), self.start) if self.step else Const(self.start)
        mask = None if self.active is None else Binary(BinOp.lt, Ramp(Const(0), 1, lanes), Broadcast(Const(self.active), lanes))
        loaded = Cast(Load(src, (Ramp(base, self.stride, lanes),), mask), dst.dtype)
        return For(VAR, Const(self.rounds), Store(dst, (Ramp(mul(VAR, lanes), 1, lanes),), loaded))


def check(dtype: DType, lanes: int, accesses: list[Access], run: Run, isa: Isa, *, end: bool = True) -> None:
    """One function with every access, each from memory of its own that ends (begins) with the last (first) byte it needs."""
    wide = DType.s8 if dtype is DType.s4 else DType.u8
    places = [a.places(lanes) for a in accesses]
    data = [numbers(dtype, max(a.start, int(p.max())) + 1) for a, p in zip(accesses, places, strict=True)]
    srcs = [tensor(f"src{i}", dtype, (x.size,), Scope.param) for i, x in enumerate(data)]
    dsts = [tensor(f"dst{i}", wide, (p.size,), Scope.param) for i, p in enumerate(places)]
    func = Func("main", (*srcs, *dsts), seq(*(a.statement(src, dst, lanes) for a, src, dst in zip(accesses, srcs, dsts, strict=True))))
    verify(func)
    got = run(func, [fenced(pack(x, dtype, (1,)), end=end) for x in data], isa=isa)
    for a, x, p, g in zip(accesses, data, places, got, strict=True):
        np.testing.assert_array_equal(g, np.where(p < 0, 0, x[p]), err_msg=str(a))


@every_packed
@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 17, 64])
def test_any_lane_count_step_and_parity(dtype: DType, lanes: int, isa: Isa, run: Run) -> None:
    """The base steps by an even or an odd number, so that its parity is known or not."""
    accesses = [Access(start, stride, step, rounds=3) for start in (0, 1) for stride in (1, 2, 3, 4) for step in (2 * lanes, 2 * lanes + 1)]
    check(dtype, lanes, accesses, run, isa)


@every_packed
@pytest.mark.parametrize("lanes", [2, 3, 8, 17])
def test_lanes_that_are_off_are_zero_and_read_nothing(dtype: DType, lanes: int, isa: Isa, run: Run) -> None:
    accesses = [
        Access(start, stride, active=n)
        for start in (0, 1)
        for stride in (1, 2, 3)
        for n in sorted({0, 1, 2, 3, lanes // 2, lanes - 1, lanes} & set(range(lanes + 1)))
    ]
    check(dtype, lanes, accesses, run, isa)


@pytest.mark.parametrize(("step", "loads"), [(16, 1), (17, 2)], ids=["known even", "unknown parity"])
def test_a_vector_of_neighbours_is_half_as_many_bytes_in_one_load_where_the_parity_is_known(step: int, loads: int) -> None:
    src, dst = tensor("src", DType.u4, (100,), Scope.param), tensor("dst", DType.u8, (64,), Scope.param)
    func = Func("main", (src, dst), Access(0, 1, step, rounds=4).statement(src, dst, 16))
    optimized = jit(emit([func], host()), host(), "seq").optimized_ir()
    assert len(re.findall(r"load <8 x i8>", optimized)) == loads * optimized.count("store <16 x i8>")


@every_packed
def test_nothing_before_the_first_byte_is_read(dtype: DType, isa: Isa, run: Run) -> None:
    forward = [Access(start, stride) for start in (0, 1) for stride in (1, 2, 3)]
    backward = [Access(start + 7 * stride, -stride) for start in (0, 1) for stride in (1, 2, 3)]
    check(dtype, 8, forward + backward, run, isa, end=False)


@every_packed
@pytest.mark.parametrize("n", [1, 2, 15])
def test_single_elements(dtype: DType, n: int, isa: Isa, run: Run) -> None:
    """dst[i] = src[n - 1 - i], one by one."""
    src, dst = tensor("src", dtype, (n,), Scope.param), tensor("dst", DType.s32, (n,), Scope.param)
    func = Func("main", (src, dst), For(VAR, Const(n), Store(dst, (VAR,), cast(Load(src, (add(mul(VAR, -1), n - 1),)), DType.s32))))
    x = numbers(dtype, n)
    for end in (True, False):
        (got,) = run(func, [fenced(pack(x, dtype, (1,)), end=end)], isa=isa)
        np.testing.assert_array_equal(got, x[::-1])
