"""A contraction as a product: the axes it iterates over, and how each of them steps through the buffers of its operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import TypeVar

from benchgraph.core.dtypes import DType
from benchgraph.core.memoise import memoised_within
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.closure import closure
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import Index, root_index, zeroed
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Box, Call, Contraction
from benchgraph.ops.unit_steps import step
from benchgraph.tir.groups import GROUPS
from benchgraph.tir.ir import Const, Expr, Var
from benchgraph.tir.visit import variables

T = TypeVar("T")
Axis = tuple[int, int]  # (dim of the buffer, indices per step)
M, N, K = Var("$m"), Var("$n"), Var("$k")


@dataclass(frozen=True)
class Product:
    """dst[at] = sum over `over` of src[...] * wei[...], all indices symbolic.

    at: $b0 ..., M, N. over: $r0 ..., K, with 0 for axes of extent 1, so that a 1x1 convolution is a plain product. has_input_src: src is an
    input of the graph.
    """

    call: Call
    form: Contraction
    has_constant_wei: bool = False
    has_input_src: bool = False

    @property
    def text(self) -> str:
        """The nest as tuning files name it: dtypes of src and wei, batch x m x k x n, with taps of k as factors, and whether wei is packed
        by init."""
        *batch, m, n = self.call.outs[0].shape
        extents = *batch, m, "*".join(map(str, self.reduced)), n
        src, wei = (t.dtype.value for t in self.call.ins)
        constness = "constant" if self.has_constant_wei else "variable"
        return f"{src}:{wei} {'x'.join(map(str, extents))} {constness}"

    @cached_property
    def at(self) -> Index:
        return (*(Var(f"$b{i}") for i in range(len(self.call.outs[0].shape) - 2)), M, N)

    @cached_property
    def reduced(self) -> Shape:
        return self.form.reduced(self.call)

    @cached_property
    def over(self) -> Index:
        names = (*(Var(f"$r{i}") for i in range(len(self.reduced) - 1)), K)
        return tuple(Const(0) if extent == 1 and name != K else name for name, extent in zip(names, self.reduced, strict=True))

    @property
    def batch(self) -> tuple[tuple[Expr, int], ...]:
        """The batch of batch-reduce: the reduced axes of extent > 1 besides K, with their extents."""
        return tuple((axis, extent) for axis, extent in zip(self.over[:-1], self.reduced, strict=False) if extent != 1)

    @cached_property
    def operands(self) -> tuple[Index, Index]:
        """The indices of src and of wei, 0 along their dims of size 1."""
        indices = self.form.index(self.call, self.at, self.over)
        src, wei = (zeroed(t.shape, index) for index, t in zip(indices, self.call.ins, strict=True))
        return src, wei

    @property
    def columns(self) -> int:
        """Columns of one group."""
        return self.form.group_columns(self.call)

    @property
    def full_box(self) -> Box:
        """All indices of the reduced axes but k."""
        return tuple((0, extent) for extent in self.reduced[:-1])

    def summed_box(self, first: int, count: int) -> Box:
        """The indices of the reduced axes but k that `count` columns from `first` on sum over."""
        return self.full_box if self.form.nonzero is None else self.form.nonzero(self.call, first, count)

    def column_runs(self, nb: int) -> tuple[tuple[int, Box], ...]:
        """Neighbouring blocks of nb columns that sum over the same box: the end of their numbers, and the box."""
        n = self.call.outs[0].shape[-1]
        if self.form.nonzero is None:
            return ((-(-n // nb), self.full_box),)
        return runs([self.summed_box(first, min(nb, n - first)) for first in range(0, n, nb)])

    @cached_property
    def is_row_wise(self) -> bool:
        """Each row of dst reads the same row of src, all of it, and no other row."""
        return self._matches(self.operands[0], (*self.at[:-1], K))

    @cached_property
    def is_matrix_product(self) -> bool:
        """Each batch entry of dst is one matrix of src times one matrix of wei, which all entries may share."""
        return self.is_row_wise and self._matches(self.operands[1], (*self.at[:-2], K, N))

    @property
    def has_one_wei(self) -> bool:
        """All batch entries of dst read the same elements of wei."""
        entries = [at for at in self.at[:-2] if isinstance(at, Var)]
        return all(step(i, at) == 0 for i in self.operands[1] for at in entries)

    @property
    def reduces_adjacent_dims(self) -> bool:
        """K runs along the last dim of src and the last but one of wei, N along wei's last: groups of k can be packed together."""
        src, wei = self.operands
        along = [[step(i, K) for i in index] for index in (src, wei)]
        rows, columns = ({dim - len(steps): by for dim, by in enumerate(steps) if by != 0} for steps in along)
        return rows in ({}, {-1: 1}) and columns in ({}, {-2: 1}) and all(step(i, N) == 0 for i in wei[:-1])

    def _matches(self, index: Index, wanted: Index) -> bool:
        zero = Const(0)
        return len(self.batch) == 0 and len(index) == len(wanted) and all(i in (w, zero) for i, w in zip(index, wanted, strict=True))


