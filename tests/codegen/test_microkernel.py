"""The microkernel against its twin, for every dtype, at the sizes that hurt, on every ISA this CPU has."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import INTO_L1, INTO_L2
from benchgraph.codegen.calls import products
from benchgraph.codegen.dot import is_native
from benchgraph.codegen.intrinsics import has_f16c
from benchgraph.codegen.kernel import F32, Kernel, PrefetchStream, canonicalise
from benchgraph.codegen.microkernel import LINES_PER_STEP, code_name, define, k_steps, prefetch_stream
from benchgraph.codegen.register_tiles import register_tiles, tile_rows
from benchgraph.core.divisors import even_split
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import ISAS, LINE_BYTES, Target, host
from benchgraph.runtime.code import load
from benchgraph.tir.groups import BYTES, GROUPS, SHORTS, DTypes
from benchgraph.tir.ir import Brgemm, Const, Func, Prefetch, Scope, flat_slice, tensor
from tests.support.machine_code import assembly
from tests.support.microkernels import (
    BF16,
    COUNTS,
    ENTRY,
    REALS,
    N,
    check_bounds,
    check_integers,
    dense,
    integers,
    operands,
    run,
    sampled,
    sizes,
    text_of,
    twin,
)
from tests.support.table import all_hold
from tests.support.targets import MACHINE_LEVELS

WIDE = tuple((DType.f32, wei, DType.f32) for wei in (DType.bf16, DType.f16))  # wei is widened as it is loaded
APART = 16  # lines between streams
STEPS = {  # the instructions of x86 that multiply: (dtypes, whether one instruction does all of it)
    (F32, True): r"vfmadd.*", (F32, False): r"mul[ps]s.*", (BF16, True): r"vdpbf16ps.*", (BF16, False): r"vfmadd.*|mul[ps]s.*",
    (BYTES, True): r"vpdpbusd.*", (BYTES, False): r"pmaddwd.*", (SHORTS, False): r"pmaddwd.*|vpdpwssd.*",
}  # fmt: skip


def way(dtypes: DTypes, target: Target) -> tuple[int, bool, bool]:
    """How a target multiplies such operands. Of words LLVM makes what VNNI has."""
    return target.lanes, target.isa.has_vnni if dtypes == SHORTS else is_native(dtypes, target.isa), target.in_tiles(dtypes[0])


def levels(dtypes: DTypes) -> dict[str, Target]:
    """Of the levels that multiply such operands alike, the highest; the others make the same kernels, as a test shows."""
    found: dict[tuple[int, bool, bool], str] = {}
    for name, target in MACHINE_LEVELS.items():
        found.setdefault(way(dtypes, target), name)
    return {name: MACHINE_LEVELS[name] for name in found.values()}


def label(dtypes: DTypes) -> str:
    return "-".join(dict.fromkeys(dtype.value for dtype in dtypes[:2]))


target_of_every_isa = pytest.mark.parametrize("target", MACHINE_LEVELS.values(), ids=MACHINE_LEVELS)
target_and_dtypes = pytest.mark.parametrize(
    ("dtypes", "target"),
    [pytest.param(dtypes, target, id=f"{label(dtypes)}-{name}") for dtypes in GROUPS for name, target in levels(dtypes).items()],
)
all_dtypes = pytest.mark.parametrize("dtypes", GROUPS, ids=label)


def at_every_level(kernels: Iterable[Kernel]) -> pytest.MarkDecorator:
    pairs = [pytest.param(k, target, id=f"{k.name}-{name}") for k in kernels for name, target in levels(k.dtypes).items()]
    return pytest.mark.parametrize(("kernel", "target"), pairs)


@at_every_level(sampled(*COUNTS))
def test_integers_are_exact_and_only_acc_is_written(kernel: Kernel, target: Target) -> None:
    check_integers(kernel, target)


@at_every_level(dense(*shape, gap=gap, accumulate=acc, dtypes=dtypes) for *shape, gap, acc in REALS for dtypes in (F32, BF16, *WIDE))
def test_reals_are_within_the_error_of_a_long_sum(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(1)
    src, wei, acc = (rng.standard_normal(size).astype(d.numpy) for size, d in zip(sizes(kernel), kernel.dtypes, strict=True))
    want, bound = twin(kernel, src, wei, acc), twin(kernel, abs(src), abs(wei), abs(acc))
    run(kernel, target, src, wei, acc)
    assert (abs(acc - want) <= 8 * np.finfo(np.float32).eps * bound).all()


@pytest.mark.covering(2)
@target_and_dtypes
@pytest.mark.parametrize(
    "shape",
    [(7, 17, 13, 1, True), (5, 100, 65, 2, False), (15, 1, 3, 1, False), (1, 31, 64, 1, True), (2, 64, 1, 1, False), (3, 5, 6, 2, True)],
    ids=lambda shape: "x".join(map(str, shape[:4])),
)
@pytest.mark.parametrize("end", [True, False], ids=["end", "start"])
def test_nothing_beyond_the_operands_is_touched(end: bool, shape: tuple[int, int, int, int, bool], dtypes: DTypes, target: Target) -> None:
    check_bounds(end, shape, dtypes, target)


@target_of_every_isa
def test_sums_of_s32_wrap_around(target: Target) -> None:
    """Neither a saturating sum nor a product of bytes that saturates in 16 bits would give these."""
    kernel = dense(3, 20, 8, accumulate=True, dtypes=BYTES)
    src, wei = np.full(24, 255, np.uint8), np.where(np.arange(160) % 40 < 20, -128, 127).astype(np.int8)
    acc = np.where(np.arange(60) % 2, 2**31 - 1, -(2**31)).astype(np.int32)
    want = (twin(kernel, src, wei, acc).astype(np.int64) + 2**31) % 2**32 - 2**31
    run(kernel, target, src, wei, acc)
    np.testing.assert_array_equal(acc, want)


def test_src_and_wei_may_be_one_buffer() -> None:
    kernel = dense(16, 16, 16)
    both, acc = integers(np.random.default_rng(3), 256), np.zeros(256, np.float32)
    run(kernel, host(), both, both, acc)
    np.testing.assert_array_equal(acc, twin(kernel, both, both, acc))


def loops_of(text: str) -> Iterator[list[str]]:
    """The lines of each loop of an assembly text, from its label to a jump back there; between loops a mask may go to the stack."""
    lines = text.splitlines()
    labels = {line.partition(":")[0]: at for at, line in enumerate(lines) if line.startswith(".LBB")}
    for at, line in enumerate(lines):
        if (jump := re.match(r"\s*j\w+\s+(\.LBB\w+)", line)) and labels[jump[1]] < at:
            yield lines[labels[jump[1]] : at]


@pytest.mark.covering(2)
@target_and_dtypes
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("missing", [0, 3])
def test_the_loops_spill_nothing_and_use_the_widest_registers(vectors: int, missing: int, dtypes: DTypes, target: Target) -> None:
    if target.in_tiles(dtypes[0]):
        pytest.skip("its sums are in tile registers, which LLVM does not allocate")
    if DType.f16 in dtypes and not has_f16c(target.isa):
        pytest.skip("f16 is widened bit by bit, which takes more registers than there are")
    kernel = dense(53, vectors * target.lanes - missing, 64, accumulate=True, dtypes=dtypes)
    text = assembly(text_of(kernel, target), target.isa)
    products = re.findall(STEPS[F32 if dtypes in WIDE else dtypes, is_native(dtypes, target.isa)], text)
    register = {16: "%zmm", 8: "%ymm", 4: "%xmm"}[target.lanes]
    assert products
    assert all(register in line for line in products)
    assert not [line for loop in loops_of(text) for line in loop if re.search(r"mov[aud]\w+\s+%[xyz]mm\d+, .*\(%rsp\)", line)]


@target_and_dtypes
def test_few_columns_take_narrower_registers(dtypes: DTypes, target: Target) -> None:
    """Of 512 bits some hardware does 256 at a time."""
    if target.in_tiles(dtypes[0]) or target.lanes < 8:
        pytest.skip("tile registers, or none that are narrower")
    text = assembly(text_of(dense(53, target.lanes // 2, 64, dtypes=dtypes), target), target.isa)
    products = re.findall(STEPS[F32 if dtypes in WIDE else dtypes, is_native(dtypes, target.isa)], text)
    assert products
    assert not any({16: "%zmm", 8: "%ymm"}[target.lanes] in line for line in products)


@all_dtypes
def test_levels_that_multiply_alike_make_the_same_kernels(dtypes: DTypes) -> None:
    """Which is why other tests leave out the lower ones."""
    kernel = dense(53, 100, 13, 2, gap=3, accumulate=True, dtypes=dtypes)
    assemblies = {name: assembly(text_of(kernel, target), target.isa) for name, target in MACHINE_LEVELS.items()}
    kept = {way(dtypes, target): name for name, target in levels(dtypes).items()}
    for name, target in MACHINE_LEVELS.items():
        assert assemblies[name] == assemblies[kept[way(dtypes, target)]], name


@pytest.mark.parametrize("ahead", [0, 3])
def test_rows_of_wei_are_prefetched_so_far_ahead(ahead: int) -> None:
    """Each row once, by the step that multiplies by the row `ahead` rows before it."""
    kernel, target = replace(dense(6, 64, 9), wei_ahead=ahead), replace(host(), isa=ISAS["avx512_core"])
    src, wei, acc = operands(kernel)
    fetched = prefetched_by(kernel, target, [src, wei, acc], level=INTO_L1)
    row = wei.itemsize * kernel.wei_row_stride
    assert fetched == [
        wei.ctypes.data + at * LINE_BYTES for at in range(ahead * row // LINE_BYTES, (9 + ahead) * row // LINE_BYTES)
    ] * bool(ahead)


@pytest.mark.parametrize("for_write", [False, True])
@all_dtypes
def test_every_line_of_a_stream_is_prefetched(dtypes: DTypes, for_write: bool) -> None:
    """At least once, in order, spread over the call, and no more than a step past the end; the product is the same as without."""
    target = host()
    made = [dense(13, 100, 64, 2, dtypes=dtypes), dense(29, 33, 13, dtypes=dtypes), dense(6, 64, 65, 3, gap=3, dtypes=dtypes)]
    for kernel, share in zip(itertools.cycle(made), (0.01, 0.4, 1, 2.7) if for_write else (1, 2.7, 0.4, 0.01), strict=False):
        lines = max(int(k_steps(kernel, target) * share), 1)
        stream = prefetch_stream(kernel, wanted(lines, for_write), target)
        assert stream is not None
        given = operands(kernel)
        streams = np.split(np.empty(2 * (lines + APART) * LINE_BYTES, np.uint8), 2)
        prefetched = prefetched_by(replace(kernel, prefetches=(stream,) * 2), target, [*given, *streams], for_write=for_write)
        np.testing.assert_array_equal(given[2], twin(kernel, *operands(kernel)))
        for begin in (s.ctypes.data for s in streams):
            end = begin + lines * LINE_BYTES
            own = [at for at in prefetched if begin <= at < end + APART * LINE_BYTES]
            assert own[-1] < end + stream.step_bytes + k_steps(kernel, target), "bytes of a step are rounded up"
            assert own == sorted(own), kernel
            touched = {at // LINE_BYTES for at in own}
            assert touched >= set(range(begin // LINE_BYTES, end // LINE_BYTES)), (kernel, lines)


@all_dtypes
def test_parts_of_a_stream_are_prefetched_one_after_the_other(dtypes: DTypes) -> None:
    """Each of them wholly and at most a step further, even if they are as many as the call has steps; next to a stream of one part."""
    target = host()
    made = [dense(13, 100, 64, 2, dtypes=dtypes), dense(29, 33, 67, dtypes=dtypes), dense(6, 64, 65, 3, gap=3, dtypes=dtypes)]
    for number, (kernel, lines) in enumerate(itertools.product(made, (1, 3, 16))):  # every other one with as many parts as steps
        share = (0.2, 1)[number % 2]
        runs = max(int(k_steps(kernel, target) / ceil(lines / LINES_PER_STEP) * share), 2)
        stream = prefetch_stream(kernel, wanted(lines, count=runs, stride=(lines + APART) * LINE_BYTES), target)
        other = prefetch_stream(kernel, wanted(1), target)
        assert stream is not None
        assert other is not None
        given, size = operands(kernel), runs * (lines + APART) * LINE_BYTES
        memory, single = np.split(np.empty(size + (1 + APART) * LINE_BYTES, np.uint8), [size])
        prefetched = prefetched_by(replace(kernel, prefetches=(stream, other)), target, [*given, memory, single])
        np.testing.assert_array_equal(given[2], twin(kernel, *operands(kernel)))
        begin, end = memory.ctypes.data, memory.ctypes.data + memory.nbytes
        own = [at for at in prefetched if begin <= at < end]
        assert own == sorted(own)
        for part in range(runs):
            first = begin + part * (lines + APART) * LINE_BYTES
            here = [at for at in own if first <= at < first + (lines + APART) * LINE_BYTES]
            assert here[-1] < first + lines * LINE_BYTES + stream.part_steps, "bytes of a step are rounded up"
            read = {at // LINE_BYTES for at in here}
            assert read >= set(range(first // LINE_BYTES, first // LINE_BYTES + lines)), (kernel, lines, part)
        assert any(single.ctypes.data <= at < single.ctypes.data + LINE_BYTES for at in prefetched)


def wanted(lines: int, for_write: bool = False, *, count: int = 1, stride: int = 0) -> Prefetch:
    return Prefetch(tensor("x", DType.u8, (1,), Scope.param), (Const(0),), lines, for_write, count, stride)


def prefetched_by(
    kernel: Kernel, target: Target, arguments: list[np.ndarray], *, level: int = INTO_L2, for_write: bool = False
) -> list[int]:
    """The addresses that a call prefetches into a cache, in order."""
    found: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int] * 3)
    def fetch(at: int, writes: int, locality: int, _: int) -> None:
        if locality == level:
            assert writes == for_write
            found.append(at)

    text = text_of(kernel, target).replace("llvm.prefetch.p0", "fetch").replace("i32 immarg", "i32")
    code = load(text, target.isa, {"fetch": ctypes.cast(fetch, ctypes.c_void_p).value or 0})
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(code.address(ENTRY))(*(a.ctypes.data for a in arguments))
    return found


def test_a_stream_too_long_for_a_kernel_is_not_prefetched() -> None:
    kernel, target = dense(6, 64, 64), host()
    most = k_steps(kernel, target) * LINES_PER_STEP
    assert prefetch_stream(kernel, wanted(most), target) == PrefetchStream(LINES_PER_STEP * LINE_BYTES)
    assert prefetch_stream(kernel, wanted(most + 1), target) is None
    assert prefetch_stream(kernel, wanted(0), target) is None
    of_parts = [prefetch_stream(kernel, wanted(LINES_PER_STEP, count=k_steps(kernel, target) + more), target) for more in (0, 1)]
    assert [stream is None for stream in of_parts] == [False, True]


def test_a_kernel_is_defined_once_per_module() -> None:
    module = ir.Module()
    kernel = dense(4, 16, 8)
    first = define(module, kernel, host())
    assert define(module, replace(kernel), host()) is first
    assert define(module, replace(kernel, accumulate=True), host()) is not first


def test_kernels_that_differ_in_the_entries_of_a_batch_share_their_code() -> None:
    """In their number and stride."""
    module = ir.Module()
    for batch in ((2, 48, 128), (3, 48, 128), (2, 48, 128), (3, 64, 128), (3, 48, -256), (50, 48, 128)):
        define(module, replace(dense(6, 16, 8), batch=(batch,)), host())
    assert len([f for f in module.functions.values() if f.name.endswith("_bn")]) == 1
    assert str(module).count("tail call") == 5


def test_kernels_that_differ_in_the_length_of_k_and_the_stride_of_rows_share_their_code() -> None:
    """But not with those of another k modulo the length of a step."""
    module, target = ir.Module(), replace(host(), isa=ISAS["avx512_core"])
    wide = dense(24, 64, 64)
    for k, stride in ((64, 64), (64, 100), (512, 512), (65, 65), (67, 4096)):
        define(module, replace(wide, k=k, src_row_stride=stride), target)
    assert len([f for f in module.functions.values() if f.name.endswith("_kn")]) == 2
    for own in (dense(24, 16, 64), dense(24, 64, 4)):  # narrow, short
        assert code_name(own, target) == canonicalise(own).name


@at_every_level(dense(9, 64, k, gap=gap, dtypes=dtypes) for k, gap in ((32, 0), (39, 3), (130, 1)) for dtypes in GROUPS)
def test_shared_code_takes_any_length_of_k(kernel: Kernel, target: Target) -> None:
    check_integers(kernel, target)


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


@at_every_level(
    [window(7, 16, 3), window(13, 70, 5, step=2), window(1, 5, 1, accumulate=True), transposed(9, 33, 4), transposed(64, 64, 7)]
)
def test_axes_of_the_batch_and_columns_of_src_may_have_any_stride(kernel: Kernel, target: Target) -> None:
    rng = np.random.default_rng(kernel.m)
    src, wei, acc = (integers(rng, size) for size in sizes(kernel))
    want = twin(kernel, src, wei, acc)
    run(kernel, target, src, wei, acc)
    np.testing.assert_array_equal(acc, want)


def test_k_that_ends_within_a_group_ends_there_in_each_entry_of_the_batch() -> None:
    """The entries follow each other as the whole groups in them do, but are no longer k."""
    module = ir.Module()
    ragged = Kernel(4, 16, 6, batch=((3, 6, 64),), src_row_stride=24, wei_row_stride=64, acc_row_stride=16, dtypes=BYTES)
    whole = replace(ragged, k=4, batch=((3, 4, 64),))
    assert define(module, ragged, host()).name == ragged.name
    assert define(module, whole, host()).name == replace(ragged, k=12, batch=()).name


@pytest.mark.parametrize("target", levels(BYTES).values(), ids=levels(BYTES))
@pytest.mark.parametrize(("k", "entries"), [(3, 1), (3, 4), (13, 1), (6, 3)])
def test_elements_of_src_past_k_are_read_and_do_not_count(k: int, entries: int, target: Target) -> None:
    """Elements of other rows, and past the last row whatever memory holds."""
    kernel = replace(dense(5, 20, k, entries, dtypes=BYTES), reads_past_k=True)
    src, wei, acc = operands(kernel)
    want = twin(kernel, src, wei, acc)
    run(kernel, target, np.concatenate([src, np.full(3, 255, np.uint8)]), wei, acc)
    np.testing.assert_array_equal(acc, want)
    assert "zext i8" not in text_of(kernel, target), "no group is put together from bytes"


@pytest.mark.parametrize(
    ("scope", "dtypes", "k", "nbytes", "reads_past_k"),
    [
        (Scope.shared, BYTES, 3, 128, True),
        (Scope.thread, BYTES, 3, 128, True),
        (Scope.shared, BYTES, 3, 64, False),
        (Scope.shared, BYTES, 4, 128, False),
        (Scope.param, BYTES, 3, 128, False),
        (Scope.shared, BF16, 3, 256, False),
    ],
    ids=["temporary", "of a thread", "end of the arena", "whole groups", "the user's", "floats"],
)
def test_src_is_read_past_k_where_its_arena_goes_on(scope: Scope, dtypes: DTypes, k: int, nbytes: int, reads_past_k: bool) -> None:
    """Integers only: a float past k may be NaN, which times zero is not zero."""
    arena = {Scope.shared: {"shared_bytes": nbytes}, Scope.thread: {"thread_bytes": nbytes}}.get(scope, {})
    src = replace(tensor("t", dtypes[0], (64,), scope), offset=0 if arena else None)
    wei, acc = tensor("w", dtypes[1], (256,), Scope.param), tensor("a", dtypes[2], (64,), Scope.param)
    group = GROUPS[dtypes]
    operands = (flat_slice(t, Const(0), along) for t, along in ((src, (k, 1)), (wei, (16 * group, 1)), (acc, (16, 1))))
    body = Brgemm(*operands, 4, 16, k)
    params = (wei, acc) if arena else (src, wei, acc)
    (product,) = products(Func("main", params, body, **arena), host()).values()
    assert product.kernel.reads_past_k is reads_past_k


def test_src_of_groups_has_unit_stride_along_k() -> None:
    with pytest.raises(ValueError, match="bf16 has unit stride along k"):
        Kernel(4, 16, 8, src_row_stride=1, src_col_stride=4, wei_row_stride=32, acc_row_stride=16, dtypes=BF16)


def test_an_empty_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Kernel(4, 16, 0, src_row_stride=1, wei_row_stride=16, acc_row_stride=16)


@pytest.mark.parametrize(("total", "most", "want"), [(16, 6, ((1, 6), (2, 5))), (12, 6, ((2, 6),)), (5, 6, ((1, 5),)), (7, 1, ((7, 1),))])
def test_parts_differ_by_at_most_one(total: int, most: int, want: tuple[tuple[int, int], ...]) -> None:
    assert even_split(total, most) == want


@target_of_every_isa
@all_dtypes
def test_panels_cover_the_columns_and_tiles_fit_the_registers(dtypes: DTypes, target: Target) -> None:
    def check(m: int, n: int) -> None:
        panels = register_tiles(n, target, dtypes, m=m, src_row_stride=1024)
        assert sum(p.count * p.columns for p in panels) == n
        for p in panels:
            assert (p.vectors - 1) * target.lanes < p.columns <= p.vectors * target.lanes
            assert p.rows * p.vectors <= target.isa.registers * 3 // 4
            assert min(m, p.rows) == 1 or (p.rows + 1) * p.vectors < target.isa.registers
        assert all(p.columns == p.vectors * target.lanes for p in panels[:-1])

    all_hold(check, {f"{m} x {n}": (m, n) for m in (1, 2, 3, 7, 64) for n in (*N, 13, 96, 511, 512)})


def test_the_preferred_tiles() -> None:
    tiles = {
        name: [(p.vectors, p.rows) for p in register_tiles(64, t, F32, m=64, src_row_stride=256)] for name, t in MACHINE_LEVELS.items()
    }
    assert tiles == {name: [(4 if t.isa.registers == 32 else 2, 6)] for name, t in MACHINE_LEVELS.items()}


@pytest.mark.parametrize(("m", "vectors"), [(1, 8), (2, 4), (64, 4)])
def test_few_rows_get_wider_panels(m: int, vectors: int) -> None:
    target = replace(host(), isa=ISAS["avx512_core"])
    assert [p.vectors for p in register_tiles(512, target, F32, m=m, src_row_stride=512)] == [vectors]


@pytest.mark.parametrize(("m", "tiles"), [(6, [(1, 4)]), (7, [(2, 2)]), (8, [(2, 2)]), (9, [(1, 4)])])
def test_seven_or_eight_rows_load_wei_once(m: int, tiles: list[tuple[int, int]]) -> None:
    """In tiles of half the width; what L1 holds is read twice from there instead."""
    target = replace(host(), isa=ISAS["avx512_core"])

    def split(n: int, *, reloads_wei: bool) -> list[tuple[int, int]]:
        panels = register_tiles(n, target, F32, m=m, src_row_stride=512, reloads_wei=reloads_wei)
        return [(p.count, p.vectors) for p in panels]

    assert split(64, reloads_wei=True) == tiles
    assert split(64, reloads_wei=False) == [(1, 4)]
    assert split(80, reloads_wei=True) == split(80, reloads_wei=False), "no lone vector"


@pytest.mark.parametrize(
    ("m", "k", "isa", "loops"), [(6, 8, "avx512_core", 1), (6, 9, "avx512_core", 2), (7, 8, "avx512_core", 3), (2, 8, "portable", 2)]
)
def test_one_tile_of_rows_has_no_loop_along_a_short_k(m: int, k: int, isa: str, loops: int) -> None:
    """Its panels alone are a loop; two tiles of rows are each a kernel of its own beside their loops along K."""
    target, module = replace(host(), isa=ISAS[isa], emulated=frozenset()), ir.Module()
    define(module, Kernel(m, 256, k, src_row_stride=64, wei_row_stride=256, acc_row_stride=256), target)
    assert str(module).count("icmp ne") == loops


def test_no_panel_is_a_lone_vector_where_a_wider_split_exists() -> None:
    target = replace(host(), isa=ISAS["avx2"])
    assert [(p.count, p.vectors) for p in register_tiles(24, target, F32, m=64, src_row_stride=256)] == [(1, 3)]


def test_rows_that_share_a_cache_set_are_no_more_than_its_ways() -> None:
    target = replace(host(), isa=ISAS["avx512_core"])
    assert [tile_rows(1, target, F32, src_row_stride=stride) for stride in (1000, 256, 512, 1024, 2048)] == [24, 24, 16, 8, 8]
