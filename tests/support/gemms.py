"""Products as their schedules are chosen for, of dense operands."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target
from benchgraph.schedule.gemm import Gemm, kernel
from benchgraph.schedule.nest import Operand


def dense(batch: int, m: int, n: int, k: int, src: DType, wei: DType, target: Target, *, has_one_wei: bool = True) -> Gemm:
    """dst[b0, m, n] = src[b0, m, k] x wei[k, n], or wei[b0, k, n]."""
    operands = (
        Operand.dense("src", src.bits, ("b0", "m", "k")),
        Operand.dense("wei", wei.bits, ("k", "n") if has_one_wei else ("b0", "k", "n")),
        Operand.dense("dst", 32, ("b0", "m", "n"), is_written=True),
    )
    return Gemm((batch,), m, n, (), operands, kernel(k, 1, src, src.nbytes(k), target))
