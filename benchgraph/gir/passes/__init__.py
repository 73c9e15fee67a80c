"""The Graph IR pipeline. One file per pass (CONTRIBUTING.md, Add a pass), in the order in which they run:

decompose.py              ops without a form become ops that have one
channels_last.py          windows and padding between products have their channels last
fold_batch.py             batch entries become rows of one product
split_heads.py            heads in adjacent columns become a batch of products
low_precision.py          products of quantised and bf16 operands multiply stored values
round_operands.py         products of f32 in bf16, where the math mode allows it
whole_groups.py           few channels are filled up to whole groups of k
widen_intermediates.py    no rounding to bf16 or f16 between ops
sink_layout_ops.py        pointwise ops run before layout ops
cancel_layout_ops.py      layout ops that move elements back are left out
hoist_division.py         divisions become multiplications by reciprocals
fold_constants.py         ops on compile-time constants are computed
merge_quantisation.py     chains of scalings and shifts before 8 bits become one of each
mark_runtime_constants.py values computed from constants alone move to init
defer_scaling.py          rows are scaled after a product instead of before
keep_compressed.py        large constant weights stay compressed
make_views.py             layout ops become views
settle_borders.py         layouts of border tensors
propagate_layout.py       layouts of operands
split_reductions.py       reductions along a short dense axis become two
dead_op.py                ops and values that nothing uses are dropped
fuse_fine.py              ops join the nest of their producer
fuse_coarse.py            nests over the same rows become one
pack_on_the_fly.py        conversions and packing of weights join the product
schedule.py               template parameters and anchors
prefetch.py               inputs that loops prefetch
non_temporal_stores.py    results that no cache holds are stored past the caches
"""

from __future__ import annotations

from benchgraph.core.passes import Pass
from benchgraph.gir.ir import Graph
from benchgraph.gir.passes.cancel_layout_ops import cancel_layout_ops
from benchgraph.gir.passes.channels_last import channels_last
from benchgraph.gir.passes.dead_op import dead_op
from benchgraph.gir.passes.decompose import decompose
from benchgraph.gir.passes.defer_scaling import defer_scaling
from benchgraph.gir.passes.fold_batch import fold_batch
from benchgraph.gir.passes.fold_constants import fold_constants
from benchgraph.gir.passes.fuse_coarse import fuse_coarse
from benchgraph.gir.passes.fuse_fine import fuse_fine
from benchgraph.gir.passes.hoist_division import hoist_division
from benchgraph.gir.passes.keep_compressed import keep_compressed
from benchgraph.gir.passes.low_precision import low_precision
from benchgraph.gir.passes.make_views import make_views
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.passes.merge_quantisation import merge_quantisation
from benchgraph.gir.passes.non_temporal_stores import non_temporal_stores
from benchgraph.gir.passes.pack_on_the_fly import pack_on_the_fly
from benchgraph.gir.passes.prefetch import prefetch
from benchgraph.gir.passes.propagate_layout import propagate_layout
from benchgraph.gir.passes.round_operands import round_operands
from benchgraph.gir.passes.schedule import schedule
from benchgraph.gir.passes.settle_borders import settle_borders
from benchgraph.gir.passes.sink_layout_ops import sink_layout_ops
from benchgraph.gir.passes.split_heads import split_heads
from benchgraph.gir.passes.split_reductions import split_reductions
from benchgraph.gir.passes.whole_groups import whole_groups
from benchgraph.gir.passes.widen_intermediates import widen_intermediates

_BASIC, _CONST, _VIEWS, _FUSED = (frozenset({fact}) for fact in ("basic", "constness", "views", "fused"))
_PACKING = "pack-on-the-fly"  # the switch of two passes

PIPELINE: tuple[Pass[Graph], ...] = (
    Pass("decompose", decompose, gives=_BASIC),
    Pass("channels-last", channels_last, needs=_BASIC, switch="channels-last", formerly=("pad-channels-last",)),
    Pass("fold-batch", fold_batch, needs=_BASIC, switch="fold-batch", formerly=("join-entries", "no-join-entries")),
    Pass("split-heads", split_heads, needs=_BASIC, switch="split-heads"),
    Pass("low-precision", low_precision, needs=_BASIC, switch="low-precision"),
    Pass("round-operands", round_operands, needs=_BASIC, switch="round"),
    Pass("whole-groups", whole_groups, needs=_BASIC, switch="whole-groups"),
    Pass("widen-intermediates", widen_intermediates, needs=_BASIC, switch="widen"),
    Pass("sink-layout-ops", sink_layout_ops, needs=_BASIC, switch="sink", formerly=("sink-movements",)),
    Pass("cancel-layout-ops", cancel_layout_ops, needs=_BASIC, switch="cancel"),
    Pass("sink-layout-ops", sink_layout_ops, needs=_BASIC, switch="sink"),  # what had other readers, of layout ops that are gone
    Pass("cancel-layout-ops", cancel_layout_ops, needs=_BASIC, switch="cancel"),
    Pass("hoist-division", hoist_division, needs=_BASIC, switch="hoist"),
    Pass("fold-constants", fold_constants, needs=_BASIC),
    Pass("merge-quantisation", merge_quantisation, needs=_BASIC, switch="merge-quantisation"),
    Pass("fold-constants", fold_constants, needs=_BASIC),
    Pass("mark-runtime-constants", mark_runtime_constants, needs=_BASIC, gives=_CONST),
    Pass("defer-scaling", defer_scaling, needs=_CONST, switch="defer"),
    Pass("keep-compressed", keep_compressed, needs=_CONST, switch=_PACKING, formerly=("keep-narrow", "no-convert-weights")),
    Pass("make-views", make_views, needs=_CONST, gives=_VIEWS),
    Pass("settle-borders", settle_borders, needs=_VIEWS, gives=frozenset({"settled"})),
    Pass("propagate-layout", propagate_layout, needs=_VIEWS | {"settled"}),
    Pass("split-reductions", split_reductions, needs=_VIEWS, switch="split-reductions", formerly=("split-folds", "no-split-folds")),
    Pass("dead-op", dead_op, needs=_BASIC),
    Pass("fuse-fine", fuse_fine, needs=_VIEWS, gives=_FUSED),
    Pass("fuse-coarse", fuse_coarse, needs=_FUSED, switch="coarse"),
    Pass("pack-on-the-fly", pack_on_the_fly, needs=_FUSED, switch=_PACKING, formerly=("convert-weights", "no-convert-weights")),
    Pass("schedule", schedule, needs=_FUSED, gives=frozenset({"scheduled"})),
    Pass(
        "prefetch",
        prefetch,
        needs=frozenset({"scheduled"}),
        switch="prefetch",
        formerly=("prefetch-rows", "prefetch-streams", "fetch-rows", "fetch-streams", "no-fetch"),
    ),
    Pass("non-temporal-stores", non_temporal_stores, needs=_FUSED, switch="non-temporal", formerly=("stream-stores", "no-stream")),
)
