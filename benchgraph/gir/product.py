"""A tunable op's iteration space: which axes its product runs over, and how each of them steps through the buffers of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate, groupby
from math import prod
from typing import TypeVar

from benchgraph.core.dtypes import DType
from benchgraph.core.options import Forced
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import Index, root_index, zeroed
from benchgraph.ops import spec
from benchgraph.ops.affine import step
from benchgraph.ops.spec import Box, Call, Contraction
from benchgraph.tir.groups import GROUPS
from benchgraph.tir.ir import Const, Expr, Var
from benchgraph.tir.visit import variables

T = TypeVar("T")
Axis = tuple[int, int]  # (dim of the buffer, indices per step)
M, N, K = Var("$m"), Var("$n"), Var("$k")
# Rows up to which weights that lie by columns are not copied first, more for columns of SHORT_TERMS at most; and terms of a sum for each of
# them, since each sum ends with that of a vector's lanes. Weights that change, times over those with a copy, minima, rows of src:
#
#     one Zen 4 core (L2 1 MiB, L3 32 MiB)              two Zen 5 cores (L2 1 MiB, L3 32 MiB)
#     K x N, dtype         1     2     4     6     8    entries, K x N, dtype     4     6     8    10    12
#     64x64, f32        0.33  0.75  1.00  1.33  2.00    16, 128x4096, f32      0.41  0.49  0.56
#     256x256, f32      0.32  0.41  0.64  0.72  1.21    16, 256x1024, f32            0.51  0.64  0.68  0.94
#     1024x1024, f32    0.34  0.39  0.46  0.53  1.08    16, 512x4096, f32      0.62  0.68  0.97  1.35  1.58
#     4096x4096, f32                0.97  1.08  2.21    16, 1024x512, f32            0.87  1.31
#     1024x1024, f16    0.23  0.31  0.47  0.52  0.95    1, 4096x4096, f32      0.78  0.86  1.58  1.94  2.50
#                                                       16, 128x4096, f16      0.46  0.66  0.68
#                                                       16, 512x4096, f16      0.21  0.26  0.29  0.33
#                                                       1, 4096x4096, f16      0.58  0.86  1.00  2.37  2.58
ROWS_BY_COLUMNS, ROWS_BY_SHORT_COLUMNS, SHORT_TERMS, TERMS_PER_ROW, LONG_BYTES = 6, 8, 512, 16, 1024


@dataclass(frozen=True)
class Product:
    """dst[at] = sum over `over` of src[...] * wei[...], all indices symbolic.

    at: $b0 ..., M, N. over: $r0 ..., K, with 0 for axes of extent 1, so that a 1x1 convolution is seen to be a plain product.
    has_given_src: src is an input of the graph. forced: parameters that are not to be chosen.
    """

    call: Call
    how: Contraction
    has_constant_wei: bool = False
    has_given_src: bool = False
    forced: Forced | None = None

    @property
    def problem(self) -> str:
        """What a schedule is chosen for, as text: dtypes of src and wei, batch x m x k x n, whether wei is packed beforehand."""
        *batch, m, n = self.call.outs[0].shape
        src, wei = (t.dtype.value for t in self.call.ins)
        kept = "constant" if self.has_constant_wei else "variable"
        return f"{src}:{wei} {prod(batch)}x{m}x{prod(self.reduced)}x{n} {kept}"

    @property
    def at(self) -> Index:
        return (*(Var(f"$b{i}") for i in range(len(self.call.outs[0].shape) - 2)), M, N)

    @cached_property
    def reduced(self) -> Shape:
        return self.how.reduced(self.call)

    @property
    def over(self) -> Index:
        names = (*(Var(f"$r{i}") for i in range(len(self.reduced) - 1)), K)
        return tuple(Const(0) if extent == 1 and name != K else name for name, extent in zip(names, self.reduced, strict=True))

    @property
    def batch(self) -> tuple[tuple[Expr, int], ...]:
        """The reduced axes besides K, with their extents; those of extent 1 are left out."""
        return tuple((axis, extent) for axis, extent in zip(self.over[:-1], self.reduced, strict=False) if extent != 1)

    @cached_property
    def operands(self) -> tuple[Index, Index]:
        """The index of src and of wei, 0 along their dims of size 1."""
        indices = self.how.index(self.call, self.at, self.over)
        src, wei = (zeroed(t.shape, index) for index, t in zip(indices, self.call.ins, strict=True))
        return src, wei

    @property
    def columns(self) -> int:
        """Columns of one group."""
        return self.how.group_columns(self.call)

    @property
    def whole(self) -> Box:
        """All of the reduced axes but k."""
        return tuple((0, extent) for extent in self.reduced[:-1])

    def met(self, first: int, count: int) -> Box:
        """What of those so many columns are summed over, from `first` on."""
        return self.whole if self.how.nonzero is None else self.how.nonzero(self.call, first, count)

    def stretches(self, nb: int) -> tuple[tuple[int, Box], ...]:
        """Blocks of nb columns that meet the same: the number of the one after the last, and what they meet."""
        n = self.call.outs[0].shape[-1]
        if self.how.nonzero is None:
            return ((-(-n // nb), self.whole),)
        return stretches([self.met(first, min(nb, n - first)) for first in range(0, n, nb)])

    @property
    def is_row_wise(self) -> bool:
        """Each row of dst needs the same row of src, whole, and nothing else of it."""
        return self._matches(self.operands[0], (*self.at[:-1], K))

    @property
    def has_wei_per_batch(self) -> bool:
        """Each batch entry of dst has its own matrix of wei, or all have one."""
        return self._matches(self.operands[1], (*self.at[:-2], K, N))

    @property
    def is_matrix_product(self) -> bool:
        """Each batch entry of dst is a matrix of src times its own matrix of wei, or the one of all entries."""
        return self.is_row_wise and self.has_wei_per_batch

    @property
    def has_one_wei(self) -> bool:
        """All batch entries of dst have the same matrix of wei, or the same matrices."""
        entries = [at for at in self.at[:-2] if isinstance(at, Var)]
        return all(step(i, at) == 0 for i in self.operands[1] for at in entries)

    @property
    def sums_last(self) -> bool:
        """K runs along the last dim of src and the last but one of wei, N along wei's last: groups of k can be brought together."""
        src, wei = self.operands
        along = [[step(i, K) for i in index] for index in (src, wei)]
        rows, columns = ({dim - len(steps): by for dim, by in enumerate(steps) if by != 0} for steps in along)
        return rows in ({}, {-1: 1}) and columns in ({}, {-2: 1}) and all(step(i, N) == 0 for i in wei[:-1])

    def _matches(self, index: Index, wanted: Index) -> bool:
        zero = Const(0)
        return len(self.batch) == 0 and len(index) == len(wanted) and all(i in (w, zero) for i, w in zip(index, wanted, strict=True))


