"""A loop that calls another library's functions, as machine code for another process.

It calls only what its arguments point to and has no data, so the bytes need no relocation and run at any address.

    i32 loop(execute, wait, stream, steps, count, times)
        times x for each of count steps {object, n_inputs, inputs, n_outputs, outputs}:
            status = execute(object, stream, n_inputs, inputs, n_outputs, outputs);  if (status) return status
        return wait(stream)
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from benchgraph.codegen.intrinsics import create_target_machine
from benchgraph.machine.target import ISAS

_LOOP = """
define i32 @loop(ptr %execute, ptr %wait, ptr %stream, ptr %steps, i64 %count, i64 %times) {
entry:
  %some = icmp sgt i64 %count, 0
  %often = icmp sgt i64 %times, 0
  %any = and i1 %some, %often
  br i1 %any, label %round, label %done
round:
  %r = phi i64 [0, %entry], [%r.next, %turn]
  br label %step
step:
  %i = phi i64 [0, %round], [%i.next, %next]
  %object.at = getelementptr {ptr, i64, ptr, i64, ptr}, ptr %steps, i64 %i, i32 0
  %n.inputs.at = getelementptr {ptr, i64, ptr, i64, ptr}, ptr %steps, i64 %i, i32 1
  %inputs.at = getelementptr {ptr, i64, ptr, i64, ptr}, ptr %steps, i64 %i, i32 2
  %n.outputs.at = getelementptr {ptr, i64, ptr, i64, ptr}, ptr %steps, i64 %i, i32 3
  %outputs.at = getelementptr {ptr, i64, ptr, i64, ptr}, ptr %steps, i64 %i, i32 4
  %object = load ptr, ptr %object.at
  %n.inputs = load i64, ptr %n.inputs.at
  %inputs = load ptr, ptr %inputs.at
  %n.outputs = load i64, ptr %n.outputs.at
  %outputs = load ptr, ptr %outputs.at
  %status = call i32 %execute(ptr %object, ptr %stream, i64 %n.inputs, ptr %inputs, i64 %n.outputs, ptr %outputs)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %next
next:
  %i.next = add i64 %i, 1
  %more.steps = icmp slt i64 %i.next, %count
  br i1 %more.steps, label %step, label %turn
turn:
  %r.next = add i64 %r, 1
  %more.rounds = icmp slt i64 %r.next, %times
  br i1 %more.rounds, label %round, label %done
failed:
  ret i32 %status
done:
  %waited = call i32 %wait(ptr %stream)
  ret i32 %waited
}
"""


@cache
def machine_code() -> bytes:
    """The function's code; its entry is the first byte."""
    target_machine = create_target_machine(ISAS["portable"])
    module = llvm.parse_assembly(_LOOP)
    module.triple, module.data_layout = target_machine.triple, str(target_machine.target_data)
    module.verify()
    sections = llvm.ObjectFileRef.from_data(target_machine.emit_object(module)).sections()
    return next(bytes(s.data()) for s in sections if s.is_text() and s.size())
