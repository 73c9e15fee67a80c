"""Graphs as text, and back: `parse_graph(print_graph(g)) == g`.

    graph engine=cpu fpmath=strict {
      %3: f32[128,512] = MatMul#0 "layer 0"(%0: f32[128,13], %1: f32[13,512] constant, %2: f32[512] constant) {transpose_a=false}
      %4: f32[128,512] = ReLU#1(%3)
    }

An op is `outputs = Kind#id "name"(inputs) {attributes}`; name and attributes are left out when empty. A tensor is described where it
first occurs, and again only where the description differs. `?` is an unknown dim, `f32[*]` a tensor of unknown rank. After the dims come,
when they are not the usual ones: strides (`strides=[1,4]`; `strides=?` when unknown), the layout (`any`, `undef`, `opaque(7)`) and the
property (`variable`, `constant`, `host_scalar`). Usual means strided, row-major when the dims are known, property undef. The header adds
`version="3.1.0"`, `apply_to_int=true`, `inputs=[0]` and `outputs=[4]` (port lists) when the graph has them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import GRAPH_DTYPES
from benchgraph.core.errors import ParseError, did_you_mean
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.graph.ir import Graph, Op

T = TypeVar("T")

# ---- print -----------------------------------------------------------------------------------------------------------


def print_graph(graph: Graph) -> str:
    """The graph as text, ops in the order given; ends with a newline."""
    head = [f"engine={graph.engine_kind}", f"fpmath={graph.fpmath_mode}"]
    if graph.fpmath_apply_to_int is not None:
        head.append(f"apply_to_int={_value(graph.fpmath_apply_to_int)}")
    if graph.version:
        head.append(f"version={_value(graph.version)}")
    for key, ports in (("inputs", graph.input_ports), ("outputs", graph.output_ports)):
        if ports is not None:
            head.append(f"{key}={_value(ports)}")
    seen: dict[int, LogicalTensor] = {}
    return "\n".join([f"graph {' '.join(head)} {{", *(f"  {_op(op, seen)}" for op in graph.ops), "}"]) + "\n"


def print_tensor(t: LogicalTensor) -> str:
    """A logical tensor for messages, without its id: `f32[128,13] constant`. Strides that are not given count as the usual ones."""
    usual = t if t.strides is not None else replace(t, strides=_usual_strides(t.shape, t.layout_type))
    return _tensor(usual, {}).partition(": ")[2]


def _op(op: Op, seen: dict[int, LogicalTensor]) -> str:
    outs = ", ".join(_tensor(t, seen) for t in op.outputs)
    ins = ", ".join(_tensor(t, seen) for t in op.inputs)
    name = f" {_value(op.name)}" if op.name else ""
    attrs = f" {{{', '.join(f'{k}={_value(v)}' for k, v in op.attrs.items())}}}" if op.attrs else ""
    return f"{outs}{' = ' if outs else ''}{op.kind}#{op.id}{name}({ins}){attrs}"


def _tensor(t: LogicalTensor, seen: dict[int, LogicalTensor]) -> str:
    if seen.get(t.id) == t:
        return f"%{t.id}"
    seen[t.id] = t
    dims = "*" if t.shape is None else ",".join("?" if d == UNKNOWN_DIM else str(d) for d in t.shape)
    words = [f"%{t.id}: {t.dtype.value}[{dims}]"]
    if t.strides != _usual_strides(t.shape, t.layout_type):
        words.append(f"strides={'?' if t.strides is None else _value(t.strides)}")
    if t.layout_type is LayoutType.opaque:
        words.append(f"opaque({t.layout_id})")
    elif t.layout_type is not LayoutType.strided:
        words.append("undef" if t.layout_type is LayoutType.undef else "any")
    if t.property_type is not PropertyType.undef:
        words.append(t.property_type.value)
    return " ".join(words)


def _usual_strides(shape: Shape | None, layout: LayoutType) -> Shape | None:
    if shape is None or UNKNOWN_DIM in shape or layout is not LayoutType.strided:
        return None
    return dense_strides(shape)


def _value(value: AttrValue) -> str:
    """An attribute value; reals always show a point, an exponent, inf or nan, so that they come back as reals."""
    if isinstance(value, tuple):
        return f"[{','.join(_value(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")  # all other control characters are escaped by json
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


# ---- parse -----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<skip>\s+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?(?:inf\b|nan\b|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>[%:\[\],*?=#(){}])""",
    re.VERBOSE,
)
_NONFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "-nan": math.nan}
_LAYOUT_WORDS = ("any", "undef", "opaque")
_PROPERTIES = {p.value: p for p in PropertyType if p is not PropertyType.undef}


