"""Internal ops, which decompositions use. Their kinds begin with '_'; graphs of users may not contain them.

_Pad    src in a larger tensor of one value: in front of it, behind it, and between its elements
_Crop   a box of src
_Flip   src with some of its axes reversed
_Unfold the windows along the last axis but one, copied (im2col): [.., X, C] -> [.., windows, taps, C]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.fill_rules import filling
from benchgraph.ops.laws import SAME_ELEMENTS
from benchgraph.ops.spec import Attr, Decomposer, Infer, Law, Lowering, OpSpec, Reference, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.spec.forms import Border, Form, Indices, LayoutOp, Source, Tap, Window
from benchgraph.ops.steps import reshaped
from benchgraph.tir.build import add, binary, floordiv, mod, mul, sub
from benchgraph.tir.ir import BinOp, Const, Expr


def _infer_pad(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    lists = (attrs.integers(name) for name in ("low", "high", "interior"))
    dims = zip(ins[0].shape, *lists, strict=True)
    return (tuple(low + (size + (size - 1) * gap if size else 0) + high for size, low, high, gap in dims),)


def _pad(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    dst = np.full(call.outs[0].shape, call.attrs.integer("value"), ins[0].dtype)
    steps = zip(call.attrs.integers("low"), call.attrs.integers("interior"), call.ins[0].shape, strict=True)
    dst[tuple(slice(low, low + (size - 1) * (gap + 1) + 1 if size else low, gap + 1) for low, gap, size in steps)] = ins[0]
    return (dst,)


def _padded_element(call: Call, at: Indices, tap: Indices, src: Source) -> Tap:
    """src's element, where there is one."""
    index: list[Expr] = []
    when: list[Expr] = []
    lists = (call.attrs.integers(name) for name in ("low", "interior"))
    for i, low, gap, have, size in zip(at, *lists, call.ins[0].shape, call.outs[0].shape, strict=True):
        last, offset = low + (have - 1) * (gap + 1), sub(i, low)
        when += [binary(BinOp.ge, i, Const(low))] if low else []
        when += [binary(BinOp.le, i, Const(last))] if last < size - 1 else []
        when += [binary(BinOp.eq, mod(offset, gap + 1), Const(0))] if gap else []
        index.append(floordiv(offset, gap + 1))
    return Tap(src(0, tuple(index)), tuple(when))


def _border(attrs: Attrs) -> Border:
    return tuple((0, 0) if attrs.integer("value") else side for side in zip(attrs.integers("low"), attrs.integers("high"), strict=True))


