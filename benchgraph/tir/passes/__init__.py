"""The Tensor IR pipeline, in order. One file per pass; each maps a function to a function.

simplify.py            canonical indices, folded constants, no loops of at most one iteration, no branches whose condition is known
merge_parallel.py      adjacent parallel loops are fused, level by level
collapse_parallel.py   perfectly nested parallel loops become one; parallel loops left inside it become serial
shrink_tensors.py      a temporary is declared in the innermost block that has all its uses, with the shape that one iteration needs
pad_rows.py            rows of temporaries are padded to whole vectors
flatten_index.py       every tensor becomes 1-d, every index a linear offset in elements
merge_blocks.py        adjacent parallel loops that read the same memory are fused into the blocks of it that the function names
unroll_and_jam.py      several iterations of a loop that its schedule unrolls are computed together, and their inner loops fused
mark_inplace.py        pairs of parameters for which the caller may pass the same memory
interchange_loops.py   loops whose stores are strided along the inner one are interchanged
transpose.py           two loops that transpose a matrix become one statement, and so do copies of what loops read with a stride
plan_buffers.py        temporaries get offsets in two arenas, one per call (shared) and one per thread, reusing bytes of dead ones
unroll_divisions.py    loops that divide or take remainders of their variable are unrolled, so that quotients become constants
vectorise.py           serial loops, mostly innermost ones, run in vectors of target.lanes elements, with a masked vector for the
                       remainder
attach_post_ops.py     pointwise ops on the result of a microkernel run on its registers
insert_prefetches.py   loops prefetch what later iterations read sequentially of the function's prefetched parameters
whole_lines.py         what is not stored in whole lines is not stored past the caches
"""

from __future__ import annotations

from collections.abc import Collection

from benchgraph.core import passes as core
from benchgraph.core.passes import Observer, Pass, print_stage
from benchgraph.machine.target import Target
from benchgraph.tir.ir import Func
from benchgraph.tir.passes.attach_post_ops import attach_post_ops
from benchgraph.tir.passes.collapse_parallel import collapse_parallel
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.insert_prefetches import insert_prefetches
from benchgraph.tir.passes.interchange_loops import interchange_loops
from benchgraph.tir.passes.mark_inplace import mark_inplace
from benchgraph.tir.passes.merge_blocks import merge_blocks
from benchgraph.tir.passes.merge_parallel import merge_parallel
from benchgraph.tir.passes.pad_rows import pad_rows
from benchgraph.tir.passes.plan_buffers import plan_buffers
from benchgraph.tir.passes.shrink_tensors import shrink_tensors
from benchgraph.tir.passes.simplify import simplify
from benchgraph.tir.passes.transpose import transpose
from benchgraph.tir.passes.unroll_and_jam import unroll_and_jam
from benchgraph.tir.passes.unroll_divisions import unroll_divisions
from benchgraph.tir.passes.vectorise import vectorise
from benchgraph.tir.passes.whole_lines import whole_lines
from benchgraph.tir.text import print_tir
from benchgraph.tir.verify import verify

__all__ = ["PIPELINE", "run"]


_CANONICAL, _FLAT, _ONE_LEVEL = frozenset({"canonical-indices"}), frozenset({"flat"}), frozenset({"one-parallel-level"})

PIPELINE: tuple[Pass[Func], ...] = (
    Pass("simplify", simplify, gives=_CANONICAL),
    Pass("merge-parallel", merge_parallel, needs=_CANONICAL, switch="coarse"),
    Pass("collapse-parallel", collapse_parallel, needs=_CANONICAL, gives=_ONE_LEVEL),
    Pass("shrink-tensors", shrink_tensors, needs=_CANONICAL | _ONE_LEVEL, gives=frozenset({"shrunk"}), switch="shrink"),
    Pass("pad-rows", pad_rows, needs=_CANONICAL | {"shrunk"}, switch="pad"),
    Pass("flatten-index", flatten_index, needs=_CANONICAL | {"shrunk"}, gives=_FLAT),
    Pass("merge-blocks", merge_blocks, needs=_FLAT | _ONE_LEVEL, switch="coarse"),
    # It would keep merge-blocks from fusing loops over rows.
    Pass(
        "unroll-and-jam",
        unroll_and_jam,
        needs=_CANONICAL | {"shrunk"},
        switch="jam",
        formerly=("jam-rows", "unroll-and-interleave", "interleave-rows", "no-interleave"),
    ),
    Pass("mark-inplace", mark_inplace, needs=_CANONICAL | _FLAT, switch="inplace"),
    Pass("interchange-loops", interchange_loops, needs=_FLAT, switch="transpose", formerly=("turn-loops", "no-turn")),
    Pass(
        "transpose",
        transpose,
        needs=_FLAT,
        switch="transpose",
        formerly=("transpose-reads", "transpose-copies", "turn-reads", "turn-copies", "no-turn"),
    ),
    Pass("plan-buffers", plan_buffers, needs=_FLAT | _ONE_LEVEL, gives=frozenset({"planned"})),
    Pass("unroll-divisions", unroll_divisions, needs=_FLAT | {"planned"}, switch="unroll", formerly=("unroll-digits",)),
    # It must know which buffers share bytes, hence planned.
    Pass(
        "vectorise",
        vectorise,
        needs=_FLAT | {"planned"},
        switch="vectorise",
        formerly=("vectorize", "vectorise-random", "draw-ahead", "no-vectorize", "no-vectorise-random", "no-draw"),
    ),
    Pass("simplify", simplify),
    Pass("attach-post-ops", attach_post_ops, needs=_FLAT | {"planned"}, switch="attach"),
    Pass("insert-prefetches", insert_prefetches, needs=_FLAT | {"planned"}),
    Pass("whole-lines", whole_lines, needs=_FLAT),
)


def run(
    func: Func, target: Target, observe: Observer = print_stage, pipeline: tuple[Pass[Func], ...] = PIPELINE, off: Collection[str] = ()
) -> Func:
    """The function after the pipeline, or after a slice of it. off: switches of passes to leave out."""
    return core.run(pipeline, func, target, show=print_tir, verify=verify, observe=observe, off=off)
