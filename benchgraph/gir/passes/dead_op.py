"""dead-op: ops whose results nothing uses are dropped, and values that no op mentions.

%1 = ReLU(%0)          ->   %2 = Exp(%0)
%2 = Exp(%0)                return %2
return %2
"""

from __future__ import annotations

from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import without_dead_ops
from benchgraph.machine.target import Target


def dead_op(g: Graph, target: Target) -> Graph:
    return without_dead_ops(g)
