"""What the machine can do: its arithmetic peak, measured by loops that touch nothing but registers, and the microkernel's share of it."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
from llvmlite import ir

from benchgraph.codegen import microkernel
from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import I64, PTR, VOID, has_fma
from benchgraph.core.target import Target
from benchgraph.runtime.burst import BURST_S, calibrated, seconds
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.jit import jit
from benchgraph.runtime.memory import aligned

_ACCUMULATORS = 12  # latency 4 or 5, two per cycle: ten in flight are enough, and twelve fit 16 registers with their operand
_SAMPLE_S, _SAMPLES = 10e-3, 5
_BLOCK = 256  # a 256 x 256 x 256 multiplication of f32 keeps its 768 KiB in a second-level cache


class PeakProbe:
    """Measures the f32 peak in short bursts, so that a harness can take one between two timings."""

    def __init__(self, threads: int, target: Target, runtime: str | None = None) -> None:
        self._threads = threads
        self._code, self._flops_per_turn = _peak_code(threads, target, runtime)
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self._code.address("run"))
        self._turns = calibrated(self._run, BURST_S, 1)

    def sample(self) -> float:
        """FLOP/s of all threads together over about a millisecond."""
        return self._measure(self._turns)

    def _measure(self, turns: int) -> float:
        return self._threads * turns * self._flops_per_turn / seconds(self._run, turns, self._threads)

    def peak(self) -> float:
        """FLOP/s, the best of several samples of 10 ms."""
        turns = int(self._turns * _SAMPLE_S / BURST_S)
        return max(self._measure(turns) for _ in range(_SAMPLES))


def peak_flops(threads: int, target: Target, runtime: str | None = None) -> float:
    """Measured f32 FLOP/s of the vector units with this many threads: fused multiply-adds, or pairs where the ISA has none."""
    return PeakProbe(threads, target, runtime).peak()


class KernelProbe:
    """Measures the f32 microkernel on one cache-resident block, on one thread."""

    def __init__(self, target: Target) -> None:
        self._code = _kernel_code(target)
        self._buffers = [aligned(_BLOCK * _BLOCK * 4) for _ in range(3)]
        for buffer in self._buffers:
            buffer.view(np.float32)[:] = np.float32(1 / _BLOCK)
        self._addresses = [buffer.ctypes.data for buffer in self._buffers]
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(self._code.address("run"))
        self._times = calibrated(self._run, BURST_S, *self._addresses)

    def sample(self) -> float:
        """FLOP/s over about a millisecond."""
        return self._times * 2 * _BLOCK**3 / seconds(self._run, self._times, *self._addresses)


def kernel_probe(target: Target) -> KernelProbe:
    return KernelProbe(target)


_PEAK = """
declare void @{parallel}(ptr, ptr, i64)
declare {type} @llvm.{operation}.{mangled}({type}, {type}, {type})
@factor = global {type} splat (float 0.5)

define internal void @burst(ptr %turns.at, i64 %begin, i64 %end, i64 %thread) {{
entry:
  %sink = alloca {type}
  %factor = load {type}, ptr @factor
  %shares = sub i64 %end, %begin
  %each = load i64, ptr %turns.at
  %turns = mul i64 %each, %shares
  br label %turn
turn:
  %t = phi i64 [0, %entry], [%t.next, %turn]
{phis}
{operations}
  %t.next = add i64 %t, 1
  %more = icmp slt i64 %t.next, %turns
  br i1 %more, label %turn, label %done
done:
{stores}
  ret void
}}

define void @run(i64 %turns, i64 %threads) {{
  %turns.at = alloca i64
  store i64 %turns, ptr %turns.at
  call void @{parallel}(ptr @burst, ptr %turns.at, i64 %threads)
  ret void
}}
"""


def _peak_code(threads: int, target: Target, runtime: str | None) -> tuple[Code, int]:
    """(code of `run(turns, threads)`, floating-point operations of one turn on one thread).

    x = x / 2 + 1/2 stays near 1. The factor is loaded, so it is no constant; the volatile stores keep the results alive.
    """
    type = f"<{target.lanes} x float>"
    operation, mangled = "fma" if has_fma(target.isa) else "fmuladd", f"v{target.lanes}f32"
    each = range(_ACCUMULATORS)
    text = _PEAK.format(
        parallel=PARALLEL,
        type=type,
        operation=operation,
        mangled=mangled,
        phis="\n".join(f"  %x{i} = phi {type} [%factor, %entry], [%y{i}, %turn]" for i in each),
        operations="\n".join(
            f"  %y{i} = call {type} @llvm.{operation}.{mangled}({type} %x{i}, {type} %factor, {type} %factor)" for i in each
        ),
        stores="\n".join(f"  store volatile {type} %y{i}, ptr %sink" for i in each),
    )
    return jit(text, replace(target, cores=threads), runtime), 2 * _ACCUMULATORS * target.lanes


def _kernel_code(target: Target) -> Code:
    """Code of `run(times, src, wei, acc)`."""
    module = ir.Module(name="kernel")
    block = microkernel.Kernel(_BLOCK, _BLOCK, _BLOCK, src_row_stride=_BLOCK, wei_row_stride=_BLOCK, acc_row_stride=_BLOCK)
    kernel = microkernel.define(module, block, target)
    run = ir.Function(module, ir.FunctionType(VOID, [I64, PTR, PTR, PTR]), "run")
    entry, turn, done = (run.append_basic_block(name) for name in ("entry", "turn", "done"))
    b = ir.IRBuilder(entry)
    b.branch(turn)
    b.position_at_end(turn)
    count = b.phi(I64)
    b.call(kernel, run.args[1:])
    following = b.add(count, I64(1))
    count.add_incoming(I64(0), entry)
    count.add_incoming(following, turn)
    b.cbranch(b.icmp_signed("<", following, run.args[0]), turn, done)
    b.position_at_end(done)
    b.ret_void()
    return load(str(module), target.isa, {})
