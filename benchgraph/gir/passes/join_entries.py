"""join-entries: batch entries of few rows, which meet the same weights, become rows of one product.

%2: [32,1,N] = MatMul(%0: [32,1,K], %1: [K,N])        %2: [1,32,N] = MatMul(%0: [1,32,K], %1: [K,N])
%3: [32,1,N] = Add(%2, bias)                   ->     %3: [1,32,N] = Add(%2, bias)
%5: [32,8,N/8] = StaticReshape(%3)                    %4: [32,1,N] = StaticReshape(%3)
                                                      %5: [32,8,N/8] = StaticReshape(%4)

Such are the tokens that a language model makes for several users at a time, and the queries of the heads that share a head of keys. All
ops on such rows are joined, and inputs and outputs of the graph take the other shape as they are; at what is left StaticReshapes stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.data_movement import movement
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Node, Op, Value
from benchgraph.gir.product import product
from benchgraph.ops import spec
from benchgraph.ops.affine import unit_steps
from benchgraph.ops.spec import Reduction
from benchgraph.ops.steps import reshaped

# Rows of an entry up to which entries are joined: any weights, and those that a core's own cache (L2) does not hold. Two Zen 5 cores (L2
# 1 MiB), times over those of entries, minima, of bf16 and f32, with weights that change, and constant ones:
#
#     entries x rows, K x N       changing      constant       entries x rows, K x N       changing      constant
#     128 x 1, 64x64            0.40  0.68    0.67  0.64       128 x 1, 1024x1024        0.11  0.17    0.34  0.36
#     32 x 4, 64x64             1.13  1.04    1.09  1.05       32 x 4, 1024x1024         1.00  0.96    0.99  0.99
#     8 x 16, 64x64             1.06  1.00    1.00  1.00       8 x 16, 1024x1024         0.99  0.66    0.99  0.99
#     4 x 128, 64x64            0.93  1.00    0.98  1.01       4 x 128, 1024x1024        0.91  0.92    1.00  1.00
#     64 x 17, 64x64            1.09  1.00    1.00  1.00       64 x 17, 1024x1024        1.05  0.98    1.02  0.99
#     128 x 1, 256x256          0.25  0.37    0.36  0.36       128 x 1, 4096x4096        0.05  0.07    0.36  0.37
#     32 x 4, 256x256           0.92  0.96    0.98  0.99       32 x 4, 4096x4096         0.26  0.32    1.03  0.91
#     8 x 16, 256x256           0.92  0.96    0.99  1.00       8 x 16, 4096x4096         0.55  0.52    0.73  0.74
#     4 x 128, 256x256          1.00  1.01    1.00  1.00       4 x 128, 4096x4096        0.85  0.87    1.01  0.98
#     64 x 17, 256x256          1.07  1.01    1.03  1.00       64 x 17, 4096x4096        0.72  0.67    0.73  0.78
#
# and of attention with 8 heads of 128 keys, where 4, 8 and 16 queries share one of them:
#
#     512 keys     bf16 0.63  0.45  0.33    f32 0.45  0.42  0.38    f16 0.66  0.61  0.59
#     4096 keys    bf16 0.56  0.34  0.25    f32 0.44  0.42  0.46    f16 0.49  0.46  0.51
FEW_ROWS, ROWS_FOR_LARGE_WEIGHTS = 16, 128


@dataclass(frozen=True)
class Joint:
    """dims: those of the entries that become rows, and, last, that of the rows; they stand before a value's last one."""

    dims: Shape

    def is_in(self, shape: Shape) -> bool:
        """Whether a value has all of these entries."""
        return len(shape) > len(self.dims) and shape[-1 - len(self.dims) : -1] == self.dims

    def is_missed_by(self, shape: Shape) -> bool:
        """Whether a value is the same for all rows of all entries."""
        return prod(shape[-1 - len(self.dims) : -1]) == 1

    def axes(self, shape: Shape) -> frozenset[int]:
        """Where these dims are."""
        return frozenset(range(len(shape) - 1 - len(self.dims), len(shape) - 1))

    def joined(self, shape: Shape) -> Shape:
        """The same value, with as many dims."""
        return (*shape[: -1 - len(self.dims)], *(1,) * (len(self.dims) - 1), prod(self.dims), shape[-1])

    def strides(self, border: Value) -> Shape | None:
        """Those of a border value in the other shape; None where its entries do not lie one behind the other."""
        *outer, last = border.known_strides
        steps, outer = outer[-len(self.dims) :], outer[: -len(self.dims)]
        moving = [(extent, step) for extent, step in zip(self.dims, steps, strict=True) if extent != 1]
        if any(step != extent * inner for (_, step), (extent, inner) in pairwise(moving)):
            return None
        row = moving[-1][1]
        return (*outer, *(row * prod(self.dims),) * (len(self.dims) - 1), row, last)


