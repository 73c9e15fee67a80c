"""Encodes our graph as messages with oneDNN's numbers, and finds what the loaded version lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph.core.attrs import NO_ATTRS, AttrValue
from benchgraph.core.errors import InvalidGraphOp, Unavailable
from benchgraph.core.remarks import remark
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.onednn import messages
from benchgraph.onednn.table import ATTRS, DTYPES, FIRST, FPMATH_MODES, FPMATH_OF_INTEGERS, KINDS, OF_KIND, PROPERTIES, Entry, Version

_FORMS = {"f": float, "i": int, "b": bool, "s": str}


def graph(source: Graph, version: Version) -> messages.Graph:
    """A shape-inferred graph, without our own attributes. Unavailable if it needs a newer version, InvalidGraphOp if none has it."""
    if source.fpmath_apply_to_int and version < FPMATH_OF_INTEGERS:
        raise _too_old("a math mode that holds for integers too", FPMATH_OF_INTEGERS, version, "")
    ops = tuple(_op(op, version) for op in source.order)
    return messages.Graph(ops, FPMATH_MODES[source.fpmath_mode].code, source.fpmath_apply_to_int)


def has(op: Op, version: Version) -> bool:
    """Whether this version has the op, its attributes, dtypes and properties. The graph is shape-inferred."""
    try:
        _op(op, version)
    except (Unavailable, InvalidGraphOp):
        return False
    return True


def tensor(t: LogicalTensor, version: Version, where: str = "") -> messages.Tensor:
    """A tensor of known dims, strided."""
    dtype = _entry(DTYPES, t.dtype.value, "dtype", version, where)
    kind = _entry(PROPERTIES, t.property_type.value, "property", version, where)
    return messages.Tensor(t.id, dtype.code, t.known_shape, t.known_strides, kind.code)


def _op(op: Op, version: Version) -> messages.Op:
    kind = _entry(KINDS, op.kind, "op kind", version, op.label)
    defaults = replace(op, attrs=NO_ATTRS).full_attrs
    for name in (name for name, value in op.extensions.items() if value):
        remark(f"oneDNN has no attribute '{name}': it runs {op.kind} as its own")
    given = op.attrs.without(*op.extensions)
    sent = {name: value for name, value in given.items() if _since(op.kind, name) <= version or value != defaults.get(name)}
    attrs = tuple(_attr(op, name, value, version) for name, value in sent.items())
    ins, outs = (tuple(tensor(t, version, op.label) for t in side) for side in (op.inputs, op.outputs))
    return messages.Op(op.id, kind.code, op.kind, attrs, ins, outs)


def _since(kind: str, attr: str) -> Version:
    """The version in which the kind got the attribute; for older ones it can be left out if it has the default value."""
    return OF_KIND.get((kind, attr), ATTRS[attr].since if attr in ATTRS else FIRST)


def _attr(op: Op, name: str, value: AttrValue, version: Version) -> tuple[int, str, messages.Value]:
    entry = _entry(ATTRS, name, "attribute", version, op.label)
    if (since := _since(op.kind, name)) > version:
        raise _too_old(f"attribute {name}", since, version, op.label)
    form = "list" if entry.form in ("fs", "is") else _FORMS[entry.form].__name__
    if isinstance(value, tuple) is not (form == "list") or (form == "str") is not isinstance(value, str):
        raise InvalidGraphOp(f"attribute {name} is {value!r}, no {form}", where=op.label, fix=f"give a {form}")
    return entry.code, entry.form, value


def _entry(table: Mapping[str, Entry], name: str, what: str, version: Version, where: str) -> Entry:
    entry = table.get(name)
    if entry is None:
        raise InvalidGraphOp(f"oneDNN has no {what} '{name}'", where=where)
    if entry.since > version:
        raise _too_old(f"{what} {name}", entry.since, version, where)
    return entry


def _too_old(what: str, since: Version, version: Version, where: str) -> Unavailable:
    need, have = ("{}.{}".format(*v) for v in (since, version))
    return Unavailable(f"{what} needs oneDNN {need}; this is {have}", where=where)
