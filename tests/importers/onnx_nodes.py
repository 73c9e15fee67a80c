"""onnx's own node tests (onnx.backend) of the kinds that have a row: what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchgraph.core.errors import BenchgraphError
from benchgraph.importers.onnx.model import Model, model_of
from benchgraph.importers.onnx.rows import ROWS
from benchgraph.reference import evaluate


@dataclass(frozen=True)
class Outcome:
    """refused: why its row does not express it, '' if it does; it is a Wildcard then, or not read. wrong: what differs, '' for nothing."""

    kind: str
    name: str
    refused: str = ""
    wrong: str = ""


def outcomes() -> Iterator[Outcome]:
    """Of every test of one node of a kind with a row, that has an input in f32 or boolean."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in ROWS or nodes[0].domain:
            continue
        for ins, outs in case.data_sets:
            arrays = dict(zip((v.name for v in case.model.graph.input), ins, strict=True))
            if all(isinstance(a, np.ndarray) and a.dtype in (np.float32, np.bool_) for a in list(arrays.values())[:1]):
                yield _outcome(case, arrays, outs)


def _outcome(case: Any, arrays: dict[str, Any], outs: list[Any]) -> Outcome:
    kind = case.model.graph.node[0].op_type
    try:
        model = _model(case.model, arrays)
    except BenchgraphError as bad:
        return Outcome(kind, case.name, refused=bad.what)
    got = evaluate(model.graph, {**model.data, **{id: arrays[name] for name, id in model.inputs.items()}})
    try:
        for value, want in zip(case.model.graph.output, outs, strict=True):
            np.testing.assert_allclose(got[model.outputs[value.name]], want, rtol=case.rtol, atol=case.atol)
    except AssertionError as bad:
        return Outcome(kind, case.name, wrong=str(bad))
    return Outcome(kind, case.name, refused="; ".join(f.why for f in model.fallen))


def _model(proto: Any, arrays: dict[str, Any]) -> Model:
    """Integers are constants, as they are in models; and where a row needs that, all inputs but the first are."""
    try:
        model = model_of(proto, {name: a for name, a in arrays.items() if a.dtype not in (np.float32, np.bool_)})
    except BenchgraphError:
        model = None
    return model if model is not None and not model.fallen else model_of(proto, dict(list(arrays.items())[1:]))


def table(found: list[Outcome]) -> str:
    """A row for each kind."""
    lines = ["| op | passed | refused | why |", "|---|---:|---:|---|"]
    for kind in sorted({o.kind for o in found}):
        own = [o for o in found if o.kind == kind]
        reasons = "; ".join(sorted({o.refused for o in own if o.refused}))
        lines.append(f"| {kind} | {sum(not o.refused for o in own)} | {sum(bool(o.refused) for o in own)} | {reasons} |")
    return "\n".join(lines)
