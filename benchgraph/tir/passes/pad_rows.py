"""pad-rows: rows of temporaries that loops go along become whole vectors.

    alloc t: f32[7,7] thread                        ->  alloc t: f32[7,8], 1 spare thread
    for i in 7 { for j in 7 { t[i, j] = exp(x[i, j]) } }

The last vector of a row whose neighbour holds something is stored under a mask, and a processor does not forward such a store to the loads
behind it. What is spare is overwritten at will: vectorize stores and loads the last vector of a row whole. So all accesses are along whole
rows, from the first element on, or to one element. What a microkernel reads is left as it is, since that wants its own order, and what one
writes: numbers that memory happens to hold in what is spare might be slow to compute with.

Softmax over axis 2 of f32[64,512,7,7], one thread of a Zen 4: 3.6 ms without this and vectors of 8 lanes (lanes_for), 1.35 with both, 3.2
with the latter alone. LayerNorm of such rows 1.8 and 0.98, of rows of 28, its gradients, 4.5 and 3.25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchgraph.core.target import Target, lanes_for
from benchgraph.core.tensor import dense_strides
from benchgraph.tir.ir import Alloc, Brgemm, Const, Expr, For, Func, Pack, Scope, Stmt, Store, Tensor, Var
from benchgraph.tir.operands import operands
from benchgraph.tir.visit import children, exprs, loads_of, map_tensors, variables, walk


def pad_rows(f: Func, target: Target) -> Func:
    padded = {s.tensor.name: new for s in walk(f.body) if isinstance(s, Alloc) and (new := _padded(s.tensor, target.lanes)) is not None}
    for name in {*_used_otherwise(f.body, {}, padded)} if padded else ():
        del padded[name]
    return replace(f, body=map_tensors(f.body, padded)) if padded else f


def _padded(t: Tensor, most_lanes: int) -> Tensor | None:
    """The temporary with rows of whole vectors; None where they are such, or would be less than half full."""
    if t.scope is not Scope.thread or not t.shape or t.strides != dense_strides(t.shape):
        return None
    row = t.shape[-1]
    padding = -row % lanes_for(row, most_lanes)
    if not 0 < padding <= row:
        return None
    shape = (*t.shape[:-1], row + padding)
    return replace(t, shape=shape, strides=dense_strides(shape), padding=padding)


def _used_otherwise(s: Stmt, extents: Mapping[str, Expr], padded: Mapping[str, Tensor]) -> Iterator[str]:
    """Names of tensors that are read or written in other ways than along whole rows or element by element, or by kernels.

    extents: of the loops around.
    """
    for e in exprs(s):
        yield from (x.tensor.name for x in loads_of(e) if x.tensor.name in padded and not _is_row(padded[x.tensor.name], x.index, extents))
    match s:
        case Store() if s.tensor.name in padded and not _is_row(padded[s.tensor.name], s.index, extents):
            yield s.tensor.name
        case Brgemm() | Pack():
            yield from (o.piece.tensor.name for o in operands(s) if o.piece.tensor.name in padded)
    within = {**extents, s.var.name: s.extent} if isinstance(s, For) else extents
    for c in children(s):
        yield from _used_otherwise(c, within, padded)


def _is_row(t: Tensor, index: tuple[Expr, ...], extents: Mapping[str, Expr]) -> bool:
    """Whether the last index is a variable that goes along all of a row and nowhere else, or a number."""
    *others, last = index
    if not isinstance(last, Var):
        return isinstance(last, Const)
    goes_along = extents.get(last.name) == Const(t.shape[-1] - t.padding)
    return goes_along and not any(last.name in variables(i) for i in others)
