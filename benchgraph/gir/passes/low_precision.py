"""low-precision: products of quantised or bf16 operands multiply the stored values, and the results are scaled afterwards.

%2 = TypeCast(%0: u8)   %3 = Subtract(%2, za)   %4 = Multiply(%3, sa)        %8: s32 = MatMul(%0, %1)
%5 = TypeCast(%1: s8)   %6 = Multiply(%5, sb[N])                       ->    %9 = Subtract(%8, za * sum of %1 over K)
%7: f32 = MatMul(%4, %6)                                                     %7 = Multiply(TypeCast(%9), sa * sb)

in s16                                                                 ->    %8: s32 = MatMul(TypeCast(%0): s16, TypeCast(%1): s16)

%2 = TypeCast(%0: bf16)   %3 = TypeCast(%1: bf16)   %4: f32 = MatMul(%2, %3)   ->   %4: f32 = MatMul(%0, %1)
few rows: %3 = TypeCast(%1: bf16 or f16)            %4: f32 = MatMul(%2, %3)   ->   %4: f32 = MatMul(%2, %1)
depthwise: %3 = Multiply(TypeCast(%0: u8) - z, s)   %4 = _Depthwise(%3, %1)     ->   %4 = Multiply(_Depthwise(%0, %1) {zero=z}, s)

Scales and zero points may differ from row to row of src and from column to column of wei, not along K. Transpositions, reshapes and padding
between an operand and its product move stored values instead; padding inserts the zero point where that is one known number, else 0.
Convolutions are products of windows too, if the elements that they sum over are adjacent; zero points of their weights would need sums over
windows of src, which nothing computes. A cast to bf16 between scaling and product is left out: its rounding is no part of the result. Dead
ops are removed here, since a second reader in f32 would keep other passes from the operand. ops/quantisation/quantised_product.py has the
arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.compressed_weights import is_one_large_matrix
from benchgraph.gir.gemv import gemv_rows, is_input_for_few_rows, is_streamable
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.passes.dead_op import dead_op
from benchgraph.gir.product import Product, depends_on_product, packs_src, product, stride
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.quantised_product import Quantised, is_exact, multiply
from benchgraph.ops.spatial import beside_channel
from benchgraph.ops.spec import Computes, LayoutOp, Role
from benchgraph.ops.steps import as_dtype, reshaped
from benchgraph.ops.unit_steps import unit_steps
from benchgraph.tir.groups import BYTES, SHORTS, WEI_GROUPS, WIDENED, DTypes

_STORED = (DType.u8, DType.s8)


def low_precision(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    nodes: list[Node] = []
    for op in g.ops:
        if op.lowering.is_contraction:
            result = _narrow_product(g, op, builder, target)
        else:
            result = None if op.lowering.channel_weights is None else _windows_of_stored(g, op, builder)
        if result is not None:
            *before, last = builder.taken()
            nodes += before
            op = replace(last, outs=op.outs)
            del builder.values[result]
        nodes.append(op)
    narrow = builder.graph(g, nodes)
    return g if narrow is g else dead_op(narrow, target)


def _narrow_product(g: Graph, op: Op, d: Builder, target: Target) -> int | None:
    """The result of the product, computed by the builder's nodes, the last of which writes it; None where the product stays."""
    p = product(g, op)
    if not p.reduces_adjacent_dims or has_single_channels(p):
        return None
    src, wei = (_operand(g, v) for v in op.ins)
    if wei.narrow is not None and _is_read_as_stored(g, op, *wei.narrow, target):
        return d.op(op.kind, op.ins[0], _after_layout_ops(g, d, *wei.narrow), attrs=op.attrs, shape=p.call.outs[0].shape, dtype=DType.f32)
    is_plain = p.is_matrix_product
    dtypes = _integers(p, target, is_plain=is_plain)
    if dtypes is not None and is_exact(prod(p.reduced), dtypes) and pays(g, p, src.stored, wei.stored, dtypes[1], target):
        rank = len(p.call.ins[1].shape)
        over = (-2,) if is_plain else tuple(range(-rank, -1))  # windows: a row of dst reads many of src
        a, b = _quantised(g, d, src, (-1,) if is_plain else (*over, -1)), _quantised(g, d, wei, over)
        if a is not None and b is not None and (is_plain or (p.has_one_wei and b.zero is None)):
            return multiply(d, p.call, a, b, over, dtypes)
        d.nodes.clear()
    rows, columns = src.bf16(g), wei.bf16(g)
    if target.multiplies(DType.bf16) and rows is not None and columns is not None and pays(g, p, rows, columns, DType.bf16, target):
        ins = (_after_layout_ops(g, d, *rows), _after_layout_ops(g, d, *columns))
        return d.op(op.kind, *ins, attrs=op.attrs, shape=p.call.outs[0].shape, dtype=DType.f32)
    return None


