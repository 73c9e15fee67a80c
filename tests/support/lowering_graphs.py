"""Small graphs that reach every corner of the lowering: what each is there for stands in its docstring."""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph

GRAPHS: dict[str, Callable[[], Graph]] = {}


def case(build: Callable[[GraphBuilder], None]) -> Callable[[GraphBuilder], None]:
    def graph() -> Graph:
        b = GraphBuilder()
        build(b)
        return b.graph()

    graph.__doc__ = build.__doc__
    GRAPHS[build.__name__] = graph
    return build


@case
def mlp(b: GraphBuilder) -> None:
    """Three products in one nest; column-blocked activations; a first layer with K below one block, and a narrow last one."""
    x = b.input((12, 13))
    for k, n in ((13, 128), (128, 64), (64, 5)):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((k, n)), b.constant((n,))))


@case
def ragged(b: GraphBuilder) -> None:
    """Rows and columns that no tile divides: tails in every loop."""
    b.op("Tanh", b.op("Add", b.op("MatMul", b.input((67, 19)), b.constant((19, 83))), b.input((83,))))


@case
def attention(b: GraphBuilder) -> None:
    """Score rows stay inside the nest; the transposition is part of the last product's stores."""
    s = b.op("MatMul", b.input((2, 3, 10, 8)), b.input((2, 3, 8, 20)))
    p = b.op("SoftMax", b.op("Add", b.op("Divide", s, b.input((1,))), b.input((2, 1, 1, 20))), axis=3)
    o = b.op("MatMul", p, b.input((2, 3, 20, 16)))
    b.op("Reorder", b.op("StaticTranspose", o, order=[0, 2, 1, 3]))


@case
def attention_transposed_key(b: GraphBuilder) -> None:
    """The key is packed at every execution, next to its use."""
    s = b.op("MatMul", b.input((2, 2, 9, 8)), b.input((2, 2, 20, 8)), transpose_b=True)
    b.op("MatMul", b.op("SoftMax", s, axis=-1), b.input((2, 2, 20, 16)))


@case
def tokens(b: GraphBuilder) -> None:
    """One row each of several users by the same weights: entries that become rows; a normalisation before, and heads apart behind."""
    x = b.op("Add", b.input((5, 1, 24)), b.input((24,)))
    y = b.op("MatMul", b.op("SoftMax", x, axis=-1), b.constant((24, 40)), b.constant((40,)))
    b.op("StaticTranspose", b.op("StaticReshape", y, shape=(5, 1, 4, 10), special_zero=False), order=[0, 2, 1, 3])


@case
def one_query_of_grouped_heads(b: GraphBuilder) -> None:
    """Four queries meet one head of keys, of f16, which are read as they lie by their columns."""
    q, k, v = b.input((2, 3, 4, 1, 64), DType.f16), b.input((2, 3, 1, 21, 64), DType.f16), b.input((2, 3, 1, 21, 16), DType.f16)
    s = b.op("Add", b.op("MatMul", q, k, transpose_b=True, dtype=DType.f32), b.input((2, 1, 1, 1, 21)))
    b.op("MatMul", b.op("SoftMax", s, axis=-1, dtype=DType.f16), v)


@case
def keys_of_f16(b: GraphBuilder) -> None:
    """More rows than are read by columns: keys of each entry are turned and converted into panels."""
    b.op("MatMul", b.input((3, 17, 40), DType.f16), b.input((3, 70, 40), DType.f16), transpose_b=True)


@case
def grouped_queries(b: GraphBuilder) -> None:
    """Keys are packed and values converted once for the heads that share them; rows that no task divides."""
    q, k, v = b.input((2, 2, 3, 37, 8), DType.bf16), b.input((2, 2, 1, 21, 8), DType.bf16), b.input((2, 2, 1, 21, 16), DType.bf16)
    s = b.op("MatMul", q, k, transpose_b=True, dtype=DType.f32)
    p = b.op("SoftMax", b.op("Multiply", s, b.op("Sigmoid", b.input((1,)))), axis=-1)
    b.op("MatMul", b.op("TypeCast", p, dtype=DType.bf16), v)


