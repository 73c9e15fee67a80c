"""Small Tensor IR functions, compiled and run on arrays, with guards around what they write."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.codegen.function_builder import thread_arenas_bytes
from benchgraph.core.arrays import pack
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS, Isa, host, missing
from benchgraph.runtime.jit import jit
from benchgraph.tir.build import mul, seq
from benchgraph.tir.ir import Binary, BinOp, Broadcast, Const, Expr, For, Func, Load, Ramp, Scope, Stmt, Store, Tensor, Var, tensor
from tests.support.guard_pages import fenced

GUARD = 64  # bytes of 0xA5 on each side of an output
Array = NDArray[np.generic]


@dataclass(frozen=True)
class Mapping:
    """One map of several that are compiled together: the arguments of Mapped."""

    f: Callable[..., Expr]
    ins: Sequence[Array]
    dtypes: Sequence[DType]
    dst: DType


def isa_levels() -> dict[str, Isa]:
    """The instruction set levels that this processor has, the highest of those that products of bytes alone tell apart.

    test_emit.py shows that the others make the same code; test_microkernel.py has them all.
    """
    found: dict[tuple[int, bool], Isa] = {}
    for isa in ISAS.values():
        if not missing(isa):
            found.setdefault((isa.lanes, isa.has_bf16), isa)
    return {isa.name: isa for isa in found.values()}


def run_function(
    func: Func, ins: Sequence[Array], *, isa: Isa | None = None, threads: int = 1, runtime: str = "seq", shift: int = 0
) -> list[Array]:
    target = replace(host(), isa=isa or host().isa, cores=threads)
    code = jit(emit([func], target), target, runtime)
    outs = func.params[len(ins) :]
    buffers = [np.full(GUARD * 2 + shift + t.nbytes, 0xA5, np.uint8) for t in outs]
    for t, raw in zip(outs, buffers, strict=True):
        raw[GUARD + shift : GUARD + shift + t.nbytes] = 0x5A
    shared, private = np.empty(func.shared_bytes + 1, np.uint8), np.empty(thread_arenas_bytes(func, threads) + 1, np.uint8)
    addresses = [*(a.ctypes.data for a in ins), *(b.ctypes.data + GUARD + shift for b in buffers), shared.ctypes.data, private.ctypes.data]
    argv = (ctypes.c_void_p * len(addresses))(*addresses)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(func.name))(ctypes.addressof(argv))
    for raw in buffers:
        assert (raw[: GUARD + shift] == 0xA5).all()
        assert (raw[-GUARD:] == 0xA5).all()
    return [b[GUARD + shift : -GUARD].copy().view(t.dtype.numpy) for t, b in zip(outs, buffers, strict=True)]


def run_maps(cases: Sequence[Mapping], isa: Isa, lanes: int) -> list[Array]:
    """One function that does all the cases, one after the other, each on parameters of its own."""
    params, bodies, memory = [], [], []
    for number, case in enumerate(cases):
        n = case.ins[0].size
        srcs = [tensor(f"src{number}_{k}", dt, (n,), Scope.param) for k, dt in enumerate(case.dtypes)]
        dst = tensor(f"dst{number}", case.dst, (n,), Scope.param)
        params.append((srcs, dst))
        bodies.append(_map(case.f, srcs, dst, lanes))
        memory += [fenced(pack(a, dt, (1,)) if dt.is_packed else a) for a, dt in zip(case.ins, case.dtypes, strict=True)]
    func = Func("main", (*(src for srcs, _ in params for src in srcs), *(dst for _, dst in params)), seq(*bodies))
    return run_function(func, memory, isa=isa)


def _map(f: Callable[..., Expr], srcs: Sequence[Tensor], dst: Tensor, lanes: int) -> Stmt:
    (n,), i = dst.shape, Var("i")
    if lanes == 1:
        return For(i, Const(n), Store(dst, (i,), f(*(Load(s, (i,)) for s in srcs))))
    ramp, rest = Ramp(mul(i, lanes), 1, lanes), Ramp(Const(n // lanes * lanes), 1, lanes)
    whole = For(i, Const(n // lanes), Store(dst, (ramp,), f(*(Load(s, (ramp,)) for s in srcs))))
    mask = Binary(BinOp.lt, rest, Broadcast(Const(n), lanes))
    return seq(whole, Store(dst, (rest,), f(*(Load(s, (rest,), mask) for s in srcs)), mask))


def assert_same_values(got: Array, want: Array) -> None:
    """Equal values and signs of zero; any NaN equals any NaN."""
    assert got.dtype == want.dtype
    if got.dtype.kind not in "fV":
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(invalid="ignore"):  # signalling NaNs
        g, w = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(g, w)
    np.testing.assert_array_equal(np.signbit(g[~np.isnan(g)]), np.signbit(w[~np.isnan(w)]))


Together = Callable[[dict[str, Mapping]], dict[str, Array]]  # as Mapped, for each by its name, with one compilation for all
