"""Post-ops of a microkernel, applied to each vector of a register tile instead of storing it to acc.

They are outlined from the code around the kernel into a form in which names and addresses of tensors are arguments, so that kernels that
differ in these alone share their code. An operand is a pointer to its element for the first row and column; its row stride is an argument:

    y[no*64 + i*256 + j_v*16:+16] = max(t[...] * s[j_v*16:+16], x16(0.0))
        p0: y from no*64 on, s0: 256; p1: s
        p0[row*s0 + vector*16:+16] = max(acc * p1[vector*16:+16], x16(0.0))

Loop variables and registers of the caller that the post-ops use are arguments too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

from benchgraph.codegen import ir
from benchgraph.codegen.convert import memory_type
from benchgraph.codegen.expressions import access, evaluate
from benchgraph.codegen.function_builder import FunctionBuilder, memories
from benchgraph.codegen.intrinsics import I64, PTR, vector
from benchgraph.core.canonical import canonical
from benchgraph.machine.target import Target
from benchgraph.tir import ir as tir
from benchgraph.tir.affine import Linear, linear, to_expr
from benchgraph.tir.build import add, mul
from benchgraph.tir.ir import Alloc, Brgemm, Expr, Func, InplacePair, Load, Ramp, Scope, Seq, Store, Tensor, Var
from benchgraph.tir.visit import map_parts, statements

ROW, VECTOR = Var("row"), Var("vector")


@dataclass(frozen=True)
class PostOps:
    """func: its body handles one row and one vector; its parameters are the operands, with in-place pairs where they may overlap.

    row_strides, loop_variables, registers: the other arguments, by the names that the body has for them.
    """

    func: Func
    acc: Tensor
    row_strides: tuple[Var, ...]
    loop_variables: tuple[Var, ...]
    registers: tuple[Tensor, ...]

    @cached_property
    def name(self) -> str:
        """Unique among post-ops, valid in a symbol."""
        return f"_post_ops_{sha256(canonical(self).encode()).hexdigest()[:16]}"

    @property
    def arguments(self) -> tuple[ir.Type, ...]:
        """Types of a kernel's arguments for them: pointers, row strides, loop variables, values of registers."""
        registers = (vector(memory_type(t.dtype), t.lanes) for t in self.registers)
        return (*(PTR for _ in self.func.params), *(I64 for _ in (*self.row_strides, *self.loop_variables)), *registers)


@dataclass(frozen=True)
class PostOpArguments:
    """What the caller passes for `PostOps.arguments`. operands: tensors, with the index of their element for the first row and column."""

    operands: tuple[tuple[Tensor, Expr], ...]
    row_strides: tuple[int, ...]
    loop_variables: tuple[Var, ...]
    registers: tuple[Tensor, ...]


class PostOpEmitter:
    """Emits post-ops into one kernel. arguments: values of `PostOps.arguments`."""

    def __init__(self, builder: ir.IRBuilder, post_ops: PostOps, target: Target, arguments: Sequence[ir.Value]) -> None:
        func, params = post_ops.func, post_ops.func.params
        pointers, rest = arguments[: len(params)], arguments[len(params) :]
        self.post_ops = post_ops
        self.function = FunctionBuilder(builder, func, target, memories(builder.module, func), pointers[0], {}, is_task=True)
        self.function.bases.update((p.name, pointer) for p, pointer in zip(params, pointers, strict=True))
        integers = (*post_ops.row_strides, *post_ops.loop_variables)
        self.function.variables.update((v.name, value) for v, value in zip(integers, rest, strict=False))
        for t in (post_ops.acc, *post_ops.registers):
            self.function.declare_register(t)
        for t, value in zip(post_ops.registers, rest[len(integers) :], strict=True):
            self.function.store(t, None, 1, value, t.lanes, None)

    def emit(self, acc: ir.Value, row: ir.Value, vector: ir.Value) -> None:
        """The post-ops of one vector of acc."""
        f = self.function
        f.variables.update({ROW.name: row, VECTOR.name: vector})
        f.store(self.post_ops.acc, None, 1, acc, self.post_ops.acc.lanes, None)
        for s in statements(self.post_ops.func.body):
            assert isinstance(s, Store)
            base, stride, lanes = access(f, s.tensor, s.index)
            f.store(s.tensor, base, stride, evaluate(f, s.value), lanes, None)


