"""The batch-reduce GEMM microkernel for f32: acc[m, n] (+)= sum over batch b and k of src_b[m, k] * wei_b[k, n].

    for each panel of columns (a few vectors wide)         one loop per panel width
        for each tile of rows                              one loop per tile height
            acc tile -> registers (or zeros)
            for b in batch: for k: load wei vectors, broadcast src, fma
            registers -> acc tile

The accumulators are phi nodes of the K loop, so they stay in registers; the loop holds nothing but fmas, the loads of wei, the broadcasts
of src and its own counter. Everything is known at compile time; the last vector of a ragged n goes through masked loads and stores.

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

So: panels of `Target.panel_width` columns, accumulators in three quarters of the registers, K unrolled by two, no blocks of K, no prefetch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import ceil, gcd
from typing import TypeAlias

from llvmlite import ir

from benchgraph.codegen.intrinsics import F32, I1, I32, I64, PTR, VOID, call, constant, fma, has_fma, mangled, splat, vector
from benchgraph.core.target import Target

BatchAxis: TypeAlias = tuple[int, int, int]  # extent, stride of src, stride of wei
Reduce: TypeAlias = Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]  # (src, wei, sums) -> sums

F32_BYTES = 4
ALIAS_BYTES = 4096  # addresses this far apart fall in one set of a first-level cache, whose ways are one page each
ACCUMULATORS_IN_FLIGHT = 8  # that keep the multipliers busy: latency 4, two per cycle (Intel since Skylake, Zen)


@dataclass(frozen=True)
class Kernel:
    """One batch-reduce GEMM: acc[m, n] (+)= sum over batch b, k of src_b[m, k] * wei_b[k, n].

    Strides are in elements; columns of wei and acc have unit stride. batch: for each of its axes, outermost first, the extent and the
    strides of src and wei. accumulate False overwrites acc. acc overlaps neither src nor wei.
    """

    m: int
    n: int
    k: int
    _: KW_ONLY
    batch: tuple[BatchAxis, ...] = ()
    src_row_stride: int
    src_col_stride: int = 1
    wei_row_stride: int
    acc_row_stride: int
    accumulate: bool = False

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, *(extent for extent, _, _ in self.batch)) < 1:
            raise ValueError(f"extents of a microkernel are positive: {self}")

    @property
    def name(self) -> str:
        """Unique among kernels, valid as a symbol."""
        batch = "".join(f"_b{extent}_{src}_{wei}" for extent, src, wei in self.batch)
        src = f"s{self.src_row_stride}_{self.src_col_stride}"
        name = f"brgemm_{self.m}x{self.n}x{self.k}{batch}_{src}_w{self.wei_row_stride}_a{self.acc_row_stride}"
        return name.replace("-", "m") + ("_acc" if self.accumulate else "")


@dataclass(frozen=True)
class Panels:
    """`count` column panels side by side, each `columns` wide and held in `vectors` vectors, the last of which may be partly used.

    rows: the most a register tile has; the tiles are even_split(m, rows).
    """

    count: int
    columns: int
    vectors: int
    rows: int


def even_split(total: int, most: int) -> tuple[tuple[int, int], ...]:
    """Cut total into the fewest parts of at most `most`, whose sizes differ by at most one: runs of (count, size), larger first.

    >>> even_split(16, 6)
    ((1, 6), (2, 5))
    """
    parts = ceil(total / most)
    size, larger = divmod(total, parts)
    return tuple(run for run in ((larger, size + 1), (parts - larger, size)) if run[0])


def tile_rows(vectors: int, target: Target, *, src_row_stride: int, ragged: bool = False) -> int:
    """The most rows of a register tile this many vectors wide.

    Accumulators take up to three quarters of the registers, and leave room for the wei vectors, a broadcast of src, a product (without
    fma) and the mask of a ragged last vector. Rows of src that fall in the same sets of L1 are no more than its ways.
    """
    spare = 1 + (not has_fma(target.isa)) + ragged
    accumulators = min(target.isa.registers * 3 // 4, target.isa.registers - vectors - spare)
    sets_apart = ALIAS_BYTES // gcd(ALIAS_BYTES, F32_BYTES * src_row_stride)
    return min(max(accumulators // vectors, 1), sets_apart * (target.l1_bytes // ALIAS_BYTES))


def register_tiles(n: int, target: Target, *, m: int, src_row_stride: int) -> tuple[Panels, ...]:
    """How n is cut into column panels of whole vectors, left to right, for m rows of src this many elements apart."""
    vectors = ceil(n / target.lanes)
    rows = partial(tile_rows, target=target, src_row_stride=src_row_stride)
    widest = _panel_vectors(vectors, m, target, rows)
    runs = [Panels(count, v * target.lanes, v, rows(v)) for count, v in even_split(vectors, widest)]
    missing = vectors * target.lanes - n
    if not missing:
        return tuple(runs)
    last = runs.pop()
    if last.count > 1:
        runs.append(replace(last, count=last.count - 1))
    return (*runs, Panels(1, last.columns - missing, last.vectors, rows(last.vectors, ragged=True)))


def _panel_vectors(vectors: int, m: int, target: Target, rows: Callable[[int], int]) -> int:
    """The preferred number, or more when m is so short that a tile has too few accumulators, or when a lone vector would be left over
    (it needs one broadcast per fma)."""
    preferred = target.panel_width // target.lanes
    if vectors <= preferred:
        return vectors
    most = min(vectors, target.isa.registers // 2)
    reusing_wei = [v for v in range(preferred, most + 1) if rows(v) >= min(m, 2)]
    in_flight = {v: v * (m // ceil(m / rows(v))) for v in reusing_wei}
    enough = (v for v, count in in_flight.items() if count >= ACCUMULATORS_IN_FLIGHT and vectors // ceil(vectors / v) > 1)
    return next(enough, max(in_flight, key=lambda v: in_flight[v]))


def define(module: ir.Module, kernel: Kernel, target: Target) -> ir.Function:
    """The function void (ptr src, ptr wei, ptr acc) for this kernel, internal to the module; defined on first use."""
    kernel = _canonical(kernel)
    known = module.globals.get(kernel.name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, PTR]), kernel.name)
    function.linkage = "internal"
    function.attributes.add("noinline")  # a caller with loops of its own would take registers from these
    function.attributes.add("nounwind")
    for argument, name in zip(function.args, ("src", "wei", "acc"), strict=True):
        argument.name = name
        argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Emitter(builder, kernel, target).emit(*function.args)
    builder.ret_void()
    return function


def _canonical(kernel: Kernel) -> Kernel:
    """Fewer kernels for the same work: an axis of the batch that continues along the next one, or along k, makes that one longer; where
    k is 1, the last axis takes its place."""
    axes: list[BatchAxis] = []
    for axis in (a for a in kernel.batch if a[0] > 1):
        axes.append(axis)
        if len(axes) > 1 and axes[-2][1:] == (axis[0] * axis[1], axis[0] * axis[2]):
            axes[-2:] = [(axes[-2][0] * axis[0], *axis[1:])]
    if axes and kernel.k == 1:
        k, src_stride, wei_stride = axes.pop()
        kernel = replace(kernel, k=k, src_col_stride=src_stride, wei_row_stride=wei_stride)
    elif axes and axes[-1][1:] == (kernel.k * kernel.src_col_stride, kernel.k * kernel.wei_row_stride):
        kernel = replace(kernel, k=kernel.k * axes.pop()[0])
    return replace(kernel, batch=tuple(axes))


@dataclass(frozen=True)
class _Emitter:
    builder: ir.IRBuilder
    kernel: Kernel
    target: Target

    def emit(self, src: ir.Value, wei: ir.Value, acc: ir.Value) -> None:
        column = 0
        for panels in register_tiles(self.kernel.n, self.target, m=self.kernel.m, src_row_stride=self.kernel.src_row_stride):
            self.repeat(panels.count, partial(self.panel, panels, column, src, wei, acc))
            column += panels.count * panels.columns

    def panel(self, panels: Panels, first: int, src: ir.Value, wei: ir.Value, acc: ir.Value, i: ir.Value) -> None:
        """All rows of panel i of these panels, which start at column `first`."""
        column = self.affine(i, panels.columns, first)
        row = 0
        for count, rows in even_split(self.kernel.m, panels.rows):
            place = (src, self.element(wei, column), self.element(acc, column))
            self.repeat(count, partial(self.tile, panels, rows, row, *place))
            row += count * rows

    def tile(self, panels: Panels, rows: int, first: int, src: ir.Value, wei: ir.Value, acc: ir.Value, i: ir.Value) -> None:
        """Register tile i of these tiles, which start at row `first`: all of batch and K."""
        row = self.affine(i, rows, first)
        src = self.element(src, self.affine(row, self.kernel.src_row_stride))
        acc = self.element(acc, self.affine(row, self.kernel.acc_row_stride))
        vectors = [(v * self.target.lanes, self.used(panels, v)) for v in range(panels.vectors)]
        places = [(self.element(acc, r * self.kernel.acc_row_stride + column), used) for r in range(rows) for column, used in vectors]
        zero = constant(vector(F32, self.target.lanes), 0.0)
        sums = [self.load(*place) if self.kernel.accumulate else zero for place in places]
        sums = self.batch(self.kernel.batch, partial(self.reduce, panels, rows), src, wei, sums)
        for total, place in zip(sums, places, strict=True):
            self.store(total, *place)

    def batch(self, axes: Sequence[BatchAxis], tile: Reduce, src: ir.Value, wei: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """All entries along these axes of the batch, by `tile` each."""
        if not axes:
            return tile(src, wei, sums)
        extent, src_stride, wei_stride = axes[0]

        def entry(b: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            places = self.element(src, self.affine(b, src_stride)), self.element(wei, self.affine(b, wei_stride))
            return self.batch(axes[1:], tile, *places, sums)

        return self.loop(extent, sums, entry)

    def reduce(self, panels: Panels, rows: int, src: ir.Value, wei: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """One batch entry: all of K."""
        kernel = self.kernel
        unroll = min(kernel.k, 2 if panels.vectors > 1 and has_fma(self.target.isa) else 1)

        def steps(count: int, i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            first = self.affine(i, unroll)
            strides = kernel.src_col_stride, kernel.wei_row_stride
            starts = [self.element(p, self.affine(first, stride)) for p, stride in zip((src, wei), strides, strict=True)]
            for k in range(count):
                at_src, at_wei = (self.element(p, k * stride) for p, stride in zip(starts, strides, strict=True))
                sums = self.step(panels, rows, at_src, at_wei, sums)
            return sums

        whole, rest = divmod(kernel.k, unroll)
        return steps(rest, I64(whole), self.loop(whole, sums, partial(steps, unroll)))

    def step(self, panels: Panels, rows: int, src: ir.Value, wei: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """One k: sums[r, v] += src[r] * wei[v]."""
        lanes, isa = self.target.lanes, self.target.isa
        columns = [self.load(self.element(wei, v * lanes), self.used(panels, v)) for v in range(panels.vectors)]
        totals = iter(sums)
        out: list[ir.Value] = []
        for r in range(rows):
            scalar = self.builder.load(self.element(src, r * self.kernel.src_row_stride), typ=F32, align=F32_BYTES)
            row = splat(self.builder, scalar, lanes)
            out += [fma(self.builder, row, column, next(totals), isa) for column in columns]
        return out

    def used(self, panels: Panels, v: int) -> int:
        """Lanes of the panel's vector v that hold columns."""
        return min(self.target.lanes, panels.columns - v * self.target.lanes)

    def load(self, pointer: ir.Value, used: int) -> ir.Value:
        """A vector of which only the first `used` lanes are read; the others hold anything, and are never stored."""
        type = vector(F32, self.target.lanes)
        if used == self.target.lanes:
            return self.builder.load(pointer, typ=type, align=F32_BYTES)
        args = [pointer, I32(F32_BYTES), self.mask(used), ir.Constant(type, ir.Undefined)]
        return call(self.builder, f"llvm.masked.load.{mangled(type)}.p0", type, args)

    def store(self, value: ir.Value, pointer: ir.Value, used: int) -> None:
        if used == self.target.lanes:
            self.builder.store(value, pointer, align=F32_BYTES)
            return
        args = [value, pointer, I32(F32_BYTES), self.mask(used)]
        call(self.builder, f"llvm.masked.store.{mangled(value.type)}.p0", VOID, args)

    def mask(self, used: int) -> ir.Constant:
        return ir.Constant(vector(I1, self.target.lanes), [int(lane < used) for lane in range(self.target.lanes)])

    def affine(self, index: ir.Value, scale: int, offset: int = 0) -> ir.Value:
        return self.builder.add(self.builder.mul(index, I64(scale)), I64(offset))

    def element(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address of an f32 this many elements further on."""
        return self.builder.gep(pointer, [I64(offset) if isinstance(offset, int) else offset], inbounds=True, source_etype=F32)

    def repeat(self, count: int, body: Callable[[ir.Value], None]) -> None:
        """Run body(i) for i in 0 .. count - 1."""

        def once(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            body(i)
            return carried

        self.loop(count, [], once)

    def loop(self, count: int, carried: list[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:
        """Run body(i, carried) for i in 0 .. count - 1, each time with what the time before returned; gives the last result."""
        if count == 1:
            return body(I64(0), carried)
        builder = self.builder
        before = builder.block
        head, after = builder.append_basic_block("loop"), builder.append_basic_block("done")
        builder.branch(head)
        builder.position_at_end(head)
        index, phis = builder.phi(I64), [builder.phi(value.type) for value in carried]
        results = body(index, phis)
        following = builder.add(index, I64(1))
        builder.cbranch(builder.icmp_unsigned("<", following, I64(count)), head, after)
        for phi, first, later in zip([index, *phis], [I64(0), *carried], [following, *results], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, builder.block)
        builder.position_at_end(after)
        return results
