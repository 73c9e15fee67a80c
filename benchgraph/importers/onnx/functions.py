"""Local functions of a model: their bodies in place of calls.

Functions that call one another twice double at each level: what 40 of them become is counted before it is made, by a sum over functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from benchgraph.core.errors import ParseError
from benchgraph.core.printable import quoted
from benchgraph.importers.onnx.draft import Node, Unmapped

MOST_NODES = 1_000_000
MOST_BYTES = (1 << 31) - 1  # of a message of protobuf
DOMAINS = ("", "ai.onnx")  # of ONNX's own ops
SMALLER = "export it without local functions, or fewer layers of it"

Key: TypeAlias = tuple[str, str, str]  # domain, name, overload
Amount: TypeAlias = "Counter[str | None]"  # under None what it has itself; by attribute how often it holds what a call gives
Measure: TypeAlias = Callable[[Any], int]  # of a node, graph or attribute, without those in it


@dataclass(frozen=True)
class Body:
    """What one call of a function becomes. defaults: of attributes that a call does not give."""

    amount: Amount
    defaults: Mapping[str, Amount]


def inlined(proto: Any, onnx: Any) -> Any:
    """The model without functions of its own. Check them before. Raises Unmapped."""
    return onnx.inliner.inline_local_functions(_with_defaults(proto)) if proto.functions else proto


def _with_defaults(proto: Any) -> Any:
    """With what functions have by default written into calls that leave it out: onnx's inliner forgets it."""
    defaults = {_key(f.domain, f.name, f.overload): f.attribute_proto for f in proto.functions if f.attribute_proto}
    if not defaults:
        return proto
    made = type(proto)()
    made.CopyFrom(proto)
    left_out = [(node, a) for node in _at_any_depth(made) for a in defaults.get(_called(node), ()) if a.name not in _given(node)]
    if sum(a.ByteSize() for _, a in left_out) > MOST_BYTES:
        what = f"with what its local functions have by default in every call the model has more than {MOST_BYTES:,} bytes"
        raise Unmapped(what, fix=SMALLER)
    for node, a in left_out:
        node.attribute.append(a)
    return made


def _given(node: Any) -> set[str]:
    return {a.name for a in node.attribute}


def check_functions(proto: Any) -> None:
    """Raise ParseError for functions that call themselves, and Unmapped for those that would become too much in place of their calls."""
    if not proto.functions:
        return
    _need_no_graphs(proto)
    order = _callees_first(proto)
    for measure, most, unit in ((_nodes, MOST_NODES, "nodes"), (_bytes, MOST_BYTES, "bytes")):
        bodies = dict[Key, Body]()
        for f in order:
            defaults = {a.name: _of_attribute(a, bodies, measure) for a in f.attribute_proto}
            bodies[_key(f.domain, f.name, f.overload)] = Body(_of_nodes(f.node, bodies, measure), defaults)
        if _of_nodes(proto.graph.node, bodies, measure)[None] > most:
            largest = max(proto.graph.node, key=lambda node: _of_nodes([node], bodies, measure)[None])
            where = Node(largest.op_type, (), (*largest.output, ""), {}, largest.name).label
            what = f"it calls local functions: in place of their calls the model has more than {most:,} {unit}"
            raise Unmapped(what, where=where, fix=SMALLER)


def _need_no_graphs(proto: Any) -> None:
    """Raise Unmapped for a graph that a function has by default."""
    for f in proto.functions:
        for a in f.attribute_proto:
            if _graphs(a):
                what = f"its attribute {quoted(a.name)} is a graph by default, which is not read"
                raise Unmapped(what, where=f"function {quoted(f.name)}", fix="give the graph in each call")


def _callees_first(proto: Any) -> list[Any]:
    """The functions, each after those that it calls. Raises ParseError where there is no such order."""
    functions = {_key(f.domain, f.name, f.overload): f for f in proto.functions}
    calls = {key: {called for node in _inside(f.node) if (called := _called(node)) in functions} for key, f in functions.items()}
    try:
        return [functions[key] for key in TopologicalSorter(calls).static_order()]
    except CycleError as bad:
        cycle = " -> ".join(name for _, name, _ in reversed(bad.args[1]))
        where = f"function {quoted(bad.args[1][0][1])}"
        raise ParseError(f"it calls itself: {quoted(cycle)}", where=where, fix="export it without the recursion") from bad


def _at_any_depth(proto: Any) -> Iterator[Any]:
    """The nodes of a model and of its functions."""
    for holder in (proto.graph, *proto.functions):
        yield from _inside(holder.node)


def _inside(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of graphs that their attributes hold."""
    left = [*nodes]
    while left:
        yield (node := left.pop())
        left += [n for a in node.attribute for g in _graphs(a) for n in g.node]


def _of_nodes(nodes: Iterable[Any], bodies: Mapping[Key, Body], measure: Measure) -> Amount:
    """What nodes become. bodies: of every function that they call."""
    total: Amount = Counter()
    for node in nodes:
        given = {a.name: _of_attribute(a, bodies, measure) for a in node.attribute}
        body = bodies.get(_called(node))
        if body is None:
            total[None] += measure(node)
            for amount in given.values():
                total.update(amount)
            continue
        given = {**body.defaults, **given}
        total[None] += body.amount[None]
        for name, times in body.amount.items():
            for held, n in given.get(name, {}).items() if name is not None else ():
                total[held] += times * n
    return total


def _of_attribute(a: Any, bodies: Mapping[Key, Body], measure: Measure) -> Amount:
    if a.ref_attr_name:
        return Counter([a.ref_attr_name])
    total: Amount = Counter({None: measure(a)})
    for g in _graphs(a):
        total[None] += measure(g)
        total.update(_of_nodes(g.node, bodies, measure))
    return total


def _graphs(a: Any) -> list[Any]:
    """Those that an attribute holds."""
    return [*([a.g] if a.HasField("g") else []), *a.graphs]


def _nodes(message: Any) -> int:
    return int(hasattr(message, "op_type"))


def _bytes(message: Any) -> int:
    within = message.attribute if hasattr(message, "op_type") else message.node if hasattr(message, "node") else _graphs(message)
    return int(message.ByteSize() - sum(inner.ByteSize() for inner in within))


def _called(node: Any) -> Key:
    return _key(node.domain, node.op_type, node.overload)


def _key(domain: str, name: str, overload: str) -> Key:
    return "" if domain in DOMAINS else domain, name, overload
