"""A whole model: a graph with what its file has beyond it, the data of its constants and the names of its inputs, outputs and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from benchgraph.core.arrays import Array
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Graph


@dataclass(frozen=True)
class Fallen:
    """A node of the file that became a Wildcard. kind: the file's; why: what its row refuses, or that it has none."""

    label: str
    kind: str
    why: str


View: TypeAlias = tuple[Shape, Shape, int]
"""Of a dense tensor: shape, strides and offset, in elements."""


@dataclass(frozen=True)
class Use:
    """A tensor that has elements of a weight: all of them in its shape, or a view. shape: of the weight, () if the tensor has all.

    view: shape, strides and offset, in elements of the dense weight.
    """

    tensor: int
    shape: Shape = ()
    view: View | None = None


@dataclass(frozen=True)
class Model:
    """The layers' names, with their scopes (`layer1.0.conv1`), are those of the graph's ops.

    data: by tensor id, the elements of graph inputs that the file has (s4 and u4: one to a byte). inputs, outputs: names -> tensor ids, in
    the file's order. unread: by id, those inputs that no op reads, and the graph therefore lacks. parameters: where weights and buffers
    are, by their names. source: the file that means the same as the graph, for libraries that run it themselves; None if there is none, or
    if options have changed the graph since. batch: the batch size to which reading it has bound --mb; 0 if it had no batch dim that is
    open. dims: sizes of dims that the file leaves open, by name. fallen: what numpy executes.
    """

    graph: Graph
    data: Mapping[int, Array] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, tuple[Use, ...]] = field(default_factory=dict)
    source: Path | None = None
    batch: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    fallen: tuple[Fallen, ...] = ()
    unread: Mapping[int, LogicalTensor] = field(default_factory=dict)
