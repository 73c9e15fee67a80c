from __future__ import annotations

import ctypes
import dis
import gc
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import reach
from benchgraph.machine.target import host
from benchgraph.runtime.executable import Bound, Executable, Signature, chain
from benchgraph.runtime.jit import jit
from benchgraph.tir.build import add, mul, seq, unary
from benchgraph.tir.ir import (
    Binary,
    BinOp,
    Cast,
    Const,
    For,
    Func,
    InplacePair,
    Load,
    LoopKind,
    Module,
    Scope,
    Store,
    Tensor,
    UnOp,
    Var,
    tensor,
)

F32, S64 = DType.f32, DType.s64
VAR_I, VAR_J = Var("i"), Var("j")
Array = NDArray[np.float32]


def called(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Signature:
    """Without constants."""
    return Signature(inputs, outputs, (), (), ())


def flat(t: Tensor) -> Tensor:
    """What flatten-index makes of a parameter."""
    return replace(t, shape=(reach(t.shape, t.strides),), strides=(1,))


def executable(main: Func, signature: Signature, init: Func | None = None) -> Executable:
    functions = (main,) if init is None else (main, init)
    return Executable(jit(emit(functions, host()), host(), "threadpool"), Module(*functions), signature, compile_s=0.25)


def scaled() -> Executable:
    """dst = src * folded, where folded[i] = wei[i] + offset[i] comes from init, offset is a literal; runs counts the inits."""
    src, wei, dst = (tensor(n, F32, (2, 3), Scope.param) for n in ("src", "wei", "dst"))
    offset, folded = (tensor(n, F32, (6,), Scope.param) for n in ("offset", "folded"))
    runs = tensor("runs", S64, (1,), Scope.param)
    f = [flat(t) for t in (src, wei, dst)]
    body = For(VAR_I, Const(6), Store(f[2], (VAR_I,), Binary(BinOp.mul, Load(f[0], (VAR_I,)), Load(folded, (VAR_I,)))), LoopKind.parallel)
    fill = For(VAR_I, Const(6), Store(folded, (VAR_I,), Binary(BinOp.add, Load(f[1], (VAR_I,)), Load(offset, (VAR_I,)))), LoopKind.parallel)
    count = Store(runs, (Const(0),), add(Load(runs, (Const(0),)), 1))
    constants = (offset, folded, runs)
    signature = Signature((src, wei), (dst,), constants, (np.full(6, 10, np.float32), None, np.zeros(1, np.int64)), (1,))
    return executable(Func("main", (*f, *constants), body), signature, Func("init", (f[1], *constants), seq(fill, count)))


def init_runs(bound: Bound) -> int:
    return int(bound._constants.buffers[2].view(np.int64)[0])


def arrays() -> tuple[Array, Array, Array]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return x, x + 1, np.full((2, 3), np.nan, np.float32)


def test_bound_computes_in_place_and_again_with_new_data() -> None:
    src, wei, dst = arrays()
    e = scaled()
    bound = e.bind([src, wei], [dst])
    bound()
    np.testing.assert_array_equal(dst, src * (wei + 10))
    src += 1
    bound()
    np.testing.assert_array_equal(dst, src * (wei + 10))
    assert e.compile_s == 0.25


def test_init_runs_once_per_set_of_constant_buffers() -> None:
    src, wei, dst = arrays()
    e = scaled()
    first, second = e.bind([src, wei], [dst]), e.bind([src + 1, wei], [np.empty_like(dst)])
    for bound in (first, second, first, second):
        bound()
    assert init_runs(first) == init_runs(second) == 1
    assert first._constants is second._constants
    other = e.bind([src, wei * 2], [dst])
    other()
    assert other._constants is not first._constants
    np.testing.assert_array_equal(dst, src * (wei * 2 + 10))


def test_a_chain_names_the_memory_that_its_code_reads_besides_the_inputs() -> None:
    src, wei, dst = arrays()
    e = scaled()
    bounds = [e.bind([src, wei], [dst]), e.bind([src, wei * 2], [np.empty_like(dst)])]
    both = chain(bounds)
    before = [a.ctypes.data for a in both.constants]
    both.run(1)
    assert [a.ctypes.data for a in both.constants] == before
    folded = [both.constants[i].view(np.float32)[:6] for i in (1, 4)]
    np.testing.assert_array_equal(folded, [wei.reshape(-1) + 10, wei.reshape(-1) * 2 + 10])


def test_constants_are_kept_while_a_bound_needs_them_and_no_longer() -> None:
    src, wei, dst = arrays()
    e = scaled()
    bound = e.bind([src, wei], [dst])
    bound()
    assert len(e._constants) == 1
    wei[:] = 5  # the buffer is the same, so it counts as constant
    bound()
    np.testing.assert_array_equal(dst, src * (np.arange(6, dtype=np.float32).reshape(2, 3) + 11))
    del bound
    gc.collect()
    assert len(e._constants) == 0
    e.bind([src, wei], [dst])()
    np.testing.assert_array_equal(dst, src * 15)


def test_concurrent_first_calls_run_init_once() -> None:
    src, wei, _ = arrays()
    e = scaled()
    bounds = [e.bind([src, wei], [np.empty_like(src)]) for _ in range(6)]
    callers = [threading.Thread(target=b) for b in bounds]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert init_runs(bounds[0]) == 1
    assert all((b._outputs[0] == src * (wei + 10)).all() for b in bounds)


def test_bounds_of_one_executable_run_concurrently_in_their_own_arenas() -> None:
    """Each task fills its thread arena, then a shared one; two Bounds at once must not see each other's."""
    n = 64
    src, dst = tensor("src", F32, (n,), Scope.param), tensor("dst", F32, (n,), Scope.param)
    shared, own = Tensor("shared", F32, (n,), (1,), Scope.shared, offset=0), Tensor("own", F32, (8,), (1,), Scope.thread, offset=0)
    at = add(mul(VAR_I, 8), VAR_J)
    task = seq(
        For(VAR_J, Const(8), Store(own, (VAR_J,), Load(src, (at,)))),
        For(VAR_J, Const(8), Store(shared, (at,), Load(own, (VAR_J,)))),
    )
    body = seq(For(VAR_I, Const(8), task, LoopKind.parallel), For(VAR_I, Const(n), Store(dst, (VAR_I,), Load(shared, (VAR_I,)))))
    e = executable(Func("main", (src, dst), body, shared_bytes=n * 4, thread_bytes=32), called((src,), (dst,)))
    data = [np.full(n, k, np.float32) for k in range(3)]
    outs = [np.zeros(n, np.float32) for _ in data]
    steps = chain([e.bind([d], [o]) for d, o in zip(data, outs, strict=True)])
    singles = [chain([e.bind([d], [o])]) for d, o in zip(data, outs, strict=True)]
    callers = [threading.Thread(target=s.run, args=(200,)) for s in singles]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert all((o == d).all() for d, o in zip(data, outs, strict=True))
    steps.run(2)


def counter(dst: Tensor, step: int) -> Executable:
    """dst[0] = dst[0] * 2 + step"""
    body = Store(dst, (Const(0),), add(mul(Load(dst, (Const(0),)), 2), step))
    return executable(Func("main", (dst,), body), called((), (dst,)))


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_chain_runs_its_steps_in_order_as_often_as_asked(times: int) -> None:
    dst, value = tensor("dst", S64, (1,), Scope.param), np.zeros(1, np.int64)
    chain([counter(dst, 1).bind([], [value]), counter(dst, 5).bind([], [value])]).run(times)
    want = 0
    for _ in range(times):
        want = (want * 2 + 1) * 2 + 5
    assert value[0] == want


def test_an_empty_chain_does_nothing() -> None:
    chain([]).run(5)


def test_a_chain_runs_init_first() -> None:
    src, wei, dst = arrays()
    bound = scaled().bind([src, wei], [dst])
    bound._constants.buffers[1][:] = 0xFF  # NaN: fresh memory may hold the right numbers from an earlier test
    chain([bound]).run(1)
    np.testing.assert_array_equal(dst, src * (wei + 10))


def test_a_chain_of_other_objects_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="cannot chain a str"):
        chain(["x"])