def stretches(found: Sequence[T]) -> tuple[tuple[int, T], ...]:
    """Neighbours that are alike: the number of the one after the last, and what they are."""
    ends = accumulate(len(list(alike)) for _, alike in groupby(found))
    return tuple((end, found[end - 1]) for end in ends)


def product(g: Graph, op: Op) -> Product:
    how = spec(op.kind).lowering.form
    assert isinstance(how, Contraction), op.kind
    call = Call(op.kind, op.attrs, tuple(g.value(v).type for v in op.ins), tuple(g.value(v).type for v in op.outs))
    found = Product(call, how, g.value(op.ins[1]).is_constant, g.root(op.ins[0]) in g.ins)
    if not g.forced or found.columns != call.outs[0].shape[-1]:  # a group of columns has its own constraints, which nobody forces
        return found
    return replace(found, forced=next((f for f in g.forced if f.problem == found.problem), None))


def comes_of_products(g: Graph, id: int) -> bool:
    """Whether some product's result is needed for a value, before ops are fused."""
    seen, work = {id}, [id]
    while work:
        if (maker := g.producer.get(work.pop())) is None:
            continue
        assert isinstance(maker, Op)
        if spec(maker.kind).lowering.is_contraction:
            return True
        fresh = set(maker.ins) - seen
        seen |= fresh
        work.extend(fresh)
    return False