def join_entries(g: Graph, target: Target) -> Graph:
    """One group of ops after the other, each from the first product in it that has few rows."""
    left_alone: list[Op] = []
    while (found := next(_seeds(g, left_alone, target), None)) is not None:
        seed, joint = found
        if (ops := _group(g, seed, joint)) is None:
            left_alone.append(seed)
        else:
            g = _Joined(g, joint, ops).graph()
    return g


# ---- which ops are joined ------------------------------------------------------------------------------------------------


def _seeds(g: Graph, left_alone: list[Op], target: Target) -> Iterator[tuple[Op, Joint]]:
    for op in g.ops:
        if spec(op.kind).lowering.is_contraction and op not in left_alone and (joint := _joint(g, op, target)) is not None:
            yield op, joint


def _joint(g: Graph, op: Op, target: Target) -> Joint | None:
    """Which entries of a product become rows: the last ones, which all meet one matrix of weights, if each has few rows."""
    if not product(g, op).is_matrix_product:
        return None
    *batch, rows, _ = g.value(op.outs[0]).shape
    wei = g.value(op.ins[1]).type
    *own, k, n = (1,) * (len(batch) + 2 - len(wei.shape)) + wei.shape
    shared = batch[max((i for i, extent in enumerate(own, start=1) if extent != 1), default=0) :]
    most = ROWS_FOR_LARGE_WEIGHTS if wei.dtype.nbytes(k * n) > target.l2_bytes else FEW_ROWS
    joint = Joint((*shared, rows))
    return joint if rows <= most and prod(shared) > 1 and _has_joined_rows(g, op, joint) else None


def _has_joined_rows(g: Graph, op: Op, joint: Joint) -> bool:
    """Whether a product, given src in the other shape, makes dst in it. A convolution of one row by a stride of 2 skips the next row."""
    src, wei = (g.value(v).type for v in op.ins[:2])
    made = spec(op.kind).semantics.infer(op.attrs, (replace(src, shape=joint.joined(src.shape)), wei))[0]
    return made == joint.joined(g.value(op.outs[0]).shape)


def _group(g: Graph, seed: Op, joint: Joint) -> list[Op] | None:
    """The ops that are joined with a product; None where what is left could have shared a nest with them, or brings rows that are columns
    elsewhere, as where channels come first."""
    ops, work = [seed], [seed]
    while work:
        op = work.pop()
        rows = [v for v in (*op.ins, *op.outs) if joint.is_in(g.value(v).shape)]
        for v, near in ((value, node) for value in rows for node in (*g.consumers[value], g.producer.get(value))):
            if near is None or near in ops:
                continue
            assert isinstance(near, Op)
            if _can_join(g, near, joint):
                ops.append(near)
                work.append(near)
            elif not (spec(near.kind).lowering.is_contraction or (movement(near) is not None and _keeps_rows(g, near, v))):
                return None
    return ops