def strided(rows: int = 2, cols: int = 3, pitch: int = 5) -> Executable:
    src = tensor("src", F32, (rows, cols), Scope.param, (pitch, 1))
    dst = tensor("dst", F32, (rows, cols), Scope.param)
    load = Load(flat(src), (add(mul(VAR_I, pitch), VAR_J),))
    body = For(VAR_I, Const(rows), For(VAR_J, Const(cols), Store(flat(dst), (add(mul(VAR_I, cols), VAR_J),), load)))
    return executable(Func("main", (flat(src), flat(dst)), body), called((src,), (dst,)))


def test_strided_inputs_are_used_in_place() -> None:
    whole, dst = np.arange(10, dtype=np.float32).reshape(2, 5), np.zeros((2, 3), np.float32)
    strided().bind([whole[:, :3]], [dst])()
    np.testing.assert_array_equal(dst, whole[:, :3])


def _read_only() -> Array:
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    return array


GOOD_SRC, GOOD_DST = np.zeros((2, 5), np.float32)[:, :3], np.zeros((2, 3), np.float32)
WIDE, TRANSPOSED_TO = GOOD_SRC.astype(np.float64), np.zeros((3, 2), np.float32)
REFUSED = {
    "count": ([], [GOOD_DST], "bind: 0 inputs given, 1 needed"),
    "dtype": ([WIDE], [GOOD_DST], "bind: input 0 (src): dtype float64, compiled for f32; pass numpy dtype float32"),
    "shape": ([GOOD_SRC], [TRANSPOSED_TO], "bind: output 0 (dst): shape (3, 2) with strides (2, 1), compiled for shape (2, 3)"),
    "strides": ([GOOD_DST], [GOOD_DST.copy()], "strides (3, 1), compiled for shape (2, 3) with strides (5, 1); copy it"),
    "read-only": ([GOOD_SRC], [_read_only()], "bind: output 0 (dst): the array is read-only; pass a writeable one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_buffers_that_do_not_fit_are_named_by_position(case: str) -> None:
    inputs, outputs, message = REFUSED[case]
    with pytest.raises(InvalidArguments, match=re.escape(message)):
        strided().bind(inputs, outputs)


def unpacked() -> Executable:
    """dst = src, of s4 in rows of three with a gap of two, so that every other row begins in a high nibble."""
    src, dst = tensor("src", DType.s4, (2, 3), Scope.param, strides=(5, 1)), tensor("dst", DType.s8, (6,), Scope.param)
    rows = (For(VAR_J, Const(3), Store(dst, (add(VAR_J, 3 * i),), Cast(Load(flat(src), (add(VAR_J, 5 * i),)), DType.s8))) for i in range(2))
    return executable(Func("main", (flat(src), dst), seq(*rows)), called((src,), (dst,)))


def test_s4_and_u4_are_bound_as_packed_memory() -> None:
    memory, dst = np.array([0x21, 0xF3, 0x6F, 0x87], np.uint8), np.zeros(6, np.int8)
    unpacked().bind([memory], [dst])()
    assert dst.tolist() == [1, 2, 3, 6, 7, -8]


@pytest.mark.parametrize("wrong", [np.zeros((2, 3), np.int8), np.zeros(4, np.int8), np.zeros(5, np.uint8), np.zeros(8, np.uint8)[::2]])
def test_anything_but_the_packed_memory_is_refused(wrong: NDArray[np.generic]) -> None:
    says = "bind: input 0 (src): .* compiled for s4; pass its memory, two elements to a byte: 4 contiguous bytes of uint8"
    with pytest.raises(InvalidArguments, match=says.replace("(", r"\(").replace(")", r"\)")):
        unpacked().bind([wrong], [np.zeros(6, np.int8)])


def test_outputs_that_overlap_inputs_are_refused() -> None:
    src, wei, _ = arrays()
    with pytest.raises(InvalidArguments, match=r"bind: output 0 \(dst\): it overlaps input 1 \(wei\); give every output memory of its own"):
        scaled().bind([src, wei], [wei])


def negated() -> Executable:
    """a = -x, which may be overwritten; b = y + 1, which may not."""
    x, y, a, b = (tensor(n, F32, (6,), Scope.param) for n in "xyab")
    body = For(
        VAR_I,
        Const(6),
        seq(
            Store(a, (VAR_I,), unary(UnOp.neg, Load(x, (VAR_I,)))),
            Store(b, (VAR_I,), Binary(BinOp.add, Load(y, (VAR_I,)), Const(1.0, F32))),
        ),
    )
    return executable(Func("main", (x, y, a, b), body, inplace=(InplacePair("a", "x"),)), called((x, y), (a, b)))


def test_an_output_may_lie_over_the_input_it_is_paired_with() -> None:
    e = negated()
    assert e.inplace == {(0, 0)}
    x, y, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32), np.empty(6, np.float32)
    e.bind([x, y], [x, b])()
    np.testing.assert_array_equal(x, -np.arange(6, dtype=np.float32))


def test_an_output_may_overlap_only_its_paired_input_and_only_completely() -> None:
    e, memory, apart = negated(), np.zeros(12, np.float32), np.zeros(6, np.float32)
    refusals = {
        r"output 0 \(a\): it overlaps input 0 \(x\); give it exactly that memory, or": ([memory[:6], apart], [memory[1:7], apart.copy()]),
        r"output 1 \(b\): it overlaps input 1 \(y\); give every output": ([memory[:6], apart], [memory[6:], apart]),
        r"output 1 \(b\): it overlaps input 0 \(x\); give every output": ([memory[:6], apart], [memory[6:], memory[:6]]),
        r"output 0 \(a\): it overlaps input 1 \(y\); give every output": ([apart, apart], [apart, memory[:6]]),
        r"output 1 \(b\): it overlaps output 0 \(a\); give every output": ([apart, apart.copy()], [memory[:6], memory[:6]]),
    }
    for message, (inputs, outputs) in refusals.items():
        with pytest.raises(InvalidArguments, match=f"bind: {message}"):
            e.bind(inputs, outputs)


def test_memory_in_the_gaps_of_another_array_does_not_overlap_it() -> None:
    src, dst = (tensor(n, F32, (3, 2), Scope.param, strides=(4, 1)) for n in ("src", "dst"))
    moves = [Store(flat(dst), (Const(i),), Load(flat(src), (Const(i),))) for i in (0, 1, 4, 5, 8, 9)]
    e = executable(Func("main", (flat(src), flat(dst)), seq(*moves)), called((src,), (dst,)))
    both = np.arange(12, dtype=np.float32).reshape(3, 4)
    e.bind([both[:, :2]], [both[:, 2:]])()
    np.testing.assert_array_equal(both[:, 2:], both[:, :2])


def test_a_flattened_parameter_takes_any_array_of_its_extent() -> None:
    src, dst = tensor("src", F32, (13,), Scope.param), tensor("dst", F32, (6,), Scope.param)
    body = Store(dst, (Const(5),), Load(src, (Const(7),)))
    e = executable(Func("main", (src, dst), body), called((src,), (dst,)))
    whole, out = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((2, 3), np.float32)
    e.bind([whole[:, :3]], [out])()
    assert out[1, 2] == 7
    with pytest.raises(InvalidArguments, match="input 0"):
        e.bind([whole], [out])


def test_empty_arrays_bind() -> None:
    src, dst = tensor("src", F32, (0, 3), Scope.param), tensor("dst", F32, (2,), Scope.param)
    e = executable(Func("main", (flat(src), dst), Store(dst, (Const(1),), Const(4.0, F32))), called((src,), (dst,)))
    out = np.zeros(2, np.float32)
    e.bind([np.zeros((0, 3), np.float32)], [out])()
    assert out[1] == 4


def test_a_bounds_call_reaches_one_native_function_and_nothing_else() -> None:
    """With tests/ops/test_every_op.py, which sees that a call runs `Bound.__call__` alone: no numpy takes part in an execution.

    The code of that function names nothing but the native function and its argument, and has no operator that an array could answer to.
    """
    code = Bound.__call__.__code__
    assert set(code.co_names) == {"_is_new", "prepare", "_main", "_argument"}
    assert not [i.opname for i in dis.get_instructions(code) if i.opname.startswith(("BINARY", "COMPARE", "UNARY", "CONTAINS"))]
    src, wei, dst = arrays()
    bound = scaled().bind([src, wei], [dst])
    assert isinstance(bound._main, ctypes._CFuncPtr)