def buffer_axes(g: Graph, id: int, index: Index, axes: tuple[Expr, ...], group: int = 1) -> tuple[Axis, ...] | None:
    """For each of the axes, the dim of the value's buffer that it runs along and by how many indices; (0, 0) for one that does not move.

    None when one of them moves along several dims, or not evenly. A dim in blocks is taken along by one index only, inside a block; with
    a group > 1 the innermost block is one of so many elements, and its axis steps from group to group.
    """
    root, at = g.value(g.root(id)), root_index(g, id, index)
    blocks = {axis: len(root.layout.order) + place for place, (axis, _) in enumerate(root.layout.blocks)}
    if group > 1:
        del blocks[root.layout.blocks[-1][0]]
    found: list[Axis] = []
    for axis in axes:
        if not isinstance(axis, Var):
            found.append((0, 0))
            continue
        steps = [(dim, step(i, axis)) for dim, i in enumerate(at)]
        moving = [(dim, by) for dim, by in steps if by != 0]
        if len(moving) > 1:
            return None
        dim, by = moving[0] if moving else (0, 0)
        if by is None or (by and dim in blocks and at[dim] != axis):
            return None
        found.append((0, 0) if not by else (blocks[dim], 1) if dim in blocks else (root.layout.order.index(dim), by))
    return tuple(found)


def result_axes(g: Graph, op: Op, *, turned: bool = False) -> tuple[Axis, ...] | None:
    """The dims of the result's buffer that rows and columns run along; None when the microkernel cannot write them there.

    turned: None unless it is the rows that lie side by side, of which the microkernel can write one element only.
    """
    out = g.value(op.outs[0])
    at = zeroed(out.shape, product(g, op).at)
    axes = buffer_axes(g, out.id, at, at[-2:])
    if axes is None:
        return None
    close, far = axes if turned else reversed(axes)
    return axes if far[1] in (0, 1) and has_unit_stride(g, out.id, close) else None


def operand_axes(g: Graph, op: Op, port: int) -> tuple[Axis, ...] | None:
    """As `buffer_axes`, of src (0): M, K and the batch, or of wei (1): K, N and the batch; None when the microkernel cannot read it."""
    p = product(g, op)
    wanted = ((M, K), (K, N))[port]
    id = op.ins[port]
    group = group_of(g, op)
    if (port and group > 1 and not _is_grouped(g, id, group)) or not g.value(g.root(id)).shape:
        return None  # a number has no axis to begin a row on
    axes = buffer_axes(g, id, p.operands[port], (*wanted, *(axis for axis, _ in p.batch)), group if port else 1)
    if axes is None or _share_a_dim(*axes[:2]) or ((port or group > 1) and not has_unit_stride(g, id, axes[1], group if port else 1)):
        return None
    return axes


def packs_src(dtype: DType, target: Target) -> bool:
    """Whether tasks may bring groups of k of a src together for themselves, as wei's are. Tile registers read rows of src as they lie."""
    return dtype is DType.bf16 and not target.in_tiles(dtype)


def columns_of_src(g: Graph, op: Op) -> tuple[Axis, ...] | None:
    """Of a src that lies by columns, the dims of its buffer that K and M run along: dst's rows lie side by side in it. None for others.

    A nest has made it then, and packs it for the microkernel where it reads it, for all columns of dst at once. What is given from outside
    is copied once instead, and so is what groups of columns read different parts of.
    """
    src, p = op.ins[0], product(g, op)
    if group_of(g, op) == 1 or p.batch or g.root(src) in g.ins or g.value(g.root(src)).layout.blocks or operand_axes(g, op, 0) is not None:
        return None
    if any(N.name in variables(i) for i in p.operands[0]):
        return None
    axes = buffer_axes(g, src, p.operands[0], (K, M))
    if axes is None or (0, 0) in axes or _share_a_dim(*axes) or not has_unit_stride(g, src, axes[1]):
        return None
    return axes


def _share_a_dim(first: Axis, second: Axis) -> bool:
    """Whether both move along one dim, as windows and their taps do: a slice has a dim for each of its rows and columns."""
    return first[0] == second[0] and 0 not in (first[1], second[1])


def group_of(g: Graph, op: Op) -> int:
    """Elements of k that a product's dot products take at a time."""
    return next(group for (src, _, _), group in GROUPS.items() if src is g.value(op.ins[0]).dtype)


class Thin(Enum):
    """How a product goes in vectors that has one column, or few rows for weights that lie by columns. folded: along k, which steps from
    element to element in src and wei. turned: along rows, which do so in src and the result."""

    folded = "folded"
    turned = "turned"


