"""--save-failures=DIR: a folder per failed case, with all that is needed to see the failure elsewhere.

    graph.json       the graph after all overrides
    inputs.npz       its inputs, by id
    repro.txt        the case's own line, and one that needs only this folder: --batch=repro.txt runs both
    partition.json   what was wrong where it is not the whole graph: the partition, the inputs that it received,
    received.npz
    outputs.npz      what the library made of them,
    expected.npz     and the reference

Arrays are named by tensor, and hold its elements: bf16 and f8 as f32, s4 and u4 as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchgraph.core.arrays import Array, elements
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.files import make_folder
from benchgraph.core.remarks import remark
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import save
from benchgraph.harness.verdict import Evidence
from benchgraph.options.knobs import words
from benchgraph.options.parsers import shell_word
from benchgraph.options.problem import Problem


def folder_of(problem: Problem) -> Path:
    return Path(problem.globals.save_failures) / f"{problem.index:04d}-{problem.label}"


def save_graph(problem: Problem, graph: Graph, inputs: Mapping[int, Array]) -> None:
    """Save a case without what was wrong with its outputs. inputs: buffers; {} if there are none yet."""
    folder = folder_of(problem)
    try:
        make_folder(folder)
        save(graph, folder / "graph.json")
        _save_arrays(folder / "inputs.npz", {t.id: elements(inputs[t.id], t) for t in graph.inputs if t.id in inputs})
        (folder / "repro.txt").write_text(f"{problem.repro}\n{_replay(problem, has_data=bool(inputs))}\n", encoding="utf-8")
    except OSError as bad:
        remark(f"--save-failures: {folder} cannot be written: {bad.strerror}")


def save_evidence(problem: Problem, graph: Graph, inputs: Mapping[int, Array], evidence: Evidence) -> None:
    """Save a case with a wrong output."""
    save_graph(problem, graph, inputs)
    folder = folder_of(problem)
    with suppress(OSError):  # remarked on already
        if evidence.graph.ops != graph.ops:
            save(evidence.graph, folder / "partition.json")
            _save_arrays(folder / "received.npz", evidence.given)
        outputs = {t.id: elements(evidence.got[t.id], t) for t in evidence.graph.outputs}
        _save_arrays(folder / "outputs.npz", outputs)
        _save_arrays(folder / "expected.npz", {id: evidence.want[id] for id in outputs})


def save_unrun(problem: Problem) -> None:
    """Save a case whose process ended before it could, unless it has been saved."""
    with suppress(BenchgraphError):
        if not folder_of(problem).exists():
            save_graph(problem, problem.graph(), {})


def _save_arrays(path: Path, arrays: Mapping[int, Array]) -> None:
    with path.open("wb") as file:
        plain: dict[str, Any] = {str(id): _plain(array) for id, array in arrays.items()}
        np.savez(file, **plain)


def _plain(array: Array) -> Array:
    """numpy's own file format has no narrow floats but f16."""
    return array if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1 else array.astype(np.float32)


def _replay(problem: Problem, *, has_data: bool) -> str:
    """A line that runs the saved graph on the saved inputs as the case was run: in the folder, or as a batch file from anywhere."""
    settings = words(replace(problem.globals, data="inputs.npz" if has_data else ""))
    return " ".join(map(shell_word, [*settings, "--graph", "--expected-n-partitions=0", "--case=graph.json"]))
