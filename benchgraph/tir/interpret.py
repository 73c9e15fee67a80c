"""The definition of Tensor IR: what a function does to its arguments.

A function is translated to Python source, so that a test over real shapes takes seconds. The interpreter exposes mistakes: parallel loops
run in a shuffled order, temporaries hold garbage (NaN for floats) until they are stored to, the thread arena is filled with garbage at the
start of every iteration of a parallel loop, and an index outside its dim raises IndexError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from benchgraph.core.arrays import unpack
from benchgraph.core.errors import InvalidArguments
from benchgraph.tir import ir, values
from benchgraph.tir.affine import Ranges, bounds, inside
from benchgraph.tir.build import type_of
from benchgraph.tir.operands import Operand, operands, post_op_loops
from benchgraph.tir.text import PRECEDENCE
from benchgraph.tir.visit import parts, tensors


def interpret(f: ir.Func, args: Sequence[NDArray[Any]], seed: int = 0) -> None:
    """Run f; args are written in place. seed orders the iterations of parallel loops.

    An array has its parameter's dtype and shape. For a parameter that flatten-index made 1-d it may also be the N-d array whose memory
    the parameter is. For one of s4 or u4 it is that memory: uint8 of shape (nbytes,), two elements to a byte, the first in the low nibble;
    a load gives the element as a number, -8 to 7 or 0 to 15. Raises InvalidArguments when an array does not fit, IndexError on an access
    outside a tensor.
    """
    if len(args) != len(f.params):
        raise InvalidArguments(f"{len(args)} arrays for {len(f.params)} parameters", where=f"TIR function {f.name}")
    arrays = [_argument(p, a) for p, a in zip(f.params, args, strict=True)]
    writer = _Writer()
    source = writer.function(f)
    space: dict[str, Any] = {**values.NAMES, **writer.constants, "shuffled": values.shuffler(seed)}
    arenas = {ir.Scope.shared: np.full(f.shared_bytes, 0xFF, np.uint8), ir.Scope.thread: np.full(f.thread_bytes, 0xFF, np.uint8)}
    planned = [_view(arenas[t.scope], t) for t in writer.planned]
    exec(compile(source, f"<tir {f.name}>", "exec"), space)
    with np.errstate(all="ignore"):
        space["run"](*arrays, *planned, arenas[ir.Scope.thread])


def _argument(p: ir.Tensor, a: NDArray[Any]) -> NDArray[Any]:
    where = f"parameter {p.name}"
    if p.dtype.is_packed:
        if a.dtype != np.uint8 or a.shape != (p.nbytes,):
            raise InvalidArguments(f"{a.dtype} of shape {a.shape} for the {p.nbytes} bytes of {p.dtype.value}", where=where)
        return unpack(a, p.dtype, p.shape, p.strides)
    if a.dtype != p.dtype.numpy:
        raise InvalidArguments(f"an array of {a.dtype} for {p.dtype.value}", where=where)
    if a.shape == p.shape:
        return a
    reach = (1 + sum((d - 1) * s for d, s in zip(a.shape, a.strides, strict=True)) // a.itemsize) if a.size else 0
    if len(p.shape) != 1 or p.shape[0] > max(reach, 1) or any(s < 0 for s in a.strides):
        raise InvalidArguments(f"an array of shape {a.shape} for shape {p.shape}", where=where)
    bits = a.view(f"u{a.itemsize}")  # as_strided has no name for ml_dtypes' float8_e5m2
    return as_strided(bits, p.shape, (a.itemsize,)).view(a.dtype)


def _view(arena: NDArray[Any], t: ir.Tensor) -> NDArray[Any]:
    """The tensor's memory in its arena; raises if the arena is too small."""
    size = t.dtype.numpy.itemsize
    return np.ndarray(t.shape, t.dtype.numpy, buffer=arena, offset=t.offset or 0, strides=tuple(s * size for s in t.strides))


_INFIX = {op: op.value for op in PRECEDENCE} | {ir.BinOp.and_: "&", ir.BinOp.or_: "|"}


