"""ATen ops that return views, and those of them for which the library has a layout op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

LayoutOp = Callable[[fx.Node], tuple[str, dict[str, Any]]]


def _reshape(node: fx.Node) -> tuple[str, dict[str, Any]]:
    return "StaticReshape", {"shape": tuple(node.meta["val"].shape), "special_zero": False}


def _permute(node: fx.Node) -> tuple[str, dict[str, Any]]:
    rank = len(node.meta["val"].shape)
    return "StaticTranspose", {"order": tuple(d % rank for d in node.args[1])}


def _transpose(node: fx.Node) -> tuple[str, dict[str, Any]]:
    rank = len(node.meta["val"].shape)
    order = list(range(rank))
    if rank > 1:
        a, b = (0, 1) if node.target is aten.t.default else (int(node.args[1]) % rank, int(node.args[2]) % rank)
        order[a], order[b] = order[b], order[a]
    return "StaticTranspose", {"order": tuple(order)}


_RESHAPES = (
    aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.alias.default, aten.detach.default,
)  # fmt: skip
LAYOUT_OPS: Mapping[Any, LayoutOp] = {
    **dict.fromkeys(_RESHAPES, _reshape),
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
}
VIEWS = frozenset(LAYOUT_OPS) | {
    aten.expand.default, aten.slice.Tensor, aten.select.int, aten.diagonal.default, aten.as_strided.default, aten.unfold.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
}  # fmt: skip