def outline(g: Brgemm, inplace: tuple[InplacePair, ...]) -> tuple[PostOps, PostOpArguments]:
    """The post-ops of g, which has some, and their arguments. inplace: of the function that g is in."""
    out = _Outliner(g)
    body, operands = Seq(out.stores()), tuple(out.operands.values())
    over = {frozenset((pair.dst, pair.src)) for pair in inplace}
    overlaps = tuple(
        InplacePair(a.tensor.name, b.tensor.name)
        for k, a in enumerate(operands)
        for b in operands[:k]
        if (x := _memory(a.outer)) == (y := _memory(b.outer)) or frozenset((x, y)) in over
    )
    func = Func("post_ops", tuple(o.tensor for o in operands), body, inplace=overlaps)
    strided = [o for o in operands if o.row_stride]
    variables, registers = out.loop_variables, out.registers
    post_ops = PostOps(func, out.acc, tuple(o.stride_variable for o in strided), tuple(variables.values()), tuple(registers.values()))
    starts, strides = tuple((o.outer, o.start) for o in operands), tuple(o.row_stride for o in strided)
    return post_ops, PostOpArguments(starts, strides, tuple(variables), tuple(registers))


def _memory(t: Tensor) -> str:
    """The name of the parameter or arena that it is stored in."""
    return t.name if t.scope is Scope.param else t.scope.name


@dataclass(frozen=True)
class _Operand:
    """outer: the caller's tensor, from element `start` on; row_stride: in elements."""

    number: int
    outer: Tensor
    start: Expr
    row_stride: int

    @property
    def tensor(self) -> Tensor:
        return Tensor(f"p{self.number}", self.outer.dtype, (1,), (1,), Scope.param)

    @property
    def stride_variable(self) -> Var:
        return Var(f"s{self.number}")


@dataclass
class _Outliner:
    """Rewrites the post-ops of g. operands: by tensor, index of the first element, and row stride; loop_variables, registers: new ones, by
    those of the caller; values: of registers that the post-ops themselves write."""

    g: Brgemm
    operands: dict[tuple[str, str, int], _Operand] = field(default_factory=dict)
    loop_variables: dict[Var, Var] = field(default_factory=dict)
    registers: dict[Tensor, Tensor] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)

    @cached_property
    def nest(self) -> tir.PostOps:
        assert self.g.post_ops is not None
        return self.g.post_ops

    @cached_property
    def acc(self) -> Tensor:
        return Tensor("acc_tile", self.g.acc.tensor.dtype, (), (), Scope.register, lanes=self.nest.lanes)

    def stores(self) -> tuple[Store, ...]:
        """The stores to memory; values of registers are substituted where they are read."""
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
                return self.loop_variables.setdefault(e, Var(f"v{len(self.loop_variables)}"))
            case Load() if e.tensor.name in self.values:
                return self.values[e.tensor.name]
            case Load() if e.tensor.name == self.g.acc.tensor.name:
                return Load(self.acc, ())
            case Load() if e.tensor.scope is Scope.register:
                return Load(self.registers.setdefault(e.tensor, replace(e.tensor, name=f"r{len(self.registers)}")), ())
            case Load():
                return Load(*self.access(e.tensor, e.index))
        return map_parts(e, self.expr)

    def access(self, t: Tensor, index: tuple[Expr, ...]) -> tuple[Tensor, tuple[Expr, ...]]:
        (first,) = index
        form = linear(first.base if isinstance(first, Ramp) else first)
        start, inner = form.split(frozenset((self.nest.row.name, self.nest.vector.name)))
        operand = self.operand(t, start, inner.terms.get(self.nest.row, 0))
        at = mul(VECTOR, inner.terms.get(self.nest.vector, 0))
        if operand.row_stride:
            at = add(mul(ROW, operand.stride_variable), at)
        return operand.tensor, (Ramp(at, first.stride, first.lanes) if isinstance(first, Ramp) else at,)

    def operand(self, t: Tensor, start: Linear, row_stride: int) -> _Operand:
        first = to_expr(start, {})
        return self.operands.setdefault((t.name, canonical(first), row_stride), _Operand(len(self.operands), t, first, row_stride))