def _windows_of_stored(g: Graph, op: Op, d: Builder) -> int | None:
    """The same for depthwise convolutions, which read bytes as they are stored, minus a known zero point: exact in f32."""
    data, wei, out = _operand(g, op.ins[0]), _operand(g, op.ins[1]), g.value(op.outs[0])
    zero = 0.0 if data.zero is None else g.value(data.zero[0]).scalar
    one = all(g.value(id).type.elements == 1 and not layout_ops for id, layout_ops in data.scales)
    if data.stored is None or data.stored[1] or zero is None or not one:
        return None
    over = tuple(range(-len(g.value(op.ins[1]).shape), -1))
    weights = _quantised(g, d, wei, over) if wei.zero is None else None
    ins = (data.stored[0], op.ins[1] if weights is None else weights.stored)
    scales = [reshaped(d, id, ()) for id, _ in data.scales]
    for id in () if weights is None else weights.scales:
        scales.append(reshaped(d, id, beside_channel(op.attrs, out.shape)) if d.type(id).shape else id)
    value = d.op(op.kind, *ins, attrs=op.attrs.updated(zero=zero), shape=out.shape, dtype=DType.f32)
    for scale in scales:
        value = d.op("Multiply", value, as_dtype(d, scale, DType.f32))
    return as_dtype(d, value, out.dtype)


def _integers(p: Product, target: Target, *, is_plain: bool) -> DTypes | None:
    """The dtypes of a product of stored bytes: bytes, or s16 that hold them. None where that would take longer than f32. is_plain: rows
    by one matrix. With one column it is a GEMV, which multiplies bytes on every machine that multiplies s16."""
    is_column = is_plain and p.call.outs[0].shape[-1] == 1
    if target.multiplies(DType.u8) or (is_column and target.multiplies(DType.s16)):
        return BYTES
    return SHORTS if target.multiplies(DType.s16) else None


def has_single_channels(p: Product) -> bool:
    """Whether each group of a convolution has one channel, so that the groups of k stay empty: slower than in f32.
    docs/measurements/low-precision.md, Convolutions of single channels."""
    return p.reduced[-1] == 1 and p.columns != p.call.outs[0].shape[-1]


def pays(g: Graph, p: Product, src: Stored, wei: Stored, packed: DType, target: Target) -> bool:
    """Whether narrow dot products save more than it costs to pack groups of k. packed: the dtype that wei is packed in.

    A result of another product of this partition has to be copied if k is not its last dim, while f32 instructions would read it in place.
    Each element is copied for so many columns or rows, and saves them all but one of a group's multiplications. The gradients of keys and
    values have such an operand: their src is stored by columns, and each task packs its rows.
    """

    machine, group = table(target), WEI_GROUPS[packed]

    def costs_more(stored: Stored, uses: int, *, is_wei: bool) -> bool:
        if stored is None:
            return False
        id, layout_ops = stored
        is_packed = not is_wei and packs_src(g.value(id).dtype, target) and _dim_before(g, layout_ops, -2) == -1
        cost = machine.macs_per_packed_element if is_packed else machine.macs_per_converted_element
        return uses * (group - 1) // group <= cost and (_dim_before(g, layout_ops, -1) == -1) == is_wei and depends_on_product(g, id)

    return not (costs_more(src, p.columns, is_wei=False) or costs_more(wei, p.call.outs[0].shape[-2], is_wei=True))


