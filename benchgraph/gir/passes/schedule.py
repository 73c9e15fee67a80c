"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }

Loops of nests over the same range become one where that is legal (tir/passes/merge_parallel.py), outermost first, so that caches hold what
goes from one to the next. Where they have fewer iterations than there are cores, none of them may lose others by that: the padding of 2
images and the rows of their convolution stay apart on 16 cores.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.gir.ir import Graph
from benchgraph.gir.nest_schedule import executed_nest
from benchgraph.gir.product_space import with_scheduled_panels
from benchgraph.machine.target import Target


def schedule(g: Graph, target: Target) -> Graph:
    g = with_scheduled_panels(g, target)
    scheduled = g.map_nests(lambda nest: executed_nest(g, nest, target))
    return g if scheduled is g else replace(scheduled, tasks=target.cores)
