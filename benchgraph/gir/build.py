"""Building Graph IR: from a partition, and op by op (which is what decompositions do)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import LAYOUTS, Layout, plain
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape, TensorType, dense_strides
from benchgraph.gir.ir import Constness, Graph, Literal, Node, Op, Value, View
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Array
from benchgraph.partition.ir import Partition

# The ops that passes insert: the same elements in another buffer, in another dtype, and in another order.
COPY, CONVERT, TRANSPOSE = "Reorder", "TypeCast", "StaticTranspose"


def from_partition(p: Partition, open_outputs: Collection[int] = ()) -> Graph:
    """One Graph IR op per API op; attributes get their defaults; constant inputs become run-time constants. open_outputs: ids of outputs
    whose layout the compiler chooses. Raises InvalidArguments for an unknown layout id."""
    ids: dict[int, int] = {}
    values: list[Value] = []
    open_layouts: list[tuple[int, Layout | None]] = []

    def value(t: LogicalTensor, layout: Layout | None = None, strides: Shape | None = None, *, is_constant: bool = False) -> int:
        if t.id not in ids:
            ids[t.id] = len(values)
            constness = Constness.runtime if is_constant else Constness.variable
            values.append(Value(ids[t.id], t.dtype, t.known_shape, layout or plain(t.ndims), constness, strides))
        return ids[t.id]

    def output(t: LogicalTensor) -> int:
        layout = _blocked(t)
        if layout is None and t.id not in open_outputs:
            return value(t, strides=_strides(t))
        open_layouts.append((value(t), layout))
        return ids[t.id]

    ins = tuple(value(t, layout := _blocked(t), None if layout else _strides(t), is_constant=t.is_constant) for t in p.inputs)
    outs = tuple(map(output, p.outputs))
    nodes = []
    for op in p.ops:
        sources = tuple(value(t) for t in op.inputs)
        results = tuple(value(t) for t in op.outputs)
        nodes.append(Op(op.kind, sources, results, with_defaults(op.kind, op.attrs)))
    return Graph(tuple(values), tuple(nodes), ins, outs, tuple(open_layouts), p.options.forced, p.fpmath_mode)


def _strides(t: LogicalTensor) -> Shape:
    """The strides of a tensor that is not in blocks: row-major unless it is strided."""
    return t.known_strides if t.layout_type is LayoutType.strided else dense_strides(t.known_shape)


def _blocked(t: LogicalTensor) -> Layout | None:
    """The layout of an opaque tensor, None if it is row-major."""
    if t.layout_type is not LayoutType.opaque:
        return None
    layout = LAYOUTS.layout(t.layout_id)
    if layout.rank != t.ndims:
        what = f"layout {t.layout_id} is for {layout.rank} dims, tensor {t.id} has {t.ndims}"
        raise InvalidArguments(what, where="compile", fix="use the layout id of a tensor with as many dims")
    return None if layout.is_plain else layout


class Builder:
    """Appends ops and values to existing values, whose ids stay; implements ops.spec.Decomposer."""

    def __init__(self, values: tuple[Value, ...]) -> None:
        self.values = {v.id: v for v in values}
        self.nodes: list[Op] = []
        self.next = max(self.values, default=-1) + 1  # the number of the next value

    def new_value(self, dtype: DType, shape: Shape, literal: Literal | None = None) -> int:
        id, self.next = self.next, self.next + 1
        constness = Constness.variable if literal is None else Constness.compile
        self.values[id] = Value(id, dtype, shape, plain(len(shape)), constness, literal=literal)
        return id

    def op(self, kind: str, *ins: int, attrs: Attrs = NO_ATTRS, shape: Shape | None = None, dtype: DType | None = None) -> int:
        """Append an op with one output; its shape is inferred and its dtype is the first input's, unless given."""
        full = with_defaults(kind, attrs)
        types = tuple(self.type(v) for v in ins)
        out = self.new_value(dtype or types[0].dtype, spec(kind).semantics.infer(full, types)[0] if shape is None else shape)
        self.nodes.append(Op(kind, ins, (out,), full))
        return out

    def const(self, value: Array | float, dtype: DType = DType.f32) -> int:
        """A compile-time constant; a Python number makes one of shape ()."""
        array = np.asarray(value).astype(dtype.numpy)
        return self.new_value(dtype, array.shape, Literal(dtype, array.shape, array.tobytes()))

    def type(self, value: int) -> TensorType:
        return self.values[value].type

    def taken(self) -> list[Op]:
        """The nodes appended since the last call."""
        nodes, self.nodes = self.nodes, []
        return nodes

    def forget(self, first: int) -> None:
        """Values from this number on, and their nodes."""
        for id in range(first, self.next):
            self.values.pop(id, None)
        self.nodes, self.next = [], first

    def graph(self, g: Graph, nodes: Iterable[Node]) -> Graph:
        """The graph with these nodes and all values; g itself when its nodes are the same."""
        nodes = tuple(nodes)
        return g if nodes == g.nodes else replace(g, values=tuple(self.values.values()), nodes=nodes)


def copied(values: dict[int, Value], nodes: list[Node], id: int, layout: Layout, dtype: DType | None = None) -> int:
    """A copy in this layout, and in this dtype if there is one, made behind the other nodes."""
    v, new = values[id], max(values) + 1
    values[new] = Value(new, dtype or v.dtype, v.shape, layout, Constness.runtime if v.is_constant else Constness.variable)
    nodes.append(Op(COPY if dtype is None else CONVERT, (id,), (new,)))
    return new


def through_views(values: dict[int, Value], id: int, base: int) -> int:
    """Another buffer of the root's shape through the views of a value; the buffer itself where there are none."""
    chain = list[tuple[Value, View]]()
    while (view := values[id].view) is not None:
        chain.append((values[id], view))
        id = view.base
    for v, view in reversed(chain):
        new = max(values) + 1
        values[new] = replace(v, id=new, dtype=values[base].dtype, view=replace(view, base=base))
        base = new
    return base
