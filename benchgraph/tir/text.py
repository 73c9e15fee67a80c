"""Tensor IR as text, which `tir/parse.py` reads back: `parse_tir(print_tir(f)) == (f,)`. docs/ir-text.md has the grammar.

    func relu(x: f32[4,8], y: f32[4,8]) {
      parallel for i in 4 {
        for j in 8 {
          y[i, j] = max(x[i, j], 0.0)
        }
      }
    }

Strides are shown when they are not row-major: `f32[4,8] by [16,1]`. `i:+16` is the vector of indices i .. i+15, `i:+16*4` steps by 4.
A microkernel's slices show, behind the index of each dim, the axes that run along it: `x[i*32:m, 0:k]`, `w[0:k*2, j:n]`. A slice of a
1-d tensor shows its offset, then the axes with their strides: `x[i*32; m*64, k]`.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.fields import print_fields
from benchgraph.core.tensor import dense_strides
from benchgraph.tir import ir
from benchgraph.tir.visit import parts, tensors

_SIGNS = "or", "and", "== != < <= > >=", "+ -", "* / // %"  # from loosest to tightest
PRECEDENCE = {ir.BinOp(sign): level for level, signs in enumerate(_SIGNS, 1) for sign in signs.split()}
SUM, _UNARY = PRECEDENCE[ir.BinOp.add], len(_SIGNS) + 1
_ATOM = _UNARY + 1
_TIGHT = frozenset({ir.BinOp.mul, ir.BinOp.floordiv, ir.BinOp.mod})  # set without blanks between variables
_OF_INDICES = _TIGHT | {ir.BinOp.add, ir.BinOp.sub}
FUNC_SYNTAX = "name", "params", "body", "inplace", "shared_bytes", "thread_bytes"  # all other fields are `name=value`
BRGEMM_AXES = ("m", "k"), ("k", "n"), ("m", "n")  # rows and columns of src, wei and acc
PACK_AXES = "k", "n"


def batch_axis(number: int) -> str:
    return f"b{number}"


def print_tir(node: ir.Func | ir.Stmt | ir.Expr) -> str:
    """The text of a function, statement or expression, without a final newline."""
    if isinstance(node, ir.Func):
        return "\n".join(_func(node))
    return "\n".join(_stmt(node)) if isinstance(node, ir.Stmt) else _expr(node)


def header(s: ir.Stmt) -> str:
    """The first line of a statement: what it is, without what is inside."""
    return _stmt(s)[0] if not isinstance(s, ir.Seq) else "block"


def _func(f: ir.Func) -> list[str]:
    over = "".join(f" {o.dst} over {o.src}," for o in f.inplace).rstrip(",")
    settings = "".join(f" {field}" for field in print_fields(f, FUNC_SYNTAX))
    lines = [f"func {f.name}({', '.join(map(_declare, f.params))}){over}{settings} {{"]
    planned = {t.name: t for t in tensors(f.body) if t.offset is not None}
    for scope, size in ((ir.Scope.shared, f.shared_bytes), (ir.Scope.thread, f.thread_bytes)):
        inside = ", ".join(f"{_declare(t)} at {t.offset}" for t in planned.values() if t.scope is scope)
        if size or inside:
            lines.append(f"  {scope.value} arena, {size} bytes: {inside}".rstrip(": "))
    return [*lines, *_body(f.body), "}"]


def _declare(t: ir.Tensor) -> str:
    dims = f"[{','.join(map(str, t.shape))}]" if t.shape else ""
    strides = "" if t.strides == dense_strides(t.shape) else f" by [{','.join(map(str, t.strides))}]"
    return f"{t.name}: {t.dtype.value}{f' x{t.lanes}' if t.lanes > 1 else ''}{dims}{strides}{f' padding {t.padding}' if t.padding else ''}"


def _indent(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _body(s: ir.Stmt) -> list[str]:
    """The lines inside the braces of what holds s. Only a block of one statement, which is rare, shows braces of its own."""
    return _indent(_stmt(s) if isinstance(s, ir.Seq) and len(s.stmts) != 1 else _item(s))


def _item(s: ir.Stmt) -> list[str]:
    """The lines of one statement among others."""
    return ["{", *_indent(_stmt(s)), "}"] if isinstance(s, ir.Seq) else _stmt(s)


def _stmt(s: ir.Stmt) -> list[str]:
    match s:
        case ir.For():
            together = f" unroll_jam by {s.unroll_jam}" if s.unroll_jam > 1 else ""
            return [f"{s.kind.value} {s.var.name} in {_expr(s.extent)}{together} {{", *_body(s.body), "}"]
        case ir.If():
            otherwise = [] if s.orelse is None else ["} else {", *_body(s.orelse)]
            return [f"if {_expr(s.cond)} {{", *_body(s.then), *otherwise, "}"]
        case ir.Seq():
            return [line for c in s.stmts for line in _item(c)]
        case ir.Alloc():
            return [f"alloc {_declare(s.tensor)} {s.tensor.scope.value}"]
        case ir.Store():
            return [f"{_access(s.tensor, s.index)} = {_expr(s.value)}{_mask(s.mask)}{' nontemporal' * s.non_temporal}"]
        case ir.Brgemm():
            if (p := s.post_ops) is None:
                return [_brgemm(s)]
            return [f"{_brgemm(s)}, then for {p.row.name} in m, {p.vector.name} in n/{p.lanes} {{", *_body(p.body), "}"]
        case ir.Pack():
            src, dst = (_slice(o, PACK_AXES) for o in (s.src, s.dst))
            return [f"{'transpose' if s.transposes else 'pack'} (k={s.k}, n={s.n}) {dst} = {src}"]
        case ir.Prefetch():
            return [_prefetch(s)]


def _access(t: ir.Tensor, index: tuple[ir.Expr, ...]) -> str:
    return f"{t.name}[{', '.join(_expr(i) for i in index)}]" if index else t.name


def _mask(mask: ir.Expr | None) -> str:
    return "" if mask is None else f" where {_expr(mask)}"


def _brgemm(s: ir.Brgemm) -> str:
    src, wei, acc = (_slice(o, axes) for o, axes in zip((s.src, s.wei, s.acc), BRGEMM_AXES, strict=True))
    batch = "".join(f", {batch_axis(i)}={extent}" for i, extent in enumerate(s.batch))
    ahead = f", wei {s.wei_ahead} rows ahead" * bool(s.wei_ahead) + "".join(f", {_prefetch(p)}" for p in s.prefetches)
    return f"brgemm (m={s.m}, n={s.n}, k={s.k}{batch}) {acc} {'+=' if s.accumulate else '='} {src} @ {wei}{ahead}"


def _prefetch(s: ir.Prefetch) -> str:
    runs = f" {s.count} times by {s.stride}" if (s.count, s.stride) != (1, 0) else ""
    return f"prefetch {_access(s.tensor, s.index)} {s.lines} lines{runs}{' to write' if s.for_write else ''}"


def _slice(s: ir.Slice, axes: tuple[str, str]) -> str:
    """axes: the names of rows and columns; those of the batch follow."""
    names = (*axes, *map(batch_axis, range(len(s.axes) - 2)))
    if s.is_flat:
        steps = ",".join(f" {_step(name, step)}" for name, (_, step) in zip(names, s.axes, strict=True))
        return f"{s.tensor.name}[{_expr(s.offset)};{steps}]"
    along = dict.fromkeys(range(len(s.index)), "")
    for name, (dim, step) in zip(names, s.axes, strict=True):
        along[dim] = along.get(dim, "") + (f":{_step(name, step)}" if (dim, step) != (0, 0) else "")
    return f"{s.tensor.name}[{', '.join(_expr(i, SUM) + along[dim] for dim, i in enumerate(s.index))}]"


def _step(axis: str, step: int) -> str:
    return axis if step == 1 else f"{axis}*{step}"


def _expr(e: ir.Expr, least: int = 0) -> str:
    """e, in parentheses when it binds less tightly than `least`."""
    match e:
        case ir.Binary() if e.op in PRECEDENCE:
            level = PRECEDENCE[e.op]
            tight = e.op in _TIGHT and _is_short(e.a) and _is_short(e.b)
            sign = e.op.value if tight else f" {e.op.value} "
            text = f"{_expr(e.a, level)}{sign}{_expr(e.b, level + 1)}"
            return f"({text})" if level < least else text
        case ir.Ramp() if least > PRECEDENCE[ir.BinOp.ge]:
            return f"({_atom(e)})"
        case ir.Unary(op=ir.UnOp.neg):
            text = f"-({_expr(e.a)})" if isinstance(e.a, ir.Const) else f"-{_expr(e.a, _ATOM)}"
            return text if least <= _UNARY else f"({text})"
        case _:
            return _atom(e)


def _is_short(e: ir.Expr) -> bool:
    """Index arithmetic is set without blanks: mo*32 + i."""
    match e:
        case ir.Var():
            return True
        case ir.Const():
            return e.dtype is ir.INDEX
        case ir.Binary():
            return e.op in _OF_INDICES and _is_short(e.a) and _is_short(e.b)
    return False


def _atom(e: ir.Expr) -> str:
    match e:
        case ir.Var():
            return e.name
        case ir.Const():
            return _const(e)
        case ir.Cast(a=ir.Const() as a):
            return f"{e.dtype.value}(({_const(a)}))"
        case ir.Load():
            text = _access(e.tensor, e.index)
            return text if e.mask is None else f"({text}{_mask(e.mask)})"
        case ir.Ramp():
            return f"{_expr(e.base, SUM)}:+{e.lanes}" + (f"*{e.stride}" if e.stride != 1 else "")
    return f"{_function(e)}({', '.join(map(_expr, parts(e)))})"


def _function(e: ir.Expr) -> str:
    """The name of an operation that has no sign."""
    match e:
        case ir.Binary() | ir.Unary():
            return str(e.op.value)
        case ir.Cast():
            return e.dtype.value
        case ir.Broadcast():
            return f"x{e.lanes}"
        case ir.ReduceLanes():
            return reduction_name(e.op)
    return type(e).__name__.lower()  # select and random


def reduction_name(op: ir.BinOp) -> str:
    return f"reduce_{op.name}"


def _const(e: ir.Const) -> str:
    """Of s64, f32 and boolean without the dtype, as long as that says it exactly."""
    if e.dtype is ir.INDEX:
        return str(int(e.value))
    if e.dtype is DType.boolean:
        return "true" if e.value else "false"
    if e.dtype is DType.f32 and (float(np.float32(e.value)) == e.value or e.value != e.value):
        return str(np.float32(e.value))
    return f"{e.dtype.value}({e.value})"
