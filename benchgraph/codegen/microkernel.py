"""The batch-reduce GEMM microkernel: acc[m, n] (+)= sum over batch b and k of src_b[m, k] * wei_b[k, n].

    for each panel of columns (a few vectors wide)         one loop per panel width
        for each tile of rows                              one loop per tile height
            acc tile -> registers (or zeros)
            for b in batch: for each group of k: load wei vectors, broadcast src, dot
            registers -> acc tile, or through post-ops to where these store (post_ops.py)

The accumulators are phi nodes of the K loop, so they stay in registers; the loop holds nothing but dot products (dot.py: fmas for f32), the
loads of wei, the broadcasts of src and its own counter. Wei of bf16 or f16 for src of f32 is widened behind its loads, once for each tile
of rows. Everything is known at compile time; the last vector of a ragged n goes through masked loads and stores. A group that k ends in is
read from src without a byte beyond k; what wei has there counts as zero.

Why the choices below are what they are: shares of the FMA peak of one thread (a register-only loop, 118 GFLOP/s) in percent, on a Zen 4
core with AVX-512 (3.7 GHz, L1d 32 KiB, L2 1 MiB, L3 32 MiB). Each is a minimum over 8 to 25 samples of 0.3 ms or more, interleaved
with samples of the peak loop; operands are warm, and the call through ctypes (0.25 us, 4 % of the smallest shapes) counts. p: weights
packed in panels.

    vectors x rows          AVX-512: 4x6   4x5   3x8  2x12  2x14  1x30     AVX2: 2x6   3x4   4x2  1x14     portable: 2x6   3x3  1x12
    256x256x256                     99.8  99.8  99.3  99.4  99.5  98.8          98.0  98.4  88.3  82.8              61.6  63.1  49.3
    64x64x1024 p                    99.7  99.6  99.6  96.9  86.1  30.4          97.7  97.0  87.3  30.6              62.1  60.5  27.9
    32x128x96                       95.7  96.0  95.1  95.4  95.5  95.9          94.4  92.1  81.2  83.0              62.5  65.0  49.6
    16x64x64, batch of 8            97.0  97.0  97.1  97.0  97.0  97.0          97.6  95.6  86.3  83.1              63.7  64.6  50.1
    64x512x13                       90.5  91.5  87.1  88.2  85.6  88.1          94.5  89.1  92.0  72.3              57.6  63.3  44.1

The portable peak is that of separate products and sums; LLVM's copies between two-operand instructions are what is missing there. Rows of
4096 bytes (64x64x1024) fall in one set of L1: more rows than it has ways evict each other. Other findings, same method:

    K unrolled by 1, 2, 4   AVX-512 4x6: 99.7, 99.7, 99.5; AVX2 2x6: 97.8, 98.2, 98.6, 1x8: 80, 45 (spills), 81; portable 2x6: 61, 58
    few rows, n=512, k=64   AVX-512 m=1, 4 and 8 vectors: 39, 40; AVX2 m=1, 2, 4, 7 vectors: 17, 30, 36; m=2, 2, 4 vectors: 47, 67;
                            m=7, 2, 3 vectors: 75, 88 (else too few fmas are in flight)
    all registers taken     256x36x256, 3x9 and a mask: 36 % of what whole vectors would give (spills); 3x8: 99 %
    a narrower last vector  256x24x256 as 16 + 8 columns: 67.7, against 73.5 masked (spills)
    K in blocks, in here    128x1024x1024 p, blocks of 64, 128, 256, none: 91.7, 95.6, 98.3, 100
    prefetch of wei         the same, weights from L3, 0, 4, 8, 16 rows ahead: 99.9, 99.2, 99.3, 100
    width of a panel        the same, 32, 64, 128 columns: 99.2, 99.9, 97.1, not packed: 95.5; AVX2, 16, 32, 64 columns: 96.5, 91.7, 88.8

    half a vector's columns 512x8x256 by vectors of 8 lanes, not 16: 0.56 of the time, 512x4x256 by 4 0.55, bf16 512x8x256 by 8 0.51

    8 rows of long wei      a row or a few by wei that lies by rows, 8 of them a call: hardware foresees loads that are a panel apart each
                            time, not those of a loop along K as well. One Zen 5 core (two), 1 and 3 rows by 4096 x 14336, times without a
                            K loop over those with one: bf16 0.64, 0.70 (0.93, 0.86), f32 0.90, 0.80 (1.02, 0.90); as AVX2 on two, 4 rows,
                            1 row: 0.69, 0.73, f32 0.95, 0.84

So: panels of `Target.panel_width` columns, accumulators in three quarters of the registers, K unrolled by two, no blocks of K.

Wei is fetched ahead where a tile of rows reads half of L1 or more of it: what is neutral above pays on a core whose L2 is slower, that of
a Cascade Lake server (2.4 GHz with 512 bits, L1d 32 KiB, L2 1 MiB) that others use too. f32, panels in turns, best of 200, rows ahead:

    rows x k, all panels         none     2     4     8
    16 x 512, 768 KiB            95.7  98.2  98.0  98.0
    16 x 512, 1 MiB              82.4  87.5  91.0  90.3
    64 x 512, 1 MiB              89.2  94.9  92.8  91.3
    u8, 16 x 512, 128 KiB        96.6  96.3  96.2  95.6

and whole graphs of the paper, two threads, times without it over those with 4 and 8 rows ahead: MLP_2 batch 32 1.08, 1.11; MLP_2 512 1.05,
1.04; MHA_4 1.11, 1.05; MLP_1 32 1.04, 1.04; MLP_2 int8 1.02, 1.01; MLP_1 int8 512 0.99, 0.99.

Cores that keep up (Target.keeps_up) lose by it: two Zen 5 cores (4.1 GHz, L1d 48 KiB, L2 1 MiB), times without it over those with 8 rows,
minima of 75 samples in five processes each: MLP_2 f32 at batch 32, 128 and bf16 at 512: 0.98, 0.99, 0.98; 32 rows ahead are no better.

u8 by s8, shares of the peak of a register-only loop of vpdpbusd (611 GOP/s), and steps without an instruction of their own, shares of what
they come to at the rate of f32's instructions (AVX-512 153, AVX2 86, portable 49 GOP/s for u8 and 25 for bf16), on one core of a Cascade
Lake server (2.4 GHz with 512 bits, L1d 32 KiB, L2 1 MiB) that others use too: best of some 500 samples of 0.4 ms, operands in huge pages:

    vectors x rows          u8, VNNI: 4x6   4x5   3x8  2x12  2x14  1x24     u8, AVX-512: 4x5   3x6   2x8
    256x256x256                      88.9  90.4  91.2  87.3  87.8  68.2                 73.1  72.2  71.1
    64x64x1024 p                     97.4  97.2  94.7  96.1  96.4  74.0                 73.7  69.3  71.4
    32x128x96                        95.0  94.5  94.5  94.5  94.6  77.2                 73.1  71.8  71.6
    16x64x64, batch of 8             97.8  95.9  94.6  94.9  94.6  74.1                 71.9  68.5  71.2
    64x512x13                        26.8  26.3  22.9  22.3  19.2  20.9                 59.2  58.9  56.8

    vectors x rows     bf16, AVX-512: 4x5   3x6  2x10    AVX2, u8: 2x4   3x2  bf16: 2x4   3x2    portable, u8: 2x4  bf16: 2x4
    256x256x256                      67.9  63.6  61.3             89.2  81.4       65.4  58.1                 79.8       78.2
    64x64x1024 p                     68.4  59.6  61.8             91.1  82.9       70.0  55.4                 83.1       79.8
    32x128x96                        67.1  63.4  60.9             92.2  85.8       71.4  56.7                 82.7       80.6
    16x64x64, batch of 8             66.2  58.6  61.1             91.2  84.3       70.4  55.2                 83.1       80.0
    64x512x13                        63.7  61.3  56.9             62.7  63.1       66.1  57.6                 63.8       76.1

256x256x256 in packed panels reaches 95; 64x512x13 is bound by acc, 128 KiB that go to L2. K unrolled by 1, 2, 4 with VNNI, panels of 256:
92, 95, 96; by 2 without an instruction it spills. On one core of a Zen 4, whose peaks are 118 GFLOP/s in f32, 236 in bf16 and 472 GOP/s in
int8, best of 150 samples of 0.4 ms, all in turns:

    packed                 64x64x1024  48x64x1024  256x64x256  32x64x512  16x64x512  128x64x1024      256^3, row-major
    f32                          98.6        99.5        98.7       99.3       99.5         98.5                  96.7
    bf16                         99.1        99.1        97.3       99.2       99.3         98.4                  96.2
    u8, VNNI                     98.8        98.8        96.9       98.1       98.4         98.2                  95.9

Bytes as words (s16), on one core of a Zen 3 (3.5 GHz, L1d 32 KiB, L2 512 KiB), AVX2, panels of 16 columns, shares of the peak of a
register-only loop of products and sums (164 GOP/s), best of 40, all in turns; last, bytes that are taken apart in the loop:

    vectors x rows           2x4   2x5   2x6     K unrolled by 1, 2, 4     u8, 2x4
    256x256x256             92.9  93.3  94.9        90.8  92.7  88.5          81.4
    64x64x1024              94.9  95.7  95.8        97.1  97.0  91.4          81.8
    32x128x96               96.4  97.5  97.9        95.6  98.0  89.9          81.8
    16x64x512               94.9  94.9  96.3        96.0  96.4  91.0          81.3

Portable, K unrolled by 1, 2, 4: 41, 37, 38 of the same. Bytes as they are, but those of src taken apart once a call: 75 for calls of 16
columns, 86 for 64.

The loop of bf16 for Zen 5 and Sapphire Rapids is that of f32, instruction for instruction (48 steps, 12 broadcasts, 8 loads, the counter),
and LLVM-MCA 22 says that its cycles on Sapphire Rapids are those of its 48 products alone, for f32, bf16 and u8; it has no model of Zen 5
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from benchgraph.codegen import amx, ir, tile_plan
from benchgraph.codegen.blocks import FIRST_LEVEL, begun, load_first, loop, prefetch, store_first
from benchgraph.codegen.convert import cast, memory_type
from benchgraph.codegen.dot import dot, lane_type, takes_apart
from benchgraph.codegen.intrinsics import I32, I64, constant, splat, vector
from benchgraph.codegen.kernel import Ahead, Kernel, canonical
from benchgraph.codegen.post_ops import Writer
from benchgraph.codegen.reduction import ACC, ACC_BYTES, SRC, WEI, Reduction, fills_half_of_l1
from benchgraph.codegen.tiles import Panels, even_split, register_tiles
from benchgraph.core.dtypes import DType
from benchgraph.core.target import LINE_BYTES, Target
from benchgraph.tir.groups import SIDE_BY_SIDE, is_widened
from benchgraph.tir.ir import Prefetch

AHEAD = 8  # rows of wei that are fetched ahead
MOST_LINES = 4  # of a stream in one step of the K loop


def define(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
    """The function void (`Kernel.arguments`) for this kernel, defined in the module on first use."""
    kernel, target = canonical(kernel), target.narrowed(kernel.n)
    known = module.find(kernel.name)
    if known is not None:
        return known
    function, builder = _begun(module, kernel.name, kernel)
    if kernel.batch:
        builder.call(_shared(module, kernel, target), [*function.args, *map(I64, kernel.batch[0])], tail=True)
    else:
        _emitter(kernel, target)(builder, kernel, target).emit(function.args)
    builder.ret_void()
    return function


def _emitter(kernel: Kernel, target: Target) -> type[amx.Tiles | _Vectors]:
    return amx.Tiles if amx.takes(kernel, target) else _Vectors


def stream(kernel: Kernel, wanted: Prefetch, target: Target) -> Ahead | None:
    """How a kernel fetches what is wanted meanwhile, None where its K loop is too short for that."""
    kernel, runs = canonical(kernel), wanted.count
    at_hand = steps(kernel, target) // runs
    most = amx.MOST_LINES if amx.takes(kernel, target) else MOST_LINES
    if not 0 < wanted.lines <= at_hand * most:
        return None
    pace = ceil(wanted.lines * LINE_BYTES / at_hand)
    if runs == 1:
        return Ahead(pace, wanted.is_store)
    return Ahead(pace, wanted.is_store, at_hand, wanted.tensor.dtype.nbytes(wanted.stride) - pace * at_hand)


def steps(kernel: Kernel, target: Target) -> int:
    """How many steps of K loops a call of the kernel takes."""
    kernel, target = canonical(kernel), target.narrowed(kernel.n)
    entries, groups = prod(extent for extent, _, _ in kernel.batch), kernel.k // kernel.group
    if amx.takes(kernel, target):
        return entries * tile_plan.steps(kernel)
    tiles = ((panels, panels.count * count) for panels in _panels(kernel, target) for count, _ in even_split(kernel.m, panels.rows))
    return sum(count * entries * (groups // _unrolled(kernel, panels, target)) for panels, count in tiles)


def _unrolled(kernel: Kernel, panels: Panels, target: Target) -> int:
    """Groups of k in one step of the K loop."""
    groups = kernel.k // kernel.group
    is_short = bool(target.isa.needs) and not takes_apart(kernel.dtypes, target.isa)  # else copies between registers, or spills
    if panels.vectors == 1 or not is_short:
        return 1
    return max(groups if kernel.m <= panels.rows and groups <= SIDE_BY_SIDE else min(groups, 2), 1)


def _shared(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
    """The function void (`Kernel.arguments`, i64 extent, i64 src stride, i64 wei stride) of this kernel, for any first axis of the batch.

    The layers of a network often differ in that alone, and LLVM takes as long for a kernel as for all that is around it.
    """
    if amx.takes(kernel, target):
        how = "p" * amx.streams_wei(kernel, target)
    else:
        how = "".join(f"{panels.vectors}{'p' * _streams(kernel, panels, target)}" for panels in _panels(kernel, target))
    name = f"{replace(kernel, batch=kernel.batch[1:]).name}_bn_{how}"
    known = module.find(name)
    if known is not None:
        return known
    function, builder = _begun(module, name, kernel, I64, I64, I64)
    operands, axis = function.args[:-3], function.args[-3:]
    _emitter(kernel, target)(builder, kernel, target, axis).emit(operands)
    builder.ret_void()
    return function


def _panels(kernel: Kernel, target: Target) -> tuple[Panels, ...]:
    fetches_wei = fills_half_of_l1(kernel, target.panel_width, target)
    return register_tiles(kernel.n, target, kernel.dtypes, m=kernel.m, src_row_stride=kernel.src_row_stride, fetches_wei=fetches_wei)


def _streams(kernel: Kernel, panels: Panels, target: Target) -> bool:
    """Whether what a tile of rows reads of wei, along all of batch and K, is half of L1 or more, on cores that do not keep up."""
    return not target.keeps_up and fills_half_of_l1(kernel, panels.columns, target)


def _begun(module: ir.Module, name: str, kernel: Kernel, *more: ir.Type) -> tuple[ir.Function, ir.IRBuilder]:
    """A function of the kernel's arguments and more, and a builder at its entry."""
    return begun(module, name, [*kernel.arguments, *more], ("src", "wei", "acc"))


