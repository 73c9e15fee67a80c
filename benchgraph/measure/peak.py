"""The machine's arithmetic peaks, measured by loops on registers alone, and the rate of the microkernel."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from benchgraph.codegen import amx, ir, microkernel
from benchgraph.codegen import tile_registers as tiles
from benchgraph.codegen.building_blocks import offset_pointer, repeat
from benchgraph.codegen.convert import memory_type, value_type
from benchgraph.codegen.dot import dot, is_native, lane_type
from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import I8, I32, I64, PTR, VOID, constant, declare, vector
from benchgraph.codegen.kernel import Kernel
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target
from benchgraph.measure.burst_timing import BURST_S, calibrated, seconds
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.jit import jit
from benchgraph.runtime.memory import aligned
from benchgraph.tir.groups import BYTES, GROUPS, SHORTS, DTypes

# The dtypes of products, by their names in results.
ARITHMETIC: dict[str, DTypes] = {"f32": (DType.f32, DType.f32, DType.f32), "bf16": (DType.bf16, DType.bf16, DType.f32), "int8": BYTES}
# Used where no single instruction does the multiply-accumulate: bf16 is converted to f32, bytes to s16.
_INSTEAD = {"f32": ARITHMETIC["f32"], "bf16": ARITHMETIC["f32"], "int8": SHORTS}
_ONE = {DType.f32: 1.0, DType.bf16: 0x3F80, DType.u8: 1, DType.s8: 1, DType.s16: 1}  # as stored
_FACTOR = {DType.f32: 0.5, DType.bf16: 0x3F003F00, DType.u8: 0x01010101, DType.s16: 0x00010001}  # lanes of factors: halves, or ones
_LEAST_ACCUMULATORS, _MOST_ACCUMULATORS = 12, 24  # latencies are 4 to 6, two per cycle; twelve fit 16 registers with their operands
_SUMS = range(6)  # tile registers: the latency of a step is 52 cycles, one begins every 16
_BLOCK = 256  # a 256 x 256 x 256 multiplication of f32 keeps its 768 KiB in a second-level cache


class PeakProbe:
    """Measures a peak in short bursts, which fit between two timings.

    arithmetic: a key of ARITHMETIC. Without a single instruction for its multiply-accumulate, the peak is that of f32 for bf16, and of
    s16 for int8 (products added in pairs, and an addition).
    """

    def __init__(self, threads: int, target: Target, runtime: str | None = None, arithmetic: str = "f32") -> None:
        self._threads = threads
        self._code, self._flops_per_iteration = _peak_code(threads, target, runtime, arithmetic)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self._code.address("run"))
        self._iterations = calibrated(self._run, BURST_S, 1)

    def sample(self) -> float:
        """Operations/s of all threads over about a millisecond; a multiply-add is two."""
        return self._threads * self._iterations * self._flops_per_iteration / seconds(self._run, self._iterations, self._threads)


class KernelProbe:
    """Measures the microkernel on one cache-resident block, on one thread."""

    def __init__(self, target: Target, arithmetic: str = "f32") -> None:
        dtypes = ARITHMETIC[arithmetic]
        if dtypes == BYTES and target.multiplies(DType.s16):
            dtypes = SHORTS
        self._code = _kernel_code(target, dtypes)
        self._buffers = [aligned(_BLOCK * _BLOCK * dtype.bits // 8) for dtype in dtypes]
        for buffer, dtype in zip(self._buffers[:2], dtypes, strict=False):
            bits = dtype.numpy if dtype is DType.f32 else f"u{dtype.bits // 8}"
            buffer.view(bits)[:] = _ONE[dtype]
        self._addresses = [buffer.ctypes.data for buffer in self._buffers]
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(self._code.address("run"))
        self._times = calibrated(self._run, BURST_S, *self._addresses)

    def sample(self) -> float:
        return self._times * 2 * _BLOCK**3 / seconds(self._run, self._times, *self._addresses)


def _peak_code(threads: int, target: Target, runtime: str | None, arithmetic: str) -> tuple[Code, int]:
    """(code of `run(iterations, threads)`, operations per iteration on one thread)."""
    module = ir.Module(name="peak")
    burst, flops = _burst(module, target, arithmetic)
    run = ir.Function(module, ir.FunctionType(VOID, [I64, I64]), "run")
    b = ir.IRBuilder(run.append_basic_block())
    at = b.alloca(I64)
    b.store(run.args[0], at)
    b.call(declare(module, PARALLEL, VOID, [PTR, PTR, I64]), [burst, at, run.args[1]])
    b.ret_void()
    return jit([str(module)], replace(target, cores=threads), runtime), flops


def _burst(module: ir.Module, target: Target, arithmetic: str) -> tuple[ir.Function, int]:
    """The parallel task: so many iterations for each of its shares, a step of every accumulator in each; operations per iteration."""
    requested = ARITHMETIC[arithmetic]
    if target.in_tiles(requested[0]):
        return _burst_of_tiles(module, requested), 2 * GROUPS[requested] * len(_SUMS) * tiles.TILE_ROWS * tiles.LANES**2
    dtypes = requested if is_native(requested, target.isa) else _INSTEAD[arithmetic]
    accumulators = _MOST_ACCUMULATORS if target.isa.registers > _MOST_ACCUMULATORS else _LEAST_ACCUMULATORS
    return _burst_of_vectors(module, target, dtypes, accumulators), 2 * GROUPS[dtypes] * accumulators * target.lanes


def _burst_of_vectors(module: ir.Module, target: Target, dtypes: DTypes, accumulators: int) -> ir.Function:
    """f32: x = x / 2 + 1/2 stays near 1; the sum must change, since LLVM would hoist a loop-invariant product. Operands are loaded, so that
    they are not constants; results are stored to a global, so that they are not dead. For s16 the operand is the accumulator, for the
    same reason.
    """
    lanes = target.lanes

    def step(x: ir.Value) -> ir.Value:
        if dtypes[0] is DType.f32:
            return dot(b, dtypes[0], x, loaded, loaded, target.isa)
        return dot(b, dtypes[0], x if dtypes == SHORTS else loaded, loaded, x, target.isa)

    operand, total = vector(lane_type(dtypes), lanes), value_type(dtypes[2], lanes)
    factor = ir.GlobalVariable(module, constant(operand, _FACTOR[dtypes[0]]), "factor")
    sink = ir.GlobalVariable(module, ir.Constant(ir.ArrayType(total, accumulators), "zeroinitializer"), "sink")
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), "burst")
    function.linkage = "internal"
    entry, turn, done = (function.append_basic_block(name) for name in ("entry", "turn", "done"))
    b = ir.IRBuilder(entry)
    loaded = b.load(factor, typ=operand)
    turns = b.mul(b.load(function.args[0], typ=I64), b.sub(function.args[2], function.args[1]))
    b.branch(turn)
    b.position_at_end(turn)
    count, sums = b.phi(I64), [b.phi(total) for _ in range(accumulators)]
    steps = list(map(step, sums))
    following = b.add(count, I64(1))
    b.cbranch(b.icmp_signed("<", following, turns), turn, done)
    for phi, first, later in zip([count, *sums], [I64(0), *[constant(total, 0)] * accumulators], [following, *steps], strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(later, turn)
    b.position_at_end(done)
    for i, x in enumerate(steps):
        b.store(x, offset_pointer(b, sink, i, total))
    b.ret_void()
    return function


def _burst_of_tiles(module: ir.Module, dtypes: DTypes) -> ir.Function:
    factor = ir.GlobalVariable(module, constant(vector(I32, tiles.LANES), _FACTOR[dtypes[0]]), "factor")
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), "burst")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block("entry"))
    tiles.configure(b, ((tiles.TILE_ROWS, tiles.LANES),) * (len(_SUMS) + 2))
    operands = [I8(len(_SUMS) + i) for i in range(2)]
    for register in operands:
        tiles.tile_instruction(b, "tileloadd64", register, factor, I64(0))
    for i in _SUMS:
        tiles.tile_instruction(b, "tilezero", I8(i))

    def turn(_: ir.Value) -> None:
        for i in _SUMS:
            tiles.tile_instruction(b, amx.PRODUCTS[dtypes[0]], I8(i), *operands)

    repeat(b, b.mul(b.load(function.args[0], typ=I64), b.sub(function.args[2], function.args[1])), turn)
    tiles.release(b)
    b.ret_void()
    return function


def _kernel_code(target: Target, dtypes: DTypes) -> Code:
    """Code of `run(times, src, wei, acc)`: one panel of packed weights after another, as compiled nests call the kernel."""
    module, width = ir.Module(name="kernel"), target.panel_width
    wei_row = width * GROUPS[dtypes]
    panel = Kernel(_BLOCK, width, _BLOCK, src_row_stride=_BLOCK, wei_row_stride=wei_row, acc_row_stride=_BLOCK, dtypes=dtypes)
    kernel = microkernel.define(module, panel, target)
    run = ir.Function(module, ir.FunctionType(VOID, [I64, PTR, PTR, PTR]), "run")
    entry, turn, done = (run.append_basic_block(name) for name in ("entry", "turn", "done"))
    b = ir.IRBuilder(entry)
    b.branch(turn)
    b.position_at_end(turn)
    count = b.phi(I64)
    src, wei, acc = run.args[1:]
    for first in range(0, _BLOCK, width):
        places = ((wei, first * _BLOCK, dtypes[1]), (acc, first, dtypes[2]))
        b.call(kernel, [src, *(offset_pointer(b, pointer, elements, memory_type(dtype)) for pointer, elements, dtype in places)])
    following = b.add(count, I64(1))
    count.add_incoming(I64(0), entry)
    count.add_incoming(following, turn)
    b.cbranch(b.icmp_signed("<", following, run.args[0]), turn, done)
    b.position_at_end(done)
    b.ret_void()
    return load(str(module), target.isa, {})
