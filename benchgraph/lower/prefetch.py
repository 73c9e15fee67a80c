"""Software prefetch by microkernel calls: the next batch entry, the next task's rows, the next panel of weights.

Each call prefetches its share, a cache line now and then; all calls of a task, or of a batch entry, together prefetch everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from benchgraph.gir.ir import Op
from benchgraph.gir.product import product
from benchgraph.lower.gemm_task import GemmTask
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.machine.target import LINE_BYTES
from benchgraph.tir.build import add, minimum, mul
from benchgraph.tir.ir import Const, Expr, Prefetch


def prefetches(task: GemmTask, op: Op, no: Expr, nb: int) -> Iterator[Prefetch]:
    """What the call of a product for its no-th block of nb columns prefetches."""
    blocks = ceil(task.g.value(op.outs[0]).shape[-1] / nb)
    call, calls = add(mul(task.mo, blocks), no), ceil(task.m / task.mb) * blocks
    for id in _operands_of(task, task.node.prefetched_entries, op):
        v, begin = task.g.value(id), (*task.batch[:-1], add(task.batch[-1], 1), ZERO)
        yield _share(task, id, v.shape[-1] * v.shape[-2], begin, call, calls)
    begin = (*task.batch, minimum(add(mul(task.mo, task.mb), task.mb), Const(task.m)))  # after the last task, the next entry's first rows
    for id in _operands_of(task, task.node.prefetched_rows, op):
        yield _share(task, id, task.mb * task.g.value(id).shape[-1], begin, no, blocks)
    stage = next(s for s in task.node.stages if s.ops[0] is op)
    if stage.parameters is not None and stage.parameters.prefetch:
        panel = task.operand(op, 1, task.start(add(no, 1), nb), Coord(ZERO))
        size = panel.tensor.dtype.nbytes(product(task.g, op).reduced[-1] * nb)
        yield Prefetch(panel.tensor, panel.index, ceil(size / LINE_BYTES))


def _operands_of(task: GemmTask, ids: tuple[int, ...], op: Op) -> tuple[int, ...]:
    """The operands that this product's calls prefetch: the nest's products share them out."""
    products = [s.ops[0] for s in task.node.stages if s.ops[0].lowering.is_contraction and not s.reduces_rows]
    return ids[products.index(op) :: len(products)]


def _share(task: GemmTask, id: int, elements: int, begin: tuple[Expr, ...], call: Expr, calls: int) -> Prefetch:
    """The part of so many contiguous elements that one of `calls` calls prefetches."""
    dtype = task.g.value(id).dtype
    lines = ceil(dtype.nbytes(elements) / (LINE_BYTES * calls))
    return Prefetch(task.storage.tensor(id), (*begin, mul(call, lines * LINE_BYTES * 8 // dtype.bits)), lines)
