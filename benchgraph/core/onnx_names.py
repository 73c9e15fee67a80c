"""Names of layers in ONNX models: those of the modules that nodes come from, where the exporter tells them.

PyTorch's exporter names nodes by numbers (`node_Conv_319`), and tells the scopes of each in its metadata: `layer2`, `layer2.1`,
`layer2.1.conv2`, and the node of its own graph. Other exporters' names are paths already, as `/layer2/layer2.1/conv2/Conv`.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from typing import Any

from benchgraph.core.layers import told_apart

SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"  # from the model to the node; both of one length
LAYER = "torch.nn."  # modules of PyTorch's own, which are one layer each


def layer_names(nodes: Iterable[Any]) -> dict[str, str]:
    """The name of each node's layer, by the first value that the node makes; no two have the same. nodes: NodeProto."""
    named = [(node.output[0], _scope(node) or node.name or node.output[0]) for node in nodes]
    return dict(zip((value for value, _ in named), told_apart(name for _, name in named), strict=True))


def _scope(node: Any) -> str:
    """The module, with the op behind it where that is one of several; '' if it is not told."""
    texts = {each.key: each.value for each in node.metadata_props}
    scopes, classes = _words(texts.get(SCOPES, "")), _words(texts.get(CLASSES, ""))
    if len(scopes) < 2 or len(scopes) != len(classes):
        return ""
    if scopes[-2] and classes[-2].startswith(LAYER):
        return scopes[-2]
    return f"{scopes[-2]}.{node.op_type.lower()}" if scopes[-2] else str(node.op_type).lower()


def _words(text: str) -> list[str]:
    """A list as Python writes it; none for any other text."""
    try:
        found = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(word) for word in found] if isinstance(found, list) else []
