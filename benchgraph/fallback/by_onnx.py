"""onnx's own reference implementation, from the extra `onnx`: for functions without a row, and to judge those that have one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from benchgraph.core.errors import Unavailable, Unimplemented
from benchgraph.fallback.function import Array, Function, Literal, parse


def is_installed() -> bool:
    try:
        import onnx.reference  # noqa: F401
    except ImportError:
        return False
    return True


def by_onnx(f: Function, ins: list[Array | None]) -> tuple[Array, ...]:
    """All results. Raises Unavailable without the extra, Unimplemented for what onnx does not compute either."""
    names = [f"i{n}" if x is not None else "" for n, x in enumerate(ins)]
    found = evaluator(f.text, tuple(names)).run(None, {name: x for name, x in zip(names, ins, strict=True) if x is not None})
    return tuple(np.asarray(x) for x in found)


@lru_cache(maxsize=1024)
def evaluator(text: str, names: tuple[str, ...]) -> Any:
    """An evaluator of the function alone. names: of its inputs, '' for one that is left out. Raises as `by_onnx`."""
    f = parse(text)
    try:
        import onnx.helper
        import onnx.reference
    except ImportError as bad:
        what = f"numpy has no function here for {f.label}, and the package onnx, which has one, is not installed"
        raise Unavailable(what, fix="pip install 'benchgraph[onnx]'") from bad
    outputs = [f"o{n}" for n in range(len(f.outputs))]
    try:
        attrs = {name: _onnx(value) for name, value in f.attrs.items()}
        node = onnx.helper.make_node(f.kind, names, outputs, domain=f.domain, **attrs)
        return onnx.reference.ReferenceEvaluator(node, opsets={f.domain: f.opset})
    except Exception as bad:  # its errors have no class in common
        raise Unimplemented(f"neither numpy here nor onnx's reference computes {f.label}", fix="export the model without it") from bad


def _onnx(value: Any) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(value.array) if isinstance(value, Literal) else list(value) if isinstance(value, tuple) else value
