"""Tensor IR from its text: the inverse of `tir/text.py`, whose tables it reads by. docs/ir-text.md has the grammar."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import did_you_mean
from benchgraph.core.fields import read_fields
from benchgraph.core.tensor import dense_strides
from benchgraph.core.tokens import BOOLEANS, Tokens
from benchgraph.tir import ir
from benchgraph.tir.text import BRGEMM_AXES, FUNC_SYNTAX, PACK_AXES, PRECEDENCE, SUM, batch_axis, reduction_name

_MARKS = r":\+|//|[=!<>]=|\+=|[-+*/%<>=:;,()\[\]{}@]"
_DTYPES = {dtype.value: dtype for dtype in DType}
_SCOPES = {scope.value: scope for scope in ir.Scope}
_OPERATORS = {op.value: op for op in PRECEDENCE}
_LANES = re.compile(r"x\d+")
_CALLS: dict[str, tuple[int, Callable[..., ir.Expr]]] = {  # by name: how many operands, and what makes the expression of them
    "select": (3, ir.Select),
    "random": (3, ir.Random),
    **{op.value: (2, partial(ir.Binary, op)) for op in ir.BinOp if op not in PRECEDENCE},
    **{op.value: (1, partial(ir.Unary, op)) for op in ir.UnOp},
    **{reduction_name(op): (1, partial(ir.ReduceLanes, op)) for op in ir.REDUCING_OPS},
}


def parse_tir(text: str, name: str = "") -> tuple[ir.Func, ...]:
    """The functions of a text. name: of its file, for messages. Raises ParseError with the place and what was expected there.

    Only the form is checked, and that names are declared: `tir/verify.py` checks what the functions mean.
    """
    return _Parser(text, name).functions()


class _Parser(Tokens):
    """Recursive descent. scope: what the names stand for at the next token."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, "Tensor IR", _MARKS, name)
        self.scope: dict[str, ir.Tensor | ir.Var] = {}
        self.statements: dict[str, Callable[[], ir.Stmt]] = {
            "{": lambda: ir.Seq(self.rest()),
            **{kind.value.split()[0]: partial(self.loop, kind) for kind in ir.LoopKind},
            "if": self.branch,
            "alloc": self.alloc,
            "brgemm": self.brgemm,
            "pack": lambda: self.pack(is_transpose=False),
            "transpose": lambda: self.pack(is_transpose=True),
            "prefetch": self.prefetch,
        }

    def functions(self) -> tuple[ir.Func, ...]:
        made = [self.function()]
        while self.kind != "end":
            made.append(self.function())
        return tuple(made)

    def function(self) -> ir.Func:
        self.expect("func")
        name = self.take("word", "the function's name")
        self.expect("(")
        self.scope = {}
        params = self.listed(lambda: self.declare(self.tensor(), ir.Scope.param), ")")
        inplace = list[ir.InplacePair]()
        while self.kind == "word" and self.tokens[self.at + 1][1] == "over":
            dst = self.take("word", "a parameter")
            self.expect("over")
            inplace.append(ir.InplacePair(dst, self.take("word", "a parameter")))
            self.accept(",")
        settings = read_fields(self, ir.Func, "{", FUNC_SYNTAX)
        shared, thread = (self.arena(scope) for scope in (ir.Scope.shared, ir.Scope.thread))
        stmts = self.rest()
        body = stmts[0] if len(stmts) == 1 else ir.Seq(stmts)
        return ir.Func(name, params, body, shared_bytes=shared, thread_bytes=thread, inplace=tuple(inplace), **settings)

    # -- tensors

    def arena(self, scope: ir.Scope) -> int:
        """`thread arena, 64 bytes: t: f32[16] at 0`, where it comes next. Returns the bytes."""
        if not (self.peek(scope.value) and self.tokens[self.at + 1][1] == "arena"):
            return 0
        self.at += 2
        self.expect(",")
        size = self.integer("the bytes of the arena")
        self.expect("bytes")
        if self.accept(":"):
            self.placed(scope)
            while self.accept(","):
                self.placed(scope)
        return size

    def placed(self, scope: ir.Scope) -> None:
        t = self.tensor()
        self.expect("at")
        self.declare(replace(t, offset=self.integer("a byte of the arena")), scope)

    def declare(self, t: ir.Tensor, scope: ir.Scope) -> ir.Tensor:
        t = replace(t, scope=scope)
        self.scope[t.name] = t
        return t

    def tensor(self) -> ir.Tensor:
        """`t: f32 x16[4,8] by [16,1] padding 2`, without its scope."""
        name = self.take("word", "a tensor: 'name: dtype[dims]'")
        self.expect(":")
        dtype = self.choose(_DTYPES, "a data type")
        lanes = int(self.take("word", "lanes")[1:]) if self.kind == "word" and _LANES.fullmatch(self.next) else 1
        shape = self.integers() if self.peek("[") else ()
        strides = self.integers() if self.accept("by") else dense_strides(shape)
        padding = self.integer("elements at the end of a row") if self.accept("padding") else 0
        return ir.Tensor(name, dtype, shape, strides, lanes=lanes, padding=padding)

    def named(self, name: str, offset: int) -> ir.Tensor | ir.Var:
        if name not in self.scope:
            near = did_you_mean(name, self.scope)
            self.semantic_error(
                f"no tensor or loop variable is called '{name}' here", offset, near or "declare it by 'alloc', or as a parameter"
            )
        return self.scope[name]

    def tensor_at(self) -> ir.Tensor:
        offset = self.offset
        t = self.named(self.take("word", "a tensor"), offset)
        return t if isinstance(t, ir.Tensor) else self.syntax_error("a tensor, not a loop variable", offset)

    # -- statements

    def rest(self) -> tuple[ir.Stmt, ...]:
        """The statements of a block up to the '}' that closes it, which is consumed."""
        outer, stmts = dict(self.scope), list[ir.Stmt]()
        while not self.accept("}"):
            stmts.append(self.statement())
        self.scope = outer
        return tuple(stmts)

    def body(self, *variables: ir.Var) -> ir.Stmt:
        """The one statement, or the block, inside braces, for loops over these variables."""
        outer = self.scope
        self.scope = outer | {v.name: v for v in variables}
        self.expect("{")
        stmts = self.rest()
        self.scope = outer
        return stmts[0] if len(stmts) == 1 else ir.Seq(stmts)

    def statement(self) -> ir.Stmt:
        word = self.next
        if word in self.statements and word not in self.scope and self.kind in ("punctuator", "word"):
            self.at += 1
            return self.statements[word]()
        return self.store() if self.kind == "word" else self.syntax_error("a statement, or '}'")

    def loop(self, kind: ir.LoopKind) -> ir.For:
        for word in kind.value.split()[1:]:
            self.expect(word)
        var, extent, together = self.variable_in(), self.expr(), 1
        if self.accept("unroll_jam"):
            self.expect("by")
            together = self.integer("how many iterations are computed together")
        return ir.For(var, extent, self.body(var), kind, together)

    def branch(self) -> ir.If:
        return ir.If(self.expr(), self.body(), self.body() if self.accept("else") else None)

    def alloc(self) -> ir.Alloc:
        t = self.tensor()
        return ir.Alloc(self.declare(t, self.choose(_SCOPES, "where the tensor is: shared, thread or register")))

    def store(self) -> ir.Store:
        t = self.tensor_at()
        index = self.index()
        self.expect("=")
        value, mask = self.expr(), self.mask()
        return ir.Store(t, index, value, mask, self.accept("nontemporal"))

    def mask(self) -> ir.Expr | None:
        return self.expr() if self.accept("where") else None

    def prefetch(self) -> ir.Prefetch:
        t, index = self.tensor_at(), self.index()
        lines, count, stride = self.integer("how many lines"), 1, 0
        self.expect("lines")
        if self.kind == "number":
            count = self.integer()
            self.expect("times")
            self.expect("by")
            stride = self.integer("elements from one place to the next")
        for_write = self.accept("to")
        if for_write:
            self.expect("write")
        return ir.Prefetch(t, index, lines, for_write, count, stride)

    def extents(self) -> dict[str, int]:
        """`(m=32, n=64, k=16, b0=4)`"""
        self.expect("(")
        return dict(self.listed(lambda: (self.take("word", "an axis: 'm=32'"), self.extent()), ")"))

    def extent(self) -> int:
        self.expect("=")
        return self.integer("the axis' extent")

    def brgemm(self) -> ir.Brgemm:
        start, extents = self.offset, self.extents()
        names = ("m", "n", "k", *map(batch_axis, range(len(extents) - 3)))
        if set(extents) != set(names):
            self.syntax_error(f"the extents of {', '.join(names) if len(extents) > 3 else 'm, n and k'}", start)
        (src, wei, acc), batch = BRGEMM_AXES, names[3:]
        dst = self.slice(acc)
        accumulates = self.accept("+=")
        if not accumulates:
            self.expect("=")
        a = self.slice((*src, *batch))
        self.expect("@")
        b, ahead, post_ops, wei_ahead = self.slice((*wei, *batch)), list[ir.Prefetch](), None, 0
        while self.accept(","):
            if self.accept("wei"):
                wei_ahead = self.integer("how many rows ahead")
                self.expect("rows")
                self.expect("ahead")
                continue
            if self.accept("then"):
                post_ops = self.post_ops()
                break
            self.expect("prefetch")
            ahead.append(self.prefetch())
        m, n, k = (extents[name] for name in "mnk")
        return ir.Brgemm(a, b, dst, m, n, k, tuple(extents[name] for name in batch), accumulates, tuple(ahead), post_ops, wei_ahead)

    def post_ops(self) -> ir.PostOps:
        """`for i in m, j in n/16 {`"""
        self.expect("for")
        row, vector = (self.variable_in(axis, mark) for axis, mark in (("m", ","), ("n", "/")))
        lanes = self.integer("the lanes of a vector")
        return ir.PostOps(row, vector, lanes, self.body(row, vector))

    def variable_in(self, *words: str) -> ir.Var:
        var = ir.Var(self.take("word", "a loop variable"))
        for word in ("in", *words):
            self.expect(word)
        return var

    def pack(self, *, is_transpose: bool) -> ir.Pack:
        start, extents = self.offset, self.extents()
        if set(extents) != set(PACK_AXES):
            self.syntax_error("the extents of k and n", start)
        dst = self.slice(PACK_AXES)
        self.expect("=")
        return ir.Pack(self.slice(PACK_AXES), dst, **extents, transposes=is_transpose)

    def slice(self, axes: tuple[str, ...]) -> ir.Slice:
        """A microkernel's operand along these axes: `t[i:m, 0:k*2:b0]`, or, flat, `t[i; m*64, k]`."""
        t, index = self.tensor_at(), list[ir.Expr]()
        steps = dict.fromkeys(axes, (0, 0))
        self.expect("[")
        while not self.accept("]"):
            if index:
                self.expect(",")
            index.append(self.expr(SUM))
            if self.accept(";"):
                strides = dict.fromkeys(axes, 0) | dict(self.listed(lambda: self.step(axes), "]"))
                return ir.flat_slice(t, index[0], tuple(strides.values()))
            while self.accept(":"):
                name, step = self.step(axes)
                steps[name] = len(index) - 1, step
        return ir.Slice(t, tuple(index), tuple(steps.values()))

    def step(self, axes: tuple[str, ...]) -> tuple[str, int]:
        name = self.choose({axis: axis for axis in axes}, f"an axis: one of {', '.join(axes)}")
        return name, self.integer("a step") if self.accept("*") else 1

    # -- expressions

    def index(self) -> tuple[ir.Expr, ...]:
        return self.listed(self.expr, "]") if self.accept("[") else ()

    def expr(self, least: int = 1) -> ir.Expr:
        """An expression of operators that bind as tightly as `least` or more."""
        e = self.atom()
        while True:
            if least <= SUM and self.accept(":+"):
                lanes = self.integer("lanes")
                e = ir.Ramp(e, self.integer("a step") if self.accept("*") else 1, lanes)
            op = _OPERATORS.get(self.next) if self.kind in ("punctuator", "word") else None
            if op is None or PRECEDENCE[op] < least:
                return e
            self.at += 1
            e = ir.Binary(op, e, self.expr(PRECEDENCE[op] + 1))

    def atom(self) -> ir.Expr:
        if (literal := self.literal()) is not None:
            return literal
        if self.accept("-"):
            return ir.Unary(ir.UnOp.neg, self.atom())
        if self.accept("("):
            e, mask = self.expr(), self.mask()
            self.expect(")")
            return replace(e, mask=mask) if isinstance(e, ir.Load) and mask is not None else e
        offset, word = self.offset, self.take("word", "an expression")
        if self.accept("("):
            return self.call(word, offset)
        t = self.named(word, offset)
        return t if isinstance(t, ir.Var) else ir.Load(t, self.index())

    def literal(self) -> ir.Const | None:
        """A number of s64 or f32 or a boolean, where one comes next."""
        if self.kind == "word" and self.next in BOOLEANS:
            return ir.Const(int(self.boolean()), DType.boolean)
        if not self.at_number() or (self.peek("-") and not self.at_number(1)):
            return None
        value = self.number()
        return ir.Const(float(np.float32(value)), DType.f32) if isinstance(value, float) else ir.Const(value, ir.INDEX)

    def call(self, word: str, offset: int) -> ir.Expr:
        """What follows `word(`, to the ')' that closes it."""
        if word in _DTYPES:
            return self.converted(_DTYPES[word])
        args = self.listed(self.expr, ")")
        calls = _CALLS | {word: (1, partial(ir.Broadcast, lanes=int(word[1:])))} if _LANES.fullmatch(word) else _CALLS
        if word not in calls:
            self.syntax_error("a function", offset, did_you_mean(word, [*calls, *_DTYPES]))
        count, make = calls[word]
        return make(*args) if len(args) == count else self.syntax_error(f"{word} of {count} operands, not {len(args)}", offset)

    def converted(self, dtype: DType) -> ir.Expr:
        """`s32(3)` is a constant, `s32(x)` and `s32((3))` are casts."""
        start = self.at
        if self.at_number():
            self.accept("-")
            if self.at_number() and self.tokens[self.at + 1][1] == ")":
                self.at = start
                value = self.number()
                self.expect(")")
                return ir.Const(value, dtype)
        self.at = start
        e = self.expr()
        self.expect(")")
        return ir.Cast(e, dtype)
