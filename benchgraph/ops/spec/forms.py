"""The forms of computation that the compiler lowers. An op without a form is decomposed into ops that have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.spec.call import Call
from benchgraph.tir.ir import BinOp, Const, Expr

Indices: TypeAlias = tuple[Expr, ...]
Source: TypeAlias = Callable[[int, Indices], Expr]  # (port, index) -> that element of an input, as Elementwise operands arrive
Interval: TypeAlias = tuple[int, int]  # the first index and the one after the last
Box: TypeAlias = tuple[Interval, ...]  # per axis
Border: TypeAlias = tuple[tuple[int, int], ...]  # per dim: its width in indices at the begin and at the end


@dataclass(frozen=True)
class Elementwise:
    """dst[i] = expr(attrs, src_0[i], src_1[i], ...) with numpy broadcasting; a tuple for several outputs, all of one shape.

    Operands arrive as f32 when they are floats of any width, else in their own dtype; the result is cast to dst's dtype. An expression
    that is used twice is computed once.
    position: for an op whose result depends on the index. position(attrs, dst_shape, i) gives s64 expressions of the index i, which expr
    gets after the operands.
    """

    expr: Callable[[Attrs, tuple[Expr, ...]], Expr | tuple[Expr, ...]]
    position: Callable[[Attrs, Shape, Indices], tuple[Expr, ...]] | None = None

    def values(self, attrs: Attrs, shape: Shape, at: Indices, operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The element at index `at` of every output; `shape` is theirs."""
        position = () if self.position is None else self.position(attrs, shape, at)
        result = self.expr(attrs, (*operands, *position))
        return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True)
class Reduction:
    """dst = src reduced over attrs' axes with `op` in `acc`, starting from init, then finish(count, acc in f32)."""

    op: BinOp
    init: float
    finish: Callable[[int, Expr], Expr] | None = None
    acc: DType = DType.f32

    @property
    def start(self) -> Const:
        return Const(self.init if self.acc.is_float else int(self.init), self.acc)


@dataclass(frozen=True)
class Contraction:
    """The batch-reduce GEMM template: dst[..., m, n] = sum over reduced axes of src[...] * wei[...]. f32 operands, dst of rank >= 2.

    reduced(call): the extents of the reduced axes; the last one is the microkernel's k, the others are its batch.
    index(call, at, over): the index of src and of wei for the index `at` of dst and `over` of the reduced axes, affine in both. src may
    depend on the column n only by n // group_columns(call): that many columns read the same elements of src (a convolution's groups).
    nonzero(call, first, count): the box of the batch axes outside of which wei is 0 for these columns; None: it is never 0 by structure.
    """

    reduced: Callable[[Call], Shape]
    index: Callable[[Call, Indices, Indices], tuple[Indices, Indices]]
    group_columns: Callable[[Call], int]
    nonzero: Callable[[Call, int, int], Box] | None = None


@dataclass(frozen=True)
class LayoutOp:
    """dst holds the elements of src at other indices.

    source(attrs, src_shape, dst_shape, dst_index): the src index of the element at dst_index.
    target(attrs, src_shape, dst_shape, src_index): the inverse; None when some elements of src are not in dst. Both are affine, or div/mod
    of affine, in the indices.
    parts: for an op of several sources, each of which fills a part of dst. parts(attrs, src_shapes) gives for each source the attributes
    with which source and target describe its part.
    inverse(attrs, src_shape, dst_shape, shape): the attributes with which the same op moves an operand of dst back to src; the operand's
    `shape` has dst's dims, or 1 where it broadcasts. None where it cannot.
    """

    source: Callable[[Attrs, Shape, Shape, Indices], Indices]
    target: Callable[[Attrs, Shape, Shape, Indices], Indices] | None = None
    parts: Callable[[Attrs, tuple[Shape, ...]], tuple[Attrs, ...]] | None = None
    inverse: Callable[[Attrs, Shape, Shape, Shape], Attrs | None] | None = None


@dataclass(frozen=True)
class Tap:
    """What one tap adds to the reduction. conditions: comparisons of indices; value is computed only where all of them hold."""

    value: Expr
    conditions: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Window:
    """dst[i] = finish(call, i, reduction with `op` of tap(call, i, t, src) over the taps t that count, starting from `init`), all in f32.

    op None: there is one tap, and where it counts it is the result. init: a number, or a function of the call.

    taps(call): the extents of the box of taps: kernel positions, the windows that cover an element, interpolation corners.
    unclamped(call, i, t, src, axis): for taps without conditions whose indices are clamped to src: the same tap with unclamped indices
    along this axis of dst, under the conditions that they are in src. All taps of the box count.
    channel_weights: the port of weights that all elements of a channel share; their last axis is that of the channels.
    padding(call): for taps whose only conditions are that their element of the first input exists: a padding value that adds nothing.

    Conditions that are linear in i and t let borders be separated from the interior, which then compares nothing: prefer them.
    """

    taps: Callable[[Call], Shape]
    op: BinOp | None
    init: float | Callable[[Call], float]
    tap: Callable[[Call, Indices, Indices, Source], Tap]
    finish: Callable[[Call, Indices, Expr], Expr] | None = None
    unclamped: Callable[[Call, Indices, Indices, Source, int], Tap] | None = None
    channel_weights: int | None = None
    padding: Callable[[Call], float | None] | None = None

    def start(self, call: Call) -> float:
        """`init` of this call."""
        return self.init(call) if callable(self.init) else self.init


Form: TypeAlias = Elementwise | Reduction | Contraction | LayoutOp | Window
