"""Post-ops of a microkernel: what it does with each vector of a register tile in place of storing it to acc.

They are written down so that kernels which differ in their tensors' names and places alone are one: an operand is a pointer to what the
first row and the first column read or write, and the step from row to row is an argument too.

    y[no*64 + i*256 + j_v*16:+16] = max(t[...] * s[j_v*16:+16], x16(0.0))
        p0: y from no*64 on, s0: 256; p1: s
        p0[row*s0 + vector*16:+16] = max(acc * p1[vector*16:+16], x16(0.0))

Variables of the caller's loops, with which a mask by place is computed, are arguments likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

from benchgraph.codegen import ir
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.expressions import evaluate, place
from benchgraph.codegen.frame import Frame, memories
from benchgraph.codegen.intrinsics import I64, PTR, vector
from benchgraph.core.canonical import canonical
from benchgraph.core.target import Target
from benchgraph.tir import ir as tir
from benchgraph.tir.affine import Linear, linear, to_expr
from benchgraph.tir.build import add, mul
from benchgraph.tir.ir import Alloc, Brgemm, Expr, Func, InplacePair, Load, Ramp, Scope, Seq, Store, Tensor, Var
from benchgraph.tir.visit import map_parts, statements

ROW, VECTOR = Var("row"), Var("vector")


@dataclass(frozen=True)
class PostOps:
    """func: its body is for one row and one vector; its parameters are the operands, in place pairs where they may lie over each other.

    steps: variables of what the operands step from row to row. outer: of the caller's loops. held: registers of the caller.
    """

    func: Func
    acc: Tensor
    steps: tuple[Var, ...]
    outer: tuple[Var, ...]
    held: tuple[Tensor, ...]

    @cached_property
    def name(self) -> str:
        """Different for different ones, valid in a symbol."""
        return f"_then_{sha256(canonical(self).encode()).hexdigest()[:16]}"

    @property
    def arguments(self) -> tuple[ir.Type, ...]:
        """Types of what a kernel is given: pointers, steps, variables, and what the registers hold."""
        held = (vector(memory_type(t.dtype), t.lanes) for t in self.held)
        return (*(PTR for _ in self.func.params), *(I64 for _ in (*self.steps, *self.outer)), *held)


@dataclass(frozen=True)
class Given:
    """What the caller passes for `PostOps.arguments`: operands with where they begin, steps, variables, registers."""

    places: tuple[tuple[Tensor, Expr], ...]
    steps: tuple[int, ...]
    outer: tuple[Var, ...]
    held: tuple[Tensor, ...]


class Writer:
    """Writes post-ops into one kernel. arguments: values of `PostOps.arguments`."""

    def __init__(self, builder: ir.IRBuilder, post_ops: PostOps, target: Target, arguments: Sequence[ir.Value]) -> None:
        func, params = post_ops.func, post_ops.func.params
        pointers, rest = arguments[: len(params)], arguments[len(params) :]
        self.post_ops = post_ops
        self.frame = Frame(builder, func, target, memories(builder.module, func), pointers[0], {}, is_task=True)
        self.frame.bases.update((p.name, pointer) for p, pointer in zip(params, pointers, strict=True))
        numbers = (*post_ops.steps, *post_ops.outer)
        self.frame.variables.update((v.name, value) for v, value in zip(numbers, rest, strict=False))
        for t in (post_ops.acc, *post_ops.held):
            self.frame.declare_register(t)
        for t, value in zip(post_ops.held, rest[len(numbers) :], strict=True):
            self.frame.store(t, None, 1, value, t.lanes, None)

    def write(self, acc: ir.Value, row: ir.Value, vector: ir.Value) -> None:
        """For one vector of acc."""
        f = self.frame
        f.variables.update({ROW.name: row, VECTOR.name: vector})
        f.store(self.post_ops.acc, None, 1, acc, self.post_ops.acc.lanes, None)
        for s in statements(self.post_ops.func.body):
            assert isinstance(s, Store)
            base, stride, lanes = place(f, s.tensor, s.index)
            f.store(s.tensor, base, stride, evaluate(f, s.value), lanes, None)


def taken_out(g: Brgemm, inplace: tuple[InplacePair, ...]) -> tuple[PostOps, Given]:
    """The post-ops of g, which has some, and what they are given. inplace: of the function that g is in."""
    out = _Taken(g)
    body, operands = Seq(out.stores()), tuple(out.operands.values())
    over = {frozenset((pair.dst, pair.src)) for pair in inplace}
    overlaps = tuple(
        InplacePair(a.tensor.name, b.tensor.name)
        for k, a in enumerate(operands)
        for b in operands[:k]
        if (x := _memory(a.given)) == (y := _memory(b.given)) or frozenset((x, y)) in over
    )
    func = Func("post_ops", tuple(o.tensor for o in operands), body, inplace=overlaps)
    stepping = [(o.variable, o.step) for o in operands if o.step]
    post_ops = PostOps(func, out.acc, tuple(v for v, _ in stepping), tuple(out.outer.values()), tuple(out.held.values()))
    places, steps = tuple((o.given, o.start) for o in operands), tuple(step for _, step in stepping)
    return post_ops, Given(places, steps, tuple(out.outer), tuple(out.held))


def _memory(t: Tensor) -> str:
    """What it lies in: a parameter, or an arena."""
    return t.name if t.scope is Scope.param else t.scope.name


@dataclass(frozen=True)
class _Operand:
    """given: the caller's, from element `start` on; step: elements from row to row, by the name of `variable`."""

    number: int
    given: Tensor
    start: Expr
    step: int

    @property
    def tensor(self) -> Tensor:
        return Tensor(f"p{self.number}", self.given.dtype, (1,), (1,), Scope.param)

    @property
    def variable(self) -> Var:
        return Var(f"s{self.number}")


