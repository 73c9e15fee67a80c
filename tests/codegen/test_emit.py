from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen import calls, ir, microkernel
from benchgraph.codegen.emit import emit
from benchgraph.codegen.function_builder import ARENA_GAP_BYTES, thread_arenas_bytes, thread_stride
from benchgraph.codegen.kernel import Kernel
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.machine.target import ISAS, LINE_BYTES, Isa, Target, host, missing
from benchgraph.runtime.jit import jit
from benchgraph.tir.build import add, cast, f32, floordiv, mod, mul, seq, unary
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import (
    Alloc,
    Binary,
    BinOp,
    Brgemm,
    Broadcast,
    Const,
    For,
    Func,
    If,
    InplacePair,
    Load,
    LoopKind,
    Pack,
    PostOps,
    Ramp,
    ReduceLanes,
    Scope,
    Slice,
    Store,
    Tensor,
    UnOp,
    Var,
    flat_slice,
    tensor,
)
from benchgraph.tir.passes import run as run_passes
from benchgraph.tir.visit import walk
from tests.support.guard_pages import fenced
from tests.support.machine_code import assembly
from tests.support.post_op_programs import HOLDS
from tests.support.table import all_hold
from tests.support.tir_maps import Mapping, Together, isa_levels
from tests.support.tir_programs import arguments, matmul_bf16, matmul_u8_s8, packed_matmul

Array = NDArray[np.generic]
Same = Callable[[Array, Array], None]
Mapped = Callable[..., Array]
Run = Callable[..., list[Array]]
S64, F32, BOOL = DType.s64, DType.f32, DType.boolean
VAR_I, VAR_J = Var("i"), Var("j")


def param(name: str, dtype: DType, size: int) -> Tensor:
    return tensor(name, dtype, (size,), Scope.param)


def values(seed: int, n: int = 151) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


# ---- accesses --------------------------------------------------------------------------------------------------------

MEMORY = [F32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2, DType.s64, DType.s32, DType.s8, DType.u8, BOOL]


STRIDES = (1, 2, 3, 4, 5, -1)


