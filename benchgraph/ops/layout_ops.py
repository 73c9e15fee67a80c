"""StaticTranspose, StaticReshape, Reorder: the same elements at other indices. Exact, and no floating-point work."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType, dense_strides
from benchgraph.ops.elementwise.unary import same_shape
from benchgraph.ops.fill_rules import filling
from benchgraph.ops.laws import SAME_ELEMENTS, SAME_SEQUENCE
from benchgraph.ops.spec import Attr, FillRule, Infer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.spec.forms import Indices, LayoutOp
from benchgraph.tir.build import add, floordiv, index, mod, mul
from benchgraph.tir.ir import Expr

REORDER = "Reorder"  # copies an operand to the layout that the library chose


def _row(
    kind: str,
    infer: Infer,
    move: Callable[[Call, Array], Array],
    form: LayoutOp,
    samples: tuple[Sample, ...],
    laws: tuple[Law, ...],
    attrs: dict[str, Attr] | None = None,
    fill: FillRule = filling.MOVED,
    zero_limit: float = 1.0,
) -> OpSpec:
    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return (move(call, ins[0]),)

    return OpSpec(
        kind,
        Schema(inputs=ports("src"), outputs=ports("dst"), attrs=attrs or {}),
        Semantics(infer=infer, reference=reference, flops=lambda call: 0),
        Testing(fill=fill, samples=samples, laws=laws, zero_limit=lambda call: zero_limit),
        Lowering(Role.layout_op, form=form),
    )


def permutation(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The order attribute as axes 0 <= axis < rank; empty means reversed. Raises InvalidShape when it is no permutation."""
    order = attrs.integers("order")
    if not order:
        return tuple(reversed(range(rank)))
    axes = tuple(a + rank if a < 0 else a for a in order)
    if sorted(axes) != list(range(rank)):
        raise InvalidShape(f"order {order} is not a permutation of src's {rank} axes", fix=f"name each axis from 0 to {rank - 1} once")
    return axes


def _transpose_source(attrs: Attrs, src: Shape, dst: Shape, at: Indices) -> Indices:
    axes = permutation(attrs, len(src))
    return tuple(at[axes.index(a)] for a in range(len(src)))


