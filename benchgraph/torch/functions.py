"""ATen ops without a row as functions that are executed between the partitions (fallback/): by numpy where it has the same one under its
name in ONNX, else by PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from benchgraph.fallback.by_torch import ARGUMENTS, ATEN, OPSET, encoded
from benchgraph.fallback.function import Function, Literal
from benchgraph.torch.draft import Unmapped, arguments

aten = torch.ops.aten

ONNX_OPSET = 18
COPY = Function("Identity", ONNX_OPSET, {}, (0,))
# A function by ONNX's name: kind, attributes, inputs (nodes, or arrays that are known)
Named = tuple[str, dict[str, Any], tuple[Any, ...]]


def function_of(node: fx.Node, kept: tuple[bool, ...]) -> tuple[Function, tuple[fx.Node, ...]]:
    """The function of a node, and the nodes that its operands are. kept: the results that are read. Raises Unmapped."""
    if (named := NAMED.get(node.target)) is not None and (found := named(node, **_given(node))) is not None:
        return _by_name(*found)
    operands = tuple(dict.fromkeys(node.all_input_nodes))
    position = {n: i for i, n in enumerate(operands)}
    schema = node.target._schema
    given = arguments(node)
    by_name = {a.name: encoded(given["src" if a.name == "self" else a.name], position) for a in schema.arguments}
    kind = str(node.target).removeprefix("aten.")
    if node.target.namespace != ATEN:
        raise Unmapped(f"{node.target} is an op of others")
    attrs = {ARGUMENTS: json.dumps(by_name)}
    return Function(kind, OPSET, attrs, tuple(range(len(operands))), kept, ATEN), operands


def slice_of(node: fx.Node) -> list[tuple[int, int, int, int]] | None:
    """What a view takes of its source: axis, start, end and step; None for a view of another kind. Axes of one element may then vanish."""
    source = node.args[0]
    if node.target is not aten.slice.Tensor and node.target is not aten.select.int:
        return _part_of(node)
    given, size = arguments(node), source.meta["val"].shape
    axis = int(given["dim"]) % len(size)
    if node.target is aten.select.int:
        start = int(given["index"]) % size[axis]
        return [(axis, start, start + 1, 1)]
    start, end, step = (given[name] for name in ("start", "end", "step"))
    start, end, step = slice(start, end, step).indices(size[axis])
    return [(axis, start, end, step)]


def _part_of(node: fx.Node) -> list[tuple[int, int, int, int]] | None:
    """The same for an element of split, split_with_sizes or unbind."""
    whole = node.args[0]
    if not isinstance(whole, fx.Node) or whole.target not in (aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int):
        return None
    given, number = arguments(whole), int(node.args[1])
    size = whole.args[0].meta["val"].shape
    axis = int(given["dim"]) % len(size)
    if whole.target is aten.unbind.int:
        return [(axis, number, number + 1, 1)]
    sizes = given["split_sizes"] if "split_sizes" in given else [int(given["split_size"])] * (number + 1)
    start = sum(sizes[:number])
    return [(axis, start, min(start + sizes[number], size[axis]), 1)]


def slicing(pieces: Sequence[tuple[int, int, int, int]]) -> Function:
    axes, starts, ends, steps = zip(*pieces, strict=True)
    return Function("Slice", ONNX_OPSET, {}, (0, *(_integers(values) for values in (starts, ends, axes, steps))))


def expanding(shape: Sequence[int]) -> Function:
    return Function("Expand", ONNX_OPSET, {}, (0, _integers(shape)))


def _given(node: fx.Node) -> dict[str, Any]:
    return {name.replace("self", "src"): value for name, value in arguments(node).items()}


def _by_name(kind: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Function, tuple[fx.Node, ...]]:
    operands = tuple(dict.fromkeys(x for x in inputs if isinstance(x, fx.Node)))
    found = tuple(operands.index(x) if isinstance(x, fx.Node) else x for x in inputs)
    return Function(kind, ONNX_OPSET, attrs, found), operands


def _integers(values: Sequence[int]) -> Literal:
    found = Literal.of(np.asarray(values, np.int64))
    assert found is not None
    return found


def _pointwise(kind: str) -> Callable[..., Named | None]:
    """Of tensors of one dtype."""

    def named(node: fx.Node, **given: Any) -> Named | None:
        operands = [x for x in given.values() if isinstance(x, fx.Node)]
        is_alike = len({x.meta["val"].dtype for x in operands}) == 1 and len(operands) == len(given)
        return (kind, {}, tuple(operands)) if is_alike else None

    return named


def _logical(kind: str) -> Callable[..., Named | None]:
    """Of booleans alone."""

    def named(node: fx.Node, **given: Any) -> Named | None:
        operands = [x for x in given.values() if isinstance(x, fx.Node)]
        return (kind, {}, tuple(operands)) if all(x.meta["val"].dtype is torch.bool for x in operands) else None

    return named


NAMED: Mapping[Any, Callable[..., Named | None]] = {
    aten.embedding.default: lambda node, weight, indices, **more: ("Gather", {"axis": 0}, (weight, indices)),
    aten.index_select.default: lambda node, src, dim, index: ("Gather", {"axis": dim}, (src, index)),
    aten.gather.default: lambda node, src, dim, index, sparse_grad: ("GatherElements", {"axis": dim}, (src, index)),
    aten.expand.default: lambda node, src, **more: ("Expand", {}, (src, _integers(node.meta["val"].shape))),
    aten.logical_not.default: _logical("Not"),
    aten.bitwise_not.default: _logical("Not"),
    **dict.fromkeys((aten.logical_and.default, aten.bitwise_and.Tensor), _logical("And")),
    **dict.fromkeys((aten.logical_or.default, aten.bitwise_or.Tensor), _logical("Or")),
    aten.eq.Tensor: _pointwise("Equal"),
    aten.lt.Tensor: _pointwise("Less"),
    aten.gt.Tensor: _pointwise("Greater"),
    aten.sin.default: _pointwise("Sin"),
    aten.cos.default: _pointwise("Cos"),
    aten.erf.default: _pointwise("Erf"),
}
