"""The description of a microkernel (batch-reduce GEMM), and its name."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeAlias

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import PTR
from benchgraph.codegen.post_ops import PostOps
from benchgraph.core.dtypes import DType
from benchgraph.tir.groups import GROUPS, DTypes, is_widened

BatchAxis: TypeAlias = tuple[int, int, int]  # extent, stride of src, stride of wei

F32 = DType.f32, DType.f32, DType.f32


@dataclass(frozen=True)
class PrefetchStream:
    """Memory that the K loop prefetches into L2, `step_bytes` in each of its steps.

    Memory of several parts is `part_steps` steps for each part, and `gap` bytes between them; part_steps is 0 for one contiguous part.
    """

    step_bytes: int
    for_write: bool = False
    part_steps: int = 0
    gap: int = 0

    @property
    def name(self) -> str:
        return f"_{'w' if self.for_write else 'r'}{self.step_bytes}" + f"x{self.part_steps}_{self.gap}" * bool(self.part_steps)

    @property
    def state_values(self) -> int:
        """How many values loops carry for the stream: its address, and the steps that are left of a part."""
        return 2 if self.part_steps else 1


@dataclass(frozen=True)
class Kernel:
    """One batch-reduce GEMM: acc[m, n] (+)= sum over batch b, k of src_b[m, k] * wei_b[k, n].

    Strides are in elements; columns of acc have unit stride. batch: for each of its axes, outermost first, the extent and the strides of
    src and wei. accumulate False overwrites acc. acc overlaps neither src nor wei. dtypes: of src, wei and acc, a key of tir's GROUPS.
    Columns of wei are a group of elements along k apart; wei_row_stride is the distance of groups. src_col_stride is 1 for groups of more
    than one element. prefetches: memory that is prefetched into L2 while the kernel runs. wei_ahead: as in Brgemm. post_ops:
    applied to acc, which is not stored then. tiles_configured: the caller has set the shapes of the tile registers. reads_past_k: src is
    of integers, and may be read to the end of the group that k ends in, whatever is there.
    """

    m: int
    n: int
    k: int
    _: KW_ONLY
    batch: tuple[BatchAxis, ...] = ()
    src_row_stride: int
    src_col_stride: int = 1
    wei_row_stride: int
    acc_row_stride: int
    accumulate: bool = False
    dtypes: DTypes = F32
    prefetches: tuple[PrefetchStream, ...] = ()
    wei_ahead: int = 0
    post_ops: PostOps | None = None
    tiles_configured: bool = False
    reads_past_k: bool = False

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, *(extent for extent, _, _ in self.batch)) < 1:
            raise ValueError(f"extents of a microkernel are positive: {self}")
        if self.group > 1 and self.k > 1 and self.src_col_stride != 1:
            raise ValueError(f"src of a microkernel for {self.dtypes[0].value} has unit stride along k: {self}")

    @property
    def group(self) -> int:
        """Elements along k that one dot product takes."""
        return GROUPS[self.dtypes]

    @property
    def name(self) -> str:
        """Unique among kernels, valid as a symbol."""
        batch = "".join(f"_b{extent}_{src}_{wei}" for extent, src, wei in self.batch)
        src = f"s{self.src_row_stride}_{self.src_col_stride}"
        sizes = f"{self.m}x{self.n}x{self.k}{batch}_{src}_w{self.wei_row_stride}_a{self.acc_row_stride}"
        src_dtype, wei_dtype, _ = self.dtypes
        widened = f"_{wei_dtype.value}" * is_widened(src_dtype, wei_dtype)
        name = f"brgemm_{src_dtype.value}{widened}_{sizes}"
        more = (
            *(p.name for p in self.prefetches),
            f"_l{self.wei_ahead}" * bool(self.wei_ahead),
            "" if self.post_ops is None else self.post_ops.name,
            "_tiles" * self.tiles_configured,
            "_past_k" * self.reads_past_k,
        )
        return name.replace("-", "m") + ("_acc" if self.accumulate else "") + "".join(more)

    @property
    def prefetch_values(self) -> int:
        """How many values loops carry for all prefetches."""
        return sum(p.state_values for p in self.prefetches)

    @property
    def arguments(self) -> tuple[ir.Type, ...]:
        """Types of the function's arguments: src, wei, acc, starts of the prefetches, arguments of the post-ops."""
        return (PTR, PTR, PTR, *(PTR for _ in self.prefetches), *(() if self.post_ops is None else self.post_ops.arguments))


def canonicalise(kernel: Kernel) -> Kernel:
    """The same product with fewer batch axes, so that more products share a kernel.

    An axis of the batch whose strides make it contiguous with the next axis, or with k, is merged with it, unless k ends within a group.
    Where k and the group are 1, the last axis becomes k. With post-ops acc is not stored, so that acc_row_stride is 0.
    """
    axes: list[BatchAxis] = []
    for axis in (a for a in kernel.batch if a[0] > 1):
        axes.append(axis)
        if len(axes) > 1 and axes[-2][1:] == (axis[0] * axis[1], axis[0] * axis[2]):
            axes[-2:] = [(axes[-2][0] * axis[0], *axis[1:])]
    groups, rest = divmod(kernel.k, kernel.group)
    if axes and kernel.k == kernel.group == 1:
        k, src_stride, wei_stride = axes.pop()
        kernel = replace(kernel, k=k, src_col_stride=src_stride, wei_row_stride=wei_stride)
    elif axes and not rest and axes[-1][1:] == (kernel.k * kernel.src_col_stride, groups * kernel.wei_row_stride):
        kernel = replace(kernel, k=kernel.k * axes.pop()[0])
    return replace(kernel, batch=tuple(axes), acc_row_stride=kernel.acc_row_stride if kernel.post_ops is None else 0)
