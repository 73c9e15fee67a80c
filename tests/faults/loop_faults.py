"""Mistakes a Tensor IR pass or the lowering could make: wrong bounds, wrong places, memory that holds something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchgraph.core.tensor import dense_strides
from benchgraph.gir.ir import Cut
from benchgraph.lower.region import Span
from benchgraph.tir.ir import (
    Binary,
    BinOp,
    Brgemm,
    Const,
    Expr,
    For,
    Func,
    If,
    Load,
    LoopKind,
    Pack,
    Seq,
    Stmt,
    Store,
    Var,
    flat_slice,
)
from benchgraph.tir.visit import children, map_all_exprs, map_children, map_tensors, rewrite, substitute, tensors, walk
from tests.faults.inject import in_loops, in_place_of

LOWERED = "simplify"  # the first pass: what the lowering made, with tidy indices


def changed(s: Stmt, kind: type, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """s with fn applied to every statement of this kind."""
    s = map_children(s, lambda c: changed(c, kind, fn))
    return fn(s) if isinstance(s, kind) else s


def first(s: Stmt, kind: type, when: Callable[[Stmt], bool] = lambda s: True) -> Stmt:
    return next(c for c in walk(s) if isinstance(c, kind) and when(c))


def innermost(s: Stmt) -> Iterator[For]:
    return (c for c in walk(s) if isinstance(c, For) and not any(isinstance(inner, For) for inner in walk(c.body)))


def exchanged(func: Func, old: Stmt, new: Stmt | None) -> Func:
    """The function with one statement exchanged, or taken out."""

    def visit(s: Stmt) -> Stmt:
        if s is old:
            return Seq(()) if new is None else new
        return map_children(s, visit)

    return replace(func, body=visit(func.body))


@in_loops("op/reduce_max_short_rows.json", after=LOWERED)
def last_iteration_lost(func: Func) -> Func:
    """The last element of each row is not looked at."""
    loop = [*innermost(func.body)][-1]
    return exchanged(func, loop, replace(loop, extent=Const(loop.extent.value - 1)))


@in_loops("pattern/softmax_scaled.json", after="vectorise")
def tail_not_written(func: Func) -> Func:
    """What is left of a row after whole vectors stays as it was."""
    is_output = {p.name for p in func.params}
    tail = [s for s in walk(func.body) if isinstance(s, Store) and s.tensor.name in is_output][-1]
    return exchanged(func, tail, None)


@in_loops("op/softmax.json", after="vectorise")
def masked_tail_not_written(func: Func) -> Func:
    """Rows of 100 end in a vector of which 4 lanes count."""
    is_output = {p.name for p in func.params}
    return exchanged(func, first(func.body, Store, lambda s: s.mask is not None and s.tensor.name in is_output), None)


@in_loops("op/exp_strided.json", after=LOWERED)
def strides_swapped(func: Func) -> Func:
    """A column-major parameter is read as if it were row-major."""
    src = next(p for p in func.params if p.strides != dense_strides(p.shape))
    wrong = replace(src, strides=dense_strides(src.shape))
    params = tuple(wrong if p is src else p for p in func.params)
    return replace(func, params=params, body=map_tensors(func.body, {src.name: wrong}))


@in_loops("op/matmul_square_transposed.json", after=LOWERED, options=("--in-shapes=0:24x16+1:16x16",))  # one panel
def packed_without_transposing(func: Func) -> Func:
    """The copy into panels reads its source [row, column], not [column, row]."""
    pack = first(func.body, Pack)
    return exchanged(func, pack, replace(pack, src=replace(pack.src, axes=pack.src.axes[::-1])))


@in_loops("op/reduce_sum.json", after=LOWERED)
def accumulator_not_cleared(func: Func) -> Func:
    return exchanged(func, first(func.body, Store), None)


@in_loops("pattern/mlp_residual.json", after=LOWERED)
def tile_not_overwritten(func: Func) -> Func:
    """The microkernel adds to what the temporary holds."""
    call = first(func.body, Brgemm)
    return exchanged(func, call, replace(call, accumulate=True))


@in_loops("op/matmul_batched.json", after=LOWERED)
def last_k_lost(func: Func) -> Func:
    return replace(func, body=changed(func.body, Brgemm, lambda s: replace(s, k=s.k - 1)))


@in_loops("op/conv.json", after="flatten-index")
def reduction_split_without_combining(func: Func) -> Func:
    """The entries of a batch go to iterations of a parallel loop, each of which overwrites what another has summed."""
    call = first(func.body, Brgemm, lambda s: bool(s.batch))
    entry = Var("split")

    def moved(piece):  # type: ignore[no-untyped-def]
        return flat_slice(piece.tensor, _plus(piece.offset, entry, piece.strides[2]), piece.strides[:2])

    one = replace(call, src=moved(call.src), wei=moved(call.wei), batch=())
    return exchanged(func, call, For(entry, Const(call.batch[0]), one, LoopKind.parallel))


def _plus(offset: Expr, var: Var, step: int) -> Expr:
    return Binary(BinOp.add, offset, Binary(BinOp.mul, var, Const(step)))


@in_loops("pattern/mlp_residual.json", after="plan-buffers")
def two_live_buffers_in_one_place(func: Func) -> Func:
    """The hidden layer's columns lie where the next product's accumulator does."""
    placed = {t.name: t for t in tensors(func.body) if t.offset is not None}
    return replace(func, body=map_tensors(func.body, {t.name: replace(t, offset=0) for t in placed.values()}))


@in_loops("pattern/mlp_residual.json", after=LOWERED)
def bias_of_the_first_columns_for_all(func: Func) -> Func:
    """A post-op reads its bias by the column in the tile, not in the matrix."""
    bias = next(p for p in func.params if p.shape == (128,))

    def local(e: Expr) -> Expr:
        return replace(e, index=(e.index[0].b,)) if isinstance(e, Load) and e.tensor.name == bias.name else e

    store = first(func.body, Store)
    return exchanged(func, store, replace(store, value=rewrite(store.value, local)))


@in_loops("pattern/mlp_residual.json", after=LOWERED)
def panel_of_the_first_columns_for_all(func: Func) -> Func:
    """The microkernel is given the first column panel of the packed weights every time."""
    call = first(func.body, Brgemm)
    return exchanged(func, call, replace(call, wei=replace(call.wei, index=(Const(0), *call.wei.index[1:]))))


LONG_SUMS = "--in-shapes=0:5x1024+1:1024x128+2:64x128+3:64x128"


@in_loops("pattern/matmul_s4_weights_that_change.json", after=LOWERED, options=(LONG_SUMS,))
def sum_begins_anew_with_each_piece(func: Func) -> Func:
    """Of weights that are converted in pieces of k, the last piece alone is in the result."""
    return replace(func, body=changed(func.body, Brgemm, lambda s: replace(s, accumulate=False)))


@in_place_of("benchgraph.lower.pack_on_the_fly._span", "pattern/matmul_s4_weights_that_change.json")
def every_piece_is_the_first(cut: Cut, outer: Expr, count: int, tile: int) -> Span:
    """Weights, scales and zero points of the first rows and columns are taken for all."""
    return Span(Const(count // cut.unit), Const(0), tile // cut.unit)


@in_loops("complex_fusion/attention_causal_mask.json", after=LOWERED, options=("--threads=16",))
def last_rows_of_the_last_task_lost(func: Func) -> Func:
    """33 rows in tasks of 17: the shorter last task computes nothing."""

    def whole_tasks_only(s: Stmt) -> Stmt:
        return replace(s, orelse=None) if any(isinstance(c, Brgemm) for c in children(s)) else s

    return replace(func, body=changed(func.body, If, whole_tasks_only))


@in_loops("op/maxpool.json", after=LOWERED)
def fold_of_a_window_starts_at_zero(func: Func) -> Func:
    """Where every number of a window is negative, the largest is not 0."""

    def from_zero(s: Stmt) -> Stmt:
        is_start = isinstance(s.value, Const) and s.value.value == float("-inf")
        return replace(s, value=replace(s.value, value=0.0)) if is_start else s

    return replace(func, body=changed(func.body, Store, from_zero))


@in_loops("mlp.json", after="attach-post-ops")
def post_ops_of_every_vector_take_the_first_ones(func: Func) -> Func:
    """The numbers of the first columns stand for those of all: the vector is forgotten where something is loaded."""

    def forgotten(s: Stmt) -> Stmt:
        if s.post_ops is None:
            return s
        first = {s.post_ops.vector.name: Const(0)}
        read = map_all_exprs(s.post_ops.body, lambda e: rewrite(e, lambda x: substitute(x, first) if is_of_columns(x) else x))
        return replace(s, post_ops=replace(s.post_ops, body=read))

    def is_of_columns(e: Expr) -> bool:
        return isinstance(e, Load) and any(e.tensor.name == p.name for p in func.params)

    return replace(func, body=changed(func.body, Brgemm, forgotten))
