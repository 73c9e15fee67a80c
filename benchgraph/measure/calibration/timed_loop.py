"""A loop in machine code, and the time of one of its units."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.building_blocks import loop, offset_pointer
from benchgraph.codegen.emit import PARALLEL
from benchgraph.codegen.intrinsics import I64, PTR, VOID, declare
from benchgraph.machine.target import Target
from benchgraph.measure.burst_timing import BURST_S, calibrated, seconds
from benchgraph.runtime.jit import jit


@dataclass(frozen=True)
class Entry:
    """Where the loop is emitted. iterations: how many; share: the number of this thread's share, 0 on the first; pointer: an argument
    that the loop is called with, by position.
    """

    builder: ir.IRBuilder
    iterations: ir.Value
    share: ir.Value
    pointer: Callable[[int], ir.Value]


Emit: TypeAlias = Callable[[Entry], None]
Step: TypeAlias = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]  # builder, number of the iteration, a value -> the next one


class TimedLoop:
    """A loop that every thread runs on a share of its own.

    emit: writes the loop. units: of work in one iteration of one thread, of which a sample gives the time. pointers: addresses that
    the loop is called with. held: what they point to. warm_up: iterations before each sample, which bring data into the
    caches. team: threads that the loop's own parallel loops
    run on.
    """

    def __init__(
        self,
        emit: Emit,
        target: Target,
        units: float,
        threads: int = 1,
        pointers: Sequence[int] = (),
        held: object = None,
        warm_up: int = 0,
        team: int = 1,
    ) -> None:
        module = ir.Module(name="calibration")
        run = ir.Function(module, ir.FunctionType(VOID, [I64, PTR, I64]), "run")
        b = ir.IRBuilder(run.append_basic_block("entry"))
        b.store(run.args[0], run.args[1])
        task = _task(module, emit)
        if threads > 1:
            b.call(declare(module, PARALLEL, VOID, [PTR, PTR, I64]), [task, run.args[1], run.args[2]])
        else:
            b.call(task, [run.args[1], I64(0), I64(1), I64(0)])
        b.ret_void()
        self.code = jit([str(module)], replace(target, cores=max(threads, team)))
        self._units, self._threads = units * threads, threads
        self._arguments = np.array([0, *pointers], np.int64)  # the first: iterations
        self._held, self._warm_up = held, warm_up
        self._run: Any = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(self.code.address("run"))
        self._iterations = 0

    def sample(self) -> float:
        """Nanoseconds of a unit, over about a millisecond, or over one iteration if that takes longer."""
        address = self._arguments.ctypes.data
        if not self._iterations:
            self._iterations = calibrated(self._run, BURST_S, address, self._threads)
        if self._warm_up:
            self._run(self._warm_up, address, self._threads)
        return seconds(self._run, self._iterations, address, self._threads) * 1e9 / (self._iterations * self._units)

    def once(self, iterations: int = 1) -> float:
        """Nanoseconds of so many iterations on all threads."""
        return seconds(self._run, iterations, self._arguments.ctypes.data, self._threads) * 1e9


def _task(module: ir.Module, emit: Emit) -> ir.Function:
    """Iterations for each of a thread's shares: it has one, unless the team is smaller than requested."""
    task = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), "task")
    task.linkage = "internal"
    arguments, begin, end, _ = task.args
    b = ir.IRBuilder(task.append_basic_block("entry"))

    def pointer(position: int) -> ir.Value:
        return b.load(offset_pointer(b, arguments, position + 1, I64), typ=PTR)

    emit(Entry(b, b.mul(b.load(arguments, typ=I64), b.sub(end, begin)), begin, pointer))
    b.ret_void()
    return task


def opaque(entry: Entry, value: ir.Constant) -> ir.Value:
    """A value that LLVM does not know."""
    return entry.builder.load(_variable(entry, value), typ=value.type)


def kept(entry: Entry, values: Sequence[ir.Value]) -> None:
    """Results that LLVM has to compute."""
    for value in values:
        entry.builder.store(value, _variable(entry, ir.Constant(value.type, "zeroinitializer")))


def _variable(entry: Entry, value: ir.Constant) -> ir.GlobalVariable:
    module = entry.builder.module
    return ir.GlobalVariable(module, value, f"variable.{len(module.variables)}")


def chains(entry: Entry, firsts: Sequence[ir.Constant], step: Step) -> None:
    """Chains of steps side by side, one for each of these first values, every iteration a step of each."""
    b = entry.builder
    values = [opaque(entry, first) for first in firsts]
    kept(entry, loop(b, entry.iterations, values, lambda i, now: [step(b, i, x) for x in now]))