def _is_read_as_stored(g: Graph, op: Op, id: int, layout_ops: LayoutOps, target: Target) -> bool:
    """Whether weights of narrow floats are widened as they are loaded, for a few rows of f32."""
    v, p, machine = g.value(id), product(g, op), table(target)
    is_multiplied = v.dtype is DType.bf16 and target.multiplies(v.dtype)
    if v.is_constant:
        is_slow = v.dtype is DType.f16 and not target.isa.needs  # portable code widens them one by one
        has_few_rows = p.call.outs[0].shape[-2] <= machine.widened_constant_rows
        return has_few_rows and not (is_multiplied or is_slow) and is_one_large_matrix(p, target)
    axes = [None if v.layout.blocks or (dim := _dim_before(g, layout_ops, axis)) is None else len(v.shape) + dim for axis in (-2, -1)]
    down, across = (0 if axis is None else stride(g, id, (v.layout.order.index(axis), 1)) for axis in axes)
    by_columns = down == 1
    size, apart = (p.reduced[-1], across) if by_columns else (p.columns, down)
    if 1 not in (down, across) or not is_streamable(size, apart, v.dtype, machine):
        return False
    most = gemv_rows(p.reduced[-1], machine) if by_columns else machine.widened_rows
    if is_multiplied:
        limits = machine.widened_bf16_rows_from_memory if target.is_far(v.type.nbytes) else machine.widened_bf16_rows
        most = min(most, limits[by_columns])
    return is_input_for_few_rows(g, op, id, most)


def _dim_before(g: Graph, layout_ops: LayoutOps, axis: int) -> int | None:
    """The dim, before these layout ops, along which steps along an axis after them are unit steps; both are negative."""
    for layout_op in layout_ops:
        if _adds_zeros(layout_op):
            continue
        before, after = g.value(layout_op.ins[0]).shape, g.value(layout_op.outs[0]).shape
        dim = unit_steps(layout_op.kind, layout_op.attrs, before, after, inverse=False)[axis]
        if dim is None:
            return None
        axis = dim - len(before)
    return axis


LayoutOps = tuple[Op, ...]  # layout ops between a value and the product, nearest to the product first
Stored = tuple[int, LayoutOps] | None


@dataclass
class _Operand:
    """The sources of an operand. stored: an integer tensor; narrow: a tensor of narrower floats that it is cast from. Each comes with the
    layout ops after it, as do zero points and scales."""

    stored: Stored = None
    narrow: Stored = None
    zero: tuple[int, LayoutOps] | None = None
    scales: tuple[tuple[int, LayoutOps], ...] = ()

    def bf16(self, g: Graph) -> Stored:
        """`narrow` if its dtype is bf16."""
        return self.narrow if self.narrow is not None and g.value(self.narrow[0]).dtype is DType.bf16 else None


def _operand(g: Graph, id: int) -> _Operand:
    """Trace an operand of a product back through layout ops, casts, scalings and one shift."""
    operand, layout_ops = _Operand(), tuple[Op, ...]()
    while isinstance(maker := g.producer.get(id), Op):
        value = g.value(id)
        if maker.lowering.role is Role.layout_op and len(maker.ins) == 1:
            layout_ops += (maker,)
        elif maker.semantics.is_product and operand.zero is None and value.dtype.is_float and _broadcasts(g, maker):
            operand.scales += ((maker.ins[1], layout_ops),)
        elif maker.semantics.computes is Computes.difference and operand.zero is None and value.dtype.is_float and _broadcasts(g, maker):
            operand.zero = maker.ins[1], layout_ops
        elif maker.semantics.is_conversion and maker.lowering.is_elementwise:
            src = g.value(maker.ins[0]).dtype
            if src in _STORED and value.dtype.is_float:
                operand.stored = maker.ins[0], layout_ops
                return operand
            is_first = not operand.scales and operand.zero is None and operand.narrow is None
            if src in WIDENED and is_first:
                operand.narrow = maker.ins[0], layout_ops
            elif not (src.is_float and value.dtype.is_float):
                return operand
        else:
            return operand
        id = maker.ins[0]
    return operand


def _broadcasts(g: Graph, op: Op) -> bool:
    """Whether the first operand has the shape of the result."""
    return g.value(op.ins[0]).shape == g.value(op.outs[0]).shape


