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

from benchgraph.gir.ir import Constness, Graph
from benchgraph.machine.target import Target


def mark_runtime_constants(g: Graph, target: Target) -> Graph:
    made = (g.value(v) for v in g.computed_from_constants)
    return g.with_values({v.id: replace(v, constness=Constness.runtime) for v in made if not v.is_constant})
