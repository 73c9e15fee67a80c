"""Our own form of a model: oneDNN Graph JSON, and beside it a .safetensors file of the same name with data and names.

    mlp.json           the graph; any tool that reads dumps of oneDNN Graph reads it
    mlp.safetensors    arrays named by tensor id; among its texts the names of inputs, outputs and parameters, as JSON

Without the second file a graph has no data, and its inputs are filled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from operator import index
from pathlib import Path
from typing import Any

from benchgraph.core.array_files import SAFETENSORS, read_arrays, read_metadata, write_safetensors
from benchgraph.core.errors import InvalidArguments, within
from benchgraph.core.files import exists
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import reach
from benchgraph.graph import read, row_major, save
from benchgraph.graph.ir import Graph
from benchgraph.graph.model import Model, Use

PARAMETERS = "parameters"
NAMES = ("inputs", "outputs", PARAMETERS)  # texts of the .safetensors file, and fields of Model
AGAIN = "import the model again"
COPIES = 2  # of a model's data: the file's and the graph's


def data_file(graph: Path) -> Path:
    return graph.with_suffix(SAFETENSORS)


def write_model(model: Model, graph: Path) -> None:
    """Write both files. Raises OSError. Inputs that nothing reads are not in them."""
    save(model.graph, graph)
    arrays = {str(id): array for id, array in model.data.items()}
    uses = {name: [[use.tensor, use.shape, use.view] for use in found] for name, found in model.parameters.items()}
    inputs = {name: id for name, id in model.inputs.items() if id not in model.unread}
    names = {"inputs": inputs, "outputs": dict(model.outputs), PARAMETERS: uses}
    write_safetensors(data_file(graph), arrays, {key: json.dumps(value) for key, value in names.items()})


def read_model_files(path: Path) -> Model:
    """The graph as it is written, not checked yet, with its data if it has any. Raises BenchgraphError."""
    graph = row_major(read(path))
    beside = data_file(path)
    if not exists(beside):
        return Model(graph)
    with within(str(beside)):
        arrays = {_id(name, graph): array for name, array in read_arrays(beside, "").items()}
        texts = {key: _json(key, text) for key, text in read_metadata(beside).items() if key in NAMES}
        inputs, outputs = (_ports(key, texts.get(key, {}), graph) for key in NAMES[:2])
        return Model(graph, arrays, inputs, outputs, _parameters(texts.get(PARAMETERS, {}), graph))


def _id(name: str, graph: Graph) -> int:
    """Raises InvalidArguments for a name that is no id of an input."""
    inputs = {str(t.id): t.id for t in graph.inputs}
    if name not in inputs:
        what = f"array {quoted(name)} is for no input of the graph"
        raise InvalidArguments(what, fix="name arrays by input ids; data under other names are bound by --data")
    return inputs[name]


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as bad:
        raise InvalidArguments(f"its text {key} is not JSON: {bad}", fix=AGAIN) from bad


def _ports(key: str, found: Any, graph: Graph) -> Mapping[str, int]:
    """Raises InvalidArguments for what does not map names to tensors."""
    if not isinstance(found, dict) or not all(type(id) is int and id in graph.tensors for id in found.values()):
        raise InvalidArguments(f"its text {key} does not map names to tensors of the graph", fix=AGAIN)
    return found


def _parameters(found: Any, graph: Graph) -> Mapping[str, tuple[Use, ...]]:
    """Raises InvalidArguments for what does not map names to tensors and views."""
    tensors = graph.tensors
    try:
        uses = {name: tuple(_use(*entry) for entry in entries) for name, entries in found.items()}
    except (AttributeError, TypeError, ValueError) as bad:
        raise InvalidArguments(f"its text {PARAMETERS} is of another form: {bad}", fix=AGAIN) from bad
    for name, use in ((name, use) for name, all in uses.items() for use in all):
        if use.tensor not in tensors or not _is_inside(use):
            raise InvalidArguments(f"its text {PARAMETERS} puts {quoted(name)} into no tensor of the graph", fix=AGAIN)
    return uses


def _use(tensor: int, shape: list[int], view: list[Any] | None) -> Use:
    """Raises TypeError and ValueError for other values."""
    if view is None:
        return Use(index(tensor), tuple(map(index, shape)))
    dims, strides, offset = view
    return Use(index(tensor), tuple(map(index, shape)), (tuple(map(index, dims)), tuple(map(index, strides)), index(offset)))


def _is_inside(use: Use) -> bool:
    """Whether a view has only elements of its weight."""
    if use.view is None:
        return True
    dims, strides, offset = use.view
    if len(dims) != len(strides) or min((*dims, *strides, offset)) < 0:
        return False
    return offset + reach(dims, strides) <= prod(use.shape)