@case
def keys_read_by_two(b: GraphBuilder) -> None:
    """Converted keys belong to one nest and leave it for another; few entries, many heads: the conversion is not repeated."""
    k = b.op("Sigmoid", b.input((1, 1, 16, 9)))
    s = b.op("MatMul", b.op("MatMul", b.input((1, 5, 7, 16)), k), b.input((1, 5, 9, 6)))
    b.op("MatMul", b.op("ReduceSum", s, axes=[1], keep_dims=True), b.input((1, 1, 6, 5)))
    b.op("Tanh", k)


@case
def causal_attention(b: GraphBuilder) -> None:
    """Row and column numbers, shifted and compared inside the score nest; rows that no task divides, columns with a tail."""
    s = b.op("MatMul", b.input((2, 3, 37, 8)), b.input((2, 3, 8, 21)))
    rows = b.op("Subtract", b.op("Add", b.op("GenIndex", s, axis=-2), b.input((), DType.s32)), b.input((1,), DType.s32))
    mask = b.op("GreaterEqual", rows, b.op("GenIndex", s, axis=-1))
    b.op("MatMul", b.op("SoftMax", b.op("Select", mask, s, b.input((1,))), axis=-1), b.input((2, 3, 21, 16)))


@case
def dropout(b: GraphBuilder) -> None:
    """The stream inside a score nest, on column-blocked activations, and alone with its mask."""
    numbers = b.input((), DType.s64), b.input((1,), DType.s64), b.input(())
    s = b.op("MatMul", b.input((2, 3, 9, 8)), b.input((2, 3, 8, 21)))
    b.op("MatMul", b.op("Dropout", b.op("SoftMax", s, axis=-1), *numbers), b.input((2, 3, 21, 16)))
    x = b.op("MatMul", b.input((12, 13)), b.constant((13, 128)))
    b.op("MatMul", b.op("Dropout", x, *numbers), b.constant((128, 5)))
    b.outs("Dropout", b.input((3, 5, 7)), *numbers, dtypes=(None, DType.u8))


@case
def indices(b: GraphBuilder) -> None:
    """Index along an axis before, among and after the axes that are run through as one; an index of a strided tensor."""
    x = b.input((3, 5, 7, 6))
    for axis in (0, 1, -1):
        b.op("GenIndex", x, axis=axis)
    b.op("GenIndex", b.input((4, 9), strides=(1, 4)), axis=0)


@case
def transposed_operands(b: GraphBuilder) -> None:
    """Both operands transposed: src is repacked too."""
    b.op("MatMul", b.input((7, 11)), b.constant((20, 7)), transpose_a=True, transpose_b=True)


@case
def broadcast_batch(b: GraphBuilder) -> None:
    """Batch dims of size one on either side."""
    b.op("MatMul", b.input((4, 1, 5, 6)), b.input((1, 3, 6, 17)))


@case
def vectors(b: GraphBuilder) -> None:
    """Rank-1 operands: a scalar result."""
    b.op("MatMul", b.input((9,)), b.input((9,)))


@case
def gated_mlp(b: GraphBuilder) -> None:
    """Two products share src and meet in a binary."""
    x = b.input((8, 32))
    gate, up = b.op("MatMul", x, b.constant((32, 64))), b.op("MatMul", x, b.constant((32, 64)))
    b.op("MatMul", b.op("Multiply", b.op("Multiply", gate, b.op("Sigmoid", gate)), up), b.constant((64, 16)))


@case
def residual(b: GraphBuilder) -> None:
    """A value with a reader two nests later, and an End on an interior value."""
    x = b.input((6, 32))
    h = b.op("ReLU", b.op("MatMul", x, b.constant((32, 32))))
    b.end(h)
    b.op("Add", b.op("MatMul", h, b.constant((32, 32))), x)


@case
def weight_from_activation(b: GraphBuilder) -> None:
    """The second product's wei is the first one's result: two nests with a barrier between."""
    w = b.op("MatMul", b.input((16, 8)), b.input((8, 20)))
    b.op("MatMul", b.input((5, 16)), w)


@case
def softmax_middle_axis(b: GraphBuilder) -> None:
    """Folding along an axis that is not the last."""
    b.op("SoftMax", b.input((3, 5, 18)), axis=1)