@dataclass
class _Writer:
    """Writes the Python source of one function.

    Scalars become numpy scalars or (s64) ints, vectors 1-d arrays, registers local variables.
    """

    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    planned: list[ir.Tensor] = field(default_factory=list)
    ranges: Ranges = field(default_factory=dict)

    def function(self, f: ir.Func) -> str:
        self.planned = list({t.name: t for t in tensors(f.body) if t.offset is not None}.values())
        params = [self.name(t.name, "t") for t in (*f.params, *self.planned)]
        self.line(0, f"def run({', '.join([*params, 'thread_arena'])}):")
        self.line(1, "pass")
        self.stmt(f.body, 1, parallel=False)
        return "\n".join(self.lines)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, name: str, kind: str) -> str:
        """The Python name of a loop variable (kind v) or tensor (kind t)."""
        key = kind + name
        return self.names.setdefault(key, f"{kind}{len(self.names)}_{re.sub(r'[^0-9A-Za-z]', '_', name)}")

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    # ---- statements --------------------------------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt, depth: int, *, parallel: bool) -> None:
        match s:
            case ir.For():
                self.loop(s, depth, parallel=parallel)
            case ir.If():
                self.line(depth, f"if {self.expr(s.cond)}:")
                self.block(s.then, depth + 1, parallel=parallel)
                if s.orelse is not None:
                    self.line(depth, "else:")
                    self.block(s.orelse, depth + 1, parallel=parallel)
            case ir.Seq():
                for c in s.stmts:
                    self.stmt(c, depth, parallel=parallel)
            case ir.Alloc():
                self.alloc(s.tensor, depth)
            case ir.Store():
                self.store(s, depth)
            case ir.Brgemm():
                slices = list(map(self.slice, operands(s)))
                self.line(depth, f"brgemm({', '.join(slices)}, {s.batch}, {s.accumulate})")
                if s.post_ops is not None:
                    self.stmt(post_op_loops(s, s.post_ops), depth, parallel=parallel)
                    self.line(depth, f"{slices[-1]}(())[...] = {self.constant(values.garbage(s.acc.tensor.dtype))}")
            case ir.Pack():
                self.line(depth, f"pack({', '.join(map(self.slice, operands(s)))}, {self.constant(s.dst.tensor.dtype)})")
            case ir.Prefetch():
                self.line(depth, "pass")

    def block(self, s: ir.Stmt, depth: int, *, parallel: bool) -> None:
        self.line(depth, "pass")
        self.stmt(s, depth, parallel=parallel)

    def loop(self, s: ir.For, depth: int, *, parallel: bool) -> None:
        has_tasks = s.kind is ir.LoopKind.parallel
        order = "shuffled" if has_tasks else "range"
        self.line(depth, f"for {self.name(s.var.name, 'v')} in {order}({self.expr(s.extent)}):")
        if has_tasks and not parallel:
            self.line(depth + 1, "thread_arena.fill(255)")
        around, self.ranges = self.ranges, inside(s, self.ranges)
        self.block(s.body, depth + 1, parallel=parallel or has_tasks)
        self.ranges = around

    def alloc(self, t: ir.Tensor, depth: int) -> None:
        name = self.name(t.name, "t")
        garbage = values.garbage(t.dtype)
        if t.scope is ir.Scope.register:
            value = garbage if t.lanes == 1 else np.full(t.lanes, garbage)
            self.line(depth, f"{name} = {self.constant(value)}")
            return
        self.line(depth, f"{name} = {self.constant(_view(np.empty(t.nbytes, np.uint8), t))}")
        self.line(depth, f"{name}[...] = {self.constant(garbage)}")

    def store(self, s: ir.Store, depth: int) -> None:
        name, value = self.name(s.tensor.name, "t"), self.expr(s.value)
        lanes = type_of(ir.Load(s.tensor, s.index))[1]
        mask = "None" if s.mask is None else self.expr(s.mask)
        if s.tensor.scope is ir.Scope.register:
            self.line(depth, f"{name} = {value}" if s.mask is None else f"{name} = select({mask}, {value}, {name})")
        elif lanes > 1:
            self.line(depth, f"vector_store({name}, {self.index(s.index)}, {value}, {mask})")
        else:
            guard = "" if s.mask is None else f"if {mask}: "
            self.line(depth, f"{guard}{name}[{self.index(s.index)}] = {value}")

    def slice(self, o: Operand) -> str:
        return f"slice_of({self.name(o.slice.tensor.name, 't')}, {self.index(o.slice.index)}, {self.constant(o)})"

    # ---- expressions -------------------------------------------------------------------------------------------------

    def index(self, index: tuple[ir.Expr, ...]) -> str:
        """Source for an index tuple. An index that might be negative is checked when it runs, as numpy would wrap it around."""
        is_checked = [type_of(i)[1] > 1 or bounds(i, self.ranges)[0] >= 0 for i in index]  # vector accesses check their lanes themselves
        items = [self.expr(i) if done else f"natural({self.expr(i)})" for i, done in zip(index, is_checked, strict=True)]
        return f"({', '.join(items)},)" if items else "()"

    def expr(self, e: ir.Expr) -> str:
        dtype, lanes = type_of(e)
        match e:
            case ir.Var():
                return self.name(e.name, "v")
            case ir.Const():
                return f"({int(e.value)})" if dtype is ir.INDEX else self.constant(dtype.numpy.type(e.value))
            case ir.Binary():
                a, b = map(self.expr, parts(e))
                return f"({a} {_INFIX[e.op]} {b})" if e.op in _INFIX else f"{e.op.value}({a}, {b})"
            case ir.Unary():
                a = self.expr(e.a)
                return f"({a} == False)" if e.op is ir.UnOp.not_ else f"{e.op.value}({a})"
            case ir.Cast():
                return f"cast({self.expr(e.a)}, {self.constant(e.dtype)})"
            case ir.Select():
                return f"select({', '.join(map(self.expr, parts(e)))})"
            case ir.Random():
                return f"random({', '.join(map(self.expr, parts(e)))})"
            case ir.Load():
                return self.load(e, lanes)
            case ir.Ramp():
                steps = np.arange(e.lanes) * e.stride
                return f"({self.expr(e.base)} + {self.constant(steps.astype(dtype.numpy))})"
            case ir.Broadcast():
                return f"full({e.lanes}, {self.expr(e.a)}, {self.constant(dtype.numpy)})"
            case ir.ReduceLanes():
                return f"reduce_lanes({self.constant(e.op)}, {self.expr(e.a)})"

    def load(self, e: ir.Load, lanes: int) -> str:
        name = self.name(e.tensor.name, "t")
        mask = "None" if e.mask is None else self.expr(e.mask)
        if e.tensor.scope is ir.Scope.register:
            return name if e.mask is None else f"select({mask}, {name}, {self.constant(e.tensor.dtype.numpy.type(0))})"
        at = self.index(e.index)
        if lanes > 1:
            return f"vector_load({name}, {at}, {mask})"
        if e.mask is not None:
            return f"({name}[{at}] if {mask} else {self.constant(e.tensor.dtype.numpy.type(0))})"
        return f"{name}[{at}]"