def thin(g: Graph, op: Op) -> Thin | None:
    """None for others, sums over more than k, and operands that lie otherwise."""
    *_, m, n = g.value(op.outs[0]).shape
    if n > 1 and (m > ROWS_BY_SHORT_COLUMNS or group_of(g, op) > 1):
        return None
    p = product(g, op)
    if not p.is_matrix_product:
        return None
    src, wei = (buffer_axes(g, v, index, axes) for v, index, axes in zip(op.ins, p.operands, ((M, K), (N, K)), strict=True))
    if src is None or wei is None:
        return None
    if n > 1 and not _has_few_rows_for_columns(g, op, stride(g, op.ins[1], wei[0])):
        return None
    if has_unit_stride(g, op.ins[0], src[1]) and has_unit_stride(g, op.ins[1], wei[1]):
        return Thin.folded
    dst = result_axes(g, op) if n == 1 else None
    is_dense = dst is not None and dst[0][1] == 1 and has_unit_stride(g, op.outs[0], dst[0]) and has_unit_stride(g, op.ins[0], src[0])
    is_f32 = all(g.value(g.root(v)).dtype is DType.f32 for v in (*op.ins, *op.outs))
    return Thin.turned if is_dense and is_f32 else None


def _has_few_rows_for_columns(g: Graph, op: Op, apart: int) -> bool:
    """Whether few rows meet columns of weights that begin so many elements apart."""
    k, wei = product(g, op).reduced[-1], op.ins[1]
    return is_read_on(k, apart, g.value(wei).dtype) and is_given_for_rows(g, op, wei, rows_by_columns(k))


def is_read_on(size: int, apart: int, dtype: DType) -> bool:
    """Whether memory is at its best with rows, or columns, of so many elements, so many apart: they follow each other, or are long.

    128 bytes of keys in bf16, the next of the same head 3 KiB away, one query, gradients, one Zen 4 core: 1.3 times as long as with copies.
    """
    return apart == size or dtype.nbytes(size) >= LONG_BYTES


def rows_by_columns(k: int) -> int:
    """How many rows at most meet weights that lie by columns without a copy of these, for sums of so many terms. See ROWS_BY_COLUMNS."""
    return min(ROWS_BY_SHORT_COLUMNS if k <= SHORT_TERMS else ROWS_BY_COLUMNS, k // TERMS_PER_ROW)


def is_given_for_rows(g: Graph, op: Op, wei: int, most: int) -> bool:
    """Whether a product has so many rows at most for each matrix of weights, made of `wei`, which is given at every execution."""
    p, given = product(g, op), g.value(g.root(wei))
    *_, m, n = p.call.outs[0].shape
    is_plain = p.is_matrix_product and p.columns == n
    return is_plain and m <= most and not given.is_constant and given.id in g.ins and not given.layout.blocks


def acc_dtype(g: Graph, op: Op) -> DType:
    """What a product sums up in."""
    return next(acc for src, _, acc in GROUPS if src is g.value(op.ins[0]).dtype)


def acc_axes(g: Graph, op: Op) -> tuple[Axis, ...] | None:
    """`result_axes` of a product whose result may hold its sums; None where they need a temporary."""
    return result_axes(g, op) if g.value(g.root(op.outs[0])).dtype is acc_dtype(g, op) else None


def _is_grouped(g: Graph, id: int, group: int) -> bool:
    blocks = g.value(g.root(id)).layout.blocks
    return len(blocks) == 2 and blocks[1] == (len(g.value(g.root(id)).shape) - 2, group)


def has_rows(g: Graph, id: int) -> bool:
    """Whether the last axis of a value, if it has any, goes from element to element of memory."""
    shape = g.value(id).shape
    at = zeroed(shape, tuple(Var(f"$i{i}") for i in range(len(shape))))
    axes = buffer_axes(g, id, at, at[-1:])
    return axes is not None and all(has_unit_stride(g, id, axis) for axis in axes)


def has_unit_stride(g: Graph, id: int, axis: Axis, unit: int = 1) -> bool:
    """Whether an axis of a value's buffer goes from element to element of memory (by `unit` of them), or nowhere."""
    return axis[1] == 0 or stride(g, id, axis) == unit


def stride(g: Graph, id: int, axis: Axis) -> int:
    """Elements of memory that a step along an axis of a value's buffer is."""
    root = g.value(g.root(id))
    strides = root.strides if root.strides is not None else dense_strides(root.layout.physical(root.shape))
    dim, by = axis
    return strides[dim] * by
