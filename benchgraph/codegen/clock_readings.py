"""Readings of the clock between the statements of a function: when each began and ended, and what each thread computed of it.

Only code that is compiled to be profiled has them. The caller reads the clock between two statements of the function's body. A task of
a parallel loop reads it at its begin and its end, so that threads that wait for each other can be told from threads that compute.

argv holds, behind the arenas, a pointer to the readings: i64[1 + threads][statements][3], begin, end and busy in nanoseconds of the
monotonic clock; of the caller, then of each thread. Whoever calls the function sets them to zero before. The caller's busy stays zero, and
its begin is set for the first statement alone: another one begins where the one before it ends. A thread's begin is that of its first task
in a statement, its end that of its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import I64, PTR, VOID, declare
from benchgraph.tir.ir import Alloc, Func, Stmt
from benchgraph.tir.visit import statements

BEGIN, END, BUSY, FIELDS = 0, 1, 2, 3
_READ, _FINISH = "benchgraph_read_clock", "benchgraph_finish_task"

# 1 is CLOCK_MONOTONIC, that of Python's time.perf_counter.
RUNTIME = f"""
declare i32 @clock_gettime(i32, ptr)

define void @{_READ}(ptr %at) {{
  %time = alloca {{i64, i64}}
  %rc = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr {{i64, i64}}, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  store i64 %now, ptr %at
  ret void
}}

define void @{_FINISH}(ptr %begun.at, ptr %entry) {{
  %begun = load i64, ptr %begun.at
  %first = load i64, ptr %entry
  %is.first = icmp eq i64 %first, 0
  %begin = select i1 %is.first, i64 %begun, i64 %first
  store i64 %begin, ptr %entry
  %end.at = getelementptr i64, ptr %entry, i64 {END}
  call void @{_READ}(ptr %end.at)
  %end = load i64, ptr %end.at
  %lasted = sub i64 %end, %begun
  %busy.at = getelementptr i64, ptr %entry, i64 {BUSY}
  %before = load i64, ptr %busy.at
  %busy = add i64 %before, %lasted
  store i64 %busy, ptr %busy.at
  ret void
}}
"""
"""The functions that read the clock, a module of its own."""


def timed_statements(func: Func) -> tuple[Stmt, ...]:
    """The statements of a function's body, between which the clock is read."""
    return tuple(s for s in statements(func.body) if not isinstance(s, Alloc))


@dataclass(frozen=True)
class ClockReadings:
    """Where code stores what it reads during one statement. position: of the pointer in argv. count: of all statements."""

    position: int
    count: int
    statement: int = 0

    @staticmethod
    def of(func: Func) -> ClockReadings:
        return ClockReadings(len(func.params) + 2, len(timed_statements(func)))

    def read(self, builder: ir.IRBuilder, argv: ir.Value, field: int) -> None:
        """Store the time as a field of the caller's."""
        entry = self._entry(builder, argv, I64(0))
        _call(builder, _READ, [builder.gep(entry, [I64(field)], source_etype=I64)])

    def begin_task(self, builder: ir.IRBuilder) -> ir.Value:
        """Where the time is at which the task began."""
        begun = builder.alloca(I64)
        _call(builder, _READ, [begun])
        return begun

    def finish_task(self, builder: ir.IRBuilder, argv: ir.Value, thread: ir.Value, begun: ir.Value) -> None:
        _call(builder, _FINISH, [begun, self._entry(builder, argv, builder.add(thread, I64(1)))])

    def _entry(self, builder: ir.IRBuilder, argv: ir.Value, row: ir.Value) -> ir.Value:
        base = builder.load(builder.gep(argv, [I64(self.position)], source_etype=PTR), typ=PTR)
        entry = builder.add(builder.mul(row, I64(self.count)), I64(self.statement))
        return builder.gep(base, [builder.mul(entry, I64(FIELDS))], source_etype=I64)


def _call(builder: ir.IRBuilder, name: str, args: Sequence[ir.Value]) -> None:
    builder.call(declare(builder.module, name, VOID, [PTR] * len(args)), args)
