"""The simplest Tensor IR of an op's form: one loop nest, one element at a time, without the compiler."""

from __future__ import annotations

from math import prod

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import spec
from benchgraph.ops.reduce import reduced_axes
from benchgraph.ops.spec import Call, Elementwise, LayoutOp, Reduction, Window
from benchgraph.tir.build import binary, cast, f32, index, seq
from benchgraph.tir.cse import eliminate_common_subexpressions
from benchgraph.tir.ir import Alloc, Expr, For, Func, If, Load, Scope, Stmt, Store, Tensor, Var, tensor


def naive(call: Call) -> Func:
    """A function of the call's inputs and outputs."""
    srcs = tuple(_param(f"src{i}", t) for i, t in enumerate(call.ins))
    dst, *more = dsts = tuple(_param(f"dst{i}", t) for i, t in enumerate(call.outs))
    at = _vars("d", dst.shape)
    match spec(call.kind).lowering.form:
        case Elementwise() as form:
            values = form.values(call.attrs, dst.shape, at, tuple(_widened(Load(s, _broadcast(s.shape, at))) for s in srcs))
            names = iter(f"r{i}" for i in range(1000))
            shared, values = eliminate_common_subexpressions(values[: len(dsts)], lambda: next(names))
            stores = (Store(d, at, cast(value, d.dtype)) for d, value in zip(dsts, values, strict=True))
            return Func(call.kind, (*srcs, *dsts), _nest(at, dst.shape, seq(*shared, *stores)))
        case LayoutOp(source, parts=None):
            body = _nest(at, dst.shape, Store(dst, at, Load(srcs[0], source(call.attrs, srcs[0].shape, dst.shape, at))))
        case LayoutOp():
            return moved_back(call)
        case Reduction() as reduction:
            body = _reduce(call, reduction, srcs[0], dst)
        case Window() as window:
            body = _window(call, window, srcs, dst)
        case other:
            raise TypeError(f"{call.kind} is lowered by {other}")
    assert not more
    return Func(call.kind, (*srcs, dst), body)


def moved_back(call: Call) -> Func:
    """A data movement by targets: every element of every source is written to its target."""
    srcs, dst = tuple(_param(f"src{i}", t) for i, t in enumerate(call.ins)), _param("dst", call.outs[0])
    form = spec(call.kind).lowering.form
    assert isinstance(form, LayoutOp)
    nests = []
    for i, (src, part) in enumerate(zip(srcs, movement_parts(call), strict=True)):
        at = _vars(f"s{i}_", src.shape)
        nests.append(_nest(at, src.shape, Store(dst, form.target(part, src.shape, dst.shape, at), Load(src, at))))
    return Func(call.kind, (*srcs, dst), seq(*nests))


def there_and_back(call: Call) -> Func:
    """Of the sources of a movement and a copy of each: copy[source(target(i))] = src[i]."""
    srcs, copies = (tuple(_param(f"{name}{i}", t) for i, t in enumerate(call.ins)) for name in ("src", "copy"))
    form, dst = spec(call.kind).lowering.form, call.outs[0].shape
    assert isinstance(form, LayoutOp)
    nests = []
    for i, (src, copy, part) in enumerate(zip(srcs, copies, movement_parts(call), strict=True)):
        at = _vars(f"s{i}_", src.shape)
        there = form.target(part, src.shape, dst, at)
        nests.append(_nest(at, src.shape, Store(copy, form.source(part, src.shape, dst, there), Load(src, at))))
    return Func(call.kind, (*srcs, *copies), seq(*nests))


def movement_parts(call: Call) -> tuple[Attrs, ...]:
    """The attributes that describe the part of each source."""
    form = spec(call.kind).lowering.form
    assert isinstance(form, LayoutOp)
    return (call.attrs,) if form.parts is None else form.parts(call.attrs, tuple(t.shape for t in call.ins))


def _reduce(call: Call, reduction: Reduction, src: Tensor, dst: Tensor) -> Stmt:
    axes = reduced_axes(call.attrs, len(src.shape))
    kept = tuple(i for i in range(len(src.shape)) if i not in axes)
    at = _vars("s", src.shape)
    keeps_dims = len(dst.shape) == len(src.shape)
    to = tuple(index(0) if i in axes else v for i, v in enumerate(at)) if keeps_dims else tuple(at[i] for i in kept)
    acc = tensor("acc", reduction.acc, (), Scope.register)
    update = Store(acc, (), binary(reduction.op, Load(acc, ()), cast(Load(src, at), reduction.acc)))
    total: Expr = Load(acc, ())
    if reduction.finish is not None:
        total = reduction.finish(prod(src.shape[a] for a in axes), total)
    inner = _nest(tuple(at[a] for a in axes), tuple(src.shape[a] for a in axes), update)
    body = seq(Alloc(acc), Store(acc, (), cast(f32(reduction.init), reduction.acc)), inner, Store(dst, to, cast(total, dst.dtype)))
    return _nest(tuple(at[i] for i in kept), tuple(src.shape[i] for i in kept), body)


def _window(call: Call, window: Window, sources: tuple[Tensor, ...], dst: Tensor) -> Stmt:
    at, box = _vars("d", dst.shape), window.taps(call)
    tap = _vars("k", box)
    acc = tensor("acc", DType.f32, (), Scope.register)
    tapped = window.tap(call, at, tap, lambda port, index: _widened(Load(sources[port], index)))
    update: Stmt = Store(acc, (), tapped.value if window.op is None else binary(window.op, Load(acc, ()), tapped.value))
    for condition in tapped.conditions:
        update = If(condition, update)
    total: Expr = Load(acc, ()) if window.finish is None else window.finish(call, at, Load(acc, ()))
    body = seq(Alloc(acc), Store(acc, (), f32(window.start(call))), _nest(tap, box, update), Store(dst, at, cast(total, dst.dtype)))
    return _nest(at, dst.shape, body)


def _param(name: str, t: TensorType) -> Tensor:
    return tensor(name, t.dtype, t.shape, Scope.param)


def _vars(stem: str, shape: Shape) -> tuple[Var, ...]:
    return tuple(Var(f"{stem}{i}") for i in range(len(shape)))


def _nest(at: tuple[Var, ...], shape: Shape, body: Stmt) -> Stmt:
    for var, extent in reversed(list(zip(at, shape, strict=True))):
        body = For(var, index(extent), body)
    return body


def _broadcast(shape: Shape, at: tuple[Var, ...]) -> tuple[Expr, ...]:
    further = len(shape) - len(at)  # more than 0 for one number alone
    aligned = (*(index(0) for _ in range(further)), *at[max(-further, 0) :])
    return tuple(index(0) if d == 1 else v for d, v in zip(shape, aligned, strict=True))


def _widened(e: Load) -> Expr:
    return cast(e, DType.f32) if e.tensor.dtype.is_float else e
