"""Tensor IR: functions, statements and expressions over scalars, vectors and N-d tensors. Frozen values; no names from numpy or LLVM.

A function's parameters are tensors (pointers at run time). Temporaries are declared by `Alloc`, whose scope is the rest of the innermost
block that holds it. Loops run 0 <= var < extent in steps of one. Vectors have `lanes` > 1 and `Ramp` for an index. Defined by interpret.py.
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

    Two elements of s4 or u4 share a byte (core/arrays.py). Such a tensor is a parameter, and only read: a store of one element would have
    to keep its neighbour, which another thread may be storing. A Load gives the element, whose dtype one can only cast from or select.
    offset: bytes from the start of its arena, set by plan-buffers; None before, and for parameters and registers. lanes: > 1 only for
    registers that the vectorizer widened. padding: elements that hold nothing, at the end of each row (pad-rows).
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
    """Word number `index` of the stream of seed and offset (core/philox.py), less 2**31: every number of s32. Its operands are of s64."""

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
    """Fold the lanes of a vector, by one of REDUCING_OPS, to a scalar. In no defined order."""

    op: BinOp
    a: Expr


Expr: TypeAlias = Var | Const | Binary | Unary | Cast | Select | Random | Load | Ramp | Broadcast | ReduceLanes


class LoopKind(Enum):
    serial = "for"
    parallel = "parallel for"  # iterations are independent and may run on any thread in any order


@dataclass(frozen=True)
class For:
    var: Var
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.serial


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

    non_temporal: it writes a whole line of memory, if the tensor begins where a line does, that nobody reads soon."""

    tensor: Tensor
    index: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None
    non_temporal: bool = False


Axis: TypeAlias = tuple[int, int]  # (dim, step)


@dataclass(frozen=True)
class Slice:
    """A piece of a tensor for a microkernel or a packing: where it starts and how it steps.

    index: the first element. axes: for its rows, its columns and each axis of the batch, the dim of the tensor that it runs along and by
    how many indices a step goes, (0, 0) for a batch axis along which the operand does not move. Dims, not strides, so that passes may
    change the tensor's strides freely.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class FlatSlice:
    """A Slice after flatten-index: the tensor is 1-d; strides, in elements, are those of rows, columns and each axis of the batch."""

    tensor: Tensor
    offset: Expr
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Prefetch:
    """A hint, without meaning: `lines` cache lines of a parameter from index on, perhaps beyond its end, will soon be read, or written, and
    as many in each of `count` places, `stride` elements apart."""

    tensor: Tensor
    index: tuple[Expr, ...]
    lines: int
    is_store: bool = False
    count: int = 1
    stride: int = 0


@dataclass(frozen=True)
class PostOps:
    """What becomes of the result of a microkernel: body, for each row of acc and each vector of so many lanes of its columns.

    row, vector: 0 <= row < m, 0 <= vector < n / lanes. body stores vectors of neighbours, and registers on the way to them. It loads from
    acc the vector at hand alone, and does the same in whatever order the vectors come, one row of a vector of columns after another.
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

    The dtypes of the tensors are a key of GROUPS. In groups of one, columns of wei are unit stride. Else k of src is, and wei lies in
    groups along k: the innermost dim of its tensor holds a group, at index 0 of the slice, its columns are a group apart, and its axis of
    rows steps from group to group. k need not be whole groups: what the last one holds beyond k may be anything.

    prefetches: what is fetched meanwhile, a line now and then. post_ops run on each register tile, which is then not stored to acc: acc
    holds nothing afterwards.
    """

    src: Slice | FlatSlice
    wei: Slice | FlatSlice
    acc: Slice | FlatSlice
    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    accumulate: bool = False
    prefetches: tuple[Prefetch, ...] = ()
    post_ops: PostOps | None = None

    @property
    def dtypes(self) -> DTypes:
        return self.src.tensor.dtype, self.wei.tensor.dtype, self.acc.tensor.dtype

    @property
    def group(self) -> int:
        """Elements of k that lie together in wei; 1 for dtypes that no microkernel takes."""
        return GROUPS.get(self.dtypes, 1)


@dataclass(frozen=True)
class Pack:
    """wei[k // g][n][k % g] = convert(src[k, n]): a matrix as Brgemm reads wei of dst's dtype, in groups of g along k.

    src: rows k, columns n, of which one is unit stride. dst: rows are groups, columns n, as in Brgemm. Zeros fill the last group. To floats
    convert rounds to nearest even; u8 becomes s8 less 128. See PACKED_FROM. transposes: dst[k, n] = src[k, n], s8 as u8 128 more.
    """

    src: Slice | FlatSlice
    dst: Slice | FlatSlice
    k: int
    n: int
    transposes: bool = False

    @property
    def group(self) -> int:
        """Elements of k that lie together in dst; 1 for dtypes that nothing is packed to."""
        return 1 if self.transposes else WEI_GROUPS.get(self.dst.tensor.dtype, 1)


Stmt: TypeAlias = For | If | Seq | Alloc | Store | Brgemm | Pack | Prefetch


@dataclass(frozen=True)
class InplacePair:
    """The parameter named dst may lie on the whole of the one named src: every element is loaded before it is stored over."""

    dst: str
    src: str


@dataclass(frozen=True)
class Func:
    """One compiled function.

    params: in call order; separate memory, but for the pairs in `inplace`. runs_once: in the life of an executable, so that shorter code is
    better than fast code. shared_bytes, thread_bytes: what plan-buffers laid out (else 0).
    """

    name: str
    params: tuple[Tensor, ...]
    body: Stmt
    runs_once: bool = False
    shared_bytes: int = 0
    thread_bytes: int = 0
    inplace: tuple[InplacePair, ...] = ()
