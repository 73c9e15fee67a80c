"""low-precision: products of quantised or bf16 operands are computed from what is stored, and scaled afterwards.

%2 = TypeCast(%0: u8)   %3 = Subtract(%2, za)   %4 = Multiply(%3, sa)        %8: s32 = MatMul(%0, %1)
%5 = TypeCast(%1: s8)   %6 = Multiply(%5, sb[N])                       ->    %9 = Subtract(%8, za * sum of %1 over K)
%7: f32 = MatMul(%4, %6)                                                     %7 = Multiply(TypeCast(%9), sa * sb)

in words                                                               ->    %8: s32 = MatMul(TypeCast(%0): s16, TypeCast(%1): s16)

%2 = TypeCast(%0: bf16)   %3 = TypeCast(%1: bf16)   %4: f32 = MatMul(%2, %3)   ->   %4: f32 = MatMul(%0, %1)
few rows: %3 = TypeCast(%1: bf16 or f16)            %4: f32 = MatMul(%2, %3)   ->   %4: f32 = MatMul(%2, %1)
depthwise: %3 = Multiply(TypeCast(%0: u8) - z, s)   %4 = _Depthwise(%3, %1)     ->   %4 = Multiply(_Depthwise(%0, %1) {zero=z}, s)

Scales and zero points may differ from row to row of src and from column to column of wei, not along K. Transpositions, reshapes and padding
between an operand and its product stay where they are, on stored values: 0 is 0 in every dtype, and padding is the zero point where that is
one number known now. Convolutions are products too, of windows, if what they sum over lies side by side; zero points of their weights would
meet sums over windows of src, which nothing makes. A cast to bf16 between scaling and product is left out: what it rounds off is not in the
result as a whole number of steps. What was read in f32 by these products alone is gone afterwards: as a second reader it would keep other
passes from what made it. ops/quantised_product.py has the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.compressed_weights import is_one_large_matrix
from benchgraph.gir.gemv import gemv_rows, is_input_for_few_rows, is_streamable
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.passes.dead_op import dead_op
from benchgraph.gir.passes.fuse_coarse import MADE
from benchgraph.gir.product import Product, depends_on_product, packs_src, product, stride
from benchgraph.ops import spec
from benchgraph.ops.affine import unit_steps
from benchgraph.ops.quantisation.quantised_product import Quantised, is_exact, multiply
from benchgraph.ops.spatial import beside_channel
from benchgraph.ops.spec import Computes, DataMovement, Role
from benchgraph.ops.steps import as_dtype, reshaped
from benchgraph.tir.groups import BYTES, WEI_GROUPS, WIDENED, WORDS, DTypes

_STORED = (DType.u8, DType.s8)
# As MADE, of an element that a task packs beside its neighbours. One Zen 4 core, attention's backward graph, 16 heads by 384x384 scores,
# with 8, 16, 24, 32 columns: 0.87, 0.85, 0.78, 0.77 of the time in f32; with fewer it was not measured.
PACKED = 3
# Rows up to which weights of narrow floats, given at every execution, are read as they lie; and of bf16 where the machine multiplies that,
# if caches hold the weights and if not, by rows and by columns. One Zen 4 core (L2 1 MiB, L3 32 MiB), times over those with a copy in
# panels, minima, rows of src (by columns, f16 is in gir/product.py):
#
#     K x N, dtype                    1     2     4     6     8    12    16
#     256x256, f16 by rows         0.63  0.64  0.68  0.69  0.83  0.79  0.85
#     1024x1024, f16 by rows       0.34  0.45  0.60  0.73  0.81  1.13  1.03
#     4096x4096, f16 by rows                          0.50  0.52  0.71
#     256x256, bf16 by rows        0.92  1.00  1.14  1.28
#     1024x1024, bf16 by rows      0.58  0.83  1.07  1.37
#     4096x4096, bf16 by rows                         0.48  0.55  0.88
#     256x256, bf16 by columns     0.75  0.97  1.31  1.52
#     1024x1024, bf16 by columns   0.58  0.76  1.01  1.17
#     4096 x 14336, by columns     0.48        0.77
#     4096x4096, bf16 by columns                      1.27  1.41  3.61
ROWS_WIDENED, ROWS_NOT_MULTIPLIED = 8, ((2, 2), (8, 4))
# The same of constant weights that the cores' own caches would not hold in f32: init packs them as they are. f16, one Zen 4 core (two),
# times over those that are converted piece by piece (keep-compressed), minima, rows of src:
#
#     K x N                      1            4            8           16           32           64
#     4096 x 14336     0.26 (0.44)  0.32 (0.39)  0.51 (0.52)  0.62 (0.64)  0.78 (0.78)  0.89 (0.89)
#     2048 x 2048      0.37 (0.37)  0.56 (0.56)  0.78 (0.79)  24: 0.85 (0.85)           0.88 (0.92)
#     1024 x 1024      0.37 (0.39)               0.79 (0.77)  24: 0.87 (0.87)           0.95 (0.94)
#
# On a Cascade Lake core, where conversions take the multipliers' ports, 12 rows 0.87, 32 1.05 (docs/performance.md, What choices rest on).
ROWS_KEPT = 32


def low_precision(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    nodes: list[Node] = []
    for op in g.ops:
        if spec(op.kind).lowering.is_contraction:
            result = _rewritten(g, op, builder, target)
        else:
            result = None if spec(op.kind).lowering.channel_weights is None else _windows_of_stored(g, op, builder)
        if result is not None:
            last = builder.nodes.pop()
            nodes += builder.nodes
            op = replace(last, outs=op.outs)
            del builder.values[result]
            builder.nodes = []
        nodes.append(op)
    if tuple(nodes) == g.nodes:
        return g
    return dead_op(replace(g, values=tuple(builder.values.values()), nodes=tuple(nodes)), target)


def _rewritten(g: Graph, op: Op, d: Builder, target: Target) -> int | None:
    """The product's result, made by the builder's nodes, the last of which makes it; None where it stays as it is."""
    p = product(g, op)
    if not p.reduces_adjacent_dims or has_single_channels(p):
        return None
    src, wei = (_peeled(g, v) for v in op.ins)
    if wei.narrow is not None and _is_read_as_stored(g, op, *wei.narrow, target):
        return d.op(op.kind, op.ins[0], _moved(g, d, *wei.narrow), attrs=op.attrs, shape=p.call.outs[0].shape, dtype=DType.f32)
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
        ins = (_moved(g, d, *rows), _moved(g, d, *columns))
        return d.op(op.kind, *ins, attrs=op.attrs, shape=p.call.outs[0].shape, dtype=DType.f32)
    return None


def _windows_of_stored(g: Graph, op: Op, d: Builder) -> int | None:
    """The same of depthwise windows: they read bytes as they are stored, which is exact in f32, less a zero point that is known."""
    data, wei, out = _peeled(g, op.ins[0]), _peeled(g, op.ins[1]), g.value(op.outs[0])
    zero = 0.0 if data.zero is None else g.value(data.zero[0]).scalar
    one = all(g.value(id).type.elements == 1 and not moves for id, moves in data.scales)
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
    """What a product of stored bytes multiplies and sums: bytes, or words that hold them. None where that would take longer than f32.

    is_plain: rows by one matrix. Of one column it needs no microkernel (`thin`), so bytes stay what they are.
    """
    is_column = is_plain and p.call.outs[0].shape[-1] == 1
    if target.multiplies(DType.u8) or (is_column and target.multiplies(DType.s16)):
        return BYTES
    return WORDS if target.multiplies(DType.s16) else None


def has_single_channels(p: Product) -> bool:
    """A convolution each group of which has one channel: nothing fills the groups of k. In bf16 and u8 these take 1.2 to 1.9 times as long
    as in f32 (7x7, 3 groups of 8 results; 3x3, 16 groups of 2; one thread of a Zen 5 core), with 3 channels 0.6 and 0.8 times.
    """
    return p.reduced[-1] == 1 and p.columns != p.call.outs[0].shape[-1]


def pays(g: Graph, p: Product, src: Stored, wei: Stored, packed: DType, target: Target) -> bool:
    """Whether narrow instructions spare more than the copies cost that bring groups of k together. packed: the dtype that wei is packed in.

    What products of this partition make has to be copied if k is not its last dim, while f32 instructions would read it where it is. Each
    element is copied for so many columns or rows, and spares them all but one of a group's multiplications. The gradients of keys and
    values have such an operand, and sum over the rows of scores: their src lies by columns, and each task packs its own rows.
    """

    def is_dear(stored: Stored, served: int, *, is_wei: bool) -> bool:
        if stored is None:
            return False
        id, moves = stored
        group = WEI_GROUPS[packed]
        is_packed = not is_wei and packs_src(g.value(id).dtype, target) and _comes_of_last(g, moves, -2)
        worth = PACKED if is_packed else MADE
        return served * (group - 1) // group <= worth and _comes_of_last(g, moves, -1) == is_wei and depends_on_product(g, id)

    return not (is_dear(src, p.columns, is_wei=False) or is_dear(wei, p.call.outs[0].shape[-2], is_wei=True))


def _is_read_as_stored(g: Graph, op: Op, id: int, moves: Moves, target: Target) -> bool:
    """Whether weights of narrow floats are widened as they are loaded, for a few rows of f32. See ROWS_WIDENED, ROWS_KEPT."""
    v, p = g.value(id), product(g, op)
    is_multiplied = v.dtype is DType.bf16 and target.multiplies(v.dtype)
    if v.is_constant:
        is_slow = v.dtype is DType.f16 and not target.isa.needs  # portable code widens them one by one
        has_few_rows = p.call.outs[0].shape[-2] <= ROWS_KEPT
        return has_few_rows and not (is_multiplied or is_slow) and is_one_large_matrix(p, target)
    down, across = (0 if (dim := _dim_behind(g, moves, axis)) is None else _step(g, id, dim) for axis in (-2, -1))
    by_columns = down == 1
    size, apart = (p.reduced[-1], across) if by_columns else (p.columns, down)
    if 1 not in (down, across) or not is_streamable(size, apart, v.dtype):
        return False
    most = gemv_rows(p.reduced[-1]) if by_columns else ROWS_WIDENED
    if is_multiplied:
        most = min(most, ROWS_NOT_MULTIPLIED[target.is_far(v.type.nbytes)][by_columns])
    return is_input_for_few_rows(g, op, id, most)


def _comes_of_last(g: Graph, moves: Moves, axis: int) -> bool:
    """Whether steps along an axis are steps along the last dim of what these movements begin with."""
    return _dim_behind(g, moves, axis) == -1


def _dim_behind(g: Graph, moves: Moves, axis: int) -> int | None:
    """Along which dim of what these movements begin with the steps along an axis are, one by one; both are counted from behind."""
    for move in moves:
        if _adds_zeros(move):
            continue
        before, after = g.value(move.ins[0]).shape, g.value(move.outs[0]).shape
        dim = unit_steps(move.kind, move.attrs, before, after, inverse=False)[axis]
        if dim is None:
            return None
        axis = dim - len(before)
    return axis


def _step(g: Graph, id: int, dim: int) -> int:
    """How many elements of memory a step along a dim of a tensor is, counted from behind; 0 where it lies in blocks."""
    v = g.value(id)
    return 0 if v.layout.blocks else stride(g, id, (v.layout.order.index(len(v.shape) + dim), 1))


# ---- operands --------------------------------------------------------------------------------------------------------

Moves = tuple[Op, ...]  # data movements between a value and the product, nearest to the product first
Stored = tuple[int, Moves] | None


@dataclass
class _Operand:
    """What an operand is made of. stored: the integer tensor, None when there is none; narrow: the tensor of narrower floats that it is a
    cast of. Each comes with the movements after it, as do zero points and scales."""

    stored: Stored = None
    narrow: Stored = None
    zero: tuple[int, Moves] | None = None
    scales: tuple[tuple[int, Moves], ...] = ()

    def bf16(self, g: Graph) -> Stored:
        """The same if that is of bf16."""
        return self.narrow if self.narrow is not None and g.value(self.narrow[0]).dtype is DType.bf16 else None


def _peeled(g: Graph, id: int) -> _Operand:
    """Go back from an operand of a product through movements, casts, one scaling after another and one shift."""
    found, moves = _Operand(), tuple[Op, ...]()
    while isinstance(maker := g.producer.get(id), Op):
        row, value = spec(maker.kind), g.value(id)
        if row.lowering.role is Role.data_movement and len(maker.ins) == 1:
            moves += (maker,)
        elif row.semantics.is_product and found.zero is None and value.dtype.is_float and _broadcasts(g, maker):
            found.scales += ((maker.ins[1], moves),)
        elif row.semantics.computes is Computes.difference and found.zero is None and value.dtype.is_float and _broadcasts(g, maker):
            found.zero = maker.ins[1], moves
        elif row.semantics.is_conversion and row.lowering.is_elementwise:
            src = g.value(maker.ins[0]).dtype
            if src in _STORED and value.dtype.is_float:
                found.stored = maker.ins[0], moves
                return found
            is_first = not found.scales and found.zero is None and found.narrow is None
            if src in WIDENED and is_first:
                found.narrow = maker.ins[0], moves
            elif not (src.is_float and value.dtype.is_float):
                return found
        else:
            return found
        id = maker.ins[0]
    return found


def _broadcasts(g: Graph, op: Op) -> bool:
    """The first operand has the shape of the result."""
    return g.value(op.ins[0]).shape == g.value(op.outs[0]).shape


def _quantised(g: Graph, d: Builder, operand: _Operand, over: tuple[int, ...]) -> Quantised | None:
    """over: the axes that are summed over, counted from behind. Builds nothing when there is none."""
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
    stored = _moved(g, d, *operand.stored, () if operand.zero is None else operand.zero[1], padding)
    return Quantised(stored, values[-1] if operand.zero is not None else None, scales, ones)


def _as_stored(g: Graph, operand: _Operand) -> int:
    """The zero point of an operand, if it is known and the operand's dtype has it; else 0."""
    assert operand.stored is not None
    assert operand.zero is not None
    number, (least, most) = g.value(operand.zero[0]).scalar, g.value(operand.stored[0]).dtype.range
    return int(number) if number is not None and number.is_integer() and least <= number <= most else 0


