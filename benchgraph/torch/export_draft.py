"""The draft of an exported program: nothing of it runs in PyTorch, so that views of computed values are ops, and weights are data.

What depends on buffers alone (masks, positions, tables of sines) is computed beforehand. Views of parameters are constants of their own,
but for a transposition that a product reads, which is the product's attribute.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import torch
from torch import fx

from benchgraph.core.arrays import Array
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph.ir import END, Op
from benchgraph.graph.model import Use
from benchgraph.torch.draft import Draft, Unmapped
from benchgraph.torch.rows import ROWS

NARROW = {torch.bfloat16: ml_dtypes.bfloat16, torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn, torch.float8_e5m2: ml_dtypes.float8_e5m2}
OWN = "torch.nn.modules."  # of PyTorch's modules, whose ops have the module's name
SHOWN = 8
EXPORT = "export the model without it"


@dataclass(frozen=True)
class Weight:
    """is_known: a buffer, with which computing beforehand is allowed."""

    name: str
    tensor: torch.Tensor
    is_known: bool


class ExportDraft(Draft):
    """data: the elements of constants, by tensor id. uses: where parameters are in the graph, by name. results: the tensors of the graph's
    results in order, None for one that is no tensor.
    """

    def __init__(self, module: fx.GraphModule, weights: Sequence[Weight | None]) -> None:
        """weights: of the placeholders that are no inputs of the user's. Raises Unimplemented for what cannot be expressed."""
        self._weights = weights
        self._known = dict[fx.Node, Any]()
        self.data, self.uses, self.results = dict[int, Array](), dict[str, list[Use]](), list[LogicalTensor | None]()
        self._weight_of = dict[int, Weight]()
        self._views = dict[tuple[int, Shape, Shape, int], LogicalTensor]()
        self._shared = dict[tuple[int, Shape, Shape, torch.dtype], LogicalTensor]()
        module.graph.eliminate_dead_code()
        super().__init__(module, ROWS, frozenset(i for i, w in enumerate(weights) if w is not None), {})
        self._refuse_others()
        self.data |= self.literals

    def _refuse_others(self) -> None:
        if self.reasons:
            kinds = Counter(str(node.target) for node in self.reasons)
            shown = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(SHOWN))
            more = f" and {len(kinds) - SHOWN} other kinds" if len(kinds) > SHOWN else ""
            what = f"{kinds.total()} nodes are no ops of the library: {shown}{more}"
            first, why = next(iter(self.reasons.items()))
            raise Unimplemented(what, where=self.name_of(first), fix=f"{EXPORT}; of the first: {why}")

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def name_of(self, node: fx.Node) -> str:
        """The module of PyTorch's, else the module and the op."""
        path, kind = next(reversed((node.meta.get("nn_module_stack") or {"": ("", "")}).values()))
        if path and str(kind).removeprefix("<class '").startswith(OWN):
            return str(path)
        op = getattr(node.target, "__name__", str(node.target)).partition(".")[0].strip("_")
        return f"{path}.{op}" if path else op

    def described(self, node: fx.Node) -> tuple[tuple[DType, Shape] | None, ...]:
        """Integers are s32, as in all graphs of models."""
        return tuple(None if t is None else (_narrowed(t[0]), t[1]) for t in super().described(node))

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
        """A node without a row: its results exist, so that all such nodes are counted."""
        if _is_random(node) and node.target not in ROWS:  # attention is random with dropout alone
            raise Unimplemented("it draws random numbers", where=self.name_of(node), fix="export the model in eval mode")
        self.value[node] = tuple(None if t is None else self._new(*t) for t in self.described(node))

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
            self.results.append(t if t.id in made or result in self.reasons else self.op("Reorder", t))
        read = {t.id for op in self.ops for t in op.inputs}
        for t in dict.fromkeys(t for t in self.results if t is not None and t.id in read):
            self.ops.append(Op(next(self._op_ids), END, Attrs({}), (t,), ()))

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
        made = self._by_layout_ops(node)
        if made is None:
            raise Unmapped(f"no layout op for {node.target}")
        return made

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
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
