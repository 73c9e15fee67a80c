"""pad-rows: rows of temporaries are padded to whole vectors.

    alloc t: f32[7,7] thread                        ->  alloc t: f32[7,8], 1 spare thread
    for i in 7 { for j in 7 { t[i, j] = exp(x[i, j]) } }

vectorise then stores and loads the last vector of a row whole. Under a mask, processors would not forward the store to the loads behind it.
All accesses must be to whole rows, from the first element on, or to one element. Operands of microkernels stay, as they have layouts of
their own, and so do their results, and rows whose elements are stored one by one, since divisions have no vectors: computing with arbitrary
bits in the padding may be slow.
Measurements: docs/measurements/vectorisation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchgraph.core.tensor import dense_strides
from benchgraph.machine.target import Target, lanes_for
from benchgraph.tir.ir import Alloc, Brgemm, Const, Expr, For, Func, Pack, Scope, Stmt, Store, Tensor, Var
from benchgraph.tir.operands import operands
from benchgraph.tir.vector_loops import is_power_of_two
from benchgraph.tir.visit import children, divisions_of, exprs, loads_of, map_tensors, variables, walk


def pad_rows(f: Func, target: Target) -> Func:
    padded = {s.tensor.name: new for s in walk(f.body) if isinstance(s, Alloc) and (new := _padded(s.tensor, target.lanes)) is not None}
    for name in {*_not_by_rows(f.body, {}, padded)} if padded else ():
        del padded[name]
    return replace(f, body=map_tensors(f.body, padded)) if padded else f


def _padded(t: Tensor, most_lanes: int) -> Tensor | None:
    """The temporary with padded rows; None if they are whole vectors, or would be less than half full."""
    if t.scope is not Scope.thread or not t.shape or t.strides != dense_strides(t.shape):
        return None
    row = t.shape[-1]
    padding = -row % lanes_for(row, most_lanes)
    if not 0 < padding <= row:
        return None
    shape = (*t.shape[:-1], row + padding)
    return replace(t, shape=shape, strides=dense_strides(shape), padding=padding)


def _not_by_rows(s: Stmt, extents: Mapping[str, Expr], padded: Mapping[str, Tensor]) -> Iterator[str]:
    """Names of tensors that are accessed neither by whole rows nor by single elements. extents: of the loops around."""
    for e in exprs(s):
        yield from (x.tensor.name for x in loads_of(e) if x.tensor.name in padded and not _is_row(padded[x.tensor.name], x.index, extents))
    match s:
        case Store() if s.tensor.name in padded and (_divides(s) or not _is_row(padded[s.tensor.name], s.index, extents)):
            yield s.tensor.name
        case Brgemm() | Pack():
            yield from (o.slice.tensor.name for o in operands(s) if o.slice.tensor.name in padded)
    within = {**extents, s.var.name: s.extent} if isinstance(s, For) else extents
    for c in children(s):
        yield from _not_by_rows(c, within, padded)


def _divides(s: Store) -> bool:
    """Whether what is stored depends on a quotient or remainder of its index in the row, so that rows are not stored in vectors."""
    return any(variables(e) & variables(s.index[-1]) and not is_power_of_two(e.b) for e in divisions_of(s.value))


def _is_row(t: Tensor, index: tuple[Expr, ...], extents: Mapping[str, Expr]) -> bool:
    """Whether the last index is a constant, or a variable that runs over the whole row and occurs in no other index."""
    *others, last = index
    if not isinstance(last, Var):
        return isinstance(last, Const)
    is_whole_row = extents.get(last.name) == Const(t.shape[-1] - t.padding)
    return is_whole_row and not any(last.name in variables(i) for i in others)