def _permutes_axes(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Every element is at its permuted index, looked up one by one through flat positions."""
    src, dst = call.ins[0].shape, call.outs[0].shape
    axes, indices = permutation(call.attrs, len(src)), np.indices(dst).reshape(len(dst), -1)
    strides = dense_strides(src)
    flat = sum((indices[i] * strides[a] for i, a in enumerate(axes)), start=np.zeros(prod(dst), dtype=np.int64))
    return bool(np.array_equal(np.ravel(ins[0])[flat], np.ravel(outs[0])))


def _infer_reshape(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, given = ins[0].shape, attrs.integers("shape")
    if given.count(-1) > 1 or any(d < -1 for d in given):
        raise InvalidShape(f"shape {given} is no target for {src}", fix="dims are sizes, and one of them may be -1")
    dims = list(given)
    if attrs.get("special_zero"):
        copied = [i for i, d in enumerate(given) if d == 0]
        if copied and copied[-1] >= len(src):
            raise InvalidShape(f"shape {given} copies dim {copied[-1]} of src {src}, which has none", fix="give that dim a size")
        for i in copied:
            dims[i] = src[i]
    if -1 in dims:
        rest = prod(d for d in dims if d != -1)
        if rest == 0 or prod(src) % rest:
            what = f"src {src} has {prod(src)} elements, which no size for the -1 in shape {given} makes room for"
            raise InvalidShape(what, fix="let the product of the other dims divide the number of elements")
        dims[dims.index(-1)] = prod(src) // rest
    if prod(dims) != prod(src):
        what = f"src {src} has {prod(src)} elements, shape {given} has room for {prod(dims)}"
        raise InvalidShape(what, fix="make the products of the dims equal, or let one dim be -1")
    return (tuple(dims),)


def _groups(a: Shape, b: Shape) -> tuple[tuple[list[int], list[int]], ...]:
    """Cut both shapes, without sizes 1, into the shortest groups of axes with equal products, which merge and split together.

    >>> _groups((2, 3, 1, 20), (6, 4, 5))
    (([0, 1], [0]), ([3], [1, 2]))
    """
    left, right = ([i for i, d in enumerate(s) if d != 1] for s in (a, b))
    groups = []
    while left:
        xs, ys = [left.pop(0)], [right.pop(0)]
        x, y = a[xs[0]], b[ys[0]]
        while x != y:
            if x < y:
                xs.append(left.pop(0))
                x *= a[xs[-1]]
            else:
                ys.append(right.pop(0))
                y *= b[ys[-1]]
        groups.append((xs, ys))
    return tuple(groups)


def remap(at: Indices, shape: Shape, other: Shape) -> Indices:
    """The index in `other` of the element at index `at` of `shape`, both row-major views of the same elements.

    Axes that are the same in both pass through; div and mod stay inside the groups of axes that merge or split.
    """
    result: list[Expr] = [index(0)] * len(other)
    if 0 in shape:
        return tuple(result)
    for ins, outs in _groups(shape, other):
        flat = index(0)
        for i in ins:
            flat = add(mul(flat, shape[i]), at[i])
        steps = dense_strides(tuple(other[o] for o in outs))
        for o, step in zip(outs, steps, strict=True):
            quotient = floordiv(flat, step)
            result[o] = quotient if o == outs[0] else mod(quotient, other[o])
    return tuple(result)


def _reshape_back(attrs: Attrs, src: Shape, dst: Shape, shape: Shape) -> Attrs | None:
    """Of each group of dims, shape must have all or only ones."""
    if not prod(dst):
        return None
    dims, i, j = list[int](), 0, 0
    while i < len(src) and j < len(dst):
        begin, first, i, j = i, j, i + 1, j + 1
        while prod(src[begin:i]) != prod(dst[first:j]):
            i, j = (i + 1, j) if prod(src[begin:i]) < prod(dst[first:j]) else (i, j + 1)
        if shape[first:j] != dst[first:j] and prod(shape[first:j]) > 1:
            return None
        dims += src[begin:i] if shape[first:j] == dst[first:j] else (1,) * (i - begin)
    return Attrs(shape=(*dims, *src[i:]), special_zero=False)


def _to(*shape: int, special_zero: bool = False) -> Attrs:
    return Attrs(shape=shape, special_zero=special_zero)


SPECS = (
    _row(
        "StaticTranspose",
        lambda attrs, ins: (tuple(ins[0].shape[a] for a in permutation(attrs, len(ins[0].shape))),),
        lambda call, src: np.transpose(src, permutation(call.attrs, src.ndim)),
        LayoutOp(
            _transpose_source,
            lambda attrs, src, dst, at: tuple(at[a] for a in permutation(attrs, len(src))),
            inverse=lambda attrs, src, dst, shape: Attrs(order=tuple(np.argsort(permutation(attrs, len(src))).tolist())),
        ),
        (
            Sample(((5, 17),), Attrs(order=(1, 0)), why="a matrix, with a tail"),
            Sample(((2, 3, 4, 16),), Attrs(order=(0, 2, 1, 3)), why="attention heads: the last axis stays"),
            Sample(((2, 3, 5),), Attrs(order=(2, 0, 1)), why="a cycle, not its own inverse"),
            Sample(((2, 3, 4),), Attrs(order=(-1, 0, -2)), why="negative axes"),
            Sample(((2, 3, 4),), Attrs(order=()), why="empty means reversed"),
            Sample(((1, 7, 1),), Attrs(order=(1, 2, 0)), why="sizes 1"),
            Sample(((33,),), Attrs(order=(0,)), why="rank 1"),
            Sample(((3, 15),), Attrs(order=(1, 0)), (DType.bf16,), why="bf16"),
            Sample(((4, 2, 3),), Attrs(order=(1, 2, 0)), (DType.f16,), why="f16"),
        ),
        (SAME_ELEMENTS, Law("each element is at its permuted index", _permutes_axes)),
        {"order": Attr("s64[]", required=True)},
    ),
    _row(
        "StaticReshape",
        _infer_reshape,
        lambda call, src: src.reshape(call.outs[0].shape),
        LayoutOp(lambda attrs, src, dst, at: remap(at, dst, src), lambda attrs, src, dst, at: remap(at, src, dst), inverse=_reshape_back),
        (
            Sample(((2, 5, 12),), _to(2, 5, 3, 4), why="a split: attention heads"),
            Sample(((2, 5, 3, 4),), _to(2, 5, 12), why="a merge"),
            Sample(((4, 6),), _to(8, 3), why="neither divides the other"),
            Sample(((2, 3, 4),), _to(6, -1), why="one dim to be computed"),
            Sample(((2, 3, 4),), _to(0, -1, special_zero=True), why="a dim copied from src"),
            Sample(((3, 1, 17),), _to(1, 3, 17, 1), why="ones appear and disappear"),
            Sample(((5, 7),), _to(35), why="flat"),
            Sample(((1, 1),), _to(), why="to rank 0"),
            Sample(((2, 0, 3),), _to(0, 6), why="no elements: a plain 0 is a size"),
            Sample(((4, 9),), _to(6, 6), (DType.bf16,), why="bf16"),
            Sample(((2, 16),), _to(4, 8), (DType.f16,), why="f16"),
        ),
        (SAME_SEQUENCE,),
        {"shape": Attr("s64[]", required=True), "special_zero": Attr("bool", required=True)},
    ),
    _row(
        REORDER,
        same_shape,
        lambda call, src: src,
        LayoutOp(lambda attrs, src, dst, at: at, lambda attrs, src, dst, at: at),
        (
            Sample(((5, 17),), why="a matrix, with a tail"),
            Sample(((2, 3, 4, 5),), why="rank 4"),
            Sample(((16,),), dtypes=(DType.bf16,), why="bf16"),
            Sample(((3, 3),), dtypes=(DType.f16,), why="f16"),
        ),
        (SAME_SEQUENCE,),
    ),
)
