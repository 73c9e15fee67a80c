"""Small models in files of others, for the runtimes that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

BATCH, CHANNELS, SIZE, CLASSES = 2, 8, 6, 5


def classifier(path: Path, *, batch: int | str = BATCH, opset: int = 17, **changes: Any) -> Path:
    """Write an ONNX model: a convolution with ReLU, pooling, a product; x -> y. changes: of nodes by name, as keyword arguments."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    h, rng = onnx.helper, np.random.default_rng(0)
    weights = {"w": (CHANNELS, 3, 3, 3), "b": (CHANNELS,), "fc": (CLASSES, CHANNELS), "fcb": (CLASSES,)}
    data = [onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in weights.items()]
    nodes = [
        h.make_node("Conv", ["x", "w", "b"], ["c"], name="stem.conv", pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"], name="stem.relu"),
        h.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        h.make_node("Flatten", ["p"], ["f"], name="flatten"),
        h.make_node("Gemm", ["f", "fc", "fcb"], ["y"], name="head", transB=1),
    ]
    for node in nodes:
        for field, value in changes.get(node.name.replace(".", "_"), {}).items():
            setattr(node, field, value)
    ports = [
        h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [batch, 3, SIZE, SIZE]), ("y", [batch, CLASSES]))
    ]
    graph = h.make_graph(nodes, "classifier", ports[:1], ports[1:], data)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("other", 1)], ir_version=9), path)
    return path


def exported(path: Path) -> Path:
    """Write a program of torch.export that takes its arguments in a tuple and by name, and gives two results."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 4)

        def forward(self, pair: Any, *, scale: Any) -> Any:
            a, ids = pair
            return {"wide": self.fc(a).relu() * scale, "picked": a[:, ids]}

    torch.manual_seed(0)
    arguments = (torch.randn(3, 8), torch.tensor([1, 5])), {"scale": torch.full((4,), 2.0)}
    torch.export.save(torch.export.export(Block().eval(), (arguments[0],), arguments[1]), str(path))
    return path
