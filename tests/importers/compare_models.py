"""The models of export_models.py against ONNX Runtime: `python -m tests.importers.compare_models FOLDER [NAME ...]`.

Prints the rows of docs/measurements/onnx-models.md. Needs the extras `onnx` and `models`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.importers.onnx.model import read_onnx
from benchgraph.ops.structural import WILDCARD
from benchgraph.reference import evaluate
from benchgraph.results.json_report import parse
from tests.importers.export_models import MODELS, VOCABULARY, needed

COLUMNS = ("model", "nodes", "ops", "constants", "of 8 and 4 bits", "Wildcards", "their time", "largest difference")
HEAD = f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * 4}---|---:|---:|"
WORDS = (sys.executable, "-m", "benchgraph", "--mode=P", "--policy=fused", "--max-ms-per-prb=300", "--model")


def row(file: Path) -> str:
    import onnx

    model = read_onnx(file)
    tensors = {t.id: t for t in model.graph.inputs}
    given = {name: random(tensors[id]) for name, id in model.inputs.items()}
    got = evaluate(model.graph, {**model.data, **{model.inputs[name]: a for name, a in given.items()}})
    differences = [difference(got[id], want) for (_, id), want in zip(model.outputs.items(), by_onnxruntime(file, given), strict=True)]
    wildcards = Counter(str(json.loads(str(op.attrs.get("computes")))["kind"]) for op in model.graph.ops if op.kind == WILDCARD)
    nbytes = sum(tensors[id].nbytes for id in model.data)
    few = sum(tensors[id].nbytes for id in model.data if tensors[id].dtype.bits <= 8)
    share = f"{time_of_wildcards(file):.1%}" if wildcards else ""
    cells = [
        file.stem, len(onnx.load(str(file)).graph.node), len(model.graph.ops), f"{nbytes / 1e6:.1f} MB", f"{few / nbytes:.0%}",
        ", ".join(f"{kind} {count}" for kind, count in wildcards.most_common()) or "none", share, f"{max(differences):.1e}",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def random(t: LogicalTensor) -> Any:
    rng = np.random.default_rng(0)
    if t.dtype is DType.s32:
        return rng.integers(0, VOCABULARY, t.known_shape)
    return rng.standard_normal(t.known_shape).astype(t.dtype.numpy)


def by_onnxruntime(file: Path, given: dict[str, Any]) -> list[Any]:
    """Without its rewriting of graphs, which may round elsewhere."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


def difference(got: Any, want: Any) -> float:
    """The largest one, relative to the largest element."""
    return float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / np.abs(want.astype(np.float64)).max())


def time_of_wildcards(file: Path) -> float:
    """Their share of the time of all steps, in mode P and under the policy fused."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "out.json"
        words = [*WORDS, f"--case={file}", f"--report=json:{report}"]
        subprocess.run(words, check=True, capture_output=True)
        (case,) = parse(report.read_text()).cases
    return sum(kind.share(case.result.timings[0].partitions) for kind in case.result.fallback)


def main(folder: str, *names: str) -> None:
    print(HEAD)
    for name in names or MODELS:
        print(row(needed(Path(folder), name)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