class _Vectors(Reduction):
    """Sums in vector registers."""

    def emit(self, arguments: Sequence[ir.Value]) -> None:
        """arguments: those of the kernel."""
        kernel, column = self.kernel, 0
        self, (src, wei, acc), streams = self.opened(arguments)
        for panels in _panels(kernel, self.target):
            streams = loop(self.builder, panels.count, streams, partial(self.panel, panels, column, src, wei, acc))
            column += panels.count * panels.columns

    def panel(
        self, panels: Panels, first: int, src: ir.Value, wei: ir.Value, acc: ir.Value, i: ir.Value, streams: list[ir.Value]
    ) -> list[ir.Value]:
        """All rows of panel i of these panels, which start at column `first`; where the streams are then."""
        column = self.affine(i, panels.columns, first)
        row = 0
        for count, rows in even_split(self.kernel.m, panels.rows):
            place = (src, self.element(WEI, wei, self.columns(column)), self.element(ACC, acc, column))
            streams = loop(self.builder, count, streams, partial(self.tile, panels, rows, row, column, *place))
            row += count * rows
        return streams

    def tile(
        self,
        panels: Panels,
        rows: int,
        first: int,
        column: ir.Value,
        src: ir.Value,
        wei: ir.Value,
        acc: ir.Value,
        i: ir.Value,
        streams: list[ir.Value],
    ) -> list[ir.Value]:
        """Register tile i of these tiles, which start at row `first`: all of batch and K. column: where its panel starts."""
        row = self.affine(i, rows, first)
        src = self.element(SRC, src, self.affine(row, self.kernel.src_row_stride))
        acc = self.element(ACC, acc, self.affine(row, self.kernel.acc_row_stride))
        vectors = [(v * self.target.lanes, self.used(panels, v)) for v in range(panels.vectors)]
        type = vector(memory_type(self.kernel.dtypes[ACC]), self.target.lanes)
        sums: list[ir.Value] = [constant(type, 0)] * (rows * panels.vectors)
        places: list[tuple[ir.Value, int]] = []
        if self.after is None or self.kernel.accumulate:
            at = ((r * self.kernel.acc_row_stride + column, used) for r in range(rows) for column, used in vectors)
            places = [(self.element(ACC, acc, place), used) for place, used in at]
        if self.kernel.accumulate:
            sums = [load_first(self.builder, type, *place, ACC_BYTES) for place in places]
        carried = self.batch(self.kernel.batch, partial(self.reduce, panels, rows), src, wei, [*streams, *sums])
        streams, sums = carried[: len(streams)], carried[len(streams) :]
        if self.after is not None:
            self.finish(self.after, panels, row, column, sums)
            return streams
        for total, place in zip(sums, places, strict=True):
            store_first(self.builder, total, *place, ACC_BYTES)
        return streams

    def finish(self, after: Writer, panels: Panels, row: ir.Value, column: ir.Value, sums: Sequence[ir.Value]) -> None:
        """The post-ops of a tile, one vector of columns after the other: what they read for its columns they read once."""
        first = self.builder.lshr(column, I64(self.target.lanes.bit_length() - 1))
        for v in range(panels.vectors):
            for r, total in enumerate(sums[v :: panels.vectors]):
                after.write(total, self.builder.add(row, I64(r)), self.builder.add(first, I64(v)))

    def reduce(self, panels: Panels, rows: int, src: ir.Value, wei: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel, group = self.kernel, self.kernel.group
        groups, rest = divmod(kernel.k, group)
        streams = _streams(kernel, panels, self.target)
        streams_at = kernel.streamed
        unroll = _unrolled(kernel, panels, self.target)

        def steps(sizes: Sequence[int], i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            first = self.affine(i, unroll)
            strides = {SRC: group * kernel.src_col_stride, WEI: kernel.wei_row_stride}
            starts = [self.element(at, p, self.affine(first, stride)) for p, (at, stride) in zip((src, wei), strides.items(), strict=True)]
            for k, size in enumerate(sizes):
                at_src, at_wei = (self.element(at, p, k * stride) for p, (at, stride) in zip(starts, strides.items(), strict=True))
                if streams:
                    self.prefetch(panels, at_wei)
                sums = self.step(panels, rows, size, at_src, at_wei, sums)
            return sums

        def fetching(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            return [*self.fetched(carried[:streams_at]), *steps([group] * unroll, i, carried[streams_at:])]

        whole, odd = divmod(groups, unroll) if groups else (0, 0)
        if whole:
            carried = loop(self.builder, whole, carried, fetching)
        sums = steps([group] * odd + [rest] * bool(rest), I64(whole), carried[streams_at:])
        return [*carried[:streams_at], *sums]

    def prefetch(self, panels: Panels, wei: ir.Value) -> None:
        """The row of wei that comes AHEAD of this one, into the first-level cache; beyond the last it is harmless."""
        for v in range(panels.vectors):
            at = self.element(WEI, wei, AHEAD * self.kernel.wei_row_stride + v * self.target.lanes * self.kernel.group)
            prefetch(self.builder, at, FIRST_LEVEL)

    def step(self, panels: Panels, rows: int, size: int, src: ir.Value, wei: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """One group of k, of which the first `size` elements count: sums[r, v] += src[r] . wei[v]."""
        lanes = self.target.lanes
        dtype = self.kernel.dtypes[WEI]
        widens = is_widened(self.kernel.dtypes[SRC], dtype)
        type = vector(memory_type(dtype) if widens else lane_type(self.kernel.dtypes), lanes)
        parts = ((self.element(WEI, wei, self.columns(v * lanes)), self.used(panels, v)) for v in range(panels.vectors))
        columns = [load_first(self.builder, type, *part, dtype.bits // 8) for part in parts]
        if widens:
            columns = [cast(self.builder, column, dtype, DType.f32, self.target.isa) for column in columns]
        if size < self.kernel.group:
            counted = constant(type, (1 << size * dtype.bits) - 1)
            columns = [self.builder.and_(column, counted) for column in columns]  # the rest may be NaN
        totals = iter(sums)
        out: list[ir.Value] = []
        src_dtype, isa = self.kernel.dtypes[SRC], self.target.isa
        for r in range(rows):
            row = splat(self.builder, self.elements(self.element(SRC, src, r * self.kernel.src_row_stride), size), lanes)
            out += [dot(self.builder, src_dtype, row, column, next(totals), isa) for column in columns]
        return out

    def elements(self, src: ir.Value, size: int) -> ir.Value:
        """The first `size` elements of a group of src, zeros after them. Nothing else is read, unless src has more: wei is zeros there."""
        type, dtype = lane_type(self.kernel.dtypes), self.kernel.dtypes[SRC]
        if size == self.kernel.group or self.kernel.has_more:
            return self.builder.load(src, typ=type, align=dtype.bits // 8)
        whole: ir.Value = I32(0)
        for i in range(size):
            one = self.builder.load(self.element(SRC, src, i), typ=memory_type(dtype), align=dtype.bits // 8)
            whole = self.builder.or_(whole, self.builder.shl(self.builder.zext(one, I32), I32(i * dtype.bits)))
        return whole

    def used(self, panels: Panels, v: int) -> int:
        """Lanes of the panel's vector v that hold columns."""
        return min(self.target.lanes, panels.columns - v * self.target.lanes)
