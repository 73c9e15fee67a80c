"""serialise-short-loops: parallel loops that are too short to repay fork and join run on the calling thread.

    parallel for i in 4 { y[i] = x[i] * 2.0 }   ->   outlined for i in 4 { y[i] = x[i] * 2.0 }

`tir/cost.py` estimates the time, which the other passes change, so this pass is the last one. It alone decides: code generation does what
the loop says. The body of an outlined loop stays a function of its own, as that of a parallel one, instead of a part of main. Inlined into
main, it would change the code of every short case.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.machine.target import Target
from benchgraph.tir.cost import pays_in_parallel
from benchgraph.tir.ir import Func, LoopKind, Stmt
from benchgraph.tir.loops import is_parallel
from benchgraph.tir.visit import map_children


def serialise_short_loops(f: Func, target: Target) -> Func:
    body = _serialised(f.body, target)
    return f if body is f.body else replace(f, body=body)


def _serialised(s: Stmt, target: Target) -> Stmt:
    if is_parallel(s):
        return s if pays_in_parallel(s, target) else replace(s, kind=LoopKind.outlined)
    return map_children(s, lambda c: _serialised(c, target))
