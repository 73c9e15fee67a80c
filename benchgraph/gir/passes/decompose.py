"""decompose: ops without a form of computation of their own are replaced by ops that have one, as their rows of the op table say.

Rows with both a form and a decomposition say which calls have the form (`is_canonical`).
"""

from __future__ import annotations

from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target


def decompose(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, COMPLEX)


def _simpler(s: Site) -> tuple[int, ...] | None:
    lowering = s.op.lowering
    if lowering.decompose is None or (lowering.is_canonical is not None and lowering.is_canonical(s.call)):
        return None
    return lowering.decompose(s.d, s.call, s.op.ins)


COMPLEX = Pattern(
    root=lambda row: row.lowering.decompose is not None,
    build=_simpler,
    example="""graph(%0: f32[64,128]) {
      %1: f32[64,128] = SoftMax(%0) {axis=-1, mode="none"}
      ->
      %2: f32[64,1] = _RowMax(%0) {axes=[1], keep_dims=true}       %3: f32[64,128] = Subtract(%0, %2)    %4: f32[64,128] = Exp(%3)
      %5: f32[64,1] = ReduceSum(%4) {axes=[1], keep_dims=true}     %1: f32[64,128] = Divide(%4, %5)
      return %1 }""",
    near_misses=(('SoftMax(%0) {axis=-1, mode="none"}', "Exp(%0)"),),
    error=2**-20,
)
