"""Quantised operands.

    MatMul(Dequantize(%src: u8), StaticTranspose(Dequantize(%wei: s8)))
    -> %src, %wei: MatMul's test data for u8 and s8: sums of few products

Likewise before convolutions, pools and binary ops; 8-bit floats only before products. Integers are relative to the Dequantize's zero point.
A product's operand that is only moved gets the product's data too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Call, Filling, Role
from benchgraph.reference.displace.rule import Displaced, Source, dequantises, is_wide_float, source

OPERANDS = 2  # a product's; its bias is f32


def find(graph: Graph) -> Iterator[Displaced]:
    for op in graph.order:
        if not spec(op.kind).testing.fills_quantised:
            continue
        sources = [source(graph, t) for t in op.inputs]
        call = quantised_call(op, sources)
        for port, origin in enumerate(sources):
            if origin is not None and _is_claimed(op, origin):
                yield Displaced(origin.tensor.id, _from_zero_point(spec(op.kind).testing.fill(call, port), origin))


def _is_claimed(op: Op, origin: Source) -> bool:
    is_anchor = spec(op.kind).lowering.role is Role.anchor
    if not origin.is_dequantised:
        return is_anchor and bool(origin.path) and all(spec(o.kind).lowering.role is Role.layout_op for o in origin.path)
    return not is_wide_float(origin.tensor) and (origin.tensor.dtype.is_integer or is_anchor)


def quantised_call(op: Op, sources: list[Source | None]) -> Call:
    """The call with the quantised types of its operands; dst is u8 if both operands are integers."""
    call = op.call
    ins = tuple(
        TensorType(s.tensor.dtype, t.shape) if s is not None and s.is_dequantised else t for s, t in zip(sources, call.ins, strict=True)
    )
    is_integer = len(ins) >= OPERANDS and all(t.dtype.is_integer and t.dtype.bits == 8 for t in ins[:OPERANDS])
    outs = tuple(TensorType(DType.u8, t.shape) for t in call.outs) if is_integer else call.outs
    return replace(call, ins=ins, outs=outs)


def _from_zero_point(filling: Filling, origin: Source) -> Filling:
    """The filling plus the zero point that the reading op subtracts, clipped to the type's range."""
    reader, t = origin.path[-1] if origin.path else None, origin.tensor
    if reader is None or not dequantises(reader) or not t.dtype.is_integer:
        return filling
    call = reader.call
    if not any(call.attrs.reals("zps")):
        return filling

    def make(made: TensorType, noise: Noise) -> Array:
        at_0, at_1 = (np.float64(spec(call.kind).semantics.reference(call, (np.full(made.shape, n, made.dtype.numpy),))[0]) for n in (0, 1))
        zero = np.rint(-at_0 / (at_1 - at_0))  # the op is affine: its zero point follows from two of its results
        return np.asarray(np.clip(filling.make(made, noise) + zero, *made.dtype.range).astype(made.dtype.numpy))

    return Filling(f"{filling.description}, from the zero point on", make)
