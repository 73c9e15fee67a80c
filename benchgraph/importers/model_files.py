"""Our own form of a model: oneDNN Graph JSON, and beside it a .safetensors file of the same name with data and names.

    mlp.json           the graph; any tool that reads dumps of oneDNN Graph reads it
    mlp.safetensors    arrays named by tensor id; among its texts the names of inputs, outputs and parameters, as JSON

Without the second file a graph has no data, and its inputs are filled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchgraph.core.array_files import SAFETENSORS, read_arrays, read_metadata, write_safetensors
from benchgraph.core.errors import InvalidArguments, within
from benchgraph.core.files import exists
from benchgraph.core.printable import quoted
from benchgraph.graph import read, row_major, save
from benchgraph.graph.ir import Graph
from benchgraph.graph.model import Model

NAMES = ("inputs", "outputs", "parameters")  # texts of the .safetensors file, and fields of Model


def data_file(graph: Path) -> Path:
    return graph.with_suffix(SAFETENSORS)


def write_model(model: Model, graph: Path) -> None:
    """Write both files. Raises OSError."""
    save(model.graph, graph)
    arrays = {str(id): array for id, array in model.data.items()}
    write_safetensors(data_file(graph), arrays, {key: json.dumps(dict(getattr(model, key))) for key in NAMES})


def read_model_files(path: Path) -> Model:
    """The graph as it is written, not checked yet, with its data if it has any. Raises BenchgraphError."""
    graph = row_major(read(path))
    beside = data_file(path)
    if not exists(beside):
        return Model(graph)
    with within(str(beside)):
        arrays = {_id(name, graph): array for name, array in read_arrays(beside, "").items()}
        texts = read_metadata(beside)
        names = {key: _names(key, texts.get(key, "{}"), graph) for key in NAMES}
    return Model(graph, arrays, names["inputs"], names["outputs"], names["parameters"])


def _id(name: str, graph: Graph) -> int:
    """Raises InvalidArguments for a name that is no id of an input."""
    inputs = {str(t.id): t.id for t in graph.inputs}
    if name not in inputs:
        what = f"array {quoted(name)} is for no input of the graph"
        raise InvalidArguments(what, fix="name arrays by input ids; data under other names are bound by --data")
    return inputs[name]


def _names(key: str, text: str, graph: Graph) -> Mapping[str, int]:
    """Raises InvalidArguments for a text that does not map names to tensors."""
    try:
        found = json.loads(text)
    except ValueError as bad:
        raise InvalidArguments(f"its text {key} is not JSON: {bad}", fix="import the model again") from bad
    if not isinstance(found, dict) or not all(isinstance(id, int) and id in graph.tensors for id in found.values()):
        raise InvalidArguments(f"its text {key} does not map names to tensors of the graph", fix="import the model again")
    return found