@case
def softmax_stats(b: GraphBuilder) -> None:
    """Two outputs, rows of minus infinity allowed."""
    b.outs("SoftMax", b.input((4, 21)), dtypes=(None, None), axis=-1, mode="inf_as_zero")


@case
def reduce_all(b: GraphBuilder) -> None:
    """To a scalar."""
    b.op("ReduceSum", b.input((3, 4, 5)), axes=[0, 1, 2])


@case
def reduce_first_axes(b: GraphBuilder) -> None:
    """Without keeping dims, then pointwise on the lower rank."""
    b.op("Multiply", b.op("ReduceMean", b.input((4, 3, 18)), axes=[0, 1]), b.input((18,)))


@case
def layernorm_by_hand(b: GraphBuilder) -> None:
    """Two folds that wait for each other, rows read three times."""
    x = b.input((5, 33))
    d = b.op("Subtract", x, b.op("ReduceMean", x, axes=[-1], keep_dims=True))
    v = b.op("ReduceMean", b.op("Square", d), axes=[-1], keep_dims=True)
    b.op("Multiply", b.op("Divide", d, b.op("Sqrt", b.op("Add", v, b.input((1,))))), b.input((33,)))


@case
def quantised(b: GraphBuilder) -> None:
    """Dequantised operands around a product, per-channel scales, quantised result."""
    x = b.op("Dequantize", b.input((9, 32), DType.u8), scales=[0.125], zps=[3], qtype="per_tensor")
    w = b.op("Dequantize", b.constant((32, 24), DType.s8), scales=[(i + 1) / 128 for i in range(24)], qtype="per_channel", axis=1)
    b.op("Quantize", b.op("ReLU", b.op("MatMul", x, w)), dtype=DType.u8, scales=[0.25], zps=[5], qtype="per_tensor")


