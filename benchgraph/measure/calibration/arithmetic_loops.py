"""Products on vector and tile registers, operations on vectors, the clock: loops on registers alone.

A throughput comes from many chains side by side, a latency from one. Names are those of rates; what a loop has besides is subtracted in
rates.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.codegen import amx, ir, vmath
from benchgraph.codegen import tile_registers as tiles
from benchgraph.codegen.building_blocks import loop, repeat
from benchgraph.codegen.convert import cast, value_type
from benchgraph.codegen.dot import dot, is_native, lane_type
from benchgraph.codegen.intrinsics import F32, I8, I32, I64, call, constant, mangled, pointwise, shuffled, splat, vector
from benchgraph.codegen.shuffles import transposed
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target
from benchgraph.measure.calibration.timed_loop import Emit, Entry, Step, TimedLoop, chains, kept, opaque
from benchgraph.measure.peak import ARITHMETIC
from benchgraph.tir.groups import BYTES, GROUPS, SHORTS, DTypes

MANY, SOME = 12, 8  # chains that hide a latency: of an instruction that begins twice in a cycle, and of longer sequences
HALF = "simple in half of a vector"  # what tells the width of the datapath
_ADDED = 32  # additions and rotations of the clock's loop, a cycle each
_GROUPS: dict[str, DTypes] = {"f32": ARITHMETIC["f32"], "bf16": ARITHMETIC["bf16"], "u8s8": BYTES, "s16": SHORTS}
_FACTOR = {DType.f32: 0.5, DType.bf16: 0x3F003F00, DType.u8: 0x01010101, DType.s16: 0x00010001}  # lanes: halves, or ones
_TILE_SUMS = 6  # products of tiles that are under way, besides the two operands


def arithmetic_loops(target: Target) -> Iterator[tuple[str, TimedLoop]]:
    yield "clock_ghz", TimedLoop(lambda entry: _clock(entry, target), target, 2 * _ADDED)
    for name, dtypes in _GROUPS.items():
        if is_native(dtypes, target.isa) or name in ("f32", "s16"):
            yield from _products(name, dtypes, target)
    yield from _vector(target)
    if target.isa.has_amx:
        yield from _tiles(target)


def _clock(entry: Entry, target: Target) -> None:
    """One chain of scalars, and in its shadow products of vectors, for which many processors clock lower."""
    b, one = entry.builder, opaque(entry, constant(vector(F32, target.lanes), 1.0))

    def step(b: ir.IRBuilder, i: ir.Value, x: ir.Value) -> ir.Value:
        for _ in range(_ADDED):
            x = b.add(x, i)
            x = call(b, "llvm.fshl.i64", I64, [x, x, I64(7)])
        return x

    def iteration(i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
        return [step(b, i, now[0]), *(dot(b, DType.f32, x, one, one, target.isa) for x in now[1:])]

    firsts = [opaque(entry, I64(1)), *(opaque(entry, constant(one.type, 1.0)) for _ in range(MANY))]
    kept(entry, loop(b, entry.iterations, firsts, iteration))


def _products(name: str, dtypes: DTypes, target: Target) -> Iterator[tuple[str, TimedLoop]]:
    """x = x / 2 + 1/2 for f32 stays near 1. Where a product is two instructions, both must depend on the chain or on the iteration, since
    LLVM would hoist the first one."""
    lanes, macs = target.lanes, target.lanes * GROUPS[dtypes]

    def throughput(entry: Entry) -> None:
        factor = opaque(entry, constant(vector(lane_type(dtypes), lanes), _FACTOR[dtypes[0]]))
        chains(entry, [_zero(dtypes, lanes)] * MANY, lambda b, _, x: dot(b, dtypes[0], *_operands(dtypes, x, factor), target.isa))

    def latency(entry: Entry) -> None:
        factor = opaque(entry, constant(vector(lane_type(dtypes), lanes), _FACTOR[dtypes[0]]))

        def step(b: ir.IRBuilder, i: ir.Value, x: ir.Value) -> ir.Value:
            src = splat(b, b.trunc(i, I32), lanes) if dtypes == SHORTS else factor
            if dtypes[0] is DType.f32 and not is_native(dtypes, target.isa):
                return b.fadd(x, factor)
            return dot(b, dtypes[0], src, factor, x, target.isa)

        chains(entry, [_zero(dtypes, lanes)], step)

    yield f"products.{name}.macs_per_cycle", TimedLoop(throughput, target, MANY * macs)
    yield f"products.{name}.latency_cycles", TimedLoop(latency, target, 1)


def _zero(dtypes: DTypes, lanes: int) -> ir.Constant:
    return constant(value_type(dtypes[2], lanes), 0)


def _operands(dtypes: DTypes, x: ir.Value, factor: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    if dtypes[0] is DType.f32:
        return x, factor, factor
    return (x if dtypes == SHORTS else factor), factor, x


def _vector(target: Target) -> Iterator[tuple[str, TimedLoop]]:
    isa, lanes = target.isa, target.lanes

    def side_by_side(step: Step) -> TimedLoop:
        return TimedLoop(lambda e: chains(e, [constant(vector(F32, lanes), 0.5)] * SOME, step), target, SOME)

    def with_one(step: Step, count: int = SOME, width: int = lanes) -> TimedLoop:
        """Steps whose second argument is a vector of ones instead of the iteration's number."""

        def emit(entry: Entry) -> None:
            one = opaque(entry, constant(vector(F32, width), 1.0))
            chains(entry, [constant(vector(F32, width), 1.0)] * count, lambda b, _, x: step(b, one, x))

        return TimedLoop(emit, target, count)

    yield "vector.simple_cycles", with_one(lambda b, one, x: b.fadd(x, one), MANY)
    yield HALF, with_one(lambda b, one, x: b.fadd(x, one), MANY, max(lanes // 2, 4))
    yield "vector.latency_cycles", with_one(lambda b, one, x: b.fadd(x, one), 1)
    yield "vector.divide_cycles", with_one(lambda b, one, x: b.fdiv(one, x))
    yield "vector.square_root_cycles", with_one(lambda b, one, x: pointwise(b, "sqrt", x))
    yield "vector.exp_cycles", side_by_side(lambda b, _, x: vmath.exp(b, b.fneg(x), isa))
    rotated = [(i * 5 + 3) % lanes for i in range(lanes)]  # no instruction does it within 128 bits
    yield "vector.shuffle_cycles", side_by_side(lambda b, _, x: shuffled(b, x, x, rotated))
    yield "vector.transpose_cycles", TimedLoop(_transposition(lanes), target, lanes)
    yield "vector.gather_cycles", TimedLoop(_gather(lanes), target, SOME)
    for name, dtype in (("bf16", DType.bf16), ("f16", DType.f16), ("byte", DType.s8)):
        yield f"vector.from_{name}_cycles", TimedLoop(_widening(dtype, target), target, SOME)

        def round_trip(b: ir.IRBuilder, one: ir.Value, x: ir.Value, dtype: DType = dtype) -> ir.Value:
            return cast(b, cast(b, b.fadd(x, one), DType.f32, dtype, isa), dtype, DType.f32, isa)  # without the sum it is the same again

        yield f"vector.to_{name}_cycles", with_one(round_trip)


def _transposition(lanes: int) -> Emit:
    def emit(entry: Entry) -> None:
        b = entry.builder
        rows = [opaque(entry, constant(vector(F32, lanes), float(i))) for i in range(lanes)]
        kept(entry, loop(b, entry.iterations, rows, lambda _, now: transposed(b, now)))

    return emit


def _gather(lanes: int) -> Emit:
    """Numbers of the elements to be read next, from a table in L1."""

    def emit(entry: Entry) -> None:
        size = 1024
        numbers = ir.Constant(vector(I32, size), [(i * 397 + 1) % size for i in range(size)])
        table = ir.GlobalVariable(entry.builder.module, numbers, "numbers")

        def step(b: ir.IRBuilder, _: ir.Value, x: ir.Value) -> ir.Value:
            where = b.gep(table, [x], source_etype=I32)
            name = f"llvm.masked.gather.{mangled(x.type)}.{mangled(where.type)}"
            return call(b, name, x.type, [where, I32(4), constant(vector(ir.IntType(1), lanes), 1), constant(x.type, 0)], ir.ANYWHERE)

        firsts = [ir.Constant(vector(I32, lanes), [(i * 61 + k) % size for i in range(lanes)]) for k in range(SOME)]
        chains(entry, firsts, step)

    return emit


def _widening(dtype: DType, target: Target) -> Emit:
    """Values that change in each iteration by an addition, are converted and combined: two simple operations besides."""

    def emit(entry: Entry) -> None:
        b, lanes = entry.builder, target.lanes
        one = opaque(entry, constant(value_type(dtype, lanes), 1))
        narrow = [opaque(entry, constant(value_type(dtype, lanes), i)) for i in range(SOME)]
        wide = [opaque(entry, constant(vector(I32, lanes), i)) for i in range(SOME)]

        def iteration(_: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            later = [b.add(x, one) for x in now[:SOME]]
            bits = [b.bitcast(cast(b, x, dtype, DType.f32, target.isa), wide[0].type) for x in later]
            return [*later, *(b.xor(x, y) for x, y in zip(now[SOME:], bits, strict=True))]

        kept(entry, loop(b, entry.iterations, [*narrow, *wide], iteration))

    return emit


def _tiles(target: Target) -> Iterator[tuple[str, TimedLoop]]:
    macs = tiles.TILE_ROWS * tiles.LANES**2
    for name, dtypes in (("bf16", ARITHMETIC["bf16"]), ("u8s8", BYTES)):
        for rate, sums, units in (("macs_per_cycle", _TILE_SUMS, _TILE_SUMS * macs * GROUPS[dtypes]), ("latency_cycles", 1, 1)):
            yield f"tiles.{name}.{rate}", TimedLoop(_tile_products(dtypes, sums), target, units)
    yield "tiles.load_cycles", TimedLoop(_tile_loads, target, _TILE_SUMS)
    yield "tiles.configure_ns", TimedLoop(_tile_shapes, target, 1)


def _tile_products(dtypes: DTypes, sums: int) -> Emit:
    def emit(entry: Entry) -> None:
        b = entry.builder
        factor = ir.GlobalVariable(b.module, constant(vector(I32, tiles.LANES), _FACTOR[dtypes[0]]), "factor")
        tiles.configure(b, ((tiles.TILE_ROWS, tiles.LANES),) * (_TILE_SUMS + 2))
        operands = [I8(_TILE_SUMS + i) for i in range(2)]
        for register in operands:
            tiles.tile_instruction(b, "tileloadd64", register, factor, I64(0))
        for i in range(sums):
            tiles.tile_instruction(b, "tilezero", I8(i))

        def products(_: ir.Value) -> None:
            for i in range(sums):
                tiles.tile_instruction(b, amx.PRODUCTS[dtypes[0]], I8(i), *operands)

        repeat(b, entry.iterations, products)
        tiles.release(b)

    return emit


def _tile_loads(entry: Entry) -> None:
    b = entry.builder
    rows = ir.GlobalVariable(b.module, ir.Constant(ir.ArrayType(tiles.ROW, tiles.TILE_ROWS), "zeroinitializer"), "rows")
    tiles.configure(b, ((tiles.TILE_ROWS, tiles.LANES),) * _TILE_SUMS)

    def loads(_: ir.Value) -> None:
        for i in range(_TILE_SUMS):
            tiles.tile_instruction(b, "tileloadd64", I8(i), rows, I64(tiles.ROW_BYTES))

    repeat(b, entry.iterations, loads)
    tiles.release(b)


def _tile_shapes(entry: Entry) -> None:
    def shapes(_: ir.Value) -> None:
        tiles.configure(entry.builder, ((tiles.TILE_ROWS, tiles.LANES),) * 8)
        tiles.release(entry.builder)

    repeat(entry.builder, entry.iterations, shapes)
