"""Tensor IR: functions, statements and expressions over scalars, vectors and N-d tensors. Frozen values; no names from numpy or LLVM.

A function's parameters are tensors (pointers at run time). Temporaries are declared by `Alloc`, whose scope is the rest of the innermost
block that holds it. Loops run 0 <= var < extent in steps of one. Vectors have `lanes` > 1 and `Ramp` for an index. interpret.py defines the
semantics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, dense_strides, reach
from benchgraph.tir.groups import GROUPS, WEI_GROUPS, DTypes
from benchgraph.tir.operators import REDUCING_OPS as REDUCING_OPS
from benchgraph.tir.operators import BinOp as BinOp
from benchgraph.tir.operators import UnOp as UnOp

INDEX = DType.s64  # dtype of loop variables and indices


class Scope(Enum):
    """Where a tensor lives: a parameter, one buffer for the whole call, one per thread, or a register (one element, any lanes)."""

    param = "param"
    shared = "shared"
    thread = "thread"
    register = "register"


@dataclass(frozen=True)
class Tensor:
    """A buffer of `shape` elements of `dtype`, addressed through `strides` (in elements).

    Two elements of s4 or u4 share a byte (core/arrays.py). Such a tensor is a parameter and read-only, as a store of one element would race
    with that of its neighbour on another thread. Loaded elements of these dtypes can only be cast or selected.
    offset: bytes from the start of its arena, set by plan-buffers; None before, and for parameters and registers. lanes: > 1 only for
    vector registers. padding: unused elements at the end of each row (pad-rows).
    """

    name: str
    dtype: DType
    shape: Shape
    strides: Shape
    scope: Scope = Scope.shared
    offset: int | None = None
    lanes: int = 1
    padding: int = 0

    def __hash__(self) -> int:
        return hash(self.name)  # two of one name are rare, and strings know their hashes

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last one."""
        return self.dtype.nbytes(reach(self.shape, self.strides))


def tensor(name: str, dtype: DType, shape: Shape, scope: Scope = Scope.shared, strides: Shape | None = None) -> Tensor:
    """A tensor, row-major unless strides are given."""
    return Tensor(name, dtype, shape, dense_strides(shape) if strides is None else strides, scope)


@dataclass(frozen=True)
class Var:
    """A loop variable (dtype s64)."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Const:
    """A literal: int for integers and boolean (0, 1), float for floats (inf and nan allowed)."""

    value: int | float
    dtype: DType = INDEX


@dataclass(frozen=True)
class Binary:
    op: BinOp
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Unary:
    op: UnOp
    a: Expr


@dataclass(frozen=True)
class Cast:
    """Convert to dtype: to floats rounds to nearest even; to integers too, and saturates (NaN gives 0); boolean gives 0 or 1."""

    a: Expr
    dtype: DType


@dataclass(frozen=True)
class Select:
    """a where cond, else b; both sides are evaluated."""

    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Random:
    """The u32 number `index` of the Philox sequence of seed and offset (core/philox.py) minus 2**31, uniform over s32. Operands are of
    s64."""

    index: Expr
    seed: Expr
    offset: Expr


@dataclass(frozen=True)
class Load:
    """tensor[index]. A vector load has exactly one index with lanes > 1 (a Ramp, in units of that dim); masked-off lanes give 0."""

    tensor: Tensor
    index: tuple[Expr, ...]
    mask: Expr | None = None


@dataclass(frozen=True)
class Ramp:
    """The vector base, base + stride, ... of `lanes` whole numbers of base's dtype: s64 for indices, or s32."""

    base: Expr
    stride: int
    lanes: int


@dataclass(frozen=True)
class Broadcast:
    a: Expr
    lanes: int


@dataclass(frozen=True)
class ReduceLanes:
    """Reduce the lanes of a vector, by one of REDUCING_OPS, to a scalar, in no defined order."""

    op: BinOp
    a: Expr


Expr: TypeAlias = Var | Const | Binary | Unary | Cast | Select | Random | Load | Ramp | Broadcast | ReduceLanes


class LoopKind(Enum):
    serial = "for"
    parallel = "parallel for"  # iterations are independent and may run on any thread in any order


@dataclass(frozen=True)
class For:
    """unroll_jam: how many iterations are to be computed together, where they are independent (unroll-and-jam)."""

    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.serial
    unroll_jam: int = 1


@dataclass(frozen=True)
class If:
    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True)
class Seq:
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True)
class Alloc:
    """Declare a temporary. Its contents are undefined until stored to."""

    tensor: Tensor


@dataclass(frozen=True)
class Store:
    """tensor[index] = value. A vector store's index rules are those of Load; masked-off lanes keep their old contents.

    non_temporal: past the caches, if it is a whole cache line (of a tensor aligned to one)."""

    tensor: Tensor
    index: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None
    non_temporal: bool = False


Axis: TypeAlias = tuple[int, int]  # (dim, step)


@dataclass(frozen=True)
class Slice:
    """A strided view of a tensor, as operand of a microkernel or a packing.

    index: the first element. axes: for rows, columns and each axis of the batch (dim of the tensor, indices per step); (0, 0) for a batch
    axis that the operand does not depend on. Dims instead of strides, so that passes can change the tensor's strides. Of a 1-d tensor, as
    all are after flatten-index, rows and columns may run along the same dim.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    axes: tuple[Axis, ...]

    @property
    def is_flat(self) -> bool:
        return len(self.index) == 1

    @property
    def offset(self) -> Expr:
        """The first element of a flat slice."""
        (offset,) = self.index
        return offset

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements of memory per step of each axis."""
        return tuple(self.tensor.strides[dim] * step for dim, step in self.axes)


