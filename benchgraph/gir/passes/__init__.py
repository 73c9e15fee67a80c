"""The Graph IR pipeline, in order. One file per pass; see CONTRIBUTING.md for how to add one."""

from __future__ import annotations

from benchgraph.core.passes import Pass
from benchgraph.gir.ir import Graph
from benchgraph.gir.passes.convert_weights import convert_weights
from benchgraph.gir.passes.dead_op import dead_op
from benchgraph.gir.passes.decompose import decompose
from benchgraph.gir.passes.defer_scaling import defer_scaling
from benchgraph.gir.passes.fold_constants import fold_constants
from benchgraph.gir.passes.fuse_coarse import fuse_coarse
from benchgraph.gir.passes.fuse_fine import fuse_fine
from benchgraph.gir.passes.hoist_division import hoist_division
from benchgraph.gir.passes.join_entries import join_entries
from benchgraph.gir.passes.keep_narrow import keep_narrow
from benchgraph.gir.passes.low_precision import low_precision
from benchgraph.gir.passes.make_views import make_views
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.passes.merge_quantisation import merge_quantisation
from benchgraph.gir.passes.propagate_layout import propagate_layout
from benchgraph.gir.passes.round_operands import round_operands
from benchgraph.gir.passes.schedule import schedule
from benchgraph.gir.passes.settle_borders import settle_borders
from benchgraph.gir.passes.sink_movements import sink_movements
from benchgraph.gir.passes.split_folds import split_folds
from benchgraph.gir.passes.split_heads import split_heads
from benchgraph.gir.passes.widen_intermediates import widen_intermediates

_BASIC, _CONST, _FUSED = frozenset({"basic"}), frozenset({"constness"}), frozenset({"fused"})

PIPELINE: tuple[Pass[Graph], ...] = (
    Pass("decompose", decompose, gives=_BASIC),
    Pass("join-entries", join_entries, needs=_BASIC, switch="join-entries"),
    Pass("split-heads", split_heads, needs=_BASIC, switch="split-heads"),
    Pass("low-precision", low_precision, needs=_BASIC, switch="low-precision"),
    Pass("round-operands", round_operands, needs=_BASIC, switch="round"),
    Pass("widen-intermediates", widen_intermediates, needs=_BASIC, switch="widen"),
    Pass("sink-movements", sink_movements, needs=_BASIC, switch="sink"),
    Pass("hoist-division", hoist_division, needs=_BASIC, switch="hoist"),
    Pass("fold-constants", fold_constants, needs=_BASIC),
    Pass("merge-quantisation", merge_quantisation, needs=_BASIC, switch="merge-quantisation"),
    Pass("fold-constants", fold_constants, needs=_BASIC),
    Pass("mark-runtime-constants", mark_runtime_constants, needs=_BASIC, gives=_CONST),
    Pass("keep-narrow", keep_narrow, needs=_CONST, switch="convert-weights"),
    Pass("defer-scaling", defer_scaling, needs=_CONST, switch="defer"),
    Pass("make-views", make_views, needs=_CONST, gives=frozenset({"views"})),
    Pass("settle-borders", settle_borders, needs=frozenset({"views"}), gives=frozenset({"settled"})),
    Pass("propagate-layout", propagate_layout, needs=frozenset({"views", "settled"})),
    Pass("split-folds", split_folds, needs=frozenset({"views"}), switch="split-folds"),
    Pass("dead-op", dead_op, needs=_BASIC),
    Pass("fuse-fine", fuse_fine, needs=frozenset({"views"}), gives=_FUSED),
    Pass("fuse-coarse", fuse_coarse, needs=_FUSED, switch="coarse"),
    Pass("convert-weights", convert_weights, needs=_FUSED, switch="convert-weights"),
    Pass("schedule", schedule, needs=_FUSED, gives=frozenset({"scheduled"})),
)