def runs(values: Sequence[T]) -> tuple[tuple[int, T], ...]:
    """Run-length encoding: for each run of equal neighbours its end and its value."""
    ends = accumulate(len(list(equal)) for _, equal in groupby(values))
    return tuple((end, values[end - 1]) for end in ends)


@memoised_within
def product(g: Graph, op: Op) -> Product:
    form = op.lowering.form
    assert isinstance(form, Contraction), op.kind
    return Product(g.call(op), form, g.value(op.ins[1]).is_constant, g.root(op.ins[0]) in g.ins)


def weights_bytes(g: Graph, ops: Iterable[Op]) -> int:
    """Of all products among these ops; weights that several share count once."""
    return sum(g.value(v).type.nbytes for v in {op.ins[1] for op in ops if op.lowering.is_contraction})


def depends_on_product(g: Graph, id: int) -> bool:
    """Whether a value depends on the result of a product. Before fusion."""
    values = closure(id, lambda v: maker.ins if (maker := g.maker(v)) is not None else ())
    return any(maker is not None and maker.lowering.is_contraction for maker in map(g.maker, values))


def buffer_axes(g: Graph, id: int, index: Index, axes: tuple[Expr, ...], group: int = 1) -> tuple[Axis, ...] | None:
    """For each of the axes, the dim of the value's buffer that it runs along and its step; (0, 0) for one that does not move.

    None when one of them moves along several dims, or unevenly. Along a dim in blocks it may only move by one index, inside a block. With
    group > 1 the innermost block has so many elements, and its axis steps from group to group.
    """
    root, at = g.value(g.root(id)), root_index(g, id, index)
    blocks = {axis: len(root.layout.order) + place for place, (axis, _) in enumerate(root.layout.blocks)}
    if group > 1:
        del blocks[root.layout.blocks[-1][0]]
    axes_found: list[Axis] = []
    for axis in axes:
        if not isinstance(axis, Var):
            axes_found.append((0, 0))
            continue
        steps = [(dim, step(i, axis)) for dim, i in enumerate(at)]
        moving = [(dim, by) for dim, by in steps if by != 0]
        if len(moving) > 1:
            return None
        dim, by = moving[0] if moving else (0, 0)
        if by is None or (by and dim in blocks and at[dim] != axis):
            return None
        axes_found.append((0, 0) if not by else (blocks[dim], 1) if dim in blocks else (root.layout.order.index(dim), by))
    return tuple(axes_found)


def result_axes(g: Graph, op: Op) -> tuple[Axis, ...] | None:
    """The dims of the result's buffer that rows and columns run along; None when the microkernel cannot write them there."""
    out = g.value(op.outs[0])
    at = zeroed(out.shape, product(g, op).at)
    axes = buffer_axes(g, out.id, at, at[-2:])
    if axes is None:
        return None
    rows, columns = axes
    return axes if rows[1] in (0, 1) and has_unit_stride(g, out.id, columns) else None


