"""Reads and writes oneDNN Graph JSON: dumps of ONEDNN_GRAPH_DUMP, and files written by hand in this format.

Reading accepts the peculiarities of the library and its reader:

- the bare words `inf`, `-inf`, `nan`, which the library prints, and `Infinity`, `-Infinity`, `NaN` are numbers;
- booleans are 0/1 or true/false; `fpmath_mode_apply_to_int` is a string;
- `attrs`, `inputs`, `outputs`, `name`, the ports and every other top-level key but `graph` are optional; unknown keys are ignored;
- INT64_MIN is an unknown dim. The library writes a shape with any unknown dim as a single INT64_MIN, so that is a shape of unknown
  rank (None). Strides with INT64_MIN, or of another rank, are unknown (None); an opaque tensor's first stride is its layout id;
- the attributes `partition_id` and `backend`, which the library adds to every op of a partitioned dump, are dropped.

Writing keeps the library's key order and attribute types, but floats are exact (repr; the library prints six digits), and a shape of known
rank keeps its known dims. `loads(dumps(g)) == g` for every loaded graph.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchgraph import ops
from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import GRAPH_DTYPES
from benchgraph.core.errors import BenchgraphError, NoSuchOpKind, ParseError, did_you_mean, within
from benchgraph.core.json_objects import Doubled
from benchgraph.core.printable import quoted, shortened
from benchgraph.core.tensor import MAX_NDIMS, UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType, Shape
from benchgraph.graph.check import check, check_consistent
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.json_values import Long, parse, text_of
from benchgraph.ops.ranges import F32_FIX, overflows

ENGINE_KINDS = ("cpu", "gpu", "any")
FPMATH_MODES = ("strict", "bf16", "f16", "tf32", "any")
BOOKKEEPING = frozenset({"partition_id", "backend"})

T = TypeVar("T")
Json = Mapping[str, object]


def load(path: str | Path) -> Graph:
    """Read and check a file. Every error is one line that begins with the path."""
    graph = read(path)
    with within(str(path)):
        check(graph)
    return graph


def read(path: str | Path) -> Graph:
    """Read a file without checking its ops, which overrides may still make legal. Errors as `load`."""
    with within(str(path)):
        graph = _graph(parse(text_of(Path(path))))
        check_consistent(graph)
    return graph


def loads(text: str, where: str = "<string>") -> Graph:
    """Read and check a graph; every error begins with `where`. Shapes are not inferred (see `benchgraph.graph.validate`)."""
    with within(where):
        graph = _graph(parse(text))
        check(graph)
    return graph


def save(graph: Graph, path: str | Path) -> None:
    """Write `dumps(graph)` to a file."""
    Path(path).write_text(dumps(graph), encoding="utf-8")


# ---- JSON values -> graph --------------------------------------------------------------------------------------------


def _described(value: object) -> str:
    """A JSON value in messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None:
        return "null"
    return f"an integer of {len(value.digits.lstrip('-'))} digits" if isinstance(value, Long) else shortened(json.dumps(value))


def _integer(value: object, what: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Long):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be an integer")
    if isinstance(value, Long) or not least <= value <= most:
        raise ParseError(f"{what} is {_described(value)}", fix=f"it must be between {least} and {most}")
    return value


def _id(value: object, what: str) -> int:
    return _integer(value, what, 0, 2**64 - 1)


def _real(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Long):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be a number")
    if isinstance(value, Long) or overflows(value):
        raise ParseError(f"{what} is {_described(value)}", fix=F32_FIX)
    return math.nan if value != value else float(value)  # one NaN object, so that equal graphs compare equal


def _boolean(value: object, what: str) -> bool:
    if not isinstance(value, int) or value not in (0, 1):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be 0, 1, false or true")
    return bool(value)


def _string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be a string")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):  # half a surrogate pair cannot be written to a file
        raise ParseError(f"{what} is {_described(value)}", fix="it must be text, which half of a surrogate pair is not")
    return value