def _ones(g: Graph, d: Builder, moves: Moves) -> int | None:
    """One batch entry of ones after the movements; None where batch entries do not stay what they are."""
    if not all((_adds_zeros(move) or _permutes(g, move)) and _keeps_entries(g, move) for move in moves):
        return None
    first = g.value(moves[-1].ins[0]).shape
    id = d.const(np.ones((1, *first[1:]), np.uint8), DType.u8)
    for move in reversed(moves):
        shape = move.attrs.integers("shape")  # of a box, which has all batch entries
        id = d.op(move.kind, id, attrs=move.attrs.updated(shape=(1, *shape[1:])) if shape else move.attrs)
    return id if d.type(id).shape == (1, *g.value(moves[0].outs[0]).shape[1:]) else None


def _keeps_entries(g: Graph, move: Op) -> bool:
    """Whether there are as many batch entries as before."""
    return g.value(move.ins[0]).shape[:1] == g.value(move.outs[0]).shape[:1]


def _permutes(g: Graph, move: Op) -> bool:
    """Exchanges dims other than the first."""
    before, after = g.value(move.ins[0]).shape, g.value(move.outs[0]).shape
    steps = unit_steps(move.kind, move.attrs, before, after, inverse=False)
    return steps[:1] == (0,) and set(steps) == set(range(len(before)))


