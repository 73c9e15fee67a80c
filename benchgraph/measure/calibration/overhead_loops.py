"""What control flow takes: parallel loops, calls of microkernels, iterations."""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.codegen import ir, microkernel
from benchgraph.codegen.building_blocks import repeat
from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import I64, PTR, VOID, declare
from benchgraph.codegen.kernel import Kernel
from benchgraph.machine.target import Target
from benchgraph.measure.calibration.timed_loop import Entry, TimedLoop, chains
from benchgraph.measure.peak import ARITHMETIC
from benchgraph.runtime.memory import aligned

ROWS, SHORT, LONG = 6, 16, 32  # rows of a kernel's call; terms of a short one, and of one twice as long
CALLS = (f"a kernel of {SHORT} terms", f"a kernel of {LONG} terms")  # the first twice, less the second: a kernel of none
TWO, ALL = "fork and join of 2 threads", "fork and join of all threads"


def overhead_loops(target: Target) -> Iterator[tuple[str, TimedLoop]]:
    yield "overheads.iteration_cycles", TimedLoop(_iterations, target, 1)
    for name, terms in zip(CALLS, (SHORT, LONG), strict=True):
        yield name, _kernel_calls(target, terms)
    if target.cores > 1:
        yield TWO, _parallel_loops(target, 2)
    if target.cores > 2:
        yield ALL, _parallel_loops(target, target.cores)


def _iterations(entry: Entry) -> None:
    """A loop whose result has no closed form, and takes a cycle besides counter and branch, in parallel."""
    chains(entry, [I64(1)], lambda b, i, x: b.xor(x, i))


def _parallel_loops(target: Target, threads: int) -> TimedLoop:
    """Each iteration an empty parallel loop on so many threads, begun by one."""

    def emit(entry: Entry) -> None:
        b = entry.builder
        nothing = ir.Function(b.module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), "nothing")
        ir.IRBuilder(nothing.append_basic_block("entry")).ret_void()
        at = entry.pointer(0)
        repeat(b, entry.iterations, lambda _: b.call(declare(b.module, PARALLEL, VOID, [PTR, PTR, I64]), [nothing, at, I64(threads)]))

    return TimedLoop(emit, target, 1, pointers=[0], team=threads)


def _kernel_calls(target: Target, terms: int) -> TimedLoop:
    """Each iteration a call on operands in L1."""
    width, dtypes = target.panel_width, ARITHMETIC["f32"]
    panel = Kernel(ROWS, width, terms, src_row_stride=terms, wei_row_stride=width, acc_row_stride=width, dtypes=dtypes)
    operands = [aligned(4 * elements) for elements in (ROWS * terms, terms * width, ROWS * width)]
    for operand in operands:
        operand.fill(0)

    def emit(entry: Entry) -> None:
        b = entry.builder
        kernel = microkernel.define(b.module, panel, target)
        pointers = [entry.pointer(i) for i in range(3)]
        repeat(b, entry.iterations, lambda _: b.call(kernel, pointers))

    return TimedLoop(emit, target, 1, pointers=[operand.ctypes.data for operand in operands], held=operands)