def parse_graph(text: str) -> Graph:
    """Read `print_graph`'s text. Raises ParseError with line, column, the line itself and what was expected there.

    Only the form is checked; `benchgraph.graph.check` says whether the graph makes sense.
    """
    return _Parser(text).graph()


class _Parser:
    """Recursive descent over (kind, text, offset) tokens; `at` is the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tokens: list[tuple[str, str, int]] = []
        self.seen: dict[int, LogicalTensor] = {}
        pos = 0
        while pos < len(text):
            found = _TOKEN.match(text, pos)
            if found is None:
                self.fail("a token of graph text", pos)
            if found.lastgroup != "skip":
                self.tokens.append((str(found.lastgroup), found[0], pos))
            pos = found.end()
        self.tokens.append(("end", "the end of the text", len(text)))

    # -- tokens

    def fail(self, expected: str, offset: int | None = None, hint: str = "") -> NoReturn:
        """Raise a ParseError that shows the line with a caret under the offset (default: the next token)."""
        pos = self.tokens[self.at][2] if offset is None else offset
        start = self.text.rfind("\n", 0, pos) + 1
        line = self.text[start:].split("\n", 1)[0]
        number = self.text.count("\n", 0, pos) + 1
        caret = " " * (pos - start) + "^"
        what = f"expected {expected}{' (' if hint else ''}{hint}{')' if hint else ''}"
        raise ParseError(what, where=f"line {number}, column {pos - start + 1}", shown=f"{line}\n{caret}")

    def peek(self, text: str) -> bool:
        kind, found, _ = self.tokens[self.at]
        return found == text and kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"'{text}'")

    def take(self, kind: str, expected: str) -> str:
        found, text, _ = self.tokens[self.at]
        if found != kind:
            self.fail(expected)
        self.at += 1
        return text

    def choose(self, known: dict[str, T], expected: str) -> T:
        """A word out of a table."""
        word = self.take("word", expected)
        if word not in known:
            self.at -= 1
            self.fail(expected, hint=did_you_mean(word, known))
        return known[word]

    def integer(self, expected: str) -> int:
        text = self.take("number", expected)
        try:
            return int(text)
        except ValueError:
            self.at -= 1
            self.fail(expected)

    def string(self, expected: str) -> str:
        text = self.take("string", expected)
        try:
            return str(json.loads(text))
        except json.JSONDecodeError:
            self.at -= 1
            self.fail("a string with JSON's escapes")

    def listed(self, item: Callable[[], T], closing: str) -> tuple[T, ...]:
        """Items between commas up to the closing mark, which is consumed."""
        found: list[T] = []
        while not self.accept(closing):
            if found and not self.accept(","):
                self.fail(f"',' or '{closing}'")
            found.append(item())
        return tuple(found)

    # -- grammar

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("engine")
        self.expect("=")
        engine = self.take("word", "an engine kind such as cpu")
        self.expect("fpmath")
        self.expect("=")
        fpmath = self.take("word", "an fpmath mode such as strict")
        apply_to_int = self.boolean() if self.key("apply_to_int") else None
        version = self.string("the version as a string") if self.key("version") else ""
        inputs = self.integers() if self.key("inputs") else None
        outputs = self.integers() if self.key("outputs") else None
        self.expect("{")
        ops = []
        while not self.accept("}"):
            ops.append(self.op())
        if self.tokens[self.at][0] != "end":
            self.fail("nothing after the closing '}'")
        return Graph(tuple(ops), engine, fpmath, apply_to_int, version, inputs, outputs)

    def key(self, word: str) -> bool:
        """Consumes `word=` when it comes next."""
        if not self.accept(word):
            return False
        self.expect("=")
        return True

    def boolean(self) -> bool:
        return self.choose({"true": True, "false": False}, "true or false")

    def integers(self) -> Shape:
        self.expect("[")
        return self.listed(lambda: self.integer("an integer"), "]")

    def op(self) -> Op:
        outputs: list[LogicalTensor] = []
        if self.peek("%"):
            outputs.append(self.tensor())
            while self.accept(","):
                outputs.append(self.tensor())
            self.expect("=")
        kind = self.take("word", "an op: 'outputs = Kind#id(inputs)'")
        self.expect("#")
        id = self.integer("the op's id")
        name = self.string("the op's name") if self.tokens[self.at][0] == "string" else ""
        self.expect("(")
        inputs = self.listed(self.tensor, ")")
        attrs = dict(self.listed(self.attribute, "}")) if self.accept("{") else {}
        return Op(id, kind, Attrs(attrs), inputs, tuple(outputs), name)

    def attribute(self) -> tuple[str, AttrValue]:
        name = self.take("word", "an attribute's name")
        self.expect("=")
        return name, self.value()

    def value(self) -> AttrValue:
        kind = self.tokens[self.at][0]
        if kind == "string":
            return self.string("a string")
        if kind == "number":
            return self.number()
        if self.accept("["):
            numbers = self.listed(self.number, "]")
            return tuple(float(n) for n in numbers) if any(isinstance(n, float) for n in numbers) else numbers
        if kind == "word":
            return self.boolean()
        return self.fail("a value: true, false, a number, a string or a list of numbers")

    def number(self) -> int | float:
        text = self.take("number", "a number")
        if text in _NONFINITE:
            return _NONFINITE[text]
        return float(text) if any(c in text for c in ".eE") else int(text)

    def tensor(self) -> LogicalTensor:
        start = self.tokens[self.at][2]
        self.expect("%")
        id = self.integer("a tensor id")
        if not self.accept(":"):
            if id not in self.seen:
                self.fail(f"': dtype[dims]', for tensor {id} has not been described", start)
            return self.seen[id]
        dtype = self.choose({d.value: d for d in GRAPH_DTYPES}, "a data type")
        self.expect("[")
        shape = self.shape()
        explicit = self.key("strides")
        strides = self.strides() if explicit else None
        layout, layout_id = self.layout()
        property_type = PropertyType.undef
        if self.tokens[self.at][0] == "word" and self.tokens[self.at][1] in _PROPERTIES:
            property_type = self.choose(_PROPERTIES, "a property")
        if not explicit:
            strides = _usual_strides(shape, layout)
        self.seen[id] = LogicalTensor(id, dtype, shape, strides, layout, property_type, layout_id)
        return self.seen[id]

    def shape(self) -> Shape | None:
        if self.accept("*"):
            self.expect("]")
            return None
        return self.listed(lambda: UNKNOWN_DIM if self.accept("?") else self.integer("a dim or '?'"), "]")

    def strides(self) -> Shape | None:
        return None if self.accept("?") else self.integers()

    def layout(self) -> tuple[LayoutType, int]:
        if not any(self.peek(word) for word in _LAYOUT_WORDS):
            return LayoutType.strided, 0
        layout = LayoutType(self.take("word", "a layout"))
        if layout is not LayoutType.opaque:
            return layout, 0
        self.expect("(")
        id = self.integer("a layout id")
        self.expect(")")
        return layout, id