def _adds_zeros(move: Op) -> bool:
    """Whether it puts zeros between the elements. Those are no zero points, but zeros of whatever dtype and scale."""
    return not isinstance(spec(move.kind).lowering.form, DataMovement)


def _moved(g: Graph, d: Builder, id: int, moves: Moves, shifted: Moves = (), padding: int = 0) -> int:
    """A stored value after the movements that its operand went through. shifted: those with a zero point, which `padding` stands for."""
    for move in reversed(moves):
        attrs = move.attrs.updated(value=padding) if padding and move in shifted and _adds_zeros(move) else move.attrs
        id = d.op(move.kind, id, attrs=attrs, shape=g.value(move.outs[0]).shape)
    return id


def _shape_of_factor(g: Graph, id: int, moves: Moves) -> Shape | None:
    """The shape in which a factor broadcasts against the operand after the movements; None for one that no reshape can take there: of
    more than one dim, or along a dim that does not stay whole."""
    shape = g.value(id).shape
    long = [axis - len(shape) for axis, extent in enumerate(shape) if extent != 1]
    if not long or not moves:
        return shape if long else ()
    if len(long) > 1 or any(map(_adds_zeros, moves)):
        return None
    extent = shape[long[0]]
    for move in reversed(moves):
        before, after = g.value(move.ins[0]).shape, g.value(move.outs[0]).shape
        steps = unit_steps(move.kind, move.attrs, before, after, inverse=False)
        at = [axis for axis, dim in enumerate(steps) if dim == len(before) + long[0] and after[axis] == extent]
        if len(at) != 1:
            return None
        long = [at[0] - len(after)]
    return (extent,) + (1,) * (-long[0] - 1)