def grouped(b: GraphBuilder, x: LogicalTensor, group: tuple[int, ...]) -> LogicalTensor:
    """x with a scale and a zero point per group; constant if x is."""
    groups = tuple(d // g for d, g in zip(x.known_shape, group, strict=True))
    scales, zps = (b.constant(groups, t) if x.is_constant else b.input(groups, t) for t in (DType.f32, x.dtype))
    return b.op("DynamicDequantize", x, scales, zps, qtype="per_group", group_shape=group)


@case
def constant_weights_of_four_bits(b: GraphBuilder) -> None:
    """Two elements to a byte; rows of odd length, columns that are rows in memory."""
    x = b.op("ReLU", b.op("MatMul", b.input((6, 24)), grouped(b, b.constant((24, 33), DType.u4), (8, 1))))
    b.op("MatMul", x, grouped(b, b.constant((33, 20), DType.s4, strides=(1, 35)), (11, 1)))


@case
def weights_of_four_bits(b: GraphBuilder) -> None:
    """Dequantised at every execution."""
    b.op("MatMul", b.input((6, 24)), grouped(b, b.input((24, 33), DType.s4), (8, 1)))


@case
def compressed_keys_and_values(b: GraphBuilder) -> None:
    """Four-bit operands of both products of attention; the keys are transposed too."""
    k, v = b.input((2, 2, 21, 8), DType.s4), b.input((2, 2, 21, 16), DType.u4)
    s = b.op("MatMul", b.input((2, 2, 9, 8)), grouped(b, k, (1, 1, 1, 4)), transpose_b=True)
    b.op("MatMul", b.op("SoftMax", s, axis=-1), grouped(b, v, (1, 1, 1, 8)))


@case
def bf16_product(b: GraphBuilder) -> None:
    """Narrow operands are widened on the way in, the result narrowed once."""
    b.op("ReLU", b.op("MatMul", b.input((6, 40), DType.bf16), b.constant((40, 24), DType.bf16)))


@case
def pointwise_flat(b: GraphBuilder) -> None:
    """Dense pointwise ops run as one long axis."""
    b.op("Exp", b.op("Subtract", b.input((3, 5, 7)), b.input((3, 5, 7))))


@case
def pointwise_broadcast(b: GraphBuilder) -> None:
    """Operands of lower rank and size-one dims on both sides."""
    b.op("Maximum", b.op("Multiply", b.input((4, 1, 18)), b.input((5, 1))), b.input((18,)))


@case
def select_and_compare(b: GraphBuilder) -> None:
    """Boolean values between ops."""
    x, y = b.input((4, 17)), b.input((17,))
    b.op("Select", b.op("GreaterEqual", x, y), x, y)


@case
def divided_by_a_narrow_scalar(b: GraphBuilder) -> None:
    """The reciprocal is f32 although the divisor is bf16, as the quotient is."""
    b.op("Divide", b.input((4, 40)), b.input((1,), DType.bf16))


@case
def movement(b: GraphBuilder) -> None:
    """Transpositions and reshapes with no neighbour to hide in."""
    b.op("StaticTranspose", b.op("StaticReshape", b.input((6, 20)), shape=[2, 3, 20], special_zero=False), order=[2, 0, 1])


@case
def concat(b: GraphBuilder) -> None:
    """Sources along every axis, one of them twice, one without elements, one of one column."""
    x, y, none = b.input((3, 4, 5)), b.input((3, 4, 1)), b.input((3, 4, 0))
    b.op("Concat", b.op("Concat", x, y, none, y, axis=2), b.input((3, 2, 7)), axis=1)
    b.op("Concat", x, x, axis=0)


@case
def concat_of_results(b: GraphBuilder) -> None:
    """Products and pointwise ops write their parts of an operand of the next product; a source that others read keeps its buffer."""
    x = b.input((12, 32))
    left = b.op("ReLU", b.op("MatMul", x, b.constant((32, 48))))
    right = b.op("MatMul", x, b.constant((32, 16)))
    whole = b.op("Concat", left, right, b.op("Exp", x), axis=-1)
    b.op("Add", b.op("MatMul", whole, b.constant((96, 48))), left)


@case
def concat_of_one_source(b: GraphBuilder) -> None:
    """Its only part is all of the result, which a product reads as weights."""
    wei = b.op("Concat", b.op("Exp", b.input((5, 20))), axis=-2)
    b.op("MatMul", b.input((3, 5)), wei)


@case
def concat_through_views(b: GraphBuilder) -> None:
    """Transposed sources, a transposed result, a result written with gaps, a result that is a source itself."""
    x = b.input((4, 8, 16))
    t = b.op("StaticTranspose", x, order=(0, 2, 1))
    c = b.op("Concat", t, b.op("StaticTranspose", b.input((3, 16, 4)), order=(2, 1, 0)), t, axis=2)
    b.op("ReLU", b.op("StaticTranspose", c, order=(2, 0, 1)))
    b.op("Concat", b.input((2, 3, 4), strides=(12, 1, 3)), b.input((2, 5, 4), strides=(40, 8, 2)), axis=1)


@case
def concat_of_constants(b: GraphBuilder) -> None:
    """Weights of two heads as one, made once; and with a part that changes, made every time."""
    x, w = b.input((5, 16)), b.constant((16, 8))
    b.op("MatMul", x, b.op("Concat", w, b.constant((16, 24)), axis=1))
    b.op("MatMul", x, b.op("Concat", w, b.op("Square", b.input((16, 9))), axis=1))


@case
def concat_quantised(b: GraphBuilder) -> None:
    """int8 in, int8 out."""
    sources = [b.op("Dequantize", b.input((4, n, 33), DType.u8), scales=[0.25], zps=[2], qtype="per_tensor") for n in (8, 3)]
    b.op("Quantize", b.op("Concat", *sources, axis=1), dtype=DType.u8, scales=[0.25], zps=[2], qtype="per_tensor")


@case
def channels_last(b: GraphBuilder) -> None:
    """Permuted strides through a pointwise chain, dense in the one and not in the other; a movement of them."""
    x = b.input((2, 3, 4, 5), strides=(60, 1, 15, 3))
    b.op("Exp", b.op("Add", x, b.input((3, 1, 1))))
    b.op("Multiply", x, b.input((2, 3, 4, 5), strides=(120, 2, 30, 6)))
    b.op("StaticReshape", b.op("StaticTranspose", x, order=(0, 2, 3, 1)), shape=(2, 60), special_zero=False)


@case
def square_transposed_between(b: GraphBuilder) -> None:
    """ReLU writes through the transposition. Exp has the same extents, but reads what other iterations wrote: a nest of its own."""
    b.op("Exp", b.op("StaticTranspose", b.op("ReLU", b.input((9, 9))), order=[1, 0]))


@case
def strided_input(b: GraphBuilder) -> None:
    """A user tensor with gaps and permuted strides as src of a product."""
    b.op("MatMul", b.input((5, 16), strides=(24, 1)), b.input((16, 20), strides=(1, 16)))


@case
def a_number_as_a_row(b: GraphBuilder) -> None:
    """A scalar that is a matrix to a product, and a scalar elsewhere."""
    x = b.input(())
    b.op("MatMul", b.op("StaticReshape", x, shape=(1, 1), special_zero=False), b.input((1, 20)))
    b.op("ReLU", x)


@case
def weights_of_one_column_for_all(b: GraphBuilder) -> None:
    """A user tensor of stride 0: its columns are not side by side, but one and the same."""
    b.op("MatMul", b.input((5, 16)), b.input((16, 20), strides=(1, 0)))


@case
def one_element(b: GraphBuilder) -> None:
    """Scalars all the way."""
    b.op("ReLU", b.op("Add", b.input(()), b.input(())))


@case
def constant_result(b: GraphBuilder) -> None:
    """Computed from constants alone, yet the user's buffer is written at every execution."""
    b.op("ReLU", b.op("Square", b.constant((4, 17))))


@case
def attention_quantised_behind_the_transposition(b: GraphBuilder) -> None:
    """A nest that follows the fused one, in another order of rows."""
    s = b.op("MatMul", b.input((2, 3, 10, 8)), b.input((2, 3, 8, 20)))
    o = b.op("MatMul", b.op("SoftMax", s, axis=3), b.input((2, 3, 20, 16)))
    t = b.op("Reorder", b.op("StaticTranspose", o, order=[0, 2, 1, 3]))
    b.op("Quantize", t, dtype=DType.u8, scales=[0.0625], zps=[100], qtype="per_tensor")


POOL = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 0)}


