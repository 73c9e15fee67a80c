"""Models for tests, in ONNX's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchgraph.importers.onnx.model import model_of
from benchgraph.reference import evaluate


def parsed(inputs: str, outputs: str, body: str, opset: int = 21, **constants: Any) -> Any:
    """A model. inputs, outputs: as in `float[2,3] x`; body: as in `y = Relu (x)`; constants: arrays by name."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    proto = onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {body} }}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return proto


def evaluated(proto: Any, **inputs: Any) -> list[Any]:
    """The results of the graph that a model becomes, in float64."""
    model = model_of(proto)
    got = evaluate(model.graph, {**model.data, **{model.inputs[name]: a for name, a in inputs.items()}})
    return [np.asarray(got[model.outputs[v.name]]).astype(np.float64) for v in proto.graph.output]


def by_onnx(proto: Any, **inputs: Any) -> list[Any]:
    """The results by onnx's own reference."""
    from onnx.reference import ReferenceEvaluator

    return [np.asarray(x).astype(np.float64) for x in ReferenceEvaluator(proto).run(None, inputs)]


def kinds(proto: Any) -> list[str]:
    return [op.kind for op in model_of(proto).graph.ops]