@pytest.mark.parametrize("dtype", MEMORY, ids=lambda d: d.value)
def test_strided_masked_load_and_store(dtype: DType, isa: Isa, run: Run) -> None:
    """dst[i * stride] = src[i * stride] for 8 lanes of which 5 are on; the others keep their bytes, and their loads give 0."""
    count, span = 8, 40
    x = (np.arange(span) % 5 == 1 if dtype is BOOL else (np.arange(span) + 1)).astype(dtype.numpy)
    src = param("src", dtype, span)
    outs = [(param(f"loaded{n}", dtype, count), param(f"dst{n}", dtype, span)) for n in range(len(STRIDES))]
    mask, places, stores = Binary(BinOp.lt, Ramp(Const(0), 1, count), Broadcast(Const(5), count)), [], []
    for stride, (loaded, dst) in zip(STRIDES, outs, strict=True):
        first = 0 if stride > 0 else count - 1
        ramp = Ramp(Const(first), stride, count)
        stores += [Store(loaded, (Ramp(Const(0), 1, count),), Load(src, (ramp,), mask)), Store(dst, (ramp,), Load(src, (ramp,)), mask)]
        places.append(first + stride * np.arange(count))
    got = run(Func("main", (src, *(t for pair in outs for t in pair)), seq(*stores)), [x], isa=isa, shift=dtype.bits // 8)

    def check(at: Array, loaded: Array, stored: Array) -> None:
        np.testing.assert_array_equal(loaded, np.where(np.arange(count) < 5, x[at], np.zeros(1, x.dtype)))
        want = np.full(span * x.itemsize, 0x5A, np.uint8).view(x.dtype)
        want[at[:5]] = x[at[:5]]
        np.testing.assert_array_equal(stored.view(np.uint8), want.view(np.uint8))

    all_hold(check, {f"stride {s}": case for s, *case in zip(STRIDES, places, got[::2], got[1::2], strict=True)})


@pytest.mark.parametrize("dtype", [F32, DType.bf16, DType.u8], ids=lambda d: d.value)
def test_a_strided_load_reads_nothing_behind_its_last_lane(dtype: DType, isa: Isa, run: Run) -> None:
    """The last active lane is the last element before memory that must not be read."""
    count, cases = 8, {f"{active} of 8, stride {stride}": (active, stride) for active in (8, 5) for stride in (2, 3, 4)}
    srcs, dsts, stores, memory = [], [], [], []
    for n, (active, stride) in enumerate(cases.values()):
        size = (active - 1) * stride + 1
        mask = None if active == count else Binary(BinOp.lt, Ramp(Const(0), 1, count), Broadcast(Const(active), count))
        srcs.append(param(f"src{n}", dtype, size))
        dsts.append(param(f"dst{n}", dtype, count))
        stores.append(Store(dsts[-1], (Ramp(Const(0), 1, count),), Load(srcs[-1], (Ramp(Const(0), stride, count),), mask)))
        memory.append(fenced((np.arange(size) + 1).astype(dtype.numpy)))
    got = run(Func("main", (*srcs, *dsts), seq(*stores)), memory, isa=isa)
    loaded = {name: (dst[:active], x[::stride]) for (name, (active, stride)), dst, x in zip(cases.items(), got, memory, strict=True)}
    all_hold(np.testing.assert_array_equal, loaded)


def test_a_known_mask_stores_its_lanes_alone(together: Together) -> None:
    """The last vector of a size that LLVM knows; LLVM 22 makes a store of 32 bits of one narrowed lane on AVX-512."""
    srcs = {f"{dtype.value}-{active}": (dtype, np.arange(32 + active, dtype=np.float32)) for dtype in MEMORY for active in (1, 2, 3)}
    cases = {name: Mapping(lambda x, to=dtype: cast(add(x, x), to), [src], [F32], dtype) for name, (dtype, src) in srcs.items()}
    want = {name: (src + src).astype(dtype.numpy).astype(np.float64) for name, (dtype, src) in srcs.items()}
    got = together(cases)  # between guards
    all_hold(np.testing.assert_array_equal, {name: (got[name].astype(np.float64), want[name]) for name in cases})


def test_a_masked_scalar_access_touches_nothing_when_off(run: Run, same: Same) -> None:
    src, dst = param("src", F32, 1), param("dst", F32, 2)
    x = np.array([3], np.float32)
    off, on = (Const(v, BOOL) for v in (0, 1))
    far = Const(1 << 40)
    body = seq(
        Store(dst, (Const(0),), Binary(BinOp.add, Load(src, (far,), off), Load(src, (Const(0),), on)), on),
        Store(dst, (far,), f32(1), off),
        Store(dst, (Const(1),), f32(2)),
    )
    same(run(Func("main", (src, dst), body), [x])[0], np.array([3, 2], np.float32))


def test_a_mask_from_a_loop_variable_cuts_the_tail(run: Run, same: Same) -> None:
    n = 37
    src, dst = param("src", F32, n), param("dst", F32, n)
    ramp = Ramp(mul(VAR_I, 16), 1, 16)
    mask = Binary(BinOp.lt, ramp, Broadcast(Const(n), 16))
    body = For(VAR_I, Const(4), Store(dst, (ramp,), Load(src, (ramp,), mask), mask))  # the last iteration starts beyond the end
    x = values(9, n)
    same(run(Func("main", (src, dst), body), [x])[0], x)


def test_registers_hold_vectors_and_scalars(run: Run, same: Same) -> None:
    """Row sums with a vector accumulator."""
    rows, cols = 3, 32
    src, dst = param("src", F32, rows * cols), param("dst", F32, rows)
    acc, total = replace(tensor("acc", F32, (), Scope.register), lanes=16), tensor("total", F32, (), Scope.register)
    step = Load(src, (Ramp(add(mul(VAR_I, cols), mul(VAR_J, 16)), 1, 16),))
    body = For(
        VAR_I,
        Const(rows),
        seq(
            Alloc(acc),
            Alloc(total),
            Store(acc, (), Broadcast(f32(0), 16)),
            For(VAR_J, Const(cols // 16), Store(acc, (), Binary(BinOp.add, Load(acc, ()), step))),
            Store(total, (), ReduceLanes(BinOp.add, Load(acc, ()))),
            Store(dst, (VAR_I,), Load(total, ())),
        ),
    )
    x = np.arange(rows * cols, dtype=np.float32)
    func = Func("main", (src, dst), body)
    same(run(func, [x])[0], x.reshape(rows, cols).sum(1))
    assert "alloca" not in jit(emit([func], host()), host()).optimized_ir()


def test_a_masked_register_store_keeps_the_other_lanes(run: Run, same: Same) -> None:
    dst = param("dst", F32, 8)
    reg = replace(tensor("reg", F32, (), Scope.register), lanes=8)
    mask = Binary(BinOp.lt, Ramp(Const(0), 1, 8), Broadcast(Const(3), 8))
    body = seq(
        Alloc(reg),
        Store(reg, (), Broadcast(f32(1), 8)),
        Store(reg, (), Broadcast(f32(2), 8), mask),
        Store(dst, (Ramp(Const(0), 1, 8),), Load(reg, ())),
    )
    same(run(Func("main", (dst,), body), [])[0], np.array([2, 2, 2, 1, 1, 1, 1, 1], np.float32))


# ---- statements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", [0, 1, 2, 5])
def test_serial_loops_run_their_extent_constant_or_not(extent: int, run: Run, same: Same) -> None:
    dst = param("dst", S64, 30)
    body = For(
        VAR_I,
        Const(6),
        For(VAR_J, Binary(BinOp.min, VAR_I, Const(extent)), Store(dst, (add(mul(VAR_I, 5), VAR_J),), add(mul(VAR_I, 10), VAR_J))),
    )
    want = np.full(30 * 8, 0x5A, np.uint8).view(np.int64)
    for i in range(6):
        for j in range(min(i, extent)):
            want[i * 5 + j] = i * 10 + j
    same(run(Func("main", (dst,), body), [])[0], want)
    fixed = For(VAR_I, Const(extent), Store(dst, (VAR_I,), VAR_I))
    assert (run(Func("main", (dst,), fixed), [])[0][:extent] == np.arange(extent)).all()


def test_if_takes_one_branch(run: Run, same: Same) -> None:
    dst = param("dst", S64, 8)
    odd = Binary(BinOp.eq, mod(VAR_I, 2), Const(1))
    body = For(
        VAR_I,
        Const(8),
        seq(
            If(odd, Store(dst, (VAR_I,), VAR_I), Store(dst, (VAR_I,), Const(-1))),
            If(Binary(BinOp.gt, VAR_I, Const(5)), Store(dst, (VAR_I,), Const(9))),
        ),
    )
    same(run(Func("main", (dst,), body), [])[0], np.array([-1, 1, -1, 3, -1, 5, 9, 9]))


def arena_copy(tasks: int) -> Func:
    """dst[t] = sum of src[t*4 : t*4+4], through the thread arena; also shared[t] = t, read after the loop."""
    src, dst, echo = param("src", F32, max(1, tasks * 4)), param("dst", F32, max(1, tasks)), param("echo", S64, max(1, tasks))
    private = Tensor("private", F32, (4,), (1,), Scope.thread, offset=64)
    shared = Tensor("shared", S64, (max(1, tasks),), (1,), Scope.shared, offset=128)
    body = seq(
        For(
            VAR_I,
            Const(tasks),
            seq(
                For(VAR_J, Const(4), Store(private, (VAR_J,), Load(src, (add(mul(VAR_I, 4), VAR_J),)))),
                Store(dst, (VAR_I,), ReduceLanes(BinOp.add, Load(private, (Ramp(Const(0), 1, 4),)))),
                Store(shared, (VAR_I,), VAR_I),
            ),
            LoopKind.parallel,
        ),
        For(VAR_I, Const(tasks), Store(echo, (VAR_I,), Load(shared, (VAR_I,)))),
    )
    return Func("main", (src, dst, echo), body, shared_bytes=128 + max(1, tasks) * 8, thread_bytes=80)


@pytest.mark.parametrize("runtime", ["auto", "threadpool", "seq"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 7, 100])
def test_parallel_loops_run_each_task_once_with_their_own_arena(tasks: int, threads: int, runtime: str, run: Run) -> None:
    x = values(10, max(1, tasks * 4))
    got, echo = run(arena_copy(tasks), [x], threads=threads, runtime=runtime)
    if tasks:
        np.testing.assert_allclose(got, x.reshape(tasks, 4).sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(echo, np.arange(tasks))


@pytest.mark.parametrize("runtime", ["auto", "threadpool"])
def test_each_thread_counts_in_an_arena_of_its_own(runtime: str) -> None:
    threads, tasks = 3, 99
    seen = Tensor("seen", S64, (1,), (1,), Scope.thread, offset=8)
    count = Store(seen, (Const(0),), add(Load(seen, (Const(0),)), 1))
    func = Func("main", (), For(VAR_I, Const(tasks), count, LoopKind.parallel), shared_bytes=16, thread_bytes=16)
    target = replace(host(), cores=threads, shares_all=True)
    code = jit(emit([func], target), target, runtime)
    shared, private = np.zeros(2, np.int64), np.zeros((threads, thread_stride(func) // 8), np.int64)
    argv = (ctypes.c_void_p * 2)(shared.ctypes.data, private.ctypes.data)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("main"))(ctypes.addressof(argv))
    np.testing.assert_array_equal(private[:, 1], tasks // threads)
    assert shared.sum() == 0


def test_thread_arenas_start_on_lines_of_their_own_and_lie_apart() -> None:
    assert thread_stride(arena_copy(1)) == 2 * LINE_BYTES + ARENA_GAP_BYTES
    assert thread_arenas_bytes(arena_copy(1), 3) == 2 * thread_stride(arena_copy(1)) + 2 * LINE_BYTES
    assert thread_arenas_bytes(replace(arena_copy(1), thread_bytes=0), 3) == 0


def test_a_parallel_loop_sees_outer_variables_and_registers_and_nests_serially(run: Run, same: Same) -> None:
    dst, scale = param("dst", S64, 24), tensor("scale", S64, (), Scope.register)
    k = Var("k")
    inner = For(
        k,
        Const(2),
        Store(dst, (add(add(mul(VAR_I, 8), mul(VAR_J, 2)), k),), mul(Load(scale, ()), add(add(mul(VAR_I, 100), mul(VAR_J, 10)), k))),
        LoopKind.parallel,
    )
    body = seq(Alloc(scale), Store(scale, (), Const(7)), For(VAR_I, Const(3), For(VAR_J, Const(4), inner, LoopKind.parallel)))
    want = [7 * (i * 100 + j * 10 + k) for i in range(3) for j in range(4) for k in range(2)]
    same(run(Func("main", (dst,), body), [], threads=2, runtime="threadpool")[0], np.array(want))


def test_a_register_of_an_earlier_loop_stays_a_register() -> None:
    dst, acc = param("dst", S64, 8), tensor("acc", S64, (), Scope.register)
    serial = For(VAR_I, Const(8), seq(Alloc(acc), Store(acc, (), VAR_I), Store(dst, (VAR_I,), Load(acc, ()))))
    parallel = For(VAR_I, Const(8), seq(Alloc(acc), Store(acc, (), VAR_I), Store(dst, (VAR_I,), Load(acc, ()))), LoopKind.parallel)
    assert "alloca" not in jit(emit([Func("main", (dst,), seq(serial, parallel))], host()), host()).optimized_ir()


def test_init_is_emitted_beside_main() -> None:
    dst = param("dst", S64, 1)
    main, init = (Func(name, (dst,), Store(dst, (Const(0),), Const(v))) for name, v in (("main", 1), ("init", 2)))
    code = jit(emit([main, init], host()), host())
    assert code.address("main") != code.address("init")


def test_functions_share_what_they_call() -> None:
    """It is defined once, beside the first of them; and that one is there before the next one is asked for."""
    src, wei, acc, panels = (param(name, F32, 64) for name in ("src", "wei", "acc", "panels"))
    product = Brgemm(*(flat_slice(t, Const(0), (8, 1)) for t in (src, wei, acc)), 8, 8, 8)
    packed = Pack(flat_slice(src, Const(0), (8, 1)), flat_slice(panels, Const(0), (8, 1)), k=8, n=8)
    asked = list[str]()

    def functions() -> Iterator[Func]:
        for name in ("main", "init"):
            asked.append(name)
            yield Func(name, (src, wei, acc, panels), seq(product, packed))

    found = [(text, len(asked)) for text in emit(functions(), host())]
    defined = [re.findall(r"^define .*@\"?([a-z]+)", text, re.MULTILINE) for text, _ in found]
    assert defined == [["brgemm"], ["pack"], ["main"], ["init"]]
    assert [count for _, count in found] == [1, 1, 1, 2]
    jit((text for text, _ in found), host())


def test_what_runs_once_is_not_optimised() -> None:
    """Init and its tasks; what packs for it is code like that of main."""
    dst, wei, panels = param("dst", S64, 1 << 20), param("wei", F32, 64 * 64), param("panels", F32, 64 * 64)
    loop = For(VAR_I, Const(1 << 20), Store(dst, (VAR_I,), VAR_I), LoopKind.parallel)
    pack = Pack(flat_slice(wei, Const(0), (64, 1)), flat_slice(panels, Const(0), (64, 1)), k=64, n=64)
    init = Func("init", (dst, wei, panels), seq(loop, pack), runs_once=True)
    text = "".join(emit([Func("main", (dst,), loop), init], replace(host(), cores=2)))
    functions = re.findall(r"^define .*@\"?([\w.]+).*\)(.*) \{", text, re.MULTILINE)
    assert {name.split("_")[0]: "optnone" in attributes for name, attributes in functions} == {
        "main": False,
        "main.i": False,
        "init": True,
        "init.i": True,
        "pack": False,
    }


def test_stores_to_one_parameter_do_not_make_loads_of_another_repeat() -> None:
    """The bias load leaves the loop: alias scopes work."""
    bia, dst = param("bia", F32, 1), param("dst", F32, 4096)
    body = For(VAR_I, Const(4096), Store(dst, (VAR_I,), unary(UnOp.neg, Load(bia, (Const(0),)))))
    text = jit(emit([Func("main", (bia, dst), body)], host()), host()).optimized_ir()
    loop = text[text.index("i.body:") :]
    assert "load float" not in loop[: loop.index("br i1")]


def test_a_load_stays_before_the_store_that_may_overwrite_it() -> None:
    """The same loop, but dst may lie over bia: the load stays in it."""
    bia, dst = param("bia", F32, 4096), param("dst", F32, 4096)
    body = For(VAR_I, Const(4096), Store(dst, (VAR_I,), unary(UnOp.neg, Load(bia, (Const(0),)))))
    f = Func("main", (bia, dst), body, inplace=(InplacePair("dst", "bia"),))
    text = jit(emit([f], host()), host()).optimized_ir()
    loop = text[text.index("i.body:") :]
    assert "load float" in loop[: loop.index("br i1")]


def test_a_loop_that_may_have_no_iteration_reads_nothing_in_front_of_it() -> None:
    bia, dst, n = param("bia", F32, 1), param("dst", F32, 4096), param("n", S64, 1)
    inner = For(VAR_J, Load(n, (Const(0),)), Store(dst, (VAR_J,), unary(UnOp.neg, Load(bia, (Const(0),)))))
    text = "".join(emit([Func("main", (bia, dst, n), For(VAR_I, Const(7), inner))], host()))
    assert text.index("load i64") < text.index('"i.body":') < text.index('"j.body":') < text.index("load float")


def test_a_division_leaves_the_loops_that_do_not_change_it() -> None:
    dst = param("dst", S64, 4096)
    inner = For(VAR_J, Const(64), Store(dst, (add(mul(VAR_I, 64), VAR_J),), floordiv(VAR_I, 7)))
    text = "".join(emit([Func("main", (dst,), For(VAR_I, Const(64), inner))], host()))
    assert text.index('"i.body":') < text.index("udiv") < text.index('"j.body":')


def test_a_float_leaves_the_loops_that_do_not_change_it() -> None:
    """Its multiplication and the vector of it too, once for each iteration of the loop that changes it."""
    dst = param("dst", F32, 4096)
    weight = Broadcast(Binary(BinOp.mul, cast(VAR_I, F32), Const(0.25, F32)), 16)
    innermost = For(Var("k"), Const(8), Store(dst, (Ramp(add(mul(VAR_I, 64), mul(VAR_J, 16)), 1, 16),), weight))
    inner = For(VAR_J, Const(4), innermost)
    text = "".join(emit([Func("main", (dst,), For(VAR_I, Const(64), inner))], host()))
    before, inside = text.index('"i.body":'), text.index('"j.body":')
    for instruction in ("sitofp", "fmul", "shufflevector"):
        assert text.count(instruction) == 1
        assert before < text.index(instruction) < inside


def test_a_float_of_memory_that_the_loop_writes_stays_where_it_is_read() -> None:
    dst = param("dst", F32, 64)
    inner = For(VAR_J, Const(64), Store(dst, (VAR_J,), Binary(BinOp.mul, Load(dst, (VAR_I,)), Const(0.25, F32))))
    text = "".join(emit([Func("main", (dst,), For(VAR_I, Const(64), inner))], host()))
    assert text.index('"j.body":') < text.index("fmul")


@pytest.mark.parametrize("kind", [LoopKind.serial, LoopKind.parallel])
def test_what_lies_from_zero_to_2_to_the_31st_is_divided_in_32_bits(kind: LoopKind) -> None:
    """Below, and above, a quotient rounds down in 64: a range that the loops do not show is not believed."""

    def divided(extent: int, moved: int) -> str:
        dst = param("dst", F32, 4096)
        value = cast(add(floordiv(add(VAR_I, moved), 7), mod(add(VAR_I, moved), 5)), F32)
        return "".join(emit([Func("main", (dst,), For(VAR_I, Const(extent), Store(dst, (Const(0),), value), kind))], host()))

    for within in (divided(4096, 0), divided(1 << 31, 0), divided(1 << 30, 1 << 30)):
        assert "udiv i32" in within
        assert "urem i32" in within
        assert "sdiv" not in within
    for beyond in (divided(4096, -1), divided((1 << 31) + 1, 0), divided(1 << 30, (1 << 30) + 1)):
        assert "udiv" not in beyond
        assert "sdiv i64" in beyond
        assert "srem i64" in beyond


def test_what_a_masked_store_wrote_is_not_read_from_memory() -> None:
    """The load would wait for the store to reach the cache."""
    src, tmp, dst = (param(name, F32, 16) for name in ("src", "tmp", "dst"))
    at, mask = (Ramp(Const(0), 1, 16),), Binary(BinOp.lt, Ramp(Const(0), 1, 16), Broadcast(Const(13), 16))
    body = seq(Store(tmp, at, Load(src, at, mask), mask), Store(dst, at, Load(tmp, at, mask), mask))
    text = "".join(emit([Func("main", (src, tmp, dst), body)], host()))
    assert (text.count('call <16 x float> @"llvm.masked.load'), text.count('call void @"llvm.masked.store')) == (1, 2)


def test_what_goes_past_the_caches_arrives_wherever_memory_begins(run: Run, isa: Isa) -> None:
    """On lines of memory and beside them; a fence is behind it."""
    src, dst, lanes = param("src", F32, 64), param("dst", F32, 64), LINE_BYTES // 4
    at = Ramp(mul(VAR_I, lanes), 1, lanes)
    func = Func("main", (src, dst), For(VAR_I, Const(4), Store(dst, (at,), Load(src, (at,)), non_temporal=True), LoopKind.parallel))
    x = values(5, 64)
    for shift in range(0, LINE_BYTES, 4):
        np.testing.assert_array_equal(run(func, [x], isa=isa, threads=2, runtime="threadpool", shift=shift)[0], x)
    text = assembly("".join(emit([func], replace(host(), isa=isa))), isa)
    body = text[text.index("main.i:") :]
    assert body.index("movnt") < body.index("sfence") < body.index("ret")


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16, DType.u8], ids=lambda d: d.value)
def test_narrow_numbers_go_past_the_caches_too(dtype: DType) -> None:
    """LLVM forgets it of stores whose vector it takes for one of bfloat or half."""
    isa, lanes = ISAS["avx512_core"], LINE_BYTES * 8 // dtype.bits
    src, dst, at = param("src", F32, 4 * lanes), param("dst", dtype, 4 * lanes), (Ramp(mul(VAR_I, lanes), 1, lanes),)
    func = Func("main", (src, dst), For(VAR_I, Const(4), Store(dst, at, cast(Load(src, at), dtype), non_temporal=True)))
    assert "movnt" in assembly("".join(emit([func], replace(host(), isa=isa))), isa)


# ---- instruction sets ------------------------------------------------------------------------------------------------


def test_levels_that_products_alone_tell_apart_make_the_same_code() -> None:
    """Which is why other tests leave out the lower ones."""
    srcs, dsts = [param(f"src{i}", d, 40) for i, d in enumerate(MEMORY)], [param(f"dst{i}", d, 40) for i, d in enumerate(MEMORY)]
    ramp, rest = Ramp(Const(0), 1, 16), Ramp(Const(32), 1, 16)
    mask = Binary(BinOp.lt, rest, Broadcast(Const(40), 16))
    stores = [
        Store(dst, (at,), cast(unary(op, cast(Load(src, (at,), *on), F32)), dst.dtype), *on)
        for at, on in ((ramp, ()), (rest, (mask,)))
        for op, src, dst in zip(cycle((UnOp.exp, UnOp.sqrt, UnOp.round)), srcs, (*dsts[1:], dsts[0]), strict=False)
    ]
    func = Func("main", (*srcs, *dsts), seq(*stores))
    assemblies = {isa.name: assembly("".join(emit([func], replace(host(), isa=isa))), isa) for isa in ISAS.values() if not missing(isa)}
    for name in assemblies.keys() - isa_levels():
        same = [level for level in isa_levels() if assemblies[level] == assemblies[name]]
        assert same, f"{name} makes code of its own"
        assert ISAS[same[0]].lanes == ISAS[name].lanes


# ---- microkernels ----------------------------------------------------------------------------------------------------


def test_brgemm_passes_the_right_kernel_and_addresses(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    seen: list[Kernel] = []
    real = microkernel.define

    def spy(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
        seen.append(kernel)
        return real(module, kernel, target)

    monkeypatch.setattr(microkernel, "define", spy)
    m, n, k, batch = 3, 20, 5, 2
    src, wei, dst = param("src", F32, 200), param("wei", F32, 400), param("dst", F32, 100)
    acc = Tensor("acc", F32, (m * 32,), (1,), Scope.shared, offset=64)
    call = Brgemm(
        flat_slice(src, Const(2), (12, 1, 50)),
        flat_slice(wei, Const(3), (24, 1, 150)),
        flat_slice(acc, Const(0), (32, 1)),
        m,
        n,
        k,
        batch=(batch,),
    )
    copy = For(VAR_I, Const(m), For(VAR_J, Const(n), Store(dst, (add(mul(VAR_I, n), VAR_J),), Load(acc, (add(mul(VAR_I, 32), VAR_J),)))))
    a, b = values(11, 200), values(12, 400)
    func = Func("main", (src, wei, dst), seq(call, replace(call, accumulate=True), copy), shared_bytes=64 + m * 32 * 4)
    got = run(func, [a, b])[0][: m * n].reshape(m, n)
    one = sum(
        np.lib.stride_tricks.as_strided(a[2 + s * 50 :], (m, k), (48, 4))
        @ np.lib.stride_tricks.as_strided(b[3 + s * 150 :], (k, n), (96, 4))
        for s in range(batch)
    )
    np.testing.assert_allclose(got, 2 * one, rtol=1e-5, atol=1e-5)
    assert [s.accumulate for s in seen] == [False, True]


@pytest.mark.parametrize("program", [matmul_bf16, matmul_u8_s8, packed_matmul], ids=lambda p: p.__name__)
def test_products_in_groups_mean_what_the_interpreter_says(program: Callable[[], Func], isa: Isa, run: Run) -> None:
    f = program()
    args = [np.ascontiguousarray(a) for a in arguments(f)]
    (got,) = run(run_passes(f, replace(host(), isa=isa)), args[:-1], isa=isa)
    interpret(f, args)
    np.testing.assert_allclose(got, args[-1].ravel(), rtol=1e-5, atol=1e-5)


def test_post_ops_in_registers_mean_what_the_interpreter_says(isa: Isa, run: Run) -> None:
    def check(f: Func) -> None:
        got, want = arguments(f), arguments(f)
        whole = run_passes(f, replace(host(), isa=isa))
        assert any(isinstance(s, Brgemm) and s.post_ops is not None for s in walk(whole.body))
        run(whole, got, isa=isa)
        interpret(f, want)
        tolerance = 1e-2 if got[-1].itemsize < 4 else 1e-5
        np.testing.assert_allclose(got[-1].astype(np.float32), want[-1].astype(np.float32), rtol=tolerance, atol=tolerance)

    all_hold(check, {name: (f,) for name, f in HOLDS.items()})


def test_kernels_that_differ_in_names_and_places_alone_are_one() -> None:
    """Two products, the second of other tensors and stored with other strides: one function; another value stored: two."""
    scale = Const(2.0, F32)
    for second, count in ((scale, 1), (Const(3.0, F32), 2)):
        stmts, params = [], list[Tensor]()
        for number, (factor, stride) in enumerate(((scale, 16), (second, 48))):
            src, wei, y = (param(f"{name}{number}", F32, 1024) for name in ("src", "wei", "y"))
            acc = Tensor(f"acc{number}", F32, (256,), (1,), Scope.shared, offset=1024 * number)
            row, vector = Var(f"row{number}"), Var(f"vector{number}")
            at_hand = Load(acc, (Ramp(mul(row, 16), 1, 16),))
            store = Store(y, (Ramp(add(mul(row, stride), 5), 1, 16),), Binary(BinOp.mul, at_hand, Broadcast(factor, 16)))
            operands = flat_slice(src, Const(0), (16, 1)), flat_slice(wei, Const(0), (16, 1)), flat_slice(acc, Const(0), (16, 1))
            stmts.append(Brgemm(*operands, 8, 16, 16, post_ops=PostOps(row, vector, 16, store)))
            params += [src, wei, y]
        text = "".join(emit([Func("main", tuple(params), seq(*stmts), shared_bytes=2048)], replace(host(), isa=ISAS["avx512_core"])))
        assert len(re.findall(r"^define .*brgemm", text, re.MULTILINE)) == count


def test_kernels_and_packing_are_modules_of_their_own_that_are_there_first() -> None:
    """Before a function is written: the last module cannot be, for a store of half a byte."""
    src, wei, acc, half = param("src", F32, 16), param("wei", F32, 16), param("acc", F32, 16), param("half", DType.s4, 2)
    product = Brgemm(*(flat_slice(t, Const(0), (4, 1)) for t in (src, wei, acc)), 4, 4, 4)
    packed = Pack(flat_slice(src, Const(0), (4, 1)), flat_slice(wei, Const(0), (4, 1)), k=4, n=4)
    units = emit([Func("main", (src, wei, acc), seq(packed, product))], host())
    assert [re.findall(r"^define .*@\"?([a-z]+)", text, re.MULTILINE) for text in units] == [["brgemm"], ["pack"], ["main"]]
    refused = emit([Func("main", (src, wei, acc, half), seq(product, Store(half, (Const(0),), Load(half, (Const(0),)))))], host())
    assert "@main" not in next(refused)
    with pytest.raises(Unimplemented):
        next(refused)


@pytest.mark.parametrize(("full", "counts"), [(50, [3, 1, 1]), (10**9, [4, 1])])
def test_a_long_kernel_closes_a_module_with_all_that_share_its_loops(monkeypatch: pytest.MonkeyPatch, full: int, counts: list[int]) -> None:
    """Of 30 by 64 by 16 over a batch of 2 and of 3, and of 30 by 4 by 16: two kernels that call one, and another one."""
    monkeypatch.setattr(calls, "MODULE_INSTRUCTIONS", full)
    src, wei, acc = param("src", F32, 4096), param("wei", F32, 8192), param("acc", F32, 2048)
    places = flat_slice(src, Const(0), (48, 1, 16)), flat_slice(wei, Const(0), (64, 1, 1088))
    batches = [Brgemm(*places, flat_slice(acc, Const(0), (64, 1)), 30, 64, 16, batch=(entries,)) for entries in (2, 3)]
    single = Brgemm(flat_slice(src, Const(0), (32, 1)), flat_slice(wei, Const(0), (64, 1)), flat_slice(acc, Const(0), (64, 1)), 30, 4, 16)
    func = Func("main", (src, wei, acc), seq(batches[0], single, batches[1]))
    defined = [re.findall(r"^define .*@\"?([a-z_]+)", text, re.MULTILINE) for text in emit([func], host())]
    assert [len(names) for names in defined] == counts
    assert defined[-1] == ["main"]


def test_a_slice_that_was_not_flattened_is_our_bug() -> None:
    x = tensor("x", F32, (4, 4), Scope.param)
    piece = Slice(x, (Const(0), Const(0)), ((0, 1), (1, 1)))
    with pytest.raises(TypeError, match="flatten-index"):
        "".join(emit([Func("main", (x,), Brgemm(piece, piece, piece, 1, 1, 1))], host()))


def test_floordiv_indices_address_what_they_say(run: Run, same: Same) -> None:
    src, dst = param("src", F32, 12), param("dst", F32, 12)
    body = For(VAR_I, Const(12), Store(dst, (VAR_I,), Load(src, (add(mul(mod(VAR_I, 4), 3), floordiv(VAR_I, 4)),))))
    x = np.arange(12, dtype=np.float32)
    same(run(Func("main", (src, dst), body), [x])[0], x.reshape(4, 3).T.ravel())


@pytest.mark.parametrize("moved", [0, -5])
@pytest.mark.parametrize("lanes", [1, 4])
def test_quotients_are_what_they_are_in_32_bits_too(run: Run, same: Same, moved: int, lanes: int) -> None:
    """moved: from where on the dividends are; -5: in 64 bits, rounded down."""
    dst = param("dst", F32, 48)
    first = add(mul(VAR_I, lanes), moved)
    dividend = first if lanes == 1 else Ramp(first, 1, lanes)
    by = [Const(d) if lanes == 1 else Broadcast(Const(d), lanes) for d in (7, 5)]
    stores = (
        Store(dst, (at if lanes == 1 else Ramp(at, 1, lanes),), cast(Binary(op, dividend, d), F32))
        for op, d, at in zip((BinOp.floordiv, BinOp.mod), by, (mul(VAR_I, lanes), add(mul(VAR_I, lanes), 24)), strict=True)
    )
    x = np.arange(24) + moved
    (got,) = run(Func("main", (dst,), For(VAR_I, Const(24 // lanes), seq(*stores))), [])
    same(got, np.concatenate([x // 7, x % 5]).astype(np.float32))