@case
def pool_channels_last(b: GraphBuilder) -> None:
    """Borders on three sides; post-ops in the nest of the pool, on the interior and on the borders."""
    x = b.op("MaxPool", b.input((2, 6, 7, 18)), **POOL)
    b.op("ReLU", b.op("Multiply", b.op("Add", x, b.input((18,))), b.input(x.known_shape)))


@case
def pool_channels_first(b: GraphBuilder) -> None:
    """x is a spatial axis: its borders are points, its interior reads every second element."""
    x = b.op("AvgPool", b.input((2, 3, 5, 70)), data_format="NCX", exclude_pad=True, **POOL)
    b.op("Tanh", b.op("Add", x, b.input((1, 3, 1, 1))))


@case
def pool_of_permuted_memory(b: GraphBuilder) -> None:
    """Channels second by name and last in memory, on the way in and out."""
    src = b.input((2, 17, 5, 6), strides=(510, 1, 102, 17))
    b.op("AvgPool", src, data_format="NCX", exclude_pad=False, **POOL)


@case
def pool_between_transpositions(b: GraphBuilder) -> None:
    """Reads and writes through views."""
    x = b.op("StaticTranspose", b.input((2, 5, 6, 9)), order=(0, 3, 1, 2))
    y = b.op("MaxPool", x, data_format="NCX", **POOL)
    b.op("ReLU", b.op("StaticTranspose", y, order=(0, 2, 3, 1)))


@case
def quantised_pool(b: GraphBuilder) -> None:
    """What comes before a window runs in a nest of its own, what comes after in the window's."""
    x = b.op("Dequantize", b.input((1, 6, 6, 20), DType.u8), scales=[0.125], zps=[3], qtype="per_tensor")
    y = b.op("AvgPool", x, exclude_pad=True, **POOL)
    b.op("Quantize", y, dtype=DType.s8, scales=[0.0625], zps=[0], qtype="per_tensor")


@case
def pool_then_rows(b: GraphBuilder) -> None:
    """A reduction does not join: the pool's rows are in pieces."""
    x = b.op("MaxPool", b.input((1, 6, 40, 3)), data_format="NXC", **POOL)
    b.op("ReduceSum", b.op("Exp", x), axes=(2,), keep_dims=False)


