"""A readable text form of graphs: `parse_graph(print_graph(g)) == g`.

    graph engine=cpu fpmath=strict {
      %3: f32[128,512] = MatMul#0 "layer 0"(%0: f32[128,13], %1: f32[13,512] constant, %2: f32[512] constant) {transpose_a=false}
      %4: f32[128,512] = ReLU#1(%3)
    }

An op is `outputs = Kind#id "name"(inputs) {attributes}`; name and attributes are omitted when empty. A tensor is described at its first
occurrence, and again only where the description differs. `?` is an unknown dim, `f32[*]` a tensor of unknown rank. The dims are followed,
where they are not the defaults, by strides (`strides=[1,4]`; `strides=?` when unknown), the layout (`any`, `undef`, `opaque(7)`) and the
property (`variable`, `constant`, `host_scalar`). The defaults are strided, row-major when the dims are known, property undef. The header
adds `version="3.1.0"`, `apply_to_int=true`, `inputs=[0]` and `outputs=[4]` (port lists) if the graph has them.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import GRAPH_DTYPES
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType, Shape, dense_strides
from benchgraph.core.tokens import Tokens, print_value
from benchgraph.graph.ir import Graph, Op

# ---- print -----------------------------------------------------------------------------------------------------------


def print_graph(graph: Graph) -> str:
    """The graph as text, ops in the order given; ends with a newline."""
    head = [f"engine={graph.engine_kind}", f"fpmath={graph.fpmath_mode}"]
    if graph.fpmath_apply_to_int is not None:
        head.append(f"apply_to_int={print_value(graph.fpmath_apply_to_int)}")
    if graph.version:
        head.append(f"version={print_value(graph.version)}")
    for key, ports in (("inputs", graph.input_ports), ("outputs", graph.output_ports)):
        if ports is not None:
            head.append(f"{key}={print_value(ports)}")
    seen: dict[int, LogicalTensor] = {}
    return "\n".join([f"graph {' '.join(head)} {{", *(f"  {_op(op, seen)}" for op in graph.ops), "}"]) + "\n"


def print_tensor(t: LogicalTensor) -> str:
    """A logical tensor for messages, without its id: `f32[128,13] constant`. Missing strides count as the default ones."""
    with_strides = t if t.strides is not None else replace(t, strides=_default_strides(t.shape, t.layout_type))
    return _tensor(with_strides, {}).partition(": ")[2]


def _op(op: Op, seen: dict[int, LogicalTensor]) -> str:
    outs = ", ".join(_tensor(t, seen) for t in op.outputs)
    ins = ", ".join(_tensor(t, seen) for t in op.inputs)
    name = f" {print_value(op.name)}" if op.name else ""
    attrs = f" {{{', '.join(f'{k}={print_value(v)}' for k, v in op.attrs.items())}}}" if op.attrs else ""
    return f"{outs}{' = ' if outs else ''}{op.kind}#{op.id}{name}({ins}){attrs}"


def _tensor(t: LogicalTensor, seen: dict[int, LogicalTensor]) -> str:
    if seen.get(t.id) == t:
        return f"%{t.id}"
    seen[t.id] = t
    dims = "*" if t.shape is None else ",".join("?" if d == UNKNOWN_DIM else str(d) for d in t.shape)
    words = [f"%{t.id}: {t.dtype.value}[{dims}]"]
    if t.strides != _default_strides(t.shape, t.layout_type):
        words.append(f"strides={'?' if t.strides is None else print_value(t.strides)}")
    if t.layout_type is LayoutType.opaque:
        words.append(f"opaque({t.layout_id})")
    elif t.layout_type is not LayoutType.strided:
        words.append("undef" if t.layout_type is LayoutType.undef else "any")
    if t.property_type is not PropertyType.undef:
        words.append(t.property_type.value)
    return " ".join(words)


def _default_strides(shape: Shape | None, layout: LayoutType) -> Shape | None:
    if shape is None or UNKNOWN_DIM in shape or layout is not LayoutType.strided:
        return None
    return dense_strides(shape)


# ---- parse -----------------------------------------------------------------------------------------------------------

_LAYOUT_WORDS = ("any", "undef", "opaque")
_PROPERTIES = {p.value: p for p in PropertyType if p is not PropertyType.undef}


def parse_graph(text: str) -> Graph:
    """Parse `print_graph`'s text. Raises ParseError with line, column, the line itself and what was expected.

    Checks only the syntax; `benchgraph.graph.check` checks the graph.
    """
    return _Parser(text).graph()


class _Parser(Tokens):
    """A recursive-descent parser."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "graph text", r"[%:\[\],*?=\#(){}-]")
        self.seen: dict[int, LogicalTensor] = {}

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("engine")
        self.expect("=")
        engine = self.take("word", "an engine kind such as cpu")
        self.expect("fpmath")
        self.expect("=")
        fpmath = self.take("word", "a math mode such as strict")
        apply_to_int = self.boolean() if self.key("apply_to_int") else None
        version = self.string("the version as a string") if self.key("version") else ""
        inputs = self.integers() if self.key("inputs") else None
        outputs = self.integers() if self.key("outputs") else None
        self.expect("{")
        ops = []
        while not self.accept("}"):
            ops.append(self.op())
        if self.kind != "end":
            self.syntax_error("nothing after the closing '}'")
        return Graph(tuple(ops), engine, fpmath, apply_to_int, version, inputs, outputs)

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
        name = self.string("the op's name") if self.kind == "string" else ""
        self.expect("(")
        inputs = self.listed(self.tensor, ")")
        attrs = dict(self.listed(self.attribute, "}")) if self.accept("{") else {}
        return Op(id, kind, Attrs(attrs), inputs, tuple(outputs), name)

    def attribute(self) -> tuple[str, AttrValue]:
        name = self.take("word", "an attribute's name")
        self.expect("=")
        return name, self.value()

    def tensor(self) -> LogicalTensor:
        start = self.offset
        self.expect("%")
        id = self.integer("a tensor id")
        if not self.accept(":"):
            if id not in self.seen:
                self.syntax_error(f"': dtype[dims]', for tensor {id} has not been described", start)
            return self.seen[id]
        dtype = self.choose({d.value: d for d in GRAPH_DTYPES}, "a data type")
        self.expect("[")
        shape = self.shape()
        explicit = self.key("strides")
        strides = self.integers() if explicit and not self.accept("?") else None
        layout, layout_id = self.layout()
        property_type = PropertyType.undef
        if self.kind == "word" and self.next in _PROPERTIES:
            property_type = self.choose(_PROPERTIES, "a property")
        if not explicit:
            strides = _default_strides(shape, layout)
        self.seen[id] = LogicalTensor(id, dtype, shape, strides, layout, property_type, layout_id)
        return self.seen[id]

    def shape(self) -> Shape | None:
        if self.accept("*"):
            self.expect("]")
            return None
        return self.listed(lambda: UNKNOWN_DIM if self.accept("?") else self.integer("a dim or '?'"), "]")

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
