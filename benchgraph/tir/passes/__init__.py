"""The Tensor IR pipeline, in order. One file per pass; each maps a function to a function."""

from __future__ import annotations

from collections.abc import Collection

from benchgraph.core import passes as core
from benchgraph.core.passes import Observer, Pass, print_stage
from benchgraph.core.target import Target
from benchgraph.tir.ir import Func
from benchgraph.tir.passes.attach_post_ops import attach_post_ops
from benchgraph.tir.passes.collapse_parallel import collapse_parallel
from benchgraph.tir.passes.draw_ahead import draw_ahead
from benchgraph.tir.passes.fetch_rows import fetch_rows
from benchgraph.tir.passes.fetch_streams import fetch_streams
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.interleave_rows import interleave_rows
from benchgraph.tir.passes.jam_rows import jam_rows
from benchgraph.tir.passes.mark_inplace import mark_inplace
from benchgraph.tir.passes.merge_blocks import merge_blocks
from benchgraph.tir.passes.merge_parallel import merge_parallel
from benchgraph.tir.passes.pad_rows import pad_rows
from benchgraph.tir.passes.plan_buffers import PlanReport, plan_buffers, plan_report
from benchgraph.tir.passes.privatise import privatise
from benchgraph.tir.passes.shrink_tensors import shrink_tensors
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.passes.stream_stores import stream_stores
from benchgraph.tir.passes.turn_copies import turn_copies
from benchgraph.tir.passes.turn_loops import turn_loops
from benchgraph.tir.passes.turn_reads import turn_reads
from benchgraph.tir.passes.unroll_digits import unroll_digits
from benchgraph.tir.passes.vectorize import vectorize
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify

__all__ = ["PIPELINE", "PlanReport", "plan_report", "run"]


_CANONICAL, _FLAT, _ONE_LEVEL = frozenset({"canonical-indices"}), frozenset({"flat"}), frozenset({"one-parallel-level"})

PIPELINE: tuple[Pass[Func], ...] = (
    Pass("simplify", simplify, gives=_CANONICAL),
    Pass("merge-parallel", merge_parallel, needs=_CANONICAL, switch="coarse"),
    Pass("collapse-parallel", collapse_parallel, needs=_CANONICAL, gives=_ONE_LEVEL),
    Pass(
        "privatise", privatise, needs=_CANONICAL | _ONE_LEVEL, switch="privatise", formerly=("make-private",), switch_formerly=("private",)
    ),
    Pass("shrink-tensors", shrink_tensors, needs=_CANONICAL | _ONE_LEVEL, gives=frozenset({"shrunk"}), switch="shrink"),
    Pass("interleave-rows", interleave_rows, needs=_CANONICAL | {"shrunk"}, switch="interleave"),
    Pass("jam-rows", jam_rows, needs=_CANONICAL | {"shrunk"}, switch="jam"),
    Pass("pad-rows", pad_rows, needs=_CANONICAL | {"shrunk"}, switch="pad"),
    Pass("flatten-index", flatten_index, needs=_CANONICAL | {"shrunk"}, gives=_FLAT),
    Pass("merge-blocks", merge_blocks, needs=_FLAT | _ONE_LEVEL, switch="coarse"),
    Pass("mark-inplace", mark_inplace, needs=_CANONICAL | _FLAT, switch="inplace"),
    Pass("turn-loops", turn_loops, needs=_FLAT, switch="turn"),
    Pass("turn-reads", turn_reads, needs=_FLAT, switch="turn"),
    Pass("draw-ahead", draw_ahead, needs=_FLAT, switch="draw"),
    Pass("plan-buffers", plan_buffers, needs=_FLAT | _ONE_LEVEL, gives=frozenset({"planned"})),
    Pass("turn-copies", turn_copies, needs=_FLAT | {"planned"}, switch="turn"),
    Pass("unroll-digits", unroll_digits, needs=_FLAT | {"planned"}, switch="unroll"),
    Pass("vectorize", vectorize, needs=_FLAT | {"planned"}, switch="vectorize"),  # planned: it must know which buffers share bytes
    Pass("simplify", simplify),
    Pass("attach-post-ops", attach_post_ops, needs=_FLAT | {"planned"}, switch="attach"),
    Pass("fetch-rows", fetch_rows, needs=_FLAT | {"planned"}, switch="fetch"),
    Pass("fetch-streams", fetch_streams, needs=_FLAT | {"planned"}, switch="fetch"),
    Pass("stream-stores", stream_stores, needs=_FLAT, switch="stream"),
)


def run(
    func: Func,
    target: Target,
    observe: Observer = print_stage,
    pipeline: tuple[Pass[Func], ...] = PIPELINE,
    off: Collection[str] = (),
) -> Func:
    """The function after the pipeline, or after a slice of it. off: switches of passes to leave out."""
    return core.run(pipeline, func, target, show=print_tir, verify=verify, observe=observe, off=off)
