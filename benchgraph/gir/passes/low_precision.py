"""low-precision: products of quantised or bf16 operands multiply the stored values, and the results are scaled afterwards.

Scales and zero points may differ from row to row of src and from column to column of wei, not along K. Transpositions, reshapes and padding
between an operand and its product move stored values instead; padding inserts the zero point, which must be one known number then.
Convolutions are products of windows too, if the elements that they sum over are adjacent; zero points of their weights would need sums over
windows of src, which nothing computes. A cast to bf16 between scaling and product is left out: its rounding is no part of the result.
ops/quantisation/quantised_product.py has the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.gir.channel_order import product_writes_along
from benchgraph.gir.gemv import is_input_for_rows, is_streamable, pays_as_dots
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.packed_blocks import is_one_large_matrix
from benchgraph.gir.product import Product, depends_on_product, packs_src, product, stride
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.gir.views import source_dims
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.quantised_product import Quantised, is_exact, multiply
from benchgraph.ops.spatial import beside_channel
from benchgraph.ops.spec import Computes, LayoutOp, OpSpec, Role
from benchgraph.ops.steps import as_dtype, reshaped
from benchgraph.schedule.limits import converted_macs, widened_rows, widens_constants
from benchgraph.tir.groups import BYTES, SHORTS, WEI_GROUPS, WIDENED, DTypes

_STORED = (DType.u8, DType.s8)


def low_precision(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, WIDENED_BY_PRODUCT, OF_INTEGERS, OF_BF16, WINDOWS)


def _is_contraction(row: OpSpec) -> bool:
    return row.lowering.is_contraction


def _of_stored_weights(s: Site) -> int | None:
    """Weights of narrow floats, which few rows widen as they load them."""
    wei = _operand(s.g, s.op.ins[1]).narrow
    if wei is None or not _can_be_narrow(product(s.g, s.op)) or not _is_read_as_stored(s.g, s.op, *wei, s.target):
        return None
    return s.like(s.op, s.op.ins[0], _after_layout_ops(s, *wei))


WIDENED_BY_PRODUCT = Pattern(
    root=_is_contraction,
    build=_of_stored_weights,
    example="""graph(%0: f32[2,64], %1: f16[64,64]) {
      %2: f32[64,64] = TypeCast(%1)    %3: f32[2,64] = MatMul(%0, %2)
      ->
      %3: f32[2,64] = MatMul(%0, %1)
      return %3 }""",
    near_misses=(("f16", "f8_e5m2"), ("[2,64]", "[64,64]")),
)


def _of_integers(s: Site) -> int | None:
    p, (src, wei) = product(s.g, s.op), (_operand(s.g, v) for v in s.op.ins)
    dtypes = _integers(p, s.target) if _can_be_narrow(p) else None
    if dtypes is None or not is_exact(prod(p.reduced), dtypes) or not pays(s.g, p, src.stored, wei.stored, dtypes[1], s.target):
        return None
    over = (-2,) if p.is_matrix_product else tuple(range(-len(p.call.ins[1].shape), -1))
    along = (-1,) if p.is_matrix_product else (*over, -1)  # windows: a row of dst reads many of src
    a, b = _quantised(s, src, along), _quantised(s, wei, over)
    if a is None or b is None or not (p.is_matrix_product or (p.has_one_wei and b.zero is None)):
        return None
    return multiply(s.d, p.call, a, b, over, dtypes)


OF_INTEGERS = Pattern(
    root=_is_contraction,
    build=_of_integers,
    example="""graph(%0: u8[64,32], %1: s8[32,48], %2: s32[], %3: f32[], %4: f32[48]) {
      %5: f32[64,32] = TypeCast(%0)    %6: f32[] = TypeCast(%2)
      %7: f32[64,32] = Subtract(%5, %6)    %8: f32[64,32] = Multiply(%7, %3)
      %9: f32[32,48] = TypeCast(%1)    %10: f32[32,48] = Multiply(%9, %4)
      %11: f32[64,48] = MatMul(%8, %10)
      ->
      %6: f32[] = TypeCast(%2)         %14: s32[] = TypeCast(%6)
      %15: s32[64,48] = MatMul(%0, %1)
      %16: s32[1,48] = _Total(%1) {axes=[0], keep_dims=true}    %17: s32[1,48] = Multiply(%16, %14)
      %18: s32[64,48] = Subtract(%15, %17)    %19: f32[64,48] = TypeCast(%18)
      %20: f32[48] = Multiply(%3, %4)
      %11: f32[64,48] = Multiply(%19, %20)
      return %11 }""",
    near_misses=(("%4: f32[48]", "%4: f32[32,1]"), ("u8", "s32")),
    error=2**-20,
)


def _of_bf16(s: Site) -> int | None:
    p, (src, wei) = product(s.g, s.op), (_operand(s.g, v).narrow for v in s.op.ins)
    if src is None or wei is None or {s.d.type(src[0]).dtype, s.d.type(wei[0]).dtype} != {DType.bf16}:
        return None
    if not (s.target.multiplies(DType.bf16) and _can_be_narrow(p) and pays(s.g, p, src, wei, DType.bf16, s.target)):
        return None
    return s.like(s.op, _after_layout_ops(s, *src), _after_layout_ops(s, *wei))


OF_BF16 = Pattern(
    root=_is_contraction,
    build=_of_bf16,
    example="""graph(%0: bf16[64,64], %1: bf16[64,64]) {
      %2: f32[64,64] = TypeCast(%0)    %3: f32[64,64] = TypeCast(%1)    %4: f32[64,64] = MatMul(%2, %3)
      ->
      %4: f32[64,64] = MatMul(%0, %1)
      return %4 }""",
    near_misses=(("%0: bf16", "%0: f16"),),
)


def _of_stored_bytes(s: Site) -> int | None:
    """Depthwise convolutions read bytes as they are stored, minus a known zero point: exact in f32."""
    data, wei, out = _operand(s.g, s.op.ins[0]), _operand(s.g, s.op.ins[1]), s.call.outs[0]
    zero = 0.0 if data.zero is None else s.g.value(data.zero[0]).scalar
    one = all(s.d.type(id).elements == 1 and not layout_ops for id, layout_ops in data.scales)
    if data.stored is None or data.stored[1] or zero is None or not one:
        return None
    over = tuple(range(-len(s.call.ins[1].shape), -1))
    weights = _quantised(s, wei, over) if wei.zero is None else None
    ins = (data.stored[0], s.op.ins[1] if weights is None else weights.stored)
    scales = [reshaped(s.d, id, ()) for id, _ in data.scales]
    for id in () if weights is None else weights.scales:
        scales.append(reshaped(s.d, id, beside_channel(s.op.attrs, out.shape)) if s.d.type(id).shape else id)
    value = s.d.op(s.op.kind, *ins, attrs=s.op.attrs.updated(zero=zero), shape=out.shape, dtype=DType.f32)
    for scale in scales:
        value = s.d.op("Multiply", value, as_dtype(s.d, scale, DType.f32))
    return as_dtype(s.d, value, out.dtype)


WINDOWS = Pattern(
    root=lambda row: row.lowering.channel_weights is not None,
    build=_of_stored_bytes,
    example="""graph(%0: u8[1,6,6,16], %1: f32[3,3,1,16], %2: f32[]) {
      %3: f32[1,6,6,16] = TypeCast(%0)    %4: f32[] = const 3.0
      %5: f32[1,6,6,16] = Subtract(%3, %4)    %6: f32[1,6,6,16] = Multiply(%5, %2)
      %7: f32[1,4,4,16] = _Depthwise(%6, %1) {strides=[1,1], pads_begin=[0,0], pads_end=[0,0], dilations=[1,1], groups=16}
      ->
      %8: f32[1,4,4,16] = _Depthwise(%0, %1) {strides=[1,1], pads_begin=[0,0], pads_end=[0,0], dilations=[1,1], groups=16, zero=3.0}
      %7: f32[1,4,4,16] = Multiply(%8, %2)
      return %7 }""",
    near_misses=(("%2: f32[]", "%2: f32[16]"),),
    error=2**-20,
)


def _can_be_narrow(p: Product) -> bool:
    return p.reduces_adjacent_dims and not has_single_channels(p)


def _integers(p: Product, target: Target) -> DTypes | None:
    """The dtypes of a product of stored bytes: bytes, or s16 that hold them. None where that would take longer than f32. With one column,
    rows by one matrix are a GEMV, which multiplies bytes on every machine that multiplies s16."""
    is_column = p.is_matrix_product and p.call.outs[0].shape[-1] == 1
    if target.multiplies(DType.u8) or (is_column and target.multiplies(DType.s16)):
        return BYTES
    return SHORTS if target.multiplies(DType.s16) else None


def has_single_channels(p: Product) -> bool:
    """Whether each group of a convolution has one channel, so that the groups of k stay empty: slower than in f32.
    docs/measurements/low-precision.md, Convolutions of single channels."""
    return p.reduced[-1] == 1 and p.columns != p.call.outs[0].shape[-1]


def pays(g: Graph, p: Product, src: Stored, wei: Stored, packed: DType, target: Target) -> bool:
    """Whether narrow dot products save more than it costs to pack groups of k. packed: the dtype that wei is packed in.

    A result of another product of this partition has to be copied if k is not its last dim, nor the one that this product writes along, as
    channels that come first, while f32 instructions would read it in place.
    Each element is copied for so many columns or rows, and saves them all but one of a group's multiplications. The gradients of keys and
    values have such an operand: their src is stored by columns, and each task packs its rows.
    """
    group = WEI_GROUPS[packed]

    def costs_more(stored: Stored, uses: int, *, is_wei: bool) -> bool:
        if stored is None:
            return False
        id, layout_ops = stored
        is_packed = not is_wei and packs_src(g.value(id).dtype, target) and _dim_before(g, layout_ops, -2) == -1
        if uses * (group - 1) // group > converted_macs(1, target, packs=is_packed) or not depends_on_product(g, id):
            return False
        dim = _dim_before(g, layout_ops, -1)
        is_along_memory = dim == -1 or (dim is not None and product_writes_along(g, id, len(g.value(id).shape) + dim))
        return is_along_memory == is_wei

    return not (costs_more(src, p.columns, is_wei=False) or costs_more(wei, p.call.outs[0].shape[-2], is_wei=True))


def _is_read_as_stored(g: Graph, op: Op, id: int, layout_ops: LayoutOps, target: Target) -> bool:
    """Whether weights of narrow floats are widened as they are loaded, for a few rows of f32."""
    v, p = g.value(id), product(g, op)
    is_multiplied = v.dtype is DType.bf16 and target.multiplies(v.dtype)
    if v.is_constant:
        is_slow = v.dtype is DType.f16 and not target.isa.needs  # portable code widens them one by one
        return widens_constants(p.call.outs[0].shape[-2], target) and not (is_multiplied or is_slow) and is_one_large_matrix(p, target)
    axes = [None if v.layout.blocks or (dim := _dim_before(g, layout_ops, axis)) is None else len(v.shape) + dim for axis in (-2, -1)]
    down, across = (0 if axis is None else stride(g, id, (v.layout.order.index(axis), 1)) for axis in axes)
    by_columns = down == 1
    size, apart = (p.reduced[-1], across) if by_columns else (p.columns, down)
    if 1 not in (down, across) or not is_streamable(size, apart, v.dtype):
        return False
    if by_columns and p.call.outs[0].shape[-1] > 1 and not pays_as_dots(p, v.dtype, target):
        return False
    most = widened_rows(v.type.nbytes, target, is_multiplied=is_multiplied, by_columns=by_columns)
    return p.call.outs[0].shape[-2] <= most and is_input_for_rows(g, op, id)


def _dim_before(g: Graph, layout_ops: LayoutOps, axis: int) -> int | None:
    """The dim, before these layout ops, along which steps along an axis after them are unit steps; both are negative."""
    for layout_op in layout_ops:
        if _adds_zeros(layout_op):
            continue
        dim = source_dims(g, layout_op)[axis]
        if dim is None:
            return None
        axis = dim - len(g.value(layout_op.ins[0]).shape)
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


def _operand(g: Graph, id: int) -> _Operand:
    """Trace an operand of a product back through layout ops, casts, scalings and one shift."""
    operand, layout_ops = _Operand(), tuple[Op, ...]()
    while (maker := g.maker(id)) is not None:
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


def _quantised(s: Site, operand: _Operand, over: tuple[int, ...]) -> Quantised | None:
    """A quantised operand, None if it is not one. over: the (negative) axes that are summed over. Builds nothing for None."""
    if operand.stored is None:
        return None
    factors = [*operand.scales, *((operand.zero,) if operand.zero is not None else ())]
    shapes = [_shape_of_factor(s.g, *factor) for factor in factors]
    if any(shape is None or any(len(shape) >= -k and shape[k] != 1 for k in over) for shape in shapes):
        return None
    is_padded = operand.zero is not None and any(map(_adds_zeros, operand.zero[1]))
    padding = _zero_as_stored(s.g, operand) if is_padded else 0
    if padding is None:
        return None
    values = [reshaped(s.d, id, shape) for (id, _), shape in zip(factors, shapes, strict=True) if shape is not None]
    scales = tuple(values[: len(operand.scales)])
    stored = _after_layout_ops(s, *operand.stored, () if operand.zero is None else operand.zero[1], padding)
    return Quantised(stored, values[-1] if operand.zero is not None else None, scales)


def _zero_as_stored(g: Graph, operand: _Operand) -> int | None:
    """The zero point of an operand, if it is known and its dtype can hold it."""
    assert operand.stored is not None
    assert operand.zero is not None
    number, (least, most) = g.value(operand.zero[0]).scalar, g.value(operand.stored[0]).dtype.range
    return int(number) if number is not None and number.is_integer() and least <= number <= most else None


def _adds_zeros(layout_op: Op) -> bool:
    """Whether an op inserts zeros: plain zeros, not zero points."""
    return not isinstance(layout_op.lowering.form, LayoutOp)


def _after_layout_ops(s: Site, id: int, layout_ops: LayoutOps, shifted: LayoutOps = (), padding: int = 0) -> int:
    """A stored value after the layout ops of its operand. shifted: those after the zero point, which insert `padding` in place of zeros."""
    for layout_op in reversed(layout_ops):
        attrs = layout_op.attrs.updated(value=padding) if padding and layout_op in shifted and _adds_zeros(layout_op) else layout_op.attrs
        id = s.d.op(layout_op.kind, id, attrs=attrs, shape=s.g.value(layout_op.outs[0]).shape)
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
        at = [axis for axis, dim in enumerate(source_dims(g, layout_op)) if dim == len(before) + long[0] and after[axis] == extent]
        if len(at) != 1:
            return None
        long = [at[0] - len(after)]
    return (extent,) + (1,) * (-long[0] - 1)