@case
def two_pools(b: GraphBuilder) -> None:
    """The second reads rows of the first that others make. A global one ends: all dims 1 but the channels."""
    x = b.op("MaxPool", b.input((1, 2, 11, 40)), data_format="NCX", **POOL)
    y = b.op("AvgPool", x, data_format="NCX", exclude_pad=False, **POOL)
    wide = {"kernel": y.known_shape[2:], "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.op("ReLU", b.op("AvgPool", y, data_format="NCX", exclude_pad=False, **wide))


@case
def pool_to_one_element(b: GraphBuilder) -> None:
    """Nothing to run along: the post-op still comes after the fold."""
    x = b.op("MaxPool", b.input((1, 1, 40)), data_format="NCX", kernel=(40,), strides=(1,), pads_begin=(0,), pads_end=(0,))
    b.op("Square", x)


@case
def pool_of_nothing(b: GraphBuilder) -> None:
    """No batch, no elements."""
    b.op("ReLU", b.op("MaxPool", b.input((0, 6, 7, 3)), **POOL))


@case
def pool_in_bf16(b: GraphBuilder) -> None:
    """Folded in f32, rounded once."""
    b.op("ReLU", b.op("AvgPool", b.input((1, 6, 7, 20), DType.bf16), exclude_pad=True, **POOL))


@case
def pool_gradient(b: GraphBuilder) -> None:
    """Windows that run before the window, over another shape; post-ops on the gradient."""
    src = b.input((2, 3, 7, 21))
    x = b.op("MaxPoolBackward", src, b.input((2, 3, 4, 21)), data_format="NCX", **{**POOL, "strides": (2, 1), "pads_end": (1, 1)})
    b.op("Subtract", src, b.op("Multiply", x, b.input((1,))))


@case
def interpolation_channels_last(b: GraphBuilder) -> None:
    """Weights are the same for a whole row of channels."""
    x = b.op("Interpolate", b.input((1, 4, 3, 18)), mode="bilinear", sizes=(7, 6))
    b.op("Add", x, b.input((18,)))


@case
def interpolation_channels_first(b: GraphBuilder) -> None:
    """Places and weights change from element to element of x."""
    x = b.op("Interpolate", b.input((2, 2, 3, 10)), mode="linear", scales=(2.0, 1.5), data_format="NCX")
    b.op("ReLU", b.op("InterpolateBackward", b.input((2, 2, 4, 20)), x, mode="nearest", sizes=(6, 15), data_format="NCX"))


@case
def pool_leaves_and_is_reshaped(b: GraphBuilder) -> None:
    """The movement cannot be a view, and its result has more dims than the nest has axes: it is scattered, and decides nothing."""
    x = b.op("MaxPool", b.input((2, 6, 20)), data_format="NCX", kernel=(2,), strides=(2,), pads_begin=(0,), pads_end=(0,))
    b.end(x)
    b.op("StaticReshape", x, shape=(2, 1, 6, 2, 5), special_zero=False)


@case
def gradients_channels_first(b: GraphBuilder) -> None:
    """Even and odd elements are rows of their own, with other taps; the post-op is in both."""
    src, diff_dst = b.input((1, 2, 6, 41)), b.input((1, 2, 3, 20))
    x = b.op("MaxPoolBackward", src, diff_dst, data_format="NCX", **POOL)
    y = b.op("AvgPoolBackward", diff_dst, data_format="NCX", exclude_pad=True, src_shape=(1, 2, 6, 41), **POOL)
    b.op("Multiply", b.op("Add", x, y), b.input((41,)))


@case
def gradients_channels_last(b: GraphBuilder) -> None:
    """What a window divides by is known away from borders on all four sides, and worked out at them."""
    attrs = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1), "src_shape": (1, 13, 12, 17)}
    x = b.op("AvgPoolBackward", b.input((1, 7, 6, 17)), exclude_pad=True, **attrs)
    b.op("Multiply", x, b.input((17,)))


@case
def nothing_summed(b: GraphBuilder) -> None:
    """A sum over no columns in the nest of a product: it is 0, and somebody has to write that."""
    norm = b.op("ReduceL2", b.input((2, 0)), axes=[-1], keep_dims=True)
    b.op("MatMul", b.input((2, 2)), b.input((2, 1)), norm)
