"""onnx's own node tests (onnx.backend) of the kinds that have a row: what becomes of each.

`python -m tests.importers.onnx_nodes` writes docs/measurements/onnx-node-tests.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.importers.onnx.draft import DTYPES
from benchgraph.importers.onnx.model import OLDEST, Model, model_of
from benchgraph.importers.onnx.rows import ROWS
from benchgraph.reference import evaluate

DOC = Path(__file__).parents[2] / "docs" / "measurements" / "onnx-node-tests.md"
PAGE = """# ONNX: what the node tests make of the rows

onnx {version} (`onnx.backend.test.case.node`), opset {opset}: the tests of one node whose kind has a row in
`benchgraph/importers/onnx/` and whose first input is of floats, boolean, or of at most 8 bits. {kinds} kinds: {passed} passed, {refused}
refused, none wrong. The graph is evaluated in float64 and compared with the test's results: in its own tolerance or, where the result is
f16 or bf16, {rounded} units in the last place; results of 8 bits may be one apart, as rounding meets ties in f32 that float64 has not.
Inputs that are integers of 32 or 64 bits are constants, and where a row needs that, all inputs but the first. A test of an opset
before {oldest} runs as one of {oldest} if its op has not changed in between. What a row refuses is not lost: it becomes a Wildcard, and
numpy's result is held to the same test. `python -m tests.importers.onnx_nodes` writes this page, and
`tests/importers/test_onnx.py` holds it to be so.

{table}
"""
VALUES = [array for array, dtype in DTYPES.items() if dtype is not DType.s32]  # the types that values of a test have
NOR = ", and it cannot be executed by numpy either"  # after the reason of the row
ROUNDED = 4  # eps of the type of a result, where that is more than the test's tolerance: tests in f16 round every step

BYTES = (np.uint8, np.int8)  # a tie in f32 may be none in float64, and zero points are added before rounding: then they are neighbours


@dataclass(frozen=True)
class Outcome:
    """refused: why its row does not express it, '' if it does; it is a Wildcard then, or not read. wrong: what differs, '' for nothing."""

    kind: str
    name: str
    refused: str = ""
    wrong: str = ""


def outcomes() -> Iterator[Outcome]:
    """Of every test of one node of a kind with a row, whose first input is of a type that tensors of a graph have."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in ROWS or nodes[0].domain:
            continue
        _renew(case.model)
        for ins, outs in case.data_sets:
            arrays = {v.name: _array(x) for v, x in zip(case.model.graph.input, ins, strict=True)}
            if all(a.dtype in VALUES for a in list(arrays.values())[:1]) and not any(a.dtype == object for a in arrays.values()):
                yield _outcome(case, arrays, [_array(x) for x in outs])


def _outcome(case: Any, arrays: dict[str, Any], outs: list[Any]) -> Outcome:
    kind = case.model.graph.node[0].op_type
    try:
        model = _model(case.model, arrays)
    except BenchgraphError as bad:
        return Outcome(kind, case.name, refused=bad.what)
    got = evaluate(model.graph, {**model.data, **{id: arrays[name] for name, id in model.inputs.items()}})
    try:
        for value, want in zip(case.model.graph.output, outs, strict=True):
            found = got[model.outputs[value.name]]
            assert found.shape == want.shape
            rtol, atol = max(case.rtol, ROUNDED * eps(want.dtype)), max(case.atol, float(want.dtype in BYTES))
            np.testing.assert_allclose(_wide(found), _wide(want), rtol=rtol, atol=atol)
    except AssertionError as bad:
        return Outcome(kind, case.name, wrong=str(bad))
    return Outcome(kind, case.name, refused="; ".join(f.why for f in model.fallen))


def _renew(proto: Any) -> None:
    """The oldest opset that is read, for a test of an older one, if the op has not changed in between."""
    from onnx.defs import SchemaError, get_schema

    own, kind = proto.opset_import[0], proto.graph.node[0].op_type
    try:
        if own.version < OLDEST and get_schema(kind, own.version).since_version == get_schema(kind, OLDEST).since_version:
            own.version = OLDEST
    except SchemaError:
        return


def _array(x: Any) -> Any:
    """Of an array, a number or a tensor's protobuf; of objects for a sequence, or a value that is not there."""
    import onnx

    if isinstance(x, onnx.TensorProto):
        return onnx.numpy_helper.to_array(x)
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic) else np.empty(0, object)


def eps(dtype: np.dtype[Any]) -> float:
    return DTYPES[dtype].eps if dtype in DTYPES else 0.0


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def _model(proto: Any, arrays: dict[str, Any]) -> Model:
    """Integers are constants, as they are in models; and where a row needs that, all inputs but the first are."""
    try:
        model = model_of(proto, constants={name: a for name, a in arrays.items() if a.dtype not in VALUES})
    except BenchgraphError:
        model = None
    return model if model is not None and not model.fallen else model_of(proto, constants=dict(list(arrays.items())[1:]))


def table(found: list[Outcome]) -> str:
    """A row for each kind."""
    lines = ["| op | passed | refused | why |", "|---|---:|---:|---|"]
    for kind in sorted({o.kind for o in found}):
        own = [o for o in found if o.kind == kind]
        reasons = "; ".join(sorted({o.refused.split(NOR)[0] for o in own if o.refused}))
        lines.append(f"| {kind} | {sum(not o.refused for o in own)} | {sum(bool(o.refused) for o in own)} | {reasons} |")
    return "\n".join(lines)


def page(found: list[Outcome]) -> str:
    import onnx

    kinds, refused = len({o.kind for o in found}), sum(bool(o.refused) for o in found)
    counts = {"kinds": kinds, "refused": refused, "passed": len(found) - refused}
    version, opset = onnx.__version__, onnx.defs.onnx_opset_version()
    return PAGE.format(version=version, opset=opset, rounded=ROUNDED, oldest=OLDEST, table=table(found), **counts)


def all_outcomes() -> list[Outcome]:
    """Without the warnings of onnx's own numpy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(outcomes())


if __name__ == "__main__":
    DOC.write_text(page(all_outcomes()))
