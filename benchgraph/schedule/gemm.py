"""Products: their nest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Target
from benchgraph.schedule.nest import Operand


@dataclass(frozen=True)
class Kernel:
    """What one microkernel sums: k terms of each of so many taps, from src of this dtype. in_tiles: on tile registers. lanes, registers: of
    vectors of f32. most_vectors: of the columns of a register tile. row_bytes: from one row of src to the next. dots: columns whose dot
    products with all rows are computed together, by vectors along k, or along rows of a single column; 0 where vectors run along columns.
    """

    k: int
    taps: int
    src: DType
    in_tiles: bool
    lanes: int
    registers: int
    most_vectors: int
    row_bytes: int
    dots: int = 0


class Source(Enum):
    """How what blocks of weights are made from lies in memory: along their rows, their columns, or in panels as they do."""

    rows = "rows"
    columns = "columns"
    panels = "panels"


@dataclass(frozen=True)
class Blocks:
    """Weights of which blocks are read one after the other: made right before from what `Gemm.operands` say, or read where they are.

    bits: of an element of a block. unit: its rows are a multiple of it, if they are not all. side_by_side: rows or columns that are read
    at a time. source: where neighbours are. cycles: of a vector of elements, to make it; 0 where nothing is made. may_fetch: calls can
    prefetch what the next block is made from.
    """

    bits: int
    unit: int
    side_by_side: int
    source: Source = Source.rows
    cycles: float = 0.0
    may_fetch: bool = False

    def starts(self, ks: int, ns: int, n: int) -> float:
        """Of how many rows, columns or panels hardware sees the beginning, one after the other, in a block of ns of n columns."""
        if self.source is Source.panels:
            return 1.0
        is_one = self.source is Source.rows and self.side_by_side == 1 and ns >= n  # rows follow each other
        return 0.0 if is_one else (ks if self.source is Source.rows else ns) / self.side_by_side


@dataclass(frozen=True)
class Gemm:
    """dst[batch, m, n] = src x wei, summed over taps and k. batch: extents of the axes b0, b1, ...; taps: of r0, r1, ...

    A convolution's batch is images and rows of windows, its m windows of such a row, k its channels. waiting_bytes: of a result of a call
    that waits in temporaries, where the microkernel cannot store it as dst has it. is_made: cores have made src, each some rows; it is no
    input. blocks: see there; None for weights that calls read panel by panel, for which they are packed.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    taps: tuple[int, ...]
    operands: tuple[Operand, ...]
    kernel: Kernel
    waiting_bytes: int = 0
    is_made: bool = False
    blocks: Blocks | None = None

    @property
    def k(self) -> int:
        return self.kernel.k

    @cached_property
    def extents(self) -> dict[str, int]:
        """By axis."""
        batch, taps = dict(zip(self.batch_axes, self.batch, strict=True)), dict(zip(self.tap_axes, self.taps, strict=True))
        return {**batch, "m": self.m, "n": self.n, **taps, "k": self.k}

    @property
    def batch_axes(self) -> tuple[str, ...]:
        return tuple(f"b{i}" for i in range(len(self.batch)))

    @property
    def tap_axes(self) -> tuple[str, ...]:
        return tuple(f"r{i}" for i in range(len(self.taps)))


def kernel(k: int, taps: int, src: DType, row_bytes: int, target: Target) -> Kernel:
    """The microkernel of a product on this target."""
    isa = target.isa
    return Kernel(k, taps, src, target.in_tiles(src), isa.lanes, isa.registers, target.panel_width // isa.lanes, row_bytes)
