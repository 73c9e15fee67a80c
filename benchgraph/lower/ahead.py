"""What the microkernel calls of a task fetch for whatever comes next: the next entry, the next task's rows, the next panel of weights.

Each call fetches its share, a line now and then, and all calls of a task or of an entry together all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from benchgraph.core.target import LINE_BYTES
from benchgraph.gir.ir import Op
from benchgraph.gir.product import product
from benchgraph.lower.access import ZERO, Coord
from benchgraph.ops import spec
from benchgraph.tir.build import add, minimum, mul
from benchgraph.tir.ir import Const, Expr, Prefetch

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


def fetched_ahead(nest: GemmNest, op: Op, no: Expr, nb: int) -> Iterator[Prefetch]:
    """What the call of a product for block `no` of nb columns fetches. Several products of a nest share its operands among them."""
    blocks = ceil(nest.g.value(op.outs[0]).shape[-1] / nb)
    call, calls = add(mul(nest.mo, blocks), no), ceil(nest.m / nest.mb) * blocks
    for id in _share(nest, nest.node.next_entry, op):
        v, begin = nest.g.value(id), (*nest.batch[:-1], add(nest.batch[-1], 1), ZERO)
        yield _part(nest, id, v.shape[-1] * v.shape[-2], begin, call, calls)
    begin = (*nest.batch, minimum(add(mul(nest.mo, nest.mb), nest.mb), Const(nest.m)))  # the next entry's first rows, behind the last
    for id in _share(nest, nest.node.next_rows, op):
        yield _part(nest, id, nest.mb * nest.g.value(id).shape[-1], begin, no, blocks)
    stage = next(s for s in nest.node.stages if s.ops[0] is op)
    if stage.parameters is not None and stage.parameters.ahead:
        p = product(nest.g, op)
        panel = nest.operand(op, p, 1, nest.start(add(no, 1), nb), Coord(ZERO))
        yield Prefetch(panel.tensor, panel.index, ceil(panel.tensor.dtype.nbytes(p.reduced[-1] * nb) / LINE_BYTES))


def _share(nest: GemmNest, ids: tuple[int, ...], op: Op) -> tuple[int, ...]:
    """Those that this product's calls see to."""
    products = [s.ops[0] for s in nest.node.stages if spec(s.ops[0].kind).lowering.is_contraction and not s.sums_rows]
    return ids[products.index(op) :: len(products)]


def _part(nest: GemmNest, id: int, elements: int, begin: tuple[Expr, ...], call: Expr, calls: int) -> Prefetch:
    """What one call of so many fetches of elements that lie side by side."""
    dtype = nest.g.value(id).dtype
    lines = ceil(dtype.nbytes(elements) / (LINE_BYTES * calls))
    return Prefetch(nest.storage.tensor(id), (*begin, mul(call, lines * LINE_BYTES * 8 // dtype.bits)), lines)
