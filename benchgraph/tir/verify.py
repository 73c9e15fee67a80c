"""What every Tensor IR function must satisfy. A violation is a fault in a pass or a lowering, never the user's.

Checked: every tensor is a parameter, declared in scope, or laid out in an arena; loop variables are used where they are defined; types
and lanes agree; tensors of s4 and u4 are read-only parameters; slices of microkernels and packings are such as these can address; and no
index is provably out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import NoReturn

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.tir import ir
from benchgraph.tir.affine import Range, Ranges, bounds, inside, linear
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.groups import GROUPS, PACKED_FROM, TRANSPOSED_TO
from benchgraph.tir.operands import operands, place_in_acc, post_op_loops
from benchgraph.tir.text import header, print_tir
from benchgraph.tir.visit import exprs, loads_of, parts, statements, walk, written

_S64_ONLY = frozenset({ir.BinOp.floordiv, ir.BinOp.mod})
_SIGNED = frozenset({DType.f32, DType.s64, DType.s32, DType.s8})
_PACKED = frozenset(d for d in DType if d.is_packed)  # load, cast from and select
_STORAGE_ONLY = _PACKED | {DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2}  # load, cast, select and store; compute in f32


class VerifyError(BenchgraphError):
    """Tensor IR that breaks a rule: a fault of the pass or lowering that made it."""


@dataclass(frozen=True)
class _State:
    """What is known at a statement, or something described in words: tensors in scope by name; ranges of loop variables, and names of those
    whose loop runs over all of its range; whether the statement is conditional, and in a parallel loop."""

    func: ir.Func
    where: ir.Stmt | str = ""
    tensors: Mapping[str, ir.Tensor] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    attained: frozenset[str] = frozenset()
    conditional: bool = False
    parallel: bool = False

    def at(self, where: ir.Stmt | str) -> _State:
        return replace(self, where=where)

    def fail(self, rule: str) -> NoReturn:
        text = self.where if isinstance(self.where, str) else header(self.where)
        raise VerifyError(f"`{text}`: {rule}", where=f"TIR function {self.func.name}")

    def declare(self, t: ir.Tensor) -> _State:
        if t.name in self.tensors:
            self.fail(f"the name {t.name} is declared twice in one scope")
        if len(t.shape) != len(t.strides) or any(d < 0 for d in t.shape):
            self.fail(f"{t.name} has shape {t.shape} and strides {t.strides}: they must be of one length, extents not negative")
        if t.scope is ir.Scope.register and (t.shape or t.lanes < 1):
            self.fail(f"the register {t.name} must have shape () and at least one lane")
        if t.scope is not ir.Scope.register and t.lanes != 1:
            self.fail(f"{t.name} has {t.lanes} lanes but is not a register")
        if t.padding and (t.scope is not ir.Scope.thread or not 0 < t.padding < t.shape[-1]):
            self.fail(f"{t.name} has {t.padding} elements of padding: only part of each row of a thread's own temporary may be padding")
        return replace(self, tensors={**self.tensors, t.name: t})


def verify(f: ir.Func) -> None:
    """Raise VerifyError, naming the statement and the rule, unless the function is well formed."""
    _unique_buffers(f)
    scope = _State(f)
    for p in f.params:
        scope = scope.at(f"parameter {p.name}").declare(p)
    for pair in f.inplace:
        if pair.dst == pair.src or not {pair.dst, pair.src} <= {p.name for p in f.params}:
            scope.at(f"{pair.dst} over {pair.src}").fail("only a parameter can overwrite another one")
    if unknown := {*f.prefetched, *(name for s in f.shared for name in s.names)}.difference(p.name for p in f.params):
        scope.fail(f"{', '.join(sorted(unknown))}, to be prefetched or shared, are no parameters")
    _stmt(f.body, scope)


def _unique_buffers(f: ir.Func) -> None:
    """Names of buffers must be unique in the function; registers may share a name in disjoint blocks."""
    seen = {p.name for p in f.params}
    for s in walk(f.body):
        if isinstance(s, ir.Alloc) and s.tensor.scope is not ir.Scope.register:
            if s.tensor.name in seen:
                _State(f, s).fail(f"the name {s.tensor.name} is declared twice")
            seen.add(s.tensor.name)


def _stmt(s: ir.Stmt, scope: _State) -> None:
    scope = scope.at(s)
    match s:
        case ir.For():
            _for(s, scope)
        case ir.If():
            _scalar(s.cond, DType.boolean, scope)
            for branch in (s.then, s.orelse):
                if branch is not None:
                    _stmt(branch, replace(scope, conditional=True))
        case ir.Seq():
            for c in s.stmts:
                if isinstance(c, ir.Alloc):
                    scope = _alloc(c, scope)
                else:
                    _stmt(c, scope)
        case ir.Store():
            _store(s, scope)
        case ir.Brgemm():
            _brgemm(s, scope)
        case ir.Alloc():
            _alloc(s, scope)  # a block of its own: nothing can use it
        case ir.Pack():
            _pack(s, scope)
        case ir.Prefetch():
            _prefetch(s, scope)


def _alloc(s: ir.Alloc, scope: _State) -> _State:
    scope = scope.at(s)
    if s.tensor.scope is ir.Scope.param:
        scope.fail("an alloc cannot have scope param")
    if s.tensor.offset is not None:
        scope.fail("a tensor laid out in an arena is not declared")
    if s.tensor.dtype in _PACKED:
        scope.fail(f"{s.tensor.name} is {s.tensor.dtype.value}, of which two elements share a byte; only a parameter can be")
    return scope.declare(s.tensor)


def _for(s: ir.For, scope: _State) -> None:
    _scalar(s.extent, ir.INDEX, scope)
    if s.var.name in scope.ranges:
        scope.fail(f"the loop variable {s.var.name} is defined twice in one nest")
    if s.var.name in scope.tensors:
        scope.fail(f"the loop variable {s.var.name} has the name of a tensor")
    extent = constant(s.extent)
    if extent is not None and extent < 0:
        scope.fail("a loop extent is negative")
    if extent == 0:
        return
    attained = scope.attained | {s.var.name} if extent is not None else scope.attained
    conditional = scope.conditional or extent is None
    parallel = scope.parallel or s.kind is ir.LoopKind.parallel
    inner = replace(scope, ranges=inside(s, scope.ranges), attained=attained, conditional=conditional, parallel=parallel)
    _stmt(s.body, inner)


def _scalar(e: ir.Expr, dtype: DType, scope: _State) -> None:
    _expr(e, scope)
    got = type_of(e)
    if got != (dtype, 1):
        scope.fail(f"`{print_tir(e)}` is {_named(got)} where a scalar {dtype.value} is needed")


def _named(t: tuple[DType, int]) -> str:
    return t[0].value + (f" x{t[1]}" if t[1] > 1 else "")


# ---- expressions -----------------------------------------------------------------------------------------------------


def _expr(e: ir.Expr, scope: _State) -> None:
    for p in parts(e):
        _expr(p, scope)
    match e:
        case ir.Var():
            if e.name not in scope.ranges:
                scope.fail(f"the variable {e.name} is used outside its loop")
        case ir.Const():
            if isinstance(e.value, float) != e.dtype.is_float:
                scope.fail(f"the literal {e.value!r} does not fit its dtype {e.dtype.value}")
        case ir.Binary():
            _binary(e, scope)
        case ir.Unary():
            _unary(e, scope)
        case ir.Cast():
            if e.dtype is DType.undef or e.dtype in _PACKED:
                scope.fail(f"`{print_tir(e)}` casts to {e.dtype.value}, which nothing computes in or stores")
        case ir.Select():
            cond, a, b = type_of(e.cond), type_of(e.a), type_of(e.b)
            if a != b or cond != (DType.boolean, a[1]):
                scope.fail(f"`{print_tir(e)}` selects by {_named(cond)} between {_named(a)} and {_named(b)}")
        case ir.Random():
            if len({(ir.INDEX, type_of(e)[1]), *map(type_of, parts(e))}) > 1:
                scope.fail(f"`{print_tir(e)}` needs three operands of s64, with as many lanes")
        case ir.Load():
            lanes = _access(e.tensor, e.index, scope, masked=e.mask is not None)
            _mask(e.mask, lanes, scope)
        case ir.Ramp():
            if e.lanes < 2 or type_of(e.base) not in ((ir.INDEX, 1), (DType.s32, 1)):
                scope.fail(f"the ramp `{print_tir(e)}` needs a scalar s64 or s32 base and at least two lanes")
        case ir.Broadcast():
            if e.lanes < 2 or type_of(e.a)[1] != 1:
                scope.fail(f"the broadcast `{print_tir(e)}` needs a scalar and at least two lanes")
        case ir.ReduceLanes():
            if e.op not in ir.REDUCING_OPS or type_of(e.a)[1] < 2:
                scope.fail(f"`{print_tir(e)}` needs a vector and one of {', '.join(op.name for op in ir.BinOp if op in ir.REDUCING_OPS)}")


def _binary(e: ir.Binary, scope: _State) -> None:
    a, b = type_of(e.a), type_of(e.b)
    if a != b:
        scope.fail(f"the operands of `{print_tir(e)}` are {_named(a)} and {_named(b)}")
    dtype = a[0]
    if (dtype is DType.boolean) != (e.op in (ir.BinOp.and_, ir.BinOp.or_)) and e.op not in (ir.BinOp.eq, ir.BinOp.ne):
        scope.fail(f"`{print_tir(e)}` does not work on {dtype.value}")
    if e.op is ir.BinOp.div and not dtype.is_float:
        scope.fail(f"`{print_tir(e)}` divides {dtype.value}; / is for floats")
    if e.op in _S64_ONLY and dtype is not ir.INDEX:
        scope.fail(f"`{print_tir(e)}` is for s64, not {dtype.value}")
    if e.op in _S64_ONLY and bounds(e.b, scope.ranges)[1] <= 0:
        scope.fail(f"the divisor of `{print_tir(e)}` is not positive")
    if dtype in _STORAGE_ONLY:
        scope.fail(f"`{print_tir(e)}` computes in {dtype.value}; cast to f32 first")


def _unary(e: ir.Unary, scope: _State) -> None:
    dtype = type_of(e.a)[0]
    allowed = {ir.UnOp.not_: frozenset({DType.boolean}), ir.UnOp.neg: _SIGNED, ir.UnOp.abs: _SIGNED}.get(e.op, frozenset({DType.f32}))
    if dtype not in allowed:
        scope.fail(f"`{print_tir(e)}` does not work on {dtype.value}")


# ---- accesses --------------------------------------------------------------------------------------------------------


def _tensor(t: ir.Tensor, index: tuple[ir.Expr, ...], scope: _State) -> None:
    if t.offset is not None:
        size = {ir.Scope.shared: scope.func.shared_bytes, ir.Scope.thread: scope.func.thread_bytes}.get(t.scope, 0)
        if t.offset < 0 or t.offset + t.nbytes > size:
            scope.fail(f"{t.name} takes bytes {t.offset} to {t.offset + t.nbytes} of a {t.scope.value} arena of {size}")
        if t.scope is ir.Scope.thread and not scope.parallel:
            scope.fail(f"{t.name} is in the thread arena but used outside a parallel loop")
    elif scope.tensors.get(t.name) != t:
        what = "declared differently" if t.name in scope.tensors else "not declared in scope"
        scope.fail(f"the tensor {t.name} is {what}")
    if len(index) != len(t.shape):
        scope.fail(f"{t.name} has rank {len(t.shape)} but {len(index)} indices")


def _access(t: ir.Tensor, index: tuple[ir.Expr, ...], scope: _State, *, masked: bool) -> int:
    """Check one element or vector access whose index expressions are checked already; returns its lanes."""
    _tensor(t, index, scope)
    vectors = 0
    for d, i in enumerate(index):
        dtype, lanes = type_of(i)
        if dtype is not ir.INDEX:
            scope.fail(f"the index `{print_tir(i)}` is {dtype.value}, not s64")
        if lanes > 1 and not isinstance(i, ir.Ramp):
            scope.fail(f"the vector index `{print_tir(i)}` is not a ramp")
        vectors += lanes > 1
        _in_bounds(t, d, i, (0, 0), scope, masked=masked)
    if vectors > 1:
        scope.fail(f"{t.name} is indexed by more than one vector")
    return max([t.lanes, *(type_of(i)[1] for i in index)])


def _in_bounds(t: ir.Tensor, dim: int, i: ir.Expr, span: Range, scope: _State, *, masked: bool) -> None:
    """Fail if the index, plus the span of a slice, is provably out of bounds.

    A bound counts only if it is attained: all loops around run, and the index is linear in variables of constant extent.
    """
    base = i.base if isinstance(i, ir.Ramp) and masked else i
    lo, hi = bounds(base, scope.ranges)
    form = linear(base.base if isinstance(base, ir.Ramp) else base)
    attained = not scope.conditional and not masked and all(isinstance(a, ir.Var) and a.name in scope.attained for a in form.terms)
    first, last = (lo, hi) if attained else (hi, lo)
    if first + span[0] < 0 or last + span[1] >= t.shape[dim]:
        value = f"`{print_tir(i)}`" + (f" + {span[0]}..{span[1]}" if span != (0, 0) else "")
        end = f" reaches {lo:g}..{hi:g}," if abs(lo) != inf and abs(hi) != inf else " is"
        scope.fail(f"index {value} of {t.name}{end} outside dim {dim} of size {t.shape[dim]}")


def _mask(mask: ir.Expr | None, lanes: int, scope: _State) -> None:
    if mask is not None and type_of(mask) != (DType.boolean, lanes):
        scope.fail(f"the mask `{print_tir(mask)}` is {_named(type_of(mask))}; it needs boolean x{lanes}")


def _store(s: ir.Store, scope: _State) -> None:
    for e in (*s.index, s.value, *(() if s.mask is None else (s.mask,))):
        _expr(e, scope)
    lanes = _access(s.tensor, s.index, scope, masked=s.mask is not None)
    _mask(s.mask, lanes, scope)
    if s.tensor.dtype in _PACKED:
        scope.fail(f"{s.tensor.name} is {s.tensor.dtype.value}, of which two elements share a byte; it can only be read")
    if type_of(s.value) != (s.tensor.dtype, lanes):
        scope.fail(f"a value of {_named(type_of(s.value))} is stored where {_named((s.tensor.dtype, lanes))} is needed")


def _prefetch(s: ir.Prefetch, scope: _State) -> None:
    _tensor(s.tensor, s.index, scope)
    if s.tensor.scope is not ir.Scope.param:
        scope.fail(f"{s.tensor.name} is no parameter; what the function makes itself is in cache")
    for i in s.index:
        _scalar(i, ir.INDEX, scope)


# ---- microkernels and packings ----------------------------------------------------------------------------------------------------


def _brgemm(s: ir.Brgemm, scope: _State) -> None:
    if min(s.m, s.n, s.k, *s.batch) < 1:
        scope.fail(f"extents {s.m}x{s.n}x{s.k} batch {s.batch} must be positive")
    if s.dtypes not in GROUPS:
        supported = ", ".join(" ".join(d.value for d in dtypes) for dtypes in GROUPS)
        scope.fail(f"src, wei and acc are {' '.join(d.value for d in s.dtypes)}; the microkernel takes {supported}")
    _operands(s, scope)
    for o in operands(s):
        needed = o.slice is not s.src or s.group > 1
        if needed and o.slice.strides[1] != o.group and o.extents[1] > 1:
            scope.fail(f"the columns of {o.slice.tensor.name} have stride {o.slice.strides[1]}, not {o.group}")
    if not s.acc.is_flat and s.acc.axes[0][1] != 1 and s.m > 1:
        scope.fail(f"the rows of {s.acc.tensor.name} are {s.acc.axes[0][1]} indices apart, not 1")
    for p in s.prefetches:
        _prefetch(p, scope)
    if s.post_ops is not None:
        _post_ops(s, s.post_ops, scope)


def _post_ops(s: ir.Brgemm, p: ir.PostOps, scope: _State) -> None:
    if p.lanes < 2 or s.n % p.lanes:
        scope.fail(f"{s.n} columns are no whole vectors of {p.lanes}")
    _stmt(post_op_loops(s, p), scope)
    acc = s.acc.tensor
    for inner in statements(p.body):
        if not isinstance(inner, ir.Alloc | ir.Store):
            scope.at(inner).fail("post-ops are stores alone, and registers")
        if acc in written(inner):
            scope.at(inner).fail(f"post-ops store to {acc.name}, which is not kept")
        for load in (load for e in exprs(inner) for load in loads_of(e) if load.tensor == acc):
            (i,) = load.index
            if not isinstance(i, ir.Ramp) or (i.stride, i.lanes) != (1, p.lanes) or linear(i.base) != place_in_acc(s, p):
                scope.at(inner).fail(f"`{print_tir(load)}` is not the current vector of {acc.name}")


def _pack(s: ir.Pack, scope: _State) -> None:
    if min(s.k, s.n) < 1:
        scope.fail(f"extents {s.k}x{s.n} must be positive")
    source, dtype = s.src.tensor.dtype, s.dst.tensor.dtype
    if s.transposes and source is not dtype and (source, dtype) not in TRANSPOSED_TO:
        scope.fail(f"{source.value} cannot be transposed to {dtype.value}")
    if not s.transposes and source not in PACKED_FROM.get(dtype, ()):
        scope.fail(f"{source.value} is packed to {dtype.value}; the pairs are in PACKED_FROM")
    _operands(s, scope)
    src, dst = operands(s)
    if dst.slice.strides[1] != s.group and s.n > 1:
        scope.fail(f"the columns of {s.dst.tensor.name} have stride {dst.slice.strides[1]}, not {s.group}")
    if 1 not in (src.slice.strides[0], src.slice.strides[1]):
        scope.fail(f"neither rows nor columns of {s.src.tensor.name} have stride 1")
    if s.transposes and src.slice.strides[0] != 1:
        scope.fail(f"rows of {s.src.tensor.name} have stride {src.slice.strides[0]}; a transposition needs 1")


def _operands(s: ir.Brgemm | ir.Pack, scope: _State) -> None:
    for o in operands(s):
        t, index, axes, rank = o.slice.tensor, o.slice.index, o.slice.axes, len(o.slice.tensor.shape)
        _tensor(t, index, scope)
        is_crossed = rank > 1 and axes[0][0] == axes[1][0] and axes[0][1] and axes[1][1]
        if len(axes) != len(o.extents) or is_crossed or not all(0 <= d < rank for d, _ in axes):
            scope.fail(f"rows, columns, batch along {axes} do not make a slice of rank {rank}")
        if o.group > 1 and rank > 1 and (t.shape[-1] != o.group or t.strides[-1] != 1 or any(d == rank - 1 and step for d, step in axes)):
            scope.fail(f"{t.name} needs groups of {o.group} along k in its innermost dim")
        for d, (i, span) in enumerate(zip(index, o.spans(), strict=True)):
            _scalar(i, ir.INDEX, scope)
            _in_bounds(t, d, i, span, scope, masked=False)
