"""A whole model: a graph with what its file has beyond it, the data of its constants and the names of its inputs, outputs and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchgraph.core.arrays import Array
from benchgraph.graph.ir import Graph


@dataclass(frozen=True)
class Fallen:
    """A node of the file that became a Wildcard. kind: the file's; why: what its row refuses, or that it has none."""

    label: str
    kind: str
    why: str


@dataclass(frozen=True)
class Model:
    """The layers' names, with their scopes (`layer1.0.conv1`), are those of the graph's ops.

    data: by tensor id, the elements of graph inputs that the file has (s4 and u4: one to a byte). inputs, outputs: names -> tensor ids, in
    the file's order. parameters: names of weights and buffers -> ids of tensors in data. source: the file that means the same as the
    graph, for libraries that run it themselves; None if there is none, or if options have changed the graph since. batch: the batch size
    to which reading it has bound --mb; 0 if it had no batch dim that is open. fallen: what numpy executes.
    """

    graph: Graph
    data: Mapping[int, Array] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    source: Path | None = None
    batch: int = 0
    fallen: tuple[Fallen, ...] = ()
