"""One step of a dot product, on one vector of each operand."""

from __future__ import annotations

import ctypes

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.dot import dot, lane_type
from benchgraph.codegen.intrinsics import F32, I32, PTR, VOID, vector
from benchgraph.core.dtypes import DType
from benchgraph.core.isa import Isa
from benchgraph.runtime.code import load
from benchgraph.tir.groups import DTypes
from tests.support.microkernels import BF16


def applied(dtypes: DTypes, isa: Isa, a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """dot on one vector of each."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(VOID, [PTR] * 3), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    types = [vector(type, isa.lanes) for type in (lane_type(dtypes), lane_type(dtypes), F32 if dtypes[2] is DType.f32 else I32)]
    loaded = [builder.load(at, typ=type, align=1) for at, type in zip(function.args, types, strict=True)]
    builder.store(dot(builder, dtypes[0], *loaded, isa), function.args[2], align=1)
    builder.ret_void()
    code, out = load(str(module), isa, {}), acc.copy()
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("run"))(a.ctypes.data, b.ctypes.data, out.ctypes.data)
    return out


def check_pairs_of_bf16(isa: Isa) -> None:
    """Pairs of bf16 are multiplied exactly, and the odd product is added first."""
    one = 1 + 2.0**-7
    cases = [
        ((one, 0.0), (one, 9.0), 0.0),
        ((0.0, one), (9.0, one), 0.0),
        ((1.0, -1.0), (1.0, 2.0**24), 2.0**24),
        ((-3.0, 5.0), (7.0, 2.0), 1.0),
    ]
    want = [one * one, one * one, 1.0, -10.0]
    lanes = [cases[i % 4] for i in range(isa.lanes)]
    a, b = (np.array([case[side] for case in lanes]).astype(DType.bf16.numpy) for side in (0, 1))
    got = applied(BF16, isa, a, b, np.array([case[2] for case in lanes], np.float32))
    np.testing.assert_array_equal(got, [np.float32(want[i % 4]) for i in range(isa.lanes)])


# ---- machine code for other processors -------------------------------------------------------------------------------
