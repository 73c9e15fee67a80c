"""Graph IR from its text: the inverse of `gir/text.py`, whose tables it reads by. docs/ir-text.md has the grammar."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.errors import NoSuchOpKind
from benchgraph.core.fields import read_fields
from benchgraph.core.layout import Layout, parse_layout, plain
from benchgraph.core.tokens import Tokens
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Literal, Node, Op, Stage, Value, View
from benchgraph.gir.text import CONSTNESS, FUSED_SYNTAX, GRAPH_SYNTAX, STAGE_SYNTAX, raw, usual
from benchgraph.ops import spec, with_defaults

_MARKS = r"[-%:\[\],*=(){}]"
_DTYPES = {dtype.value: dtype for dtype in (*GRAPH_DTYPES, DType.s16)}
_ANCHORS = {anchor.value: anchor for anchor in Anchor}


def parse_gir(text: str, name: str = "") -> Graph:
    """The graph of a text. name: of its file, for messages. Raises ParseError with the place and what was expected there. Only the form is
    checked, and that values and kinds of ops are known: `gir/verify.py` checks what the graph means."""
    return _Parser(text, name).graph()


class _Parser(Tokens):
    """Recursive descent."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, "Graph IR", _MARKS, name)
        self.declared: dict[int, dict[str, Any]] = {}  # value -> its fields, as far as the text gives them
        self.mentioned: dict[int, int] = {}  # value -> the offset of its first mention

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("(")
        ins = self.listed(self.declaration, ")")
        settings = read_fields(self, Graph, "{", GRAPH_SYNTAX)
        nodes = list[Node]()
        while not self.accept("return"):
            if self.kind != "punctuator" or self.next != "%":
                self.syntax_error("a value: '%1: dtype[dims] = ...', or 'return'")
            nodes += self.line()
        outs, open_layouts = list[int](), list[tuple[int, Layout | None]]()
        while not outs or self.accept(","):
            outs.append(self.mention())
            if self.accept("in"):
                open_layouts.append((outs[-1], self.wanted()))
        self.expect("}")
        if self.kind != "end":
            self.syntax_error("nothing after the closing '}'")
        for id, offset in self.mentioned.items():
            if id not in self.declared:
                self.semantic_error(f"no value is called %{id}", offset, "declare it where it is made: '%1: f32[4,8] = ...'")
        settled = {*ins, *outs} - {id for id, _ in open_layouts}
        values = tuple(self.completed(id, is_border=id in settled) for id in sorted(self.declared))
        return Graph(values, tuple(nodes), ins, tuple(outs), tuple(open_layouts), **settings)

    def completed(self, id: int, *, is_border: bool) -> Value:
        """The value with what is usual where the text does not say it."""
        given = self.declared[id]
        v = replace(usual(Value(id, **{"layout": plain(len(given["shape"])), **given}), is_border=is_border), **given)
        if v.view is None:
            return v
        shapes = self.declared[v.view.base]["shape"], v.shape
        src, dst = reversed(shapes) if v.view.inverse else shapes
        return replace(v, view=replace(v.view, src_shape=src, dst_shape=dst))

    def wanted(self) -> Layout | None:
        if self.accept("any"):
            self.expect("layout")
            return None
        return self.layout() or self.syntax_error("'any layout' or a layout such as Ba64b")

    def layout(self) -> Layout | None:
        """The layout whose tag comes next, if one does."""
        layout = parse_layout(self.next) if self.kind == "word" else None
        self.at += layout is not None
        return layout

    # -- values

    def mention(self) -> int:
        offset = self.offset
        self.expect("%")
        id = self.integer("the number of a value")
        self.mentioned.setdefault(id, offset)
        return id

    def declaration(self) -> int:
        """`%1: f32[64,32] ba constant strides=[1,64]`; the same again where an op writes through a view."""
        offset, id = self.offset, self.mention()
        self.expect(":")
        given: dict[str, Any] = {"dtype": self.choose(_DTYPES, "a data type"), "shape": self.integers()}
        rank = len(given["shape"])
        if (layout := self.layout()) is not None:
            given["layout"] = layout
            if layout.rank != rank:
                what = f"the layout {layout} is of {layout.rank} dims, %{id} has {rank}"
                self.semantic_error(what, offset, "write a letter for each dim")
        if self.kind == "word" and self.next in CONSTNESS:
            given["constness"] = self.choose(CONSTNESS, "constness")
        if self.key("strides"):
            given["strides"] = None if self.accept("none") else self.integers()
        before = self.declared.setdefault(id, given)
        if {name: said for name, said in before.items() if name not in ("literal", "view")} != given:
            self.semantic_error(f"%{id} was declared otherwise before", offset, "make both declarations the same")
        return id

    def line(self) -> list[Node]:
        """A declaration, a constant, a view, an op or a fused op."""
        outs, untyped = list[int](), 0
        while not outs or self.accept(","):
            place = self.at
            outs.append(self.mention())
            if self.peek(":"):
                self.at = place
                self.declaration()
            else:
                untyped = self.offset
        if not untyped and not self.peek("="):
            return []
        self.expect("=")
        offset, word = self.offset, self.take("word", "an op: 'Kind(%1, %2)', 'const', 'reads' or 'writes'")
        if word in ("const", "reads", "writes") and untyped:
            self.syntax_error("': dtype[dims]'", untyped)
        if word == "const":
            self.declared[outs[0]]["literal"] = self.literal(outs[0])
            return []
        if word in ("reads", "writes"):
            self.declared[outs[0]]["view"] = self.view(is_inverse=word == "writes")
            return []
        self.expect("(")
        ins = self.listed(self.mention, ")")
        if self.is_kind(word, offset, must_be=not untyped):
            return [Op(word, ins, tuple(outs), self.attrs(word))] if not untyped else self.syntax_error("': dtype[dims]'", untyped)
        settings = read_fields(self, FusedOp, "{", FUSED_SYNTAX)
        stages = list[Stage]()
        while not self.accept("}"):
            stages.append(self.stage())
        return [FusedOp(word, tuple(stages), ins, tuple(outs), **settings)]

    def literal(self, id: int) -> Literal:
        dtype, shape = (self.declared[id][name] for name in ("dtype", "shape"))
        offset, size = self.offset, prod(shape)
        if self.kind == "number" and self.next.startswith("0x"):
            data = self.take("number", "bytes")[2:]
            content = bytes.fromhex(data) if len(data) % 2 == 0 else b""
        elif self.accept("["):
            content = b"".join(raw(number, dtype) for number in self.listed(self.element, "]"))
        else:
            content = raw(self.element(), dtype) * size
        if len(content) != dtype.nbytes(size):
            fix = "write one number for all elements, a list of all in [], or their bytes after 0x"
            self.semantic_error(f"%{id} has {size} elements, {dtype.nbytes(size)} bytes; here are {len(content)} bytes", offset, fix)
        return Literal(dtype, shape, content)

    def element(self) -> float:
        return self.number() if self.at_number() else self.boolean()

    def view(self, *, is_inverse: bool) -> View:
        """Its shapes are those of values, of which some may be declared later."""
        base = self.mention()
        self.expect("through")
        offset, kind = self.offset, self.take("word", "an op that moves elements")
        self.is_kind(kind, offset, must_be=True)
        return View(base, kind, self.attrs(kind), (), (), is_inverse)

    # -- ops

    def is_kind(self, word: str, offset: int, *, must_be: bool) -> bool:
        try:
            spec(word)
        except NoSuchOpKind as bad:
            if must_be:
                self.semantic_error(bad.what, offset, bad.fix or "'benchgraph ops' lists the kinds")
            return False
        return True

    def attrs(self, kind: str) -> Attrs:
        """`{axis=1, keep_dims=none}`: defaults stand for those that are left out, 'none' for no value."""
        given, absent = dict[str, object](), list[str]()
        for name, value in self.listed(self.attribute, "}") if self.accept("{") else ():
            if value is None:
                absent.append(name)
            else:
                given[name] = value
        return with_defaults(kind, Attrs(given)).without(*absent)

    def attribute(self) -> tuple[str, object]:
        name = self.take("word", "an attribute's name")
        self.expect("=")
        return name, None if self.accept("none") else self.value()

    def stage(self) -> Stage:
        self.expect("stage")
        settings = read_fields(self, Stage, "{", STAGE_SYNTAX)
        ops, anchors = list[Op](), list[Anchor]()
        while not self.accept("}"):
            if not self.peek("%"):
                self.syntax_error("an op, or '}'")
            (op,) = self.line() or (self.syntax_error("an op"),)
            assert isinstance(op, Op)
            ops.append(op)
            self.expect("at")
            anchors.append(self.choose(_ANCHORS, f"an anchor: {', '.join(_ANCHORS)}"))
        return Stage(tuple(ops), tuple(anchors), **settings)
