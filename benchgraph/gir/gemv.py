"""GEMV and skinny GEMM: products of one column, and of few rows by weights stored by columns, which need no packed panels.

A microkernel's vectors run along columns, so one column would use one lane. Instead vectors run along k (dot products) or along rows
(axpy).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.gemm_nest import gemm_nest, packed_from
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.product import K, M, N, Product, buffer_axes, has_unit_stride, k_group, operand_axes, product, result_axes, stride
from benchgraph.machine.target import PAGE_BYTES, Target
from benchgraph.schedule.choose import choose
from benchgraph.schedule.elements import Access, ElementNest
from benchgraph.schedule.gemm import Source
from benchgraph.schedule.limits import ranks_dot_products, unrolled_columns
from benchgraph.schedule.steps import alone

LONG_BYTES = PAGE_BYTES // 4  # of rows or columns that are apart: shorter ones are not read well


class Gemv(Enum):
    """dot: vectors run along k, which has unit stride in src and wei. axpy: along rows, which have unit stride in src and the result."""

    dot = "dot"
    axpy = "axpy"


@memoised_within
def gemv_form(g: Graph, op: Op) -> Gemv | None:
    """How a product is computed without a microkernel. None for other shapes, sums over more than k, and operands stored otherwise; among
    these are weights that propagate-layout has packed (`pays_as_dots`)."""
    n = g.value(op.outs[0]).shape[-1]
    p = product(g, op)
    if not p.is_matrix_product or (n > 1 and (k_group(g, op) > 1 or not is_input_for_rows(g, op, op.ins[1]))):
        return None
    src, wei = (buffer_axes(g, v, index, axes) for v, index, axes in zip(op.ins, p.operands, ((M, K), (N, K)), strict=True))
    if src is None or wei is None or (n > 1 and operand_axes(g, op, 1) is not None):
        return None
    if has_unit_stride(g, op.ins[0], src[1]) and has_unit_stride(g, op.ins[1], wei[1]):
        return Gemv.dot if n == 1 or is_streamable(p.reduced[-1], stride(g, op.ins[1], wei[0]), g.value(op.ins[1]).dtype) else None
    dst = result_axes(g, op) if n == 1 else None
    is_dense = dst is not None and dst[0][1] == 1 and has_unit_stride(g, op.outs[0], dst[0]) and has_unit_stride(g, op.ins[0], src[0])
    is_f32 = all(g.value(g.root(v)).dtype is DType.f32 for v in (*op.ins, *op.outs))
    return Gemv.axpy if is_dense and is_f32 else None


def dot_nest(g: Graph, op: Op) -> ElementNest | None:
    """A product of one column as rows of src, or of few rows as columns of wei, that are reduced; None for products by a microkernel."""
    if not op.lowering.is_contraction or gemv_form(g, op) is not Gemv.dot:
        return None
    *batch, m, n = g.value(op.outs[0]).shape
    k, sums, (many, few) = product(g, op).reduced[-1], 1 if n == 1 else m, op.ins if n == 1 else reversed(op.ins)
    reads = (Access(v, g.value(g.root(v)).dtype.bits, (step, 1), 0) for v, step in ((many, k), *([(few, 0)] * sums)))
    return ElementNest((prod(batch) * m * n // sums, k), frozenset({1}), tuple(reads), (2 * sums,), (sums,), is_pointwise=False)


def is_streamable(size: int, apart: int, dtype: DType) -> bool:
    """Whether memory is read at full speed in rows, or columns, of so many elements, so many apart: they follow each other, or are long.
    docs/measurements/gemv.md, Rows"""
    return apart == size or dtype.nbytes(size) >= LONG_BYTES


def is_input_for_rows(g: Graph, op: Op, wei: int) -> bool:
    """Whether each matrix of weights of a product is made of `wei`, which is an input that is not constant."""
    p, source = product(g, op), g.value(g.root(wei))
    is_plain = p.is_matrix_product and p.columns == p.call.outs[0].shape[-1]
    return is_plain and not source.is_constant and source.id in g.ins and not source.layout.blocks


def pays_as_dots(p: Product, stored: DType, target: Target) -> bool:
    """Whether a product of several columns by weights of this dtype, stored by columns, costs less as dot products than with weights that
    are packed block by block. No more rows than the cost ranks: for 8 and more it says up to 2.5 times too little.
    docs/measurements/gemv.md, Dot products by cost"""
    m, k, gemm = p.call.outs[0].shape[-2], p.reduced[-1], gemm_nest(p, target)
    if not ranks_dot_products(m, target):
        return False
    packed = packed_from(gemm, stored, DType.f32, Source.columns, target)
    dots = replace(packed, kernel=replace(gemm.kernel, dots=unrolled_columns(m, stored.nbytes(k), target)), blocks=None)
    one, other = (choose(alone(each), (min(target.panel_width, gemm.n),), target, may_spread=True).cost for each in (dots, packed))
    return one.total <= other.total
