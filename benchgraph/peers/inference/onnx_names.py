"""Names in an ONNX file, for what profilers tell: a runtime names what it fuses by a node, or by the value that the last node makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.onnx_names import layer_names

LONGEST = 4  # nodes that a convolution is fused with, one behind the other


@dataclass(frozen=True)
class Node:
    """name: as the importer names its ops. inputs: values."""

    name: str
    kind: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """makers: the nodes, by the names of what they make. layers: the importer's names of nodes, by the file's."""

    makers: Mapping[str, Node]
    layers: Mapping[str, str]

    def nodes(self, name: str, kind: str) -> list[str]:
        """The names of the nodes that a profiler means by the name of one or of a value: up to one of this kind, which it gave.

        Conv -> Relu -> r       nodes("r", "Conv") == [names of Conv and Relu]
        """
        if name not in self.makers:
            return [self.layers.get(name, name)]
        return self._up_to(self.makers[name], kind, LONGEST) or [self.makers[name].name]

    def _up_to(self, node: Node, kind: str, longest: int) -> list[str]:
        """The names from a node of this kind down to this one; [] if there is none so near."""
        if node.kind == kind:
            return [node.name]
        before = (self.makers[value] for value in node.inputs if value in self.makers) if longest > 1 else ()
        found = next((names for maker in before if (names := self._up_to(maker, kind, longest - 1))), [])
        return [*found, node.name] if found else []


def read_names(file: Path) -> Names:
    """Without the package onnx there are none."""
    try:
        import onnx
    except ImportError:
        return Names({}, {})
    nodes = onnx.load_model(str(file), load_external_data=False).graph.node
    layers = layer_names(nodes)
    makers = {value: Node(layers[n.output[0]], n.op_type, tuple(n.input)) for n in nodes for value in n.output if value}
    return Names(makers, {n.name: layers[n.output[0]] for n in nodes})