def _keeps_rows(g: Graph, move: Op, v: int) -> bool:
    """Whether a movement to or from a value leaves elements of its rows side by side."""
    src, dst = g.value(move.ins[0]).shape, g.value(move.outs[0]).shape
    return unit_steps(move.kind, move.attrs, src, dst, inverse=v in move.outs)[-1:] == (len(g.value(v).shape) - 1,)


def _can_join(g: Graph, op: Op, joint: Joint) -> bool:
    """Whether an op, of which a value has the entries, does the same to each of their rows."""
    ins, row = [g.value(v).shape for v in op.ins], spec(op.kind)
    if row.lowering.is_contraction:
        by_rows = joint.is_in(ins[0]) and joint.is_missed_by((*ins[1][:-2], 1, 1))
        return by_rows and product(g, op).is_matrix_product and _has_joined_rows(g, op, joint)
    if isinstance(row.lowering.form, Reduction):
        return op.attrs.flag("keep_dims") and joint.is_in(ins[0]) and joint.axes(ins[0]).isdisjoint(reduction_axes(op, len(ins[0])))
    return row.lowering.is_pointwise and all(joint.is_in(shape) or joint.is_missed_by(shape) for shape in ins)


# ---- the graph with them joined ------------------------------------------------------------------------------------------


@dataclass
class _Joined:
    """A group of ops on values of the other shape.

    inside, outside: value -> the same value for the group's ops, and for all others, where that is not itself. moves: value -> the
    movement between the two, after whoever makes it.
    """

    g: Graph
    joint: Joint
    ops: list[Op]
    inside: dict[int, int] = field(default_factory=dict)
    outside: dict[int, int] = field(default_factory=dict)
    moves: dict[int, list[Op]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(self.g.values)

    def graph(self) -> Graph:
        """The graph in which the ops are joined; outputs left open are row-major, as the ops of few rows write them."""
        for v in sorted({v for op in self.ops for v in (*op.ins, *op.outs) if self.joint.is_in(self.g.value(v).shape)}):
            self.moves[v] = self._move(v)
        nodes: list[Node] = [move for v, moves in self.moves.items() if v not in self.g.producer for move in moves]
        for op in self.g.ops:
            ids = self.inside if op in self.ops else self.outside
            outs = tuple(self.inside.get(v, v) if op in self.ops else v for v in op.outs)
            nodes.append(replace(op, ins=tuple(ids.get(v, v) for v in op.ins), outs=outs))
            nodes += (move for v in op.outs for move in self.moves.get(v, ()))
        values = self.builder.values
        open_layouts = tuple((v, layout) for v, layout in self.g.open_layouts if values[v].shape == self.g.value(v).shape)
        return replace(self.g, values=tuple(values.values()), nodes=tuple(nodes), open_layouts=open_layouts)

    def _move(self, v: int) -> list[Op]:
        """What brings a value from the group to others or from others to the group; nothing where no one needs it."""
        value, is_made_here = self.g.value(v), self.g.producer.get(v) in self.ops
        if (is_made_here or v in self.g.ins) and (changed := self._in_place(value)) is not None:
            self.builder.values[v] = changed
            if all(op in self.ops for op in self.g.consumers[v]):
                return []
            self.outside[v] = reshaped(self.builder, v, value.shape)
        elif is_made_here:
            self.inside[v] = self.builder.new_value(value.dtype, self.joint.joined(value.shape))
            return [Op("StaticReshape", (self.inside[v],), (v,), Attrs(shape=value.shape, special_zero=False))]
        else:
            self.inside[v] = reshaped(self.builder, v, self.joint.joined(value.shape))
        return [self.builder.nodes.pop()]

    def _in_place(self, value: Value) -> Value | None:
        """A value in the other shape; None for a tensor of the user's that does not have it without being moved."""
        is_moved_input = value.layout.blocks or any(v == value.id and layout for v, layout in self.g.open_layouts)
        strides = None if is_moved_input else self.joint.strides(value)
        if strides is None and value.id in {*self.g.ins, *self.g.outs}:
            return None
        return replace(value, shape=self.joint.joined(value.shape), strides=None if value.strides is None else strides)
