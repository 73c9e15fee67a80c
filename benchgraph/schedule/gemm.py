"""Products: their nest, how it is tiled, and its loops on the core with most work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from benchgraph.core.dtypes import DType
from benchgraph.schedule.nest import Loop, Operand


@dataclass(frozen=True)
class Gemm:
    """dst[batch, m, n] = src[batch, m, k] x wei[k, n], or wei[batch, k, n].

    src, wei: the dtypes that are multiplied. has_one_wei: batch entries share it. in_tiles: tile registers multiply it. lanes: of f32, of
    a vector.
    """

    batch: int
    m: int
    n: int
    k: int
    src: DType
    wei: DType
    has_one_wei: bool
    in_tiles: bool
    lanes: int

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("src", self.src.bits, ("batch", "m", "k")),
            Operand("wei", self.wei.bits, ("k", "n") if self.has_one_wei else ("batch", "k", "n")),
            Operand("dst", 32, ("batch", "m", "n"), is_written=True),
        )


@dataclass(frozen=True)
class Tiling:
    """mb rows and nb columns of a microkernel call; a task has all columns of its rows, or with split_n one call."""

    mb: int
    nb: int
    split_n: bool = False


@dataclass(frozen=True)
class Share:
    """What the core with most work does: `loops` around its microkernel calls, outermost first; `tasks`, on so many `cores` in use."""

    loops: tuple[Loop, ...]
    tasks: int
    cores: int

    @property
    def calls(self) -> int:
        return prod(loop.trips for loop in self.loops)


def share(gemm: Gemm, tiling: Tiling, cores: int) -> Share:
    """Tasks are in the order batch, rows, columns; each core has as many neighbouring ones.

    >>> share(Gemm(1, 128, 256, 64, DType.f32, DType.f32, True, False, 16), Tiling(32, 64), 2)
    Share(loops=(Loop(axis='batch', trips=1), Loop(axis='m', trips=2), Loop(axis='n', trips=4)), tasks=2, cores=2)
    """
    columns = Loop("n", ceil(gemm.n / tiling.nb))
    rows = [Loop("batch", gemm.batch), Loop("m", ceil(gemm.m / tiling.mb))]
    parallel = [*rows, columns] if tiling.split_n else rows
    tasks = prod(loop.trips for loop in parallel)
    own = left = ceil(tasks / cores)
    loops = list[Loop]()
    for loop in reversed(parallel):
        trips = min(loop.trips, left)
        loops.insert(0, Loop(loop.axis, trips))
        left = ceil(left / trips)
    return Share(tuple(loops if tiling.split_n else [*loops, columns]), own, min(tasks, cores))
