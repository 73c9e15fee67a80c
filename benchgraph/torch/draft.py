"""Translates an FX graph of ATen ops into a graph of the library's ops.

    t    = aten.t(w)                  a view of w: the partition reads w with other strides
    mm   = aten.addmm(b, x, t)   ->   op 0: MatMul(x, w', b)
    v    = aten.view(mm, ...)    ->   op 1: StaticReshape, for the ops after it; nothing else needs one
    topk = aten.topk(v)          ->   op 2: Wildcard, run by PyTorch
    add  = aten.add(v, 1)        ->   op 3: Add

View nodes are not executed. Between offloaded ops they are the library's layout ops, which become index maps; at a border they are other
strides on the same memory. Nodes without a row are Wildcards in the graph, so that the library knows which values leave its ops, and no
partition bypasses them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape
from benchgraph.graph.check import check_one
from benchgraph.graph.infer import infer_outputs
from benchgraph.graph.ir import Op
from benchgraph.ops.structural import WILDCARD
from benchgraph.torch.views import LAYOUT_OPS, VIEWS

Literal = npt.NDArray[np.generic]
Row = Callable[..., "LogicalTensor | tuple[LogicalTensor | None, ...]"]

Key = int | str  # identifies a value at run time: its tensor id, or its node's name if the library has no such tensor

DTYPES: Mapping[torch.dtype, DType] = {
    torch.float32: DType.f32, torch.bfloat16: DType.bf16, torch.float16: DType.f16, torch.int64: DType.s64, torch.int32: DType.s32,
    torch.int8: DType.s8, torch.uint8: DType.u8, torch.bool: DType.boolean,
}  # fmt: skip


class Unmapped(Exception):
    """The reason why PyTorch runs a node."""


@dataclass(frozen=True)
class View:
    """A value in another one's memory. base: that one's tensor id; offset: elements from its first to ours."""

    base: int
    offset: int
    shape: Shape
    strides: Shape


class Draft:
    """ops: the library's, including Wildcards. owner: op id -> the node it was made for. reasons: why a node is not offloaded.

    value: the tensors of a node's results, None for unsupported ones. views: tensor id -> its view. literals: tensor id -> a constant of
    ours. strides: of tensors that PyTorch may read; others may have any layout.
    """

    dtypes = DTYPES

    def __init__(self, module: fx.GraphModule, rows: Mapping[Any, Row], constant: frozenset[int], refused: Mapping[str, str]) -> None:
        self.module, self._rows, self._constant, self._refused = module, rows, constant, refused
        self.ops = list[Op]()
        self.owner, self.reasons = dict[int, fx.Node](), dict[fx.Node, str]()
        self.value = dict[fx.Node, tuple[LogicalTensor | None, ...]]()
        self.views, self.literals, self.strides = dict[int, View](), dict[int, Literal](), dict[int, Shape]()
        self.inputs, self.attrs = list[fx.Node](), list[fx.Node]()
        self.offloaded = set[fx.Node]()
        self._source = dict[fx.Node, fx.Node]()
        self._inner, self._outer = dict[fx.Node, LogicalTensor](), dict[fx.Node, LogicalTensor]()
        self._ids, self._op_ids = count(), count()
        self._node: fx.Node | None = None
        self._token: LogicalTensor | None = None
        for node in module.graph.nodes:
            self._add(node)

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def _add(self, node: fx.Node) -> None:
        self._node = node
        if node.op == "placeholder":
            self._take(node, is_constant=len(self.inputs) in self._constant)
            self.inputs.append(node)
        elif node.op == "get_attr":
            self._take(node, is_constant=True)
            self.attrs.append(node)
        elif node.op == "output":
            self._finish(node)
        elif node.target is operator.getitem and node.args[0] in self._source:
            self._source[node] = self._source[node.args[0]]  # one of several views
        elif node.target is operator.getitem:
            whole, index = node.args
            self.value[node] = (self.value[whole][index],)
            if whole in self.offloaded:
                self.offloaded.add(node)
        elif node.target in VIEWS and self._is_view(node):
            self._source[node] = node.all_input_nodes[0]
        elif not self._offload(node):
            self._leave(node)

    def _finish(self, output: fx.Node) -> None:
        """Mark the results of the graph, which PyTorch reads."""
        for root in dict.fromkeys(self.root(n) for n in output.all_input_nodes):
            self._wildcard([t for t in self.value[root] if t is not None], [])

    def _take(self, node: fx.Node, *, is_constant: bool) -> None:
        kind = PropertyType.constant if is_constant else PropertyType.variable
        self.value[node] = tuple(None if t is None else self._new(*t, property_type=kind) for t in self.described(node))
        self._record_strides(node)

    def _offload(self, node: fx.Node) -> bool:
        """Translate the node to ops of the library, if possible. Returns whether it was."""
        before = len(self.ops), dict(self._inner), dict(self._outer)
        try:
            results = self._mapped(node)
        except Unmapped as bad:
            del self.ops[before[0] :]
            self._inner, self._outer = before[1:]
            self.reasons[node] = str(bad)
            return False
        self.value[node] = results
        self.offloaded.add(node)
        self._record_strides(node)
        return True

    def _mapped(self, node: fx.Node) -> tuple[LogicalTensor | None, ...]:
        if node.name in self._refused:
            raise Unmapped(self._refused[node.name])
        row = self._rows.get(node.target)
        if row is None:
            raise Unmapped(f"no row for {node.target}")
        for n in node.all_input_nodes:
            _check_elements(n, self.described(n))
        given = fx.node.map_arg(arguments(node), self.operand)
        made = row(self, **given)
        results = made if isinstance(made, tuple) else (made,)
        expected = self.described(node)
        used = {user.args[1] for user in node.users if user.users} if isinstance(node.meta["val"], tuple | list) else {0}
        for i, want in enumerate(expected):
            got = results[i] if i < len(results) else None
            if i in used:
                _check_elements(node, (want,))
                if got is None or want is None:
                    raise Unmapped(f"its result {i} is read, which the library does not make")
            if got is not None and want is not None and (got.dtype, got.shape) != want:
                raise Unmapped(f"PyTorch makes {want[0].value}{list(want[1])} of it, the library {got.dtype.value}{list(got.shape or ())}")
        return results + (None,) * (len(expected) - len(results))

    def _leave(self, node: fx.Node) -> None:
        """Add a Wildcard for a node that PyTorch runs. Nodes with side effects stay in order."""
        self.value[node] = tuple(None if t is None else self._new(*t) for t in self.described(node))
        self._record_strides(node)
        roots = dict.fromkeys(self.root(n) for n in node.all_input_nodes)
        ins = [t for root in roots for t in self.value[root] if t is not None]
        outs = [t for t in self.value[node] if t is not None]
        if node.is_impure() or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            ins += [] if self._token is None else [self._token]
            self._token = self._new(DType.undef, ())
            outs.append(self._token)
        self.owner[self._wildcard(ins, outs)] = node

    # ---- used by rows ----------------------------------------------------------------------------------------------

    def op(self, kind: str, *ins: LogicalTensor, dtype: DType | None = None, **attrs: Any) -> LogicalTensor:
        """Append an op with one output, of this dtype, else the first input's. Raises Unmapped with its row's error."""
        assert self._node is not None
        outs = (LogicalTensor(next(self._ids), dtype or ins[0].dtype),)
        op = Op(next(self._op_ids), kind, Attrs(attrs), tuple(ins), outs, self.name_of(self._node))
        try:
            check_one(op)
            (made,) = infer_outputs(op, op.inputs)
        except BenchgraphError as bad:
            raise Unmapped(str(bad)) from bad
        self.ops.append(Op(op.id, kind, op.attrs, op.inputs, (made,), op.name))
        self.owner[op.id] = self._node
        return made

    def described(self, node: fx.Node) -> tuple[tuple[DType, Shape] | None, ...]:
        """dtype and shape of each of a node's results; None for tensors that the library does not support."""
        val = node.meta.get("val")
        return tuple(map(_described, val if isinstance(val, tuple | list) else (val,)))

    def name_of(self, node: fx.Node) -> str:
        """The name of the ops that a node becomes."""
        return str(node.name)

    def literal(self, data: Literal | float, dtype: DType = DType.f32) -> LogicalTensor:
        array = np.asarray(data, dtype.numpy)
        made = self._new(dtype, array.shape, property_type=PropertyType.constant)
        self.literals[made.id] = array
        return made

    def keys(self, node: fx.Node) -> tuple[Key, ...]:
        """The run-time keys of the results of a node that is no view."""
        names = (node.name,) if len(self.value[node]) == 1 else tuple(f"{node.name}.{i}" for i in range(len(self.value[node])))
        if node.target is operator.getitem:
            whole, index = node.args
            names = (f"{whole.name}.{index}",)
        return tuple(name if t is None else t.id for t, name in zip(self.value[node], names, strict=True))

    def operand(self, node: fx.Node) -> LogicalTensor:
        """A node's value for an op of the library."""
        if node not in self._source:
            (t,) = self.value.get(node, (None,))
            if t is None:
                raise Unmapped(f"{node.name} is no tensor of a dtype that the library knows")
            return t
        inside = self._by_layout_ops(node) if self.root(node) in self.offloaded else None
        return self._border_view(node) if inside is None else inside

    # ---- views -----------------------------------------------------------------------------------------------------

    def root(self, node: fx.Node) -> fx.Node:
        """The node that owns the memory of a node's value."""
        while node in self._source:
            node = self._source[node]
        return node

    def view(self, node: fx.Node) -> View | None:
        """The view of a node; None if it is none."""
        if node not in self._source:
            return None
        base, (t,) = self.root(node), self.value[self.root(node)]
        assert t is not None
        val = node.meta["val"]
        return View(t.id, val.storage_offset() - base.meta["val"].storage_offset(), tuple(val.shape), tuple(val.stride()))

    def is_view(self, node: fx.Node) -> bool:
        return node in self._source

    def _is_view(self, node: fx.Node) -> bool:
        """Whether the op's result is a view of a single tensor that the library can read."""
        root = self.root(node.all_input_nodes[0])
        return len(self.value[root]) == 1 and self.value[root][0] is not None

    def _by_layout_ops(self, node: fx.Node) -> LogicalTensor | None:
        """The view of an offloaded value by the library's layout ops; None if it lacks one of them."""
        if node not in self._source:
            (t,) = self.value[node]
            return t
        if node not in self._inner:
            layout_op = LAYOUT_OPS.get(node.target)
            source = self._by_layout_ops(self._source[node]) if layout_op is not None else None
            if layout_op is None or source is None:
                return None
            kind, attrs = layout_op(node)
            before, self._node = self._node, node
            try:
                self._inner[node] = self.op(kind, source, **attrs)
            finally:
                self._node = before
            self.strides[self._inner[node].id] = tuple(node.meta["val"].stride())
        return self._inner[node]

    def _border_view(self, node: fx.Node) -> LogicalTensor:
        """The view as a tensor of its own at the border, on the memory of its base."""
        if node not in self._outer:
            place, (base,) = self.view(node), self.value[self.root(node)]
            assert place is not None
            assert base is not None
            made = LogicalTensor(next(self._ids), base.dtype, place.shape, place.strides, property_type=base.property_type)
            self.views[made.id] = place
            if self.root(node).op == "call_function":
                self._wildcard([base], [made])
            self._outer[node] = made
        return self._outer[node]

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def _new(self, dtype: DType, shape: Shape, property_type: PropertyType = PropertyType.variable) -> LogicalTensor:
        return LogicalTensor(next(self._ids), dtype, shape, property_type=property_type)

    def _record_strides(self, node: fx.Node) -> None:
        vals = node.meta.get("val")
        for t, val in zip(self.value[node], vals if isinstance(vals, tuple | list) else (vals,), strict=True):
            if t is not None and isinstance(val, torch.Tensor):
                self.strides[t.id] = tuple(val.stride())

    def _wildcard(self, ins: Sequence[LogicalTensor], outs: Sequence[LogicalTensor]) -> int:
        id = next(self._op_ids)
        self.ops.append(Op(id, WILDCARD, Attrs({}), tuple(ins), tuple(outs)))
        return id


def _described(val: object) -> tuple[DType, Shape] | None:
    if not isinstance(val, torch.Tensor) or val.layout is not torch.strided or val.device.type != "cpu" or val.is_conj() or val.is_neg():
        return None
    dtype = DTYPES.get(val.dtype)
    return None if dtype is None else (dtype, tuple(int(d) for d in val.shape))


def _check_elements(node: fx.Node, values: Sequence[tuple[DType, Shape] | None]) -> None:
    """Raises Unmapped for tensors without elements, for which PyTorch has no memory."""
    if any(t is not None and 0 in t[1] for t in values):
        raise Unmapped(f"{node.name} has no elements")


def arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a node by name, including the schema's defaults; `self` is called src."""
    schema = node.target._schema
    by_name = {}
    for position, a in enumerate(schema.arguments):
        given = node.args[position] if position < len(node.args) else node.kwargs.get(a.name, a.default_value)
        by_name["src" if a.name == "self" else a.name] = given
    return by_name