def flat_slice(t: Tensor, offset: Expr, strides: tuple[int, ...]) -> Slice:
    """The slice of a 1-d tensor whose rows, columns and axes of the batch are so many elements apart."""
    return Slice(t, (offset,), tuple((0, stride) for stride in strides))


@dataclass(frozen=True)
class Prefetch:
    """A hint that `lines` cache lines of a parameter from index on will soon be read, or written; and as many at `count` offsets `stride`
    elements apart. Prefetched lines may lie past the end of the parameter."""

    tensor: Tensor
    index: tuple[Expr, ...]
    lines: int
    for_write: bool = False
    count: int = 1
    stride: int = 0


@dataclass(frozen=True)
class PostOps:
    """Pointwise ops on the result of a microkernel: body runs for each row of acc and each vector of `lanes` columns.

    row, vector: 0 <= row < m, 0 <= vector < n / lanes. body stores contiguous vectors and registers, and loads of acc only the current
    vector. The result must not depend on the order of vectors; the rows of a vector of columns are in order.
    """

    row: Var
    vector: Var
    lanes: int
    body: Stmt


@dataclass(frozen=True)
class Brgemm:
    """acc[m, n] (+)= sum over batch b and k of src_b[m, k] * wei_b[k, n]: the batch-reduce GEMM microkernel call.

    batch: the extents of its axes; () is a plain GEMM. accumulate False overwrites acc, whose slice has no batch. Columns of acc are unit
    stride. Products of bf16 are exact and summed in f32, where subnormal numbers may count as zero; sums in s32 wrap around.

    The dtypes of the tensors are a key of GROUPS. With groups of one, columns of wei are unit stride. Else k of src is unit stride, and wei
    has groups along k: a group is the innermost dim of its tensor, at index 0 of the slice, columns have the stride of a group, and the
    axis of rows steps from group to group. Elements of the last group beyond k may be anything.

    prefetches: spread over the call. post_ops run on each register tile instead of a store to acc, which is undefined afterwards.
    wei_ahead: how many rows of wei ahead the call loads them into L1, where L1 keeps none from one tile of rows to the next; 0: none.
    """

    src: Slice
    wei: Slice
    acc: Slice
    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    accumulate: bool = False
    prefetches: tuple[Prefetch, ...] = ()
    post_ops: PostOps | None = None
    wei_ahead: int = 0

    @property
    def dtypes(self) -> DTypes:
        return self.src.tensor.dtype, self.wei.tensor.dtype, self.acc.tensor.dtype

    @property
    def group(self) -> int:
        """Elements along k of a group of wei; 1 for dtypes that no microkernel has."""
        return GROUPS.get(self.dtypes, 1)


@dataclass(frozen=True)
class Pack:
    """dst[k // g][n][k % g] = convert(src[k, n]): packing of a matrix into groups of g along k, as Brgemm reads wei of dst's dtype.

    src: rows k, columns n, one of them unit stride. dst: rows are groups, columns n, as in Brgemm. The last group is padded with zeros.
    Conversions (PACKED_FROM) to floats round to nearest even; s8 = u8 - 128. transposes: dst[k, n] = src[k, n], with u8 = s8 + 128.
    """

    src: Slice
    dst: Slice
    k: int
    n: int
    transposes: bool = False

    @property
    def group(self) -> int:
        """Elements along k of a group of dst; 1 for dtypes that nothing is packed to."""
        return 1 if self.transposes else WEI_GROUPS.get(self.dst.tensor.dtype, 1)


Stmt: TypeAlias = For | If | Seq | Alloc | Store | Brgemm | Pack | Prefetch


@dataclass(frozen=True)
class InplacePair:
    """Parameters that may have the same memory: every element of src is loaded before that of dst is stored."""

    dst: str
    src: str


@dataclass(frozen=True)
class Shared:
    """Parameters that adjacent parallel loops read, in so many blocks, each of which L2 holds; by_rows: and L1 each row of a block."""

    names: tuple[str, ...]
    blocks: int
    by_rows: bool = False


@dataclass(frozen=True)
class Func:
    """One compiled function.

    params: in call order, disjoint but for the pairs in `inplace`. runs_once: it is init, which runs once for
    each set of weights, so that short code is better than fast code. prefetched: parameters of which loops prefetch what comes next: the
    next row, or of long streams what comes stream_bytes later, if that is not 0.
    shared: what loops are fused for, block by block. tasks: fewest iterations that fused parallel loops may have, unless one of them has
    fewer. shared_bytes, thread_bytes: sizes of the arenas, 0 before plan-buffers.
    """

    name: str
    params: tuple[Tensor, ...]
    body: Stmt
    runs_once: bool = False
    shared_bytes: int = 0
    thread_bytes: int = 0
    inplace: tuple[InplacePair, ...] = ()
    prefetched: tuple[str, ...] = ()
    stream_bytes: int = 0
    shared: tuple[Shared, ...] = ()
    tasks: int = 1


@dataclass(frozen=True)
class Module:
    """main runs on every execution; init runs once for each set of constant weights, before main, and fills the constants (None: there are
    none)."""

    main: Func
    init: Func | None = None