@dataclass
class _Taken:
    """The rewriting of g's post-ops. operands: by tensor, place of the first element, and step; outer, held: by the caller's variables and
    registers."""

    g: Brgemm
    operands: dict[tuple[str, str, int], _Operand] = field(default_factory=dict)
    outer: dict[Var, Var] = field(default_factory=dict)
    held: dict[Tensor, Tensor] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)

    @cached_property
    def nest(self) -> tir.PostOps:
        assert self.g.post_ops is not None
        return self.g.post_ops

    @cached_property
    def acc(self) -> Tensor:
        return Tensor("acc_tile", self.g.acc.tensor.dtype, (), (), Scope.register, lanes=self.nest.lanes)

    def stores(self) -> tuple[Store, ...]:
        """Those to memory; what registers hold on the way stands in their values."""
        out = list[Store]()
        for s in statements(self.nest.body):
            if isinstance(s, Alloc):
                continue
            assert isinstance(s, Store)
            value = self.expr(s.value)
            if s.tensor.scope is Scope.register:
                self.values[s.tensor.name] = value
            else:
                out.append(Store(*self.access(s.tensor, s.index), value))
        return tuple(out)

    def expr(self, e: Expr) -> Expr:
        match e:
            case Var() if e == self.nest.row:
                return ROW
            case Var() if e == self.nest.vector:
                return VECTOR
            case Var():
                return self.outer.setdefault(e, Var(f"v{len(self.outer)}"))
            case Load() if e.tensor.name in self.values:
                return self.values[e.tensor.name]
            case Load() if e.tensor.name == self.g.acc.tensor.name:
                return Load(self.acc, ())
            case Load() if e.tensor.scope is Scope.register:
                return Load(self.held.setdefault(e.tensor, replace(e.tensor, name=f"r{len(self.held)}")), ())
            case Load():
                return Load(*self.access(e.tensor, e.index))
        return map_parts(e, self.expr)

    def access(self, t: Tensor, index: tuple[Expr, ...]) -> tuple[Tensor, tuple[Expr, ...]]:
        (first,) = index
        form = linear(first.base if isinstance(first, Ramp) else first)
        start, inner = form.split(frozenset((self.nest.row.name, self.nest.vector.name)))
        operand = self.operand(t, start, inner.terms.get(self.nest.row, 0))
        at = mul(VECTOR, inner.terms.get(self.nest.vector, 0))
        if operand.step:
            at = add(mul(ROW, operand.variable), at)
        return operand.tensor, (Ramp(at, first.stride, first.lanes) if isinstance(first, Ramp) else at,)

    def operand(self, t: Tensor, start: Linear, step: int) -> _Operand:
        begins = to_expr(start, {})
        return self.operands.setdefault((t.name, canonical(begins), step), _Operand(len(self.operands), t, begins, step))
