"""The draft of an exported program: nothing of it runs in PyTorch, so that views of computed values are ops, and weights are data.

What depends on buffers alone (masks, positions, tables of sines) is computed beforehand. Views of parameters are constants of their own,
but for a transposition that a product reads, which is the product's attribute.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from benchgraph.core.arrays import Array
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.fallback.function import Function
from benchgraph.graph.ir import END, Op
from benchgraph.graph.model import Fallen, Use
from benchgraph.ops.structural import COMPUTES, WILDCARD
from benchgraph.torch.draft import Draft, Unmapped
from benchgraph.torch.functions import COPY, expanding, function_of, slice_of, slicing
from benchgraph.torch.rows import ROWS
from benchgraph.torch.views import LAYOUT_OPS

NARROW = {torch.bfloat16: ml_dtypes.bfloat16, torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn, torch.float8_e5m2: ml_dtypes.float8_e5m2}
OWN = "torch.nn.modules."  # of PyTorch's modules, whose ops have the module's name
aten = torch.ops.aten
EXPORT = "export the model without it"


@dataclass(frozen=True)
class Weight:
    """is_known: a buffer, with which computing beforehand is allowed."""

    name: str
    tensor: torch.Tensor
    is_known: bool


class ExportDraft(Draft):
    """data: the elements of constants, by tensor id. uses: where parameters are in the graph, by name. results: the tensors of the graph's
    results in order, None for one that is no tensor. fallen: nodes without a row, which are Wildcards.
    """

    def __init__(self, module: fx.GraphModule, weights: Sequence[Weight | None]) -> None:
        """weights: of the placeholders that are no inputs of the user's. Raises Unimplemented for what cannot be expressed."""
        self._weights = weights
        self._known = dict[fx.Node, Any]()
        self.fallen = list[Fallen]()
        self.data, self.uses, self.results = dict[int, Array](), dict[str, list[Use]](), list[LogicalTensor | None]()
        self._weight_of = dict[int, Weight]()
        self._views = dict[tuple[int, Shape, Shape, int], LogicalTensor]()
        self._shared = dict[tuple[int, Shape, Shape, torch.dtype], LogicalTensor]()
        module.graph.eliminate_dead_code()
        super().__init__(module, ROWS, frozenset(i for i, w in enumerate(weights) if w is not None), {})
        self.data |= self.literals

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def name_of(self, node: fx.Node) -> str:
        """The module of PyTorch's, else the module and the op."""
        path, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", "")}).values()))
        if path and str(kind).removeprefix("<class '").startswith(OWN):
            return str(path)
        if node.target is operator.getitem:  # of several views
            return self.name_of(node.args[0])
        op = getattr(node.target, "__name__", str(node.target)).partition(".")[0].strip("_")
        return f"{path}.{op}" if path else op

    def described(self, node: fx.Node) -> tuple[tuple[DType, Shape] | None, ...]:
        """Integers are s32, as in all graphs of models."""
        try:
            return tuple(None if t is None else (_narrowed(t[0]), t[1]) for t in super().described(node))
        except GuardOnDataDependentSymNode as bad:
            raise Unimplemented("the size of its result depends on the data", where=self.name_of(node), fix=EXPORT) from bad

    def _add(self, node: fx.Node) -> None:
        if node.op == "call_function" and all(n in self._known for n in node.all_input_nodes) and not _is_random(node):
            given = fx.node.map_arg((node.args, dict(node.kwargs)), self._known.__getitem__)
            self._known[node] = node.target(*given[0], **given[1])
        else:
            super()._add(node)

    def _take(self, node: fx.Node, *, is_constant: bool) -> None:
        weight = self._weights[len(self.inputs)] if node.op == "placeholder" else Weight("", _attribute(self.module, node), is_known=True)
        super()._take(node, is_constant=is_constant)
        (t,) = self.value[node]
        if weight is None:
            return
        if t is None:
            raise Unimplemented(f"it is of type {weight.tensor.dtype}, which no tensor of a graph has", where=weight.name, fix=EXPORT)
        if weight.is_known:
            self._known[node] = weight.tensor
        tensor = weight.tensor.detach()
        key = tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
        if key not in self._shared:
            self._shared[key] = t if tensor.is_contiguous() else replace(t, strides=tuple(tensor.stride()))
            self.data[t.id] = array_of(tensor).astype(t.dtype.numpy, copy=False)
        t = self._shared[key]
        self.value[node] = (t,)
        self._weight_of[t.id] = weight
        if weight.name:
            self.uses.setdefault(weight.name, []).append(Use(t.id))

    def _leave(self, node: fx.Node) -> None:
        """A node without a row, as a Wildcard that says what it computes."""
        if _is_random(node) and node.target not in ROWS:  # attention is random with dropout alone
            raise Unimplemented("it draws random numbers", where=self.name_of(node), fix="export the model in eval mode")
        if not node.target._schema.returns:  # a check of types or sizes, which are as exported
            self.value[node] = ()
            return
        described = self.described(node)
        is_many = isinstance(node.meta["val"], tuple | list)
        read = {user.args[1] for user in node.users} if is_many else {0}
        kept = tuple(i in read for i in range(len(described)))
        if any(t is None and is_read for t, is_read in zip(described, kept, strict=True)):
            raise Unimplemented(f"{node.target} makes what no tensor of a graph is", where=self.name_of(node), fix=EXPORT)
        try:
            function, operands = function_of(node, kept)
            ins = tuple(self.operand(n) for n in operands)
        except (Unmapped, Unimplemented) as bad:
            raise Unimplemented(f"{node.target}: {bad}", where=self.name_of(node), fix=EXPORT) from bad
        self.value[node] = tuple(self._new(*t) if t is not None and is_read else None for t, is_read in zip(described, kept, strict=True))
        self._execute(function, ins, tuple(t for t in self.value[node] if t is not None), self.name_of(node))
        self.fallen.append(Fallen(f"node {node.name}", str(node.target), self.reasons[node]))

    def _execute(self, function: Function, ins: tuple[LogicalTensor, ...], outs: tuple[LogicalTensor, ...], name: str) -> None:
        """Append a Wildcard that says what it computes."""
        attrs = Attrs({COMPUTES: function.text})
        self.ops.append(Op(next(self._op_ids), WILDCARD, attrs, ins, outs, name))

    def _by_layout_ops(self, node: fx.Node) -> LogicalTensor:
        """A view of a computed value: by a layout op, else by numpy."""
        if not self.is_view(node):
            (t,) = self.value[node]
            assert t is not None
            return t
        if node not in self._inner:
            source, before = self.operand(self._source[node]), self._node
            self._node = node
            try:
                self._inner[node] = self._moved(node, source)
            finally:
                self._node = before
        return self._inner[node]

    def _moved(self, node: fx.Node, source: LogicalTensor) -> LogicalTensor:
        """Raises Unmapped for a view that is neither a layout op nor a part of its source."""
        shape = tuple(node.meta["val"].shape)
        if (layout_op := LAYOUT_OPS.get(node.target)) is not None:
            kind, attrs = layout_op(node)
            try:
                return self.op(kind, source, **attrs)
            except Unmapped:  # of integers, which no layout op moves
                return self._by_numpy(function_of(node, (True,))[0], source, shape, node)
        if node.target is aten.expand.default:
            return self._by_numpy(expanding(shape), source, shape, node)
        if (pieces := slice_of(node)) is None:
            function, _ = function_of(node, (True,))
            return self._by_numpy(function, source, shape, node)
        whole = list(source.known_shape)
        for axis, start, end, step in pieces:
            whole[axis] = len(range(start, end, step))
        made = self._by_numpy(slicing(pieces), source, tuple(whole), node) if tuple(whole) != source.known_shape else source
        return made if made.shape == shape else self.op("StaticReshape", made, shape=shape, special_zero=False)

    def _by_numpy(self, function: Function, source: LogicalTensor, shape: Shape, node: fx.Node) -> LogicalTensor:
        made = self._new(source.dtype, shape)
        self._execute(function, (source,), (made,), self.name_of(node))
        self.fallen.append(Fallen(f"node {node.name}", str(node.target), "no layout op takes parts of a tensor"))
        return made

    def _finish(self, output: fx.Node) -> None:
        """The results: one that is an input or a constant is copied, one that ops read as well is marked."""
        self._node = output
        (given,) = output.args
        for result in given if isinstance(given, tuple | list) else (given,):
            if not isinstance(result, fx.Node):
                self.results.append(None)
                continue
            t = self.operand(result)
            made = {out.id for op in self.ops for out in op.outputs}
            self.results.append(t if t.id in made else self._copied(t, result))
        read = {t.id for op in self.ops for t in op.inputs}
        for t in dict.fromkeys(t for t in self.results if t is not None and t.id in read):
            self.ops.append(Op(next(self._op_ids), END, Attrs({}), (t,), ()))

    def _copied(self, t: LogicalTensor, result: fx.Node) -> LogicalTensor:
        """By Reorder, or by numpy where that does not take the dtype."""
        try:
            return self.op("Reorder", t)
        except Unmapped as lack:
            made = self._new(t.dtype, t.known_shape)
            self._execute(COPY, (t,), (made,), result.name)
            self.fallen.append(Fallen(f"result {result.name}", COPY.label, str(lack)))
            return made

    # ---- operands --------------------------------------------------------------------------------------------------

    def operand(self, node: fx.Node) -> LogicalTensor:
        if node in self._known and node.op == "call_function":
            if node not in self._inner:
                self._inner[node] = self._computed(self._known[node])
            return self._inner[node]
        if not self.is_view(node):
            return super().operand(node)
        (base,) = self.value[self.root(node)]
        assert base is not None
        if base.id in self._weight_of:
            return self._weight_view(node, base)
        return self._by_layout_ops(node)

    def _computed(self, value: Any) -> LogicalTensor:
        if not isinstance(value, torch.Tensor) or value.dtype not in self.dtypes:
            raise Unmapped(f"a constant of {getattr(value, 'dtype', type(value).__name__)}")
        return self.literal(array_of(value.contiguous()), _narrowed(self.dtypes[value.dtype]))

    def _weight_view(self, node: fx.Node, base: LogicalTensor) -> LogicalTensor:
        """A view of a parameter as a constant: with its strides if these leave out no element, else as a dense copy."""
        place, weight = self.view(node), self._weight_of[base.id]
        assert place is not None
        key = place.base, place.shape, place.strides, place.offset
        if key not in self._views:
            seen = weight.tensor.detach().as_strided(place.shape, place.strides, weight.tensor.storage_offset() + place.offset)
            is_whole = sorted(zip(place.strides, place.shape, strict=True), reverse=True)
            dense = tuple(s for s, _ in is_whole) == dense_strides(tuple(d for _, d in is_whole)) and seen.numel() == weight.tensor.numel()
            made = self._new(base.dtype, place.shape, PropertyType.constant)
            made = replace(made, strides=place.strides) if dense else made
            self.data[made.id] = array_of(seen if dense else seen.contiguous())
            self._views[key] = made
            if weight.tensor.is_contiguous():
                use = Use(made.id, tuple(weight.tensor.shape), (place.shape, place.strides, place.offset))
                self.uses.setdefault(weight.name, []).append(use)
        return self._views[key]

    def op(self, kind: str, *ins: LogicalTensor, dtype: DType | None = None, **attrs: Any) -> LogicalTensor:
        """As in the base class; a product of a transposed parameter reads the parameter."""
        if kind == "MatMul" and (base := self._transposed(ins[1])) is not None:
            attrs["transpose_b"] = not attrs.get("transpose_b", False)
            ins = (ins[0], base, *ins[2:])
        return super().op(kind, *ins, dtype=dtype, **attrs)

    def _transposed(self, t: LogicalTensor) -> LogicalTensor | None:
        """The parameter of which a tensor is the transposed matrix."""
        for (base, shape, strides, offset), made in self._views.items():
            whole = self._weight_of[base].tensor
            if made.id == t.id and not offset and whole.ndim == 2:
                is_swapped = (shape, strides) == (tuple(whole.shape)[::-1], tuple(whole.stride())[::-1])
                return next(w for w in self._shared.values() if w.id == base) if is_swapped else None
        return None


def array_of(tensor: torch.Tensor) -> Array:
    """The tensor's elements as an array on the same memory."""
    bare = tensor.detach()
    narrow = NARROW.get(bare.dtype)
    if narrow is None:
        plain: Array = bare.numpy()
        return plain
    wide: Array = bare.view(torch.uint8 if bare.element_size() == 1 else torch.int16).numpy().view(narrow)
    return wide


def _narrowed(dtype: DType) -> DType:
    return DType.s32 if dtype is DType.s64 else dtype


def _attribute(module: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    found = operator.attrgetter(str(node.target))(module)
    assert isinstance(found, torch.Tensor)
    return found


def _is_random(node: fx.Node) -> bool:
    """Attention is, by its tag, where it could drop elements."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