def operand_axes(g: Graph, op: Op, port: int) -> tuple[Axis, ...] | None:
    """`buffer_axes` of src (port 0): M, K and the batch, or of wei (1): K, N and the batch; None when the microkernel cannot read it."""
    p = product(g, op)
    wanted = ((M, K), (K, N))[port]
    id = op.ins[port]
    group = k_group(g, op)
    root = g.value(g.root(id))
    is_grouped = len(root.layout.blocks) == 2 and root.layout.blocks[1] == (len(root.shape) - 2, group)
    if (port and group > 1 and not is_grouped) or not root.shape:
        return None  # a number has no axis to begin a row on
    axes = buffer_axes(g, id, p.operands[port], (*wanted, *(axis for axis, _ in p.batch)), group if port else 1)
    if axes is None or _share_a_dim(*axes[:2]) or ((port or group > 1) and not has_unit_stride(g, id, axes[1], group if port else 1)):
        return None
    return axes


def packs_src(dtype: DType, target: Target) -> bool:
    """Whether tasks may pack groups of k of a src themselves, as those of wei are. Tile registers read rows of src as they are stored."""
    return dtype is DType.bf16 and not target.in_tiles(dtype)


def transposed_src_axes(g: Graph, op: Op) -> tuple[Axis, ...] | None:
    """Of a src stored by columns, which a task packs for all columns of dst at once: the dims of its buffer that K and M run along. None
    for any other src. Inputs of the graph are copied once instead, and so is a src of which groups of columns read different parts."""
    src, p = op.ins[0], product(g, op)
    if k_group(g, op) == 1 or p.batch or g.root(src) in g.ins or g.value(g.root(src)).layout.blocks or operand_axes(g, op, 0) is not None:
        return None
    if any(N.name in variables(i) for i in p.operands[0]):
        return None
    axes = buffer_axes(g, src, p.operands[0], (K, M))
    if axes is None or (0, 0) in axes or _share_a_dim(*axes) or not has_unit_stride(g, src, axes[1]):
        return None
    return axes


def _share_a_dim(first: Axis, second: Axis) -> bool:
    """Whether both move along one dim, as windows and their taps do; the microkernel needs a dim for rows and one for columns."""
    return first[0] == second[0] and 0 not in (first[1], second[1])


def k_group(g: Graph, op: Op) -> int:
    """Elements of k that one step of a product's dot products takes."""
    return next(group for (src, _, _), group in GROUPS.items() if src is g.value(op.ins[0]).dtype)


def acc_dtype(g: Graph, op: Op) -> DType:
    """The dtype that a product accumulates in."""
    return next(acc for src, _, acc in GROUPS if src is g.value(op.ins[0]).dtype)


def acc_axes(g: Graph, op: Op) -> tuple[Axis, ...] | None:
    """`result_axes` of a product that can accumulate in its result; None where it needs a temporary."""
    return result_axes(g, op) if g.value(g.root(op.outs[0])).dtype is acc_dtype(g, op) else None


def is_row_major(g: Graph, id: int) -> bool:
    """Whether the last axis of a value, if it has any, has unit stride."""
    shape = g.value(id).shape
    at = zeroed(shape, tuple(Var(f"$i{i}") for i in range(len(shape))))
    axes = buffer_axes(g, id, at, at[-1:])
    return axes is not None and all(has_unit_stride(g, id, axis) for axis in axes)


def has_unit_stride(g: Graph, id: int, axis: Axis, unit: int = 1) -> bool:
    """Whether an axis of a value's buffer steps by `unit` elements of memory, or does not move."""
    return axis[1] == 0 or stride(g, id, axis) == unit


def stride(g: Graph, id: int, axis: Axis) -> int:
    """Elements of memory that one step along an axis of a value's buffer skips."""
    root = g.value(g.root(id))
    strides = root.strides if root.strides is not None else dense_strides(root.layout.physical(root.shape))
    dim, by = axis
    return strides[dim] * by
