"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.neighbours import among_others
from benchgraph.gir.nest_schedule import executed_nest
from benchgraph.machine.target import Target


def schedule(g: Graph, target: Target) -> Graph:
    nodes = tuple(among_others(g, executed_nest(g, n, target), target) if isinstance(n, FusedOp) else n for n in g.nodes)
    return g if nodes == g.nodes else replace(g, nodes=nodes)
