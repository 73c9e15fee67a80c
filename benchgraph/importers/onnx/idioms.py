"""Several nodes that exporters write for one op, as that op.

    Div, Erf, Add, Mul, Mul                             ->  Gelu, where the exporter's opset has none
    Mul, Slice, Slice, Neg, Concat, Mul, Add            ->  Rotation, our own kind, for rotary embeddings whose angles are known

Nodes that no result needs any more are left out, as are those that none needed before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, sqrt

from benchgraph.core.arrays import Array
from benchgraph.importers.onnx.draft import Node

ROTATION = "Rotation"  # inputs: x, cos, sin, the latter two known
TOLERANCE = 1e-3  # of the constants of a Gelu, which f16 and bf16 round


@dataclass(frozen=True)
class Model:
    """Nodes by what they make, and by what they read. known: values that do not depend on inputs."""

    makers: Mapping[str, Node]
    readers: Mapping[str, Sequence[Node]]
    known: Mapping[str, Array]

    def maker(self, name: str, kind: str) -> Node | None:
        """The node of this kind that makes a value."""
        node = self.makers.get(name)
        return node if node is not None and node.kind == kind else None

    def reader(self, name: str, kind: str) -> Node | None:
        """The only node that reads a value, if it is of this kind."""
        nodes = self.readers.get(name, ())
        return nodes[0] if len(nodes) == 1 and nodes[0].kind == kind else None

    def number(self, name: str) -> float | None:
        """A value that is one known number."""
        found = self.known.get(name)
        return float(found.reshape(())) if found is not None and found.size == 1 else None


def with_idioms(nodes: Sequence[Node], known: Mapping[str, Array], outputs: Collection[str]) -> list[Node]:
    """The nodes, in their order, with idioms replaced, and without those that no output depends on."""
    readers = defaultdict[str, list[Node]](list)
    for node in nodes:
        for name in filter(None, node.inputs):
            readers[name].append(node)
    for name in outputs:
        readers[name].append(Node("", (name,), (), {}))
    model = Model({name: node for node in nodes for name in node.outputs if name}, readers, known)
    replaced = {node.outputs[0]: node for last in nodes for idiom in _BY_KIND.get(last.kind, ()) for node in idiom(model, last)}
    return _needed([replaced.get(node.outputs[0], node) if node.outputs else node for node in nodes], outputs)


def _needed(nodes: Sequence[Node], outputs: Collection[str]) -> list[Node]:
    needed, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return kept[::-1]


# ---- Gelu ------------------------------------------------------------------------------------------------------------


def _gelu(m: Model, erf: Node) -> list[Node]:
    """x * (1 + erf(x / sqrt(2))) / 2, with the factors in any order."""
    scaled = _factors(m, erf.inputs[0])
    plus = m.reader(erf.outputs[0], "Add")
    if scaled is None or plus is None or not isclose(scaled[0], sqrt(0.5), rel_tol=TOLERANCE):
        return []
    if [m.number(name) for name in plus.inputs if name != erf.outputs[0]] != [1.0]:
        return []
    number, others, last = 1.0, list[str](), plus
    while (mul := m.reader(last.outputs[0], "Mul")) is not None:
        (other,) = [name for name in mul.inputs if name != last.outputs[0]] or [last.outputs[0]]
        factor, rest = _factors(m, other) or (1.0, other)
        number, others, last = number * factor, [*others, *([rest] if rest else [])], mul
        if others == [scaled[1]] and isclose(number, 0.5, rel_tol=TOLERANCE):
            return [Node("Gelu", (scaled[1],), last.outputs, {}, last.name)]
    return []


def _factors(m: Model, name: str) -> tuple[float, str] | None:
    """A value as a number times another value, '' for none; None if it is not made so."""
    if (number := m.number(name)) is not None:
        return number, ""
    for kind, power in (("Mul", 1), ("Div", -1)):
        node = m.maker(name, kind)
        if node is not None and (number := m.number(node.inputs[1])):
            return number**power, node.inputs[0]
        if node is not None and kind == "Mul" and (number := m.number(node.inputs[0])):
            return number, node.inputs[1]
    return None


# ---- rotation --------------------------------------------------------------------------------------------------------


def _rotation(m: Model, concat: Node) -> list[Node]:
    """x * cos + concat(-x[half:], x[:half]) * sin."""
    x, half, end = _swapped(m, concat)
    by_sin = m.reader(concat.outputs[0], "Mul")
    total = m.reader(by_sin.outputs[0], "Add") if by_sin is not None else None
    if by_sin is None or total is None:
        return []
    sin = next((name for name in by_sin.inputs if name != concat.outputs[0]), "")
    by_cos = m.maker(next((name for name in total.inputs if name != by_sin.outputs[0]), ""), "Mul")
    cos = next((name for name in by_cos.inputs if name != x), "") if by_cos is not None and x in by_cos.inputs else ""
    if cos not in m.known or sin not in m.known or any(m.known[name].shape[-1:] != (2 * half,) for name in (cos, sin)) or end < 2 * half:
        return []
    return [Node(ROTATION, (x, cos, sin), total.outputs, {}, total.name)]


def _swapped(m: Model, concat: Node) -> tuple[str, int, int]:
    """x, where the node joins the negative of its second part and the first one, the end of the first and of the second; '' otherwise."""
    if concat.attrs.get("axis") not in (-1, 3) or len(concat.inputs) != 2:
        return "", 0, 0
    negated, first = m.maker(concat.inputs[0], "Neg"), m.maker(concat.inputs[1], "Slice")
    second = m.maker(negated.inputs[0], "Slice") if negated is not None else None
    if first is None or second is None or first.inputs[0] != second.inputs[0]:
        return "", 0, 0
    front, back = _bounds(m, first), _bounds(m, second)
    if front is None or back is None or front[0] != 0 or front[1] != back[0]:
        return "", 0, 0
    return first.inputs[0], front[1], back[1]


def _bounds(m: Model, node: Node) -> tuple[int, int] | None:
    """Begin and end of a Slice along the last of four dims; None for another one."""
    start, end, axis, step = (m.number(node.inputs[i]) if node.has(i) else None for i in range(1, 5))
    if start is None or end is None or axis not in (-1, 3) or step not in (None, 1):
        return None
    return int(start), int(end)


_BY_KIND: Mapping[str, Sequence[Callable[[Model, Node], list[Node]]]] = {"Erf": (_gelu,), "Concat": (_rotation,)}
