"""Attributes of ops (--op-attrs): text values, parsed by the type in the op's row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from benchgraph import ops
from benchgraph.core.attrs import AttrValue
from benchgraph.core.errors import InvalidArguments, ParseError, did_you_mean, within
from benchgraph.core.remarks import remark
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.override.draft import Draft, settle

REMOVED = "undef"  # as a value: removes the attribute, which restores its default


def with_attrs(graph: Graph, attrs: Mapping[int, Mapping[str, str]]) -> Graph:
    """The graph with attributes set, by op id and name, and all shapes inferred again. Missing attributes are added.

    Elements of a list are joined by x, as in 2x2. Raises InvalidArguments for an op or an attribute that does not exist, ParseError for a
    value of another type.
    """
    return settle(set_attrs(Draft(graph), attrs))


def set_attrs(draft: Draft, attrs: Mapping[int, Mapping[str, str]]) -> Draft:
    by_id = {op.id: op for op in draft.graph.ops}
    new, named = dict(draft.attrs), dict(draft.named)
    for id, texts in attrs.items():
        op = find_op(by_id, id)
        values = new.get(id, op.attrs)
        with within(op.label):
            for name, text in texts.items():
                values = values.without(name) if text == REMOVED else values.updated(**{name: _value(op, name, text)})
        new[id], named[id] = values, named.get(id, frozenset()) | set(texts)
    return replace(draft, attrs=new, named=named)


def find_op(by_id: Mapping[int, Op], id: int) -> Op:
    """The op of this id. Raises InvalidArguments, which lists the ops."""
    if id not in by_id:
        known = ", ".join(f"{op.id} ({op.kind})" for op in sorted(by_id.values(), key=lambda op: op.id))
        raise InvalidArguments("there is no such op", where=f"op {id}", fix=f"the graph has {known}")
    return by_id[id]


def _value(op: Op, name: str, text: str) -> AttrValue:
    kinds = (*ops.OPS, op.kind)  # another kind set by --op-kind may have it
    known = {other: attr.type for kind in kinds for other, attr in ops.attrs_of(kind).items()}
    if name not in known:
        raise InvalidArguments(f"unknown attribute '{name}'", fix=did_you_mean(name, known) or f"there are {', '.join(sorted(known))}")
    kind = known[name]
    try:
        if kind.endswith("[]"):
            return tuple(_element(kind.removesuffix("[]"), name, part) for part in text.split("x"))  # type: ignore[return-value]
        return _READ[kind](text)
    except (ValueError, KeyError):
        raise ParseError(f"attribute '{name}' cannot be '{text}'", fix=_REMEDY[kind]) from None


def _element(kind: str, name: str, text: str) -> AttrValue:
    """An element of a list. A fraction for an integer is truncated, since batch files written for benchdnn rely on that."""
    if kind == "s64" and text.count(".") == 1 and text.replace(".", "").isdecimal():
        integer = int(text.partition(".")[0] or 0)
        remark(f"--op-attrs: {name} takes integers: {text} is cut off to {integer}, as in benchdnn")
        return integer
    return _READ[kind](text)


_FLAGS = {"0": False, "1": True, "false": False, "true": True}
_READ: dict[str, Callable[[str], AttrValue]] = {"bool": lambda text: _FLAGS[text.lower()], "s64": int, "f32": float, "string": str}
_REMEDY = {
    "bool": "give 0 or 1",
    "s64": "give an integer",
    "f32": "give a number",
    "string": "give a word",
    "s64[]": "give integers joined by x, as in 2x2",
    "f32[]": "give numbers joined by x, as in 0.5x2",
}