def _quantised(g: Graph, d: Builder, operand: _Operand, over: tuple[int, ...]) -> Quantised | None:
    """A quantised operand, None if it is not one. over: the (negative) axes that are summed over. Builds nothing for None."""
    if operand.stored is None:
        return None
    factors = [*operand.scales, *((operand.zero,) if operand.zero is not None else ())]
    shapes = [_shape_of_factor(g, *factor) for factor in factors]
    if any(shape is None or any(len(shape) >= -k and shape[k] != 1 for k in over) for shape in shapes):
        return None
    ones, padding = None, 0
    if operand.zero is not None and any(map(_adds_zeros, operand.zero[1])):
        padding = _as_stored(g, operand)
        ones = None if padding else _ones(g, d, operand.zero[1])
        if not padding and ones is None:
            return None
    values = [reshaped(d, id, shape) for (id, _), shape in zip(factors, shapes, strict=True) if shape is not None]
    scales = tuple(values[: len(operand.scales)])
    stored = _after_layout_ops(g, d, *operand.stored, () if operand.zero is None else operand.zero[1], padding)
    return Quantised(stored, values[-1] if operand.zero is not None else None, scales, ones)


def _as_stored(g: Graph, operand: _Operand) -> int:
    """The zero point of an operand, if it is known and its dtype can hold it; else 0."""
    assert operand.stored is not None
    assert operand.zero is not None
    number, (least, most) = g.value(operand.zero[0]).scalar, g.value(operand.stored[0]).dtype.range
    return int(number) if number is not None and number.is_integer() and least <= number <= most else 0


def _ones(g: Graph, d: Builder, layout_ops: LayoutOps) -> int | None:
    """One batch entry of ones after the layout ops; None where these change batch entries."""
    counts = {g.value(v).shape[:1] for layout_op in layout_ops for v in (layout_op.ins[0], layout_op.outs[0])}
    if len(counts) > 1 or not all(_adds_zeros(layout_op) or _permutes(g, layout_op) for layout_op in layout_ops):
        return None
    first = g.value(layout_ops[-1].ins[0]).shape
    id = d.const(np.ones((1, *first[1:]), np.uint8), DType.u8)
    for layout_op in reversed(layout_ops):
        shape = layout_op.attrs.integers("shape")  # of an op that pads, which names all batch entries
        id = d.op(layout_op.kind, id, attrs=layout_op.attrs.updated(shape=(1, *shape[1:])) if shape else layout_op.attrs)
    return id if d.type(id).shape == (1, *g.value(layout_ops[0].outs[0]).shape[1:]) else None


def _permutes(g: Graph, layout_op: Op) -> bool:
    """Whether a layout op permutes dims other than the first."""
    before, after = g.value(layout_op.ins[0]).shape, g.value(layout_op.outs[0]).shape
    steps = unit_steps(layout_op.kind, layout_op.attrs, before, after, inverse=False)
    return steps[:1] == (0,) and set(steps) == set(range(len(before)))


def _adds_zeros(layout_op: Op) -> bool:
    """Whether an op inserts zeros: plain zeros, not zero points."""
    return not isinstance(layout_op.lowering.form, LayoutOp)


def _after_layout_ops(g: Graph, d: Builder, id: int, layout_ops: LayoutOps, shifted: LayoutOps = (), padding: int = 0) -> int:
    """A stored value after the layout ops of its operand. shifted: those after the zero point, which insert `padding` in place of zeros."""
    for layout_op in reversed(layout_ops):
        attrs = layout_op.attrs.updated(value=padding) if padding and layout_op in shifted and _adds_zeros(layout_op) else layout_op.attrs
        id = d.op(layout_op.kind, id, attrs=attrs, shape=g.value(layout_op.outs[0]).shape)
    return id


def _shape_of_factor(g: Graph, id: int, layout_ops: LayoutOps) -> Shape | None:
    """The shape in which a factor broadcasts against the operand after the layout ops; None where no reshape does that: for a factor of
    more than one dim, or along a dim that these split."""
    shape = g.value(id).shape
    long = [axis - len(shape) for axis, extent in enumerate(shape) if extent != 1]
    if not long or not layout_ops:
        return shape if long else ()
    if len(long) > 1 or any(map(_adds_zeros, layout_ops)):
        return None
    extent = shape[long[0]]
    for layout_op in reversed(layout_ops):
        before, after = g.value(layout_op.ins[0]).shape, g.value(layout_op.outs[0]).shape
        steps = unit_steps(layout_op.kind, layout_op.attrs, before, after, inverse=False)
        at = [axis for axis, dim in enumerate(steps) if dim == len(before) + long[0] and after[axis] == extent]
        if len(at) != 1:
            return None
        long = [at[0] - len(after)]
    return (extent,) + (1,) * (-long[0] - 1)
