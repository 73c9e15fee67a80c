"""A product as the nest that its schedule is chosen for: axes, and how operands move along them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised_within
from benchgraph.core.tensor import TensorType
from benchgraph.gir.product import K, M, N, Product
from benchgraph.gir.views import Index
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.ops.unit_steps import step
from benchgraph.schedule.gemm import Blocks, Gemm, Source, kernel
from benchgraph.schedule.nest import F32_BYTES, Operand
from benchgraph.tir.groups import SIDE_BY_SIDE
from benchgraph.tir.ir import Var
from benchgraph.tir.visit import variables

_AXES = {M.name: "m", N.name: "n", K.name: "k"}


@memoised_within
def gemm_nest(p: Product, target: Target) -> Gemm:
    *batch, m, n = p.call.outs[0].shape
    *taps, k = p.reduced
    (src, wei), (of_src, of_wei) = p.call.ins, p.operands
    dst = Operand.dense("dst", 8 * F32_BYTES, (*(f"b{i}" for i in range(len(batch))), "m", "n"), is_written=True)
    operands = _operand("src", src, of_src), _operand("wei", wei, of_wei), dst
    apart = src.dtype.nbytes(src.shape[-1] if src.shape else 1)
    microkernel = kernel(k, prod(taps), src.dtype, apart, target)
    return Gemm(tuple(batch), m, n, tuple(taps), operands, microkernel, is_made=not p.has_input_src)


def packed_from(gemm: Gemm, stored: DType, packed: DType, source: Source, target: Target) -> Gemm:
    """The product with weights that are packed block by block from weights of such a dtype."""
    (src, wei, dst), vector = gemm.operands, rates(target).vector
    cycles = 2 * vector.simple_cycles + (source is Source.columns) * vector.transpose_cycles + vector.conversion_cycles(stored, packed)
    blocks = Blocks(packed.bits, 1, SIDE_BY_SIDE, source, cycles, may_fetch=True)
    return replace(gemm, operands=(src, replace(wei, bits=stored.bits), dst), blocks=blocks)


def _operand(name: str, t: TensorType, index: Index) -> Operand:
    """An access by its index; an axis that moves along a dim unevenly, as groups of columns do, counts as one that does not."""
    moving = (((_AXES.get(v, v.removeprefix("$")), step(e, Var(v)) or 0) for v in sorted(variables(e))) for e in index)
    return Operand(name, t.dtype.bits, tuple(tuple((axis, abs(by)) for axis, by in dim if by) for dim in moving))
