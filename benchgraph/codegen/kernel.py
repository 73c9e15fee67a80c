"""What a microkernel is asked for, and its name."""

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
class Ahead:
    """A stream of memory that is fetched into the second-level cache, so many bytes in each step of the K loop.

    steps: after which `gap` bytes are skipped; 0 where the stream is one run.
    """

    pace: int
    is_store: bool = False
    steps: int = 0
    gap: int = 0

    @property
    def name(self) -> str:
        return f"_{'w' if self.is_store else 'r'}{self.pace}" + f"x{self.steps}_{self.gap}" * bool(self.steps)

    @property
    def values(self) -> int:
        """How many values say where the stream is."""
        return 2 if self.steps else 1


@dataclass(frozen=True)
class Kernel:
    """One batch-reduce GEMM: acc[m, n] (+)= sum over batch b, k of src_b[m, k] * wei_b[k, n].

    Strides are in elements; columns of acc have unit stride. batch: for each of its axes, outermost first, the extent and the strides of
    src and wei. accumulate False overwrites acc. acc overlaps neither src nor wei. dtypes: of src, wei and acc, a key of tir's GROUPS.
    Columns of wei are a group apart, which holds elements along k; wei_row_stride leads to the next group. src_col_stride is 1 in groups
    of more than one. ahead: streams that are fetched meanwhile. post_ops: what is done with acc, which is not stored then.
    is_configured: the caller has given tile registers their shapes. has_more: src is of integers, and vectors may read it to the end of the
    group that k ends in, whatever is there.
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
    ahead: tuple[Ahead, ...] = ()
    post_ops: PostOps | None = None
    is_configured: bool = False
    has_more: bool = False

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, *(extent for extent, _, _ in self.batch)) < 1:
            raise ValueError(f"extents of a microkernel are positive: {self}")
        if self.group > 1 and self.k > 1 and self.src_col_stride != 1:
            raise ValueError(f"src of a microkernel for {self.dtypes[0].value} has unit stride along k: {self}")

    @property
    def group(self) -> int:
        """Elements of k in one step."""
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
            *(a.name for a in self.ahead),
            "" if self.post_ops is None else self.post_ops.name,
            "_tiles" * self.is_configured,
            "_more" * self.has_more,
        )
        return name.replace("-", "m") + ("_acc" if self.accumulate else "") + "".join(more)

    @property
    def streamed(self) -> int:
        """How many values say where all streams are."""
        return sum(a.values for a in self.ahead)

    @property
    def loops(self) -> str:
        """The same name for kernels that may share all of their code but the first axis of the batch (`microkernel.define`)."""
        return replace(self, batch=self.batch[1:]).name

    @property
    def arguments(self) -> tuple[ir.Type, ...]:
        """Of the function: src, wei, acc, streams, and what the post-ops are given."""
        return (PTR, PTR, PTR, *(PTR for _ in self.ahead), *(() if self.post_ops is None else self.post_ops.arguments))


def canonical(kernel: Kernel) -> Kernel:
    """Fewer kernels for the same work: an axis of the batch that continues along the next one, or along k, makes that one longer; where
    k is 1, the last axis takes its place. k that ends within a group ends there in each entry of the batch."""
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
