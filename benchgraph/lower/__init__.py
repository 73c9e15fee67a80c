"""Graph IR to Tensor IR: each fused op becomes one parallel loop nest, by the template that fits it.

access.py   values -> tensor elements, through views and layouts
region.py   fusible ops on a region          gemm.py     the GEMM template with its anchors
online.py   attention's two products in one pass over the scores
held.py     products whose weights L2 holds in parts, one after the other
thin.py     products with a vector, or few rows of columns: along k, or with rows for columns
along_rows.py   products whose elements of one column lie side by side (turned.py), or those of a few columns (woven.py)
loops.py    nests without a tunable op       windows.py  folds over a small box of taps: pooling, interpolation
runs.py     the order of their loops         folds.py    folds of everything, or all but the last axis
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.layout import Layout
from benchgraph.gir.ir import Fused, Graph
from benchgraph.lower.access import Storage
from benchgraph.lower.gemm import GemmNest
from benchgraph.lower.loops import lower_loops
from benchgraph.lower.online import OnlineNest
from benchgraph.lower.windows import lower_windows
from benchgraph.ops import spec
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Alloc, Func, Stmt, Tensor


@dataclass(frozen=True)
class Lowered:
    """A partition as Tensor IR, and how its functions are called.

    main's params are (inputs, outputs, constants), init's (inputs at positions init_inputs, constants). constants are buffers of ours
    that outlive the call; literals[i] is the data constants[i] starts with, None for those that init fills. layouts: of the outputs.
    lower_init: None where nothing runs once.
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
        """main, then init if there is one, which is lowered only when it is asked for: LLVM can be at main by then."""
        yield self.main
        if self.lower_init is not None:
            yield self.lower_init()


def lower(g: Graph) -> Lowered:
    """Nests whose results are constant go to init, the others to main."""
    nodes = [n for n in g.nodes if isinstance(n, Fused)]
    once = [n for n in nodes if g.value(n.outs[0]).is_constant]
    always = [n for n in nodes if not g.value(n.outs[0]).is_constant]
    made = {v for n in once for v in n.outs}
    literal = {r: None for n in nodes for v in n.ins if _is_table(g, r := g.root(v))}
    kept = tuple(dict.fromkeys(v for n in always for v in n.ins if v in made))
    constants = (*literal, *kept)
    init_inputs = tuple(i for i, v in enumerate(g.ins) if any(v in n.ins for n in once))
    main = _function("main", g, always, (*g.ins, *g.outs, *constants))
    init = partial(_function, "init", g, once, (*(g.ins[i] for i in init_inputs), *constants), runs_once=True) if once else None
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


def _is_table(g: Graph, id: int) -> bool:
    """A compile-time constant of more than one element: it needs a buffer."""
    v = g.value(id)
    return v.literal is not None and v.type.elements > 1


def _function(name: str, g: Graph, nodes: list[Fused], params: tuple[int, ...], *, runs_once: bool = False) -> Func:
    storage = Storage(g)
    tensors = tuple(storage.declare(v) for v in params)
    nests: list[Stmt] = [_nest(storage, node) for node in nodes]
    allocs = (Alloc(t) for t in storage.temporaries.values())
    return Func(name, tensors, seq(*allocs, *nests), runs_once)


def _nest(storage: Storage, node: Fused) -> Stmt:
    if any(spec(op.kind).lowering.is_contraction for op in node.ops):
        return (OnlineNest if node.step else GemmNest)(storage, node).lower()
    return lower_windows(storage, node) if spec(node.ops[0].kind).lowering.is_window else lower_loops(storage, node)
