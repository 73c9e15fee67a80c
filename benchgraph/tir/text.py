"""Tensor IR as text, for people, goldens and dumps. Deterministic; it is not parsed back.

    func relu(x: f32[4,8], y: f32[4,8]) {
      parallel for i in 4 {
        for j in 8 {
          y[i, j] = max(x[i, j], 0.0)
        }
      }
    }

Strides are shown when they are not row-major: `f32[4,8] by [16,1]`. `i:+16` is the vector of indices i .. i+15, `i:+16*4` steps by 4.
A microkernel's slices show their rows and columns as `start:+extent`, packed ones the groups along k and what is in one; a flat slice
shows `[offset, row stride]`.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import dense_strides
from benchgraph.tir.ir import (
    INDEX,
    Alloc,
    Binary,
    BinOp,
    Brgemm,
    Broadcast,
    Cast,
    Const,
    Expr,
    FlatSlice,
    For,
    Func,
    If,
    Load,
    Pack,
    PostOps,
    Prefetch,
    Ramp,
    Random,
    ReduceLanes,
    Scope,
    Select,
    Seq,
    Slice,
    Stmt,
    Store,
    Tensor,
    Unary,
    UnOp,
    Var,
)
from benchgraph.tir.operands import Operand, operands
from benchgraph.tir.visit import parts, tensors

_PRECEDENCE = {
    BinOp.or_: 1, BinOp.and_: 2, BinOp.eq: 3, BinOp.ne: 3, BinOp.lt: 3, BinOp.le: 3, BinOp.gt: 3, BinOp.ge: 3, BinOp.add: 4, BinOp.sub: 4,
    BinOp.mul: 5, BinOp.div: 5, BinOp.floordiv: 5, BinOp.mod: 5,
}  # fmt: skip
_UNARY = 6
_ATOM = 7


def print_tir(node: Func | Stmt | Expr) -> str:
    """The text of a function, statement or expression, without a final newline."""
    match node:
        case Func():
            return "\n".join(_func(node))
        case For() | If() | Seq() | Alloc() | Store() | Brgemm() | Pack() | Prefetch():
            return "\n".join(_stmt(node))
        case _:
            return _expr(node)


def header(s: Stmt) -> str:
    """The first line of a statement: what it is, without what is inside."""
    return _stmt(s)[0] if not isinstance(s, Seq) else "block"


def _func(f: Func) -> list[str]:
    params = ", ".join(_declare(p) for p in f.params)
    planned = {t.name: t for t in tensors(f.body) if t.offset is not None}
    over = ", ".join(f"{o.dst} over {o.src}" for o in f.inplace)
    lines = [f"func {f.name}({params}) {over + ' ' if over else ''}{{"]
    for scope, size in ((Scope.shared, f.shared_bytes), (Scope.thread, f.thread_bytes)):
        held = [t for t in planned.values() if t.scope is scope]
        if held:
            lines.append(f"  {scope.value} arena, {size} bytes: " + ", ".join(f"{_declare(t)} at {t.offset}" for t in held))
    return [*lines, *_indent(_stmt(f.body)), "}"]


def _declare(t: Tensor) -> str:
    dims = f"[{','.join(map(str, t.shape))}]" if t.shape else ""
    strides = "" if t.strides == dense_strides(t.shape) else f" by [{','.join(map(str, t.strides))}]"
    return f"{t.name}: {t.dtype.value}{f' x{t.lanes}' if t.lanes > 1 else ''}{dims}{strides}{f', {t.padding} spare' if t.padding else ''}"


def _indent(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _body(s: Stmt) -> list[str]:
    """The lines of a statement that stands in braces already."""
    return _indent(_stmt(s))


def _stmt(s: Stmt) -> list[str]:
    match s:
        case For():
            return [f"{s.kind.value} {s.var.name} in {_expr(s.extent)} {{", *_body(s.body), "}"]
        case If():
            otherwise = [] if s.orelse is None else ["} else {", *_body(s.orelse)]
            return [f"if {_expr(s.cond)} {{", *_body(s.then), *otherwise, "}"]
        case Seq():
            lines: list[str] = []
            for c in s.stmts:
                lines.extend(["{", *_body(c), "}"] if isinstance(c, Seq) else _stmt(c))
            return lines
        case Alloc():
            return [f"alloc {_declare(s.tensor)} {s.tensor.scope.value}"]
        case Store():
            return [f"{_access(s.tensor, s.index)} = {_expr(s.value)}{_mask(s.mask)}{' past caches' * s.non_temporal}"]
        case Brgemm():
            return [_brgemm(s)] if s.post_ops is None else [f"{_brgemm(s)}, then {_rows(s.post_ops)} {{", *_body(s.post_ops.body), "}"]
        case Pack():
            src, dst = (_slice(o) for o in operands(s))
            return [f"{'turn' if s.transposes else 'pack'} ({s.k}x{s.n}) {dst} = {src}"]
        case Prefetch():
            return [_prefetch(s)]


def _access(t: Tensor, index: tuple[Expr, ...]) -> str:
    return f"{t.name}[{', '.join(_expr(i) for i in index)}]" if index else t.name


def _mask(mask: Expr | None) -> str:
    return "" if mask is None else f" where {_expr(mask)}"


def _brgemm(s: Brgemm) -> str:
    sign = "+=" if s.accumulate else "="
    src, wei, acc = (_slice(o) for o in operands(s))
    size = "x".join(str(extent) for extent in s.batch)
    batch = f" batch {size} (src {_batch(s.src)}, wei {_batch(s.wei)})" if s.batch else ""
    prefetches = "".join(f", {_prefetch(p)}" for p in s.prefetches)
    return f"brgemm ({s.m}x{s.n}x{s.k}) {acc} {sign} {src} @ {wei}{batch}{prefetches}"


def _rows(p: PostOps) -> str:
    return f"for {p.row.name}, {p.vector.name}"


def _prefetch(s: Prefetch) -> str:
    runs = f" {s.count} times by {s.stride}" if s.count > 1 else ""
    return f"prefetch {_access(s.tensor, s.index)} {s.lines} lines{runs}{' to write' if s.is_store else ''}"


def _slice(o: Operand) -> str:
    s = o.piece
    if isinstance(s, FlatSlice):
        columns = "" if s.strides[1] == 1 else f", {s.strides[1]}"
        return f"{s.tensor.name}[{_expr(s.offset)}, {s.strides[0]}{columns}]"
    span = {dim: f":+{extent}" + (f"*{step}" if step != 1 else "") for extent, (dim, step) in zip(o.extents[:2], s.axes, strict=False)}
    if o.group > 1:
        span[len(s.index) - 1] = f":+{o.group}"
    return f"{s.tensor.name}[{', '.join(_expr(i) + span.get(d, '') for d, i in enumerate(s.index))}]"


def _batch(s: Slice | FlatSlice) -> str:
    if isinstance(s, FlatSlice):
        return f"by {'x'.join(str(stride) for stride in s.strides[2:])}"
    return "dim " + ", ".join(f"{dim} by {step}" for dim, step in s.axes[2:])


def _expr(e: Expr, least: int = 0) -> str:
    """e, in parentheses when it binds less tightly than `least`."""
    match e:
        case Binary() if e.op in _PRECEDENCE:
            level = _PRECEDENCE[e.op]
            tight = e.op in (BinOp.mul, BinOp.floordiv, BinOp.mod) and _is_short(e.a) and _is_short(e.b)
            sign = e.op.value if tight else f" {e.op.value} "
            text = f"{_expr(e.a, level)}{sign}{_expr(e.b, level + 1)}"
            return f"({text})" if level < least else text
        case Ramp() if least > _PRECEDENCE[BinOp.ge]:
            return f"({_atom(e)})"
        case Unary(op=UnOp.neg):
            return f"-{_expr(e.a, _ATOM)}" if least <= _UNARY else f"(-{_expr(e.a, _ATOM)})"
        case _:
            return _atom(e)


def _is_short(e: Expr) -> bool:
    """Index arithmetic is set without blanks: mo*32 + i."""
    match e:
        case Binary(op=BinOp.mul | BinOp.floordiv | BinOp.mod):
            return _is_short(e.a) and _is_short(e.b)
        case Var():
            return True
        case Const():
            return e.dtype is INDEX
        case Binary(op=BinOp.add | BinOp.sub):
            return _is_short(e.a) and _is_short(e.b)
    return False


def _atom(e: Expr) -> str:
    match e:
        case Var():
            return e.name
        case Const():
            return _const(e)
        case Binary():
            return f"{e.op.value}({_expr(e.a)}, {_expr(e.b)})"
        case Unary():
            return f"{e.op.value}({_expr(e.a)})"
        case Cast():
            return f"{e.dtype.value}({_expr(e.a)})"
        case Select():
            return f"select({_expr(e.cond)}, {_expr(e.a)}, {_expr(e.b)})"
        case Random():
            return f"random({', '.join(map(_expr, parts(e)))})"
        case Load():
            text = _access(e.tensor, e.index)
            return text if e.mask is None else f"({text}{_mask(e.mask)})"
        case Ramp():
            return f"{_expr(e.base)}:+{e.lanes}" + (f"*{e.stride}" if e.stride != 1 else "")
        case Broadcast():
            return f"x{e.lanes}({_expr(e.a)})"
        case ReduceLanes():
            return f"reduce_{'add' if e.op is BinOp.add else 'mul' if e.op is BinOp.mul else e.op.value}({_expr(e.a)})"


def _const(e: Const) -> str:
    if e.dtype is INDEX:
        return str(int(e.value))
    if e.dtype is DType.boolean:
        return "true" if e.value else "false"
    if e.dtype is DType.f32:
        return str(np.float32(e.value))
    return f"{e.dtype.value}({e.value})"