def _is_src_and_one_value(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst, value = np.ravel(ins[0]), np.ravel(outs[0]), call.attrs.integer("value")
    return bool(np.array_equal(src[src != value], dst[dst != value]))


def _infer_crop(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    box = tuple(zip(attrs.integers("start"), attrs.integers("shape"), ins[0].shape, strict=True))
    if any(start < 0 or start + size > extent for start, size, extent in box):
        raise InvalidShape(f"a box of {attrs.integers('shape')} from {attrs.integers('start')} is not inside {ins[0].shape}")
    return (attrs.integers("shape"),)


def _crop(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    box = zip(call.attrs.integers("start"), call.attrs.integers("shape"), strict=True)
    return (ins[0][tuple(slice(start, start + size) for start, size in box)],)


def _flip_source(attrs: Attrs, src: Shape, dst: Shape, at: Indices) -> Indices:
    axes = attrs.integers("axes")
    return tuple(sub(size - 1, i) if axis in axes else i for axis, (i, size) in enumerate(zip(at, src, strict=True)))


def _infer_unfold(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    *outer, size, inner = ins[0].shape
    stride, dilation, taps = attrs.integers("steps")
    return ((*outer, (size - (taps - 1) * dilation - 1) // stride + 1, taps, inner),)


def _unfold(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    stride, dilation, _ = call.attrs.integers("steps")
    *_, windows, taps, _ = call.outs[0].shape
    return (ins[0][..., np.arange(windows)[:, None] * stride + np.arange(taps) * dilation, :],)


def _unfold_source(attrs: Attrs, src: Shape, dst: Shape, at: Indices) -> Indices:
    stride, dilation, _ = attrs.integers("steps")
    *outer, o, t, inner = at
    return (*outer, add(mul(o, stride), mul(t, dilation)), inner)


def _row(
    kind: str,
    infer: Infer,
    reference: Reference,
    form: Form,
    attrs: tuple[str, ...],
    samples: tuple[Sample, ...],
    law: Law,
    more: Mapping[str, Attr] = MappingProxyType({}),
    border: Callable[[Attrs], Border] | None = None,
) -> OpSpec:
    return OpSpec(
        kind,
        Schema(
            inputs=ports("src:any"),
            outputs=ports("dst:any"),
            types={},
            attrs={**{name: Attr("s64[]", required=True) for name in attrs}, **more},
        ),
        Semantics(infer=infer, reference=reference, flops=lambda call: 0, zero_border=border),
        Testing(fill=filling.MOVED, samples=samples, laws=(law,), zero_limit=lambda call: 1.0),
        Lowering(Role.layout_op, form=form),
    )


PAD = "_Pad"


def pad_attrs(low: Shape, high: Shape, interior: Shape | None = None, value: int = 0) -> Attrs:
    return Attrs(low=low, high=high, interior=interior or (0,) * len(low), value=value)


def zeros(d: Decomposer, like: int, shape: Shape) -> int:
    """Zeros of this shape, of a value's dtype: padding around none of its elements."""
    none = (0,) * len(d.type(like).shape)
    nothing = d.op("_Crop", like, attrs=Attrs(start=none, shape=none))
    return d.op("_Pad", reshaped(d, nothing, (0,) * len(shape)), attrs=pad_attrs(shape, (0,) * len(shape)))


_PART_OF_SRC = Law("every element is one of src's", lambda call, ins, outs, rtol: bool(np.isin(outs[0], ins[0]).all()))

SPECS = (
    _row(
        "_Pad",
        _infer_pad,
        _pad,
        Window(taps=lambda call: (), op=None, init=lambda call: call.attrs.integer("value"), tap=_padded_element),
        ("low", "high", "interior"),
        (
            Sample(((2, 5, 7, 3),), pad_attrs((0, 1, 1, 0), (0, 1, 2, 0)), why="a 2-d source, channels last"),
            Sample(((2, 3, 5, 17),), pad_attrs((0, 0, 2, 0), (0, 0, 0, 3)), why="channels first, begin and end differ, a tail"),
            Sample(((3, 2, 4),), pad_attrs((0, 1, 0), (0, 0, 0), (1, 2, 0)), why="gaps between the elements"),
            Sample(((5,),), pad_attrs((3,), (0,), (2,)), why="rank 1"),
            Sample(((4, 6),), pad_attrs((0, 0), (1, 0)), why="one axis only"),
            Sample(((2, 0, 3),), pad_attrs((0, 1, 1), (0, 1, 0)), why="no elements, only padding"),
            Sample(((2, 5, 3),), pad_attrs((0, 1, 0), (0, 1, 0)), (DType.bf16,), why="bf16"),
            Sample(((2, 3, 5, 17),), pad_attrs((0, 1, 2, 0), (0, 0, 1, 0)), (DType.u8,), why="u8, a tail"),
            Sample(((3, 2, 21),), pad_attrs((0, 1, 0), (0, 0, 3), (1, 0, 0)), (DType.s8,), why="s8, gaps between the elements"),
            Sample(((2, 4, 20, 3),), pad_attrs((0, 1, 1, 0), (0, 1, 1, 0)), (DType.bf16,), (DType.f32,), "bf16 in, f32 out"),
            Sample(((64, 40, 3, 17),), pad_attrs((0, 1, 0, 0), (0, 0, 1, 0)), why="enough for several threads"),
            Sample(((2, 3, 5, 17),), pad_attrs((0, 0, 2, 1), (0, 0, 1, 3), value=7), (DType.u8,), why="another value than zero"),
            Sample(((2, 5, 3, 20),), pad_attrs((0, 1, 0, 0), (0, 1, 0, 0), (0, 1, 0, 0), -3), (DType.s8,), why="the same in gaps"),
        ),
        Law("but for the padding's value, dst has the elements of src in their order", _is_src_and_one_value),
        {"value": Attr("s64", default=0)},
        _border,
    ),
    _row(
        "_Crop",
        _infer_crop,
        _crop,
        LayoutOp(lambda attrs, src, dst, at: tuple(map(add, at, attrs.integers("start")))),
        ("start", "shape"),
        (
            Sample(((3, 5, 7),), Attrs(start=(0, 1, 2), shape=(3, 3, 4)), why="a box inside"),
            Sample(((4, 33),), Attrs(start=(1, 16), shape=(2, 17)), why="a tail"),
            Sample(((4, 4),), Attrs(start=(2, 2), shape=(0, 1)), why="nothing"),
        ),
        _PART_OF_SRC,
    ),
    _row(
        "_Flip",
        lambda attrs, ins: (ins[0].shape,),
        lambda call, ins: (np.flip(ins[0], call.attrs.integers("axes")),),
        LayoutOp(_flip_source, _flip_source),
        ("axes",),
        (
            Sample(((3, 5, 4),), Attrs(axes=(0, 1)), why="two axes, the last stays"),
            Sample(((2, 19),), Attrs(axes=(1,)), why="the last axis"),
            Sample(((7, 1),), Attrs(axes=()), why="none"),
        ),
        SAME_ELEMENTS,
    ),
    _row(
        "_Unfold",
        _infer_unfold,
        _unfold,
        LayoutOp(_unfold_source),
        ("steps",),
        (
            Sample(((2, 4, 9, 3),), Attrs(steps=(1, 1, 3)), why="windows that overlap"),
            Sample(((2, 14, 1),), Attrs(steps=(2, 3, 3)), why="one channel; stride, dilation, and an end that no window reads"),
            Sample(((11, 17),), Attrs(steps=(4, 1, 2)), why="windows apart, a tail"),
        ),
        _PART_OF_SRC,
    ),
)
