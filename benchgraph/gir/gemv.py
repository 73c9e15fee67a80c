"""GEMV and skinny GEMM: products of one column, and of few rows by weights stored by columns, which need no packed panels.

A microkernel's vectors run along columns, so one column would use one lane. Instead vectors run along k (dot products) or along rows
(axpy).
"""

from __future__ import annotations

from enum import Enum

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.product import K, M, N, buffer_axes, has_unit_stride, k_group, product, result_axes, stride
from benchgraph.machine.table import MachineTable, table
from benchgraph.machine.target import PAGE_BYTES, Target


class Gemv(Enum):
    """dot: vectors run along k, which has unit stride in src and wei. axpy: along rows, which have unit stride in src and the result."""

    dot = "dot"
    axpy = "axpy"


def gemv_form(g: Graph, op: Op, machine: MachineTable) -> Gemv | None:
    """How a product is computed without a microkernel. None for other shapes, sums over more than k, and operands stored otherwise."""
    *_, m, n = g.value(op.outs[0]).shape
    if n > 1 and (m > machine.gemv_rows_of_short_columns or k_group(g, op) > 1):
        return None
    p = product(g, op)
    if not p.is_matrix_product:
        return None
    src, wei = (buffer_axes(g, v, index, axes) for v, index, axes in zip(op.ins, p.operands, ((M, K), (N, K)), strict=True))
    if src is None or wei is None:
        return None
    if n > 1:  # rows must be few, and each column be read at full speed
        k, apart = p.reduced[-1], stride(g, op.ins[1], wei[0])
        is_streamed = is_streamable(k, apart, g.value(op.ins[1]).dtype, machine)
        if not (is_streamed and is_input_for_few_rows(g, op, op.ins[1], gemv_rows(k, machine))):
            return None
    if has_unit_stride(g, op.ins[0], src[1]) and has_unit_stride(g, op.ins[1], wei[1]):
        return Gemv.dot
    dst = result_axes(g, op) if n == 1 else None
    is_dense = dst is not None and dst[0][1] == 1 and has_unit_stride(g, op.outs[0], dst[0]) and has_unit_stride(g, op.ins[0], src[0])
    is_f32 = all(g.value(g.root(v)).dtype is DType.f32 for v in (*op.ins, *op.outs))
    return Gemv.axpy if is_dense and is_f32 else None


def is_streamable(size: int, apart: int, dtype: DType, machine: MachineTable) -> bool:
    """Whether memory is read at full speed in rows, or columns, of so many elements, so many apart: they follow each other, or are long."""
    return apart == size or dtype.nbytes(size) >= machine.long_row_bytes


def gemv_rows(k: int, machine: MachineTable) -> int:
    """How many rows at most are multiplied by weights stored by columns without packing them, for sums of so many terms."""
    most = machine.gemv_rows_of_short_columns if k <= machine.gemv_short_terms else machine.gemv_rows
    return min(most, k // machine.gemv_terms_per_row)


def is_input_for_few_rows(g: Graph, op: Op, wei: int, most: int) -> bool:
    """Whether a product has so many rows at most for each matrix of weights, made of `wei`, which is an input that is not constant."""
    p, source = product(g, op), g.value(g.root(wei))
    *_, m, n = p.call.outs[0].shape
    is_plain = p.is_matrix_product and p.columns == n
    return is_plain and m <= most and not source.is_constant and source.id in g.ins and not source.layout.blocks


def unrolled_columns(rows: int, nbytes: int, target: Target) -> int:
    """How many columns of weights, of so many bytes each, are multiplied by so few rows at a time."""
    machine = table(target)
    if nbytes <= PAGE_BYTES or (machine.one_stream_is_fast and rows == 1):
        return 1
    return max(min(machine.unrolled_columns, target.isa.registers // 2 // rows), 1)