def _array(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be an array")
    return value


def _each(read: Callable[[object, str], T], value: object, what: str) -> tuple[T, ...]:
    return tuple(read(v, f"element {i} of {what}") for i, v in enumerate(_array(value, what)))


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise ParseError(f"{what} is {_described(value)}", fix="it must be an object")
    if isinstance(value, Doubled):
        raise ParseError(f"{what} has the key {_described(value.key)} twice", fix="leave one of them out")
    return value


def _choice(value: object, what: str, known: Mapping[str, T]) -> T:
    word = _string(value, what)
    if word not in known:
        raise ParseError(f"unknown {what} {quoted(word)}", fix=did_you_mean(word, known) or f"use one of {', '.join(known)}")
    return known[word]


_READ: dict[str, Callable[[object, str], AttrValue]] = {
    "bool": _boolean, "s64": _integer, "f32": _real, "string": _string, "s64[]": partial(_each, _integer), "f32[]": partial(_each, _real),
}  # fmt: skip
_DTYPES = {d.value: d for d in GRAPH_DTYPES}
_LAYOUTS = {k.value: k for k in LayoutType}
_PROPERTIES = {p.value: p for p in PropertyType}


def _graph(values: object) -> Graph:
    if not isinstance(values, dict):
        raise ParseError(f"the top level is {_described(values)}", fix='it must be an object with the key "graph"')
    data = _object(values, "the top level")
    if "graph" not in data:
        raise ParseError('there is no key "graph"', fix="it holds the array of ops")
    entries = _array(data["graph"], '"graph"')
    if not entries:
        raise ParseError('"graph" is empty', fix="a graph has at least one op")
    apply_to_int = data.get("fpmath_mode_apply_to_int")
    if apply_to_int is not None and not isinstance(apply_to_int, bool):
        apply_to_int = _choice(apply_to_int, "fpmath_mode_apply_to_int", {"true": True, "false": False})
    return Graph(
        ops=tuple(_op(entry, i) for i, entry in enumerate(entries)),
        engine_kind=_choice(data.get("engine_kind", "cpu"), "engine_kind", {k: k for k in ENGINE_KINDS}),
        fpmath_mode=_choice(data.get("fpmath_mode") or "strict", "fpmath_mode", {m: m for m in FPMATH_MODES}),
        fpmath_apply_to_int=apply_to_int,
        version=_string(data.get("version", ""), "version"),
        input_ports=_ports(data, "input_ports"),
        output_ports=_ports(data, "output_ports"),
    )


def _ports(data: Json, key: str) -> tuple[int, ...] | None:
    """Tensor ids, including duplicates."""
    return _each(_id, data[key], f'"{key}"') if key in data else None


def _op(entry: object, position: int) -> Op:
    where = f"graph[{position}]"
    try:
        fields = _object(entry, "the op")
        if "id" not in fields:
            raise ParseError('the op has no "id"', fix="give every op an id of its own")
        id = _id(fields["id"], '"id"')
        where = f"op {id}"
        if "kind" not in fields:
            raise ParseError('the op has no "kind"', fix='name the operation, for example "kind": "MatMul"')
        kind = _string(fields["kind"], '"kind"')
        renamed = re.sub("Backprop$", "Backward", kind)  # the first versions of oneDNN Graph named the gradients Backprop
        kind = renamed if renamed in ops.OPS else kind
        name = _string(fields.get("name", ""), '"name"')
        where = Op(id, kind).label
        ops.spec(kind)  # report an unknown kind before other errors
        inputs, outputs = (
            tuple(_tensor(entry, f"{key}[{i}]") for i, entry in enumerate(_array(fields.get(key, []), f'"{key}"')))
            for key in ("inputs", "outputs")
        )
        return Op(id, kind, _attrs(fields.get("attrs", {})), inputs, outputs, name)
    except BenchgraphError as bad:
        raise bad.inside(where) from bad


def _attrs(value: object) -> Attrs:
    entries = _object(value, '"attrs"')
    return Attrs(
        {_string(n, "an attribute's name"): _attr(entry, f"attribute {quoted(n)}") for n, entry in entries.items() if n not in BOOKKEEPING}
    )


def _attr(entry: object, where: str) -> AttrValue:
    with within(where):
        typed = _object(entry, "it")
        for key in ("type", "value"):
            if key not in typed:
                raise ParseError(f'there is no "{key}"', fix='write {"type": T, "value": V}')
        return _choice(typed["type"], "type", _READ)(typed["value"], "the value")


def _tensor(entry: object, where: str) -> LogicalTensor:
    with within(where):
        fields = _object(entry, "the tensor")
        for key in ("id", "dtype"):
            if key not in fields:
                raise ParseError(f'the tensor has no "{key}"', fix="every use of a tensor describes it in full")
        shape = _shape(fields)
        layout = _choice(fields.get("layout_type", "strided"), "layout_type", _LAYOUTS)
        given = _each(_integer, fields.get("stride", []), '"stride"')
        opaque = layout is LayoutType.opaque
        if not opaque and any(stride < 0 and stride != UNKNOWN_DIM for stride in given):
            raise ParseError(f"the strides are {quoted(given)}", fix=f"a stride is 0 or more; {UNKNOWN_DIM} stands for an unknown one")
        known = "stride" in fields and not opaque and shape is not None and len(given) == len(shape) and UNKNOWN_DIM not in given
        return LogicalTensor(
            id=_id(fields["id"], '"id"'),
            dtype=_choice(fields["dtype"], "dtype", _DTYPES),
            shape=shape,
            strides=given if known else None,
            layout_type=layout,
            property_type=_choice(fields.get("property_type", "undef"), "property_type", _PROPERTIES),
            layout_id=given[0] if opaque and given else 0,
        )


def _shape(fields: Json) -> Shape | None:
    if "shape" not in fields:
        return None
    shape = _each(_integer, fields["shape"], '"shape"')
    if shape == (UNKNOWN_DIM,):
        return None
    if len(shape) > MAX_NDIMS:
        raise ParseError(f"the shape has {len(shape)} dims", fix=f"oneDNN allows {MAX_NDIMS}")
    for dim in shape:
        if dim < 0 and dim != UNKNOWN_DIM:
            raise ParseError(f"the shape has a dim of {dim}", fix=f"a dim is 0 or more; {UNKNOWN_DIM} stands for an unknown one")
    return shape


# ---- graph -> text ---------------------------------------------------------------------------------------------------


def dumps(graph: Graph) -> str:
    """The graph in the library's format, one tensor and one attribute per line. Strict JSON unless an attribute is inf or nan."""
    head = {"version": graph.version, "engine_kind": graph.engine_kind, "fpmath_mode": graph.fpmath_mode}
    if graph.fpmath_apply_to_int is not None:
        head["fpmath_mode_apply_to_int"] = "true" if graph.fpmath_apply_to_int else "false"
    lines = [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
    for key, ports in (("input_ports", graph.input_ports), ("output_ports", graph.output_ports)):
        if ports is not None:
            lines.append(f'  "{key}": {_value_text(ports)},')
    ops_text = ",\n".join(_op_text(op) for op in graph.ops)
    return "\n".join(["{", *lines, '  "graph": [', ops_text, "  ]", "}"]) + "\n"


def _op_text(op: Op) -> str:
    head = [f'      "id": {op.id},', f'      "name": {json.dumps(op.name)},', f'      "kind": {json.dumps(op.kind)},']
    attrs = _block('"attrs": {', (f"{json.dumps(name)}: {_typed(text)}" for name, text in _attr_texts(op)), "},")
    ins = _block('"inputs": [', map(_tensor_text, op.inputs), "],")
    outs = _block('"outputs": [', map(_tensor_text, op.outputs), "]")
    return "\n".join(["    {", *head, attrs, ins, outs, "    }"])


def _block(opening: str, items: Iterator[str], closing: str) -> str:
    body = ",\n        ".join(items)
    return f"      {opening}\n        {body}\n      {closing}" if body else f"      {opening}{closing}"


def _attr_texts(op: Op) -> Iterator[tuple[str, tuple[str, AttrValue]]]:
    """Each attribute with its JSON type from the op's row; without a row, from its value."""
    try:
        schema = ops.attrs_of(op.kind)
    except NoSuchOpKind:
        schema = {}
    for name, value in op.attrs.items():
        yield name, (schema[name].type if name in schema else _type_of(value), value)


def _type_of(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return "f32[]" if any(isinstance(v, float) for v in value) else "s64[]"
    return {bool: "bool", int: "s64", float: "f32", str: "string"}[type(value)]


def _typed(entry: tuple[str, AttrValue]) -> str:
    kind, value = entry
    if kind == "f32" and isinstance(value, int):
        value = float(value)
    return f'{{"type": "{kind}", "value": {_value_text(value)}}}'


def _value_text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value_text(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value)
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _tensor_text(t: LogicalTensor) -> str:
    shape = (UNKNOWN_DIM,) if t.shape is None else t.shape
    strides = (UNKNOWN_DIM,) if t.strides is None else t.strides
    if t.layout_type is LayoutType.opaque:
        strides = (t.layout_id,)
    return (
        f'{{"id": {t.id}, "dtype": "{t.dtype.value}", "shape": {_value_text(shape)}, "stride": {_value_text(strides)}, '
        f'"layout_type": "{t.layout_type.value}", "property_type": "{t.property_type.value}"}}'
    )
