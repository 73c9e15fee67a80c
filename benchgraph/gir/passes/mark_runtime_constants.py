"""mark-runtime-constants: values computed from constants alone are constants, and the init function computes them.

    %1: f32[64,64] constant                     %1: f32[64,64] constant
    %2 = StaticTranspose(%1)             ->     %2 = StaticTranspose(%1)  constant
    %3 = MatMul(%0, %2)                         %3 = MatMul(%0, %2)

Init runs once for each set of weight addresses and generations (runtime/constants.py), and its results are kept (paper: constant weight
preprocess). Outputs of the graph stay variable; copies that later
passes make of constants, as packed weights, are constants (`build.copied`).
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.gir.ir import Constness, Graph, Value
from benchgraph.machine.target import Target


def mark_runtime_constants(g: Graph, target: Target) -> Graph:
    changed: dict[int, Value] = {}

    def constness(id: int) -> Constness:
        return changed.get(id, g.value(id)).constness

    for op in g.ops:
        least = min(map(constness, op.ins), default=Constness.variable)
        if least is Constness.variable or set(op.outs) & set(g.outs):
            continue
        for v in op.outs:
            if g.value(v).constness is Constness.variable:
                changed[v] = replace(g.value(v), constness=Constness.runtime)
    return g.with_values(changed)
