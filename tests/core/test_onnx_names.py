"""Names of layers in ONNX models, from PyTorch's metadata and without it."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx")

from benchgraph.core.onnx_names import CLASSES, SCOPES, layer_names  # noqa: E402


def node(kind: str, name: str, out: str, scopes: object = None, classes: object = None) -> object:
    made = onnx.helper.make_node(kind, ["x"], [out], name=name)
    for key, value in ((SCOPES, scopes), (CLASSES, classes)):
        if value is not None:
            made.metadata_props.add(key=key, value=str(value))
    return made


BLOCK = "torchvision.models.resnet.BasicBlock"


def test_a_module_of_pytorch_names_its_layer_and_any_other_the_ops_in_it() -> None:
    conv = node(
        "Conv",
        "node_Conv_3",
        "a",
        ["", "layer1", "layer1.0", "layer1.0.conv1", "conv2d"],
        ["R", "S", BLOCK, "torch.nn.modules.conv.Conv2d", "aten"],
    )
    add = [node("Add", f"node_add_{n}", f"b{n}", ["", "layer1", "layer1.0", "add"], ["R", "S", BLOCK, "aten.add"]) for n in range(2)]
    top = node("MatMul", "node_matmul", "c", ["", "matmul"], ["R", "aten.matmul"])
    found = layer_names([conv, *add, top])
    assert found == {"a": "layer1.0.conv1", "b0": "layer1.0.add", "b1": "layer1.0.add_1", "c": "matmul"}


@pytest.mark.parametrize("scopes", [None, "", "[", "['', 'a", "3", "['a']", "['', 'a.b', 'c']"])
def test_without_such_metadata_it_is_the_files_name(scopes: str | None) -> None:
    assert layer_names([node("Conv", "/layer1/conv/Conv", "y", scopes)]) == {"y": "/layer1/conv/Conv"}
    assert layer_names([node("Conv", "", "y", scopes)]) == {"y": "y"}
