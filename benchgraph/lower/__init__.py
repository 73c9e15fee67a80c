"""Graph IR to Tensor IR: each fused op becomes one parallel loop nest, by the template that fits it.

Addresses and pointwise code, for all templates:
    storage.py               where values are stored: from logical coordinates, through views and layouts, to tensor elements
    region.py                pointwise ops, reductions and layout ops on a region of a nest
    rematerialise.py         rematerialisation of values that a later phase of a region reads
The GEMM template (products):
    gemm_task.py             one task of a GEMM nest: its loops, and addresses inside it
    panel_packing.py         packing weights into panels
    src_packing.py           packing a column-major src
    taps.py                  skipping taps of convolutions that multiply only zeros
    microkernel.py           the microkernel calls of a task, and what they prefetch
    gemv.py                  matrix times vector, skinny products
    epilogue.py              post-ops at their anchors
    pack_on_the_fly.py       weights that are packed block by block in the nest
    split_k.py               products that reduce over the nest's rows (split-K)
    gemm.py                  the template
    flash_attention.py       two products and a softmax in one pass
Nests without a product:
    parallel_reduction.py    split reductions: tasks reduce parts of the rows
    loops.py                 the template, by the nest's schedule
Windows (pooling, depthwise convolution, interpolation):
    window_loops.py          the loops of a schedule, over windows and over taps
    windows.py               the template, and planes that are copied with their padding
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.layout import Layout
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.lower.flash_attention import FlashAttentionNest
from benchgraph.lower.gemm import GemmNest
from benchgraph.lower.loops import LoopNest
from benchgraph.lower.storage import Storage
from benchgraph.lower.windows import lower_windows
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Alloc, Func, Shared, Stmt, Tensor


@dataclass(frozen=True)
class Lowered:
    """A partition as Tensor IR, and how its functions are called.

    main's params are (inputs, outputs, constants), init's (inputs at positions init_inputs, constants). constants: buffers that the
    executable owns; literals[i] is the initial data of constants[i], None where init computes it. layouts: of the outputs. lower_init:
    None where nothing runs once.
    """

    main: Func
    lower_init: Callable[[], Func] | None = field(repr=False)
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    literals: tuple[NDArray[np.generic] | None, ...]
    init_inputs: tuple[int, ...]
    layouts: tuple[Layout, ...]

    def functions(self) -> Iterator[Func]:
        """main, then init if there is one, which is lowered on demand: LLVM can compile main meanwhile."""
        yield self.main
        if self.lower_init is not None:
            yield self.lower_init()


def lower(g: Graph) -> Lowered:
    """Nests whose results are constant go to init, the others to main."""
    init_nodes, main_nodes = ([n for n in g.nests if g.is_init(n) == is_init] for is_init in (True, False))
    init_results = {v for n in init_nodes for v in n.outs}
    # compile-time constants of more than one element need buffers
    read = (g.value(g.root(v)) for n in g.nests for v in n.ins)
    literals = dict.fromkeys(v.id for v in read if v.literal is not None and v.type.elements > 1)
    constants = (*literals, *dict.fromkeys(v for n in main_nodes for v in n.ins if v in init_results))
    init_inputs = tuple(i for i, v in enumerate(g.ins) if any(v in n.ins for n in init_nodes))
    init_params = (*(g.ins[i] for i in init_inputs), *constants)
    main = _function("main", g, main_nodes, (*g.ins, *g.outs, *constants))
    init = partial(_function, "init", g, init_nodes, init_params, runs_once=True) if init_nodes else None
    storage = Storage(g)
    return Lowered(
        main,
        init,
        inputs=tuple(storage.declare(v) for v in g.ins),
        outputs=tuple(storage.declare(v) for v in g.outs),
        constants=tuple(storage.declare(v) for v in constants),
        literals=tuple(data.array if (data := g.value(v).literal) is not None else None for v in constants),
        init_inputs=init_inputs,
        layouts=tuple(g.value(v).layout for v in g.outs),
    )


def _function(name: str, g: Graph, nodes: list[FusedOp], params: tuple[int, ...], *, runs_once: bool = False) -> Func:
    storage = Storage(g)
    tensors = tuple(storage.declare(v) for v in params)
    nests: list[Stmt] = [_nest(storage, node) for node in nodes]
    allocs = (Alloc(t) for t in storage.temporaries.values())
    prefetched = dict.fromkeys(storage.declare(v).name for node in nodes for v in node.prefetched)
    streams = max((stage.parameters.stream_bytes for node in nodes for stage in node.stages if stage.parameters is not None), default=0)
    return Func(
        name,
        tensors,
        seq(*allocs, *nests),
        runs_once,
        prefetched=tuple(prefetched),
        stream_bytes=streams if prefetched else 0,
        shared=tuple(Shared(tuple(storage.declare(v).name for v in n.shared), n.blocks, n.by_rows) for n in nodes if n.shared),
        tasks=g.tasks,
    )


def _nest(storage: Storage, node: FusedOp) -> Stmt:
    storage.uncached = frozenset(node.non_temporal)
    if any(stage.is_product for stage in node.stages):
        return (FlashAttentionNest if node.score_columns else GemmNest)(storage, node).lower()
    return lower_windows(storage, node) if node.ops[0].lowering.is_window else LoopNest(storage, node).lower()
