"""MatMul: dst[..., m, n] = sum over k of src[..., m, k] * weights[..., k, n] (+ bias), with numpy.matmul's shape rules.

A general call is decomposed into the canonical one: no transposes, no bias, two f32 operands of equal rank >= 2, whose batch dims are
equal or 1. Only canonical calls reach the GEMM template.

The threshold. A sum of K products, each rounded into an f32 running sum with a relative error of about eps/4 (standard deviation), of
random data walks to sqrt(K/2) * eps/4 of the result's rms. Six standard deviations, for the worst of a billion elements, are
1.1 * sqrt(K) * eps; blocking over K and vector lanes only shortens the walk. Sums without cancellation grow evenly and do better still.
Post-ops such as Clamp and ReLU lower the rms that errors are compared with, but not the errors: hence a factor of 2.
So: 2 * sqrt(K) + 4, in eps(f32). The 4 covers small K, where the statistics of a random walk do not apply.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, sums
from benchgraph.ops.broadcast import broadcast, broadcast_to
from benchgraph.ops.fill_rules import products
from benchgraph.ops.internal import zeros
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import Attr, Computes, Decomposer, Filling, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F
from benchgraph.ops.spec.forms import Contraction
from benchgraph.ops.steps import as_dtype, reshaped

_MODES = ("strict", "relaxed", "any", "f32", "s32", "f16")
_TRANSPOSES = ("transpose_a", "transpose_b")


def _is_transposed(attrs: Attrs, port: int, rank: int) -> bool:
    """A transpose of a vector is ignored."""
    return rank > 1 and bool(attrs.get(_TRANSPOSES[port], False))


def _operand_shape(attrs: Attrs, port: int, shape: Shape) -> Shape:
    """The operand as a matrix or stack of them: transposed if asked, a vector as a row (src) or a column (weights)."""
    if len(shape) == 1:
        return (1, *shape) if port == 0 else (*shape, 1)
    return (*shape[:-2], shape[-1], shape[-2]) if _is_transposed(attrs, port, len(shape)) else shape


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, wei = ins[0].shape, ins[1].shape
    for name, shape in (("src", src), ("weights", wei)):
        if not shape:
            raise InvalidShape(f"{name} has rank 0", fix="MatMul takes vectors and matrices; use Multiply for a scalar")
    a, b = _operand_shape(attrs, 0, src), _operand_shape(attrs, 1, wei)
    if a[-1] != b[-2]:
        what = f"inner dimensions differ: src {src} has K={a[-1]}, weights {wei} has K={b[-2]}"
        raise InvalidShape(what, fix="check the shapes and transpose_a, transpose_b")
    batch = broadcast(a[:-2], b[:-2], ("the batch dims of src", "of weights"))
    rows = () if len(src) == 1 else (a[-2],)
    columns = () if len(wei) == 1 else (b[-1],)
    dst = (*batch, *rows, *columns)
    if len(ins) > 2:
        broadcast_to(ins[2].shape, dst, "bias", "dst")
    return (dst,)


def inner_size(call: Call) -> int:
    """K."""
    return _operand_shape(call.attrs, 0, call.ins[0].shape)[-1]


def flops(call: Call) -> int:
    """A multiplication and an addition per product, and an addition per element for the bias."""
    dst = call.outs[0].elements
    return 2 * inner_size(call) * dst + (dst if len(call.ins) > 2 else 0)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    dst = _product(*_matrices(call, ins))
    return (dst + real(ins[2]) if len(ins) > 2 else dst,)


def _in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
    """A product or a partial sum may overflow f32 where the sum of all does not."""
    bias, (a, b) = real(ins[2]) if len(ins) > 2 else np.zeros(()), _matrices(call, ins)
    return tuple((total + bias,) for total in sums.others_in_f32(_product, a, b, _product(a, b)))


def _product(a: Reals, b: Reals) -> Reals:
    return np.asarray(np.matmul(a, b), dtype=np.float64)


def _matrices(call: Call, ins: tuple[Array, ...]) -> tuple[Reals, Reals]:
    src, wei = (real(x).swapaxes(-1, -2) if _is_transposed(call.attrs, port, x.ndim) else real(x) for port, x in enumerate(ins[:2]))
    return src, wei


def domain(call: Call, port: int, rng: np.random.Generator) -> Array:
    """src and bias in [-1, 1), weights in sqrt(3 / K) * [-1, 1) + 2 / K. Integers: their full range.

    dst then has the variance of src, and the positive mean of a ReLU's output is kept: without the shift, the rows of a narrow last layer
    tend to have one sign, and a ReLU makes all of them 0.
    """
    k = max(inner_size(call), 1)
    limit, shift = (sqrt(3 / k), min(2 / k, 0.25)) if port == 1 else (1.0, 0.0)
    return fills.uniform(shift - limit, shift + limit)(call, port, rng)


def _numbers(call: Call, port: int) -> Filling:
    """Integers whose sums are exact; src is the sparse one."""
    if port > 1:
        return products.bias(call.ins[port].dtype)
    operands = products.Operands(products.MATMUL, call.ins[0].dtype, call.ins[1].dtype, call.outs[0].dtype, inner_size(call))
    return operands.sparse() if port == 0 else operands.dense()


def check(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    src, dst = ins[0][0], out_dtypes[0]
    if dst in (src, DType.f32):
        return ""
    allowed = src.value if src is DType.f32 else f"{src.value} or f32"
    return f"output dst has dtype {dst.value} while input src has {src.value}; use {allowed}"


def is_canonical(call: Call) -> bool:
    """Whether the GEMM template takes the call. accumulation_mode does not matter: every sum is an f32 sum."""
    ranks = {len(t.shape) for t in call.ins}
    all_f32 = all(t.dtype is DType.f32 for t in (*call.ins, *call.outs))
    is_plain = not (call.attrs.get("transpose_a") or call.attrs.get("transpose_b"))
    return len(call.ins) == 2 and all_f32 and is_plain and len(ranks) == 1 and min(ranks) >= 2 and not _is_empty(call)


def _is_empty(call: Call) -> bool:
    """No products at all: dst is empty, or all zeros (and the bias)."""
    return any(0 in t.shape for t in call.ins[:2])


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Casts, transposes and reshapes in front of the canonical MatMul; reshape, bias and cast after it."""
    rank = max(2, *(len(t.shape) for t in call.ins[:2]))
    if _is_empty(call):
        dst = zeros(d, as_dtype(d, ins[0], DType.f32), (1, *call.outs[0].shape))
    else:
        dst = d.op("MatMul", *(_matrix(d, call, ins, port, rank) for port in (0, 1)))
    dst = reshaped(d, dst, call.outs[0].shape)
    if len(ins) > 2:
        dst = d.op("Add", dst, as_dtype(d, ins[2], DType.f32))
    return (as_dtype(d, dst, call.outs[0].dtype),)


def _matrix(d: Decomposer, call: Call, ins: tuple[int, ...], port: int, rank: int) -> int:
    """One operand in f32, transposed if asked, with ones in front up to the rank."""
    value, shape = as_dtype(d, ins[port], DType.f32), call.ins[port].shape
    if _is_transposed(call.attrs, port, len(shape)):
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        value = d.op("StaticTranspose", value, attrs=Attrs(order=order))
    matrix = _operand_shape(call.attrs, port, shape)
    return reshaped(d, value, (1,) * (rank - len(matrix)) + matrix)


def _columns_sum_up(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Written without a matrix product."""
    a, b = _matrices(call, ins)
    a, b = a.reshape(1, -1) if a.ndim == 1 else a, b.reshape(-1, 1) if b.ndim == 1 else b
    dst = real(outs[0]) - real(ins[2]) if len(ins) > 2 else real(outs[0])
    if len(call.ins[0].shape) == 1:
        dst = np.expand_dims(dst, dst.ndim - (len(call.ins[1].shape) > 1))
    if len(call.ins[1].shape) == 1:
        dst = np.expand_dims(dst, dst.ndim)
    want = (a.sum(axis=-2)[..., :, None] * b).sum(axis=-2)
    slack = rtol * (np.abs(dst).sum(axis=-2) + np.abs(a).sum(axis=-2).max(initial=0.0) + 1)
    return bool(np.all(np.abs(dst.sum(axis=-2) - want) <= slack))


SAMPLES = (
    Sample(((4, 8), (8, 16)), why="small and even"),
    Sample(((17, 33), (33, 15)), why="a tail in every dim"),
    Sample(((1, 1), (1, 1)), why="sizes 1"),
    Sample(((7, 300), (300, 65)), why="several K blocks, N one over a block"),
    Sample(((5, 16), (16, 1)), why="a single column"),
    Sample(((13, 6), (13, 9)), Attrs(transpose_a=True), why="src transposed"),
    Sample(((6, 13), (9, 13)), Attrs(transpose_b=True), why="weights transposed"),
    Sample(((13, 6), (9, 13)), Attrs(transpose_a=True, transpose_b=True), why="both transposed"),
    Sample(((5, 17), (17, 9), (9,)), why="bias per column"),
    Sample(((5, 4), (4, 3), (5, 1)), why="bias per row"),
    Sample(((2, 3, 5, 7), (2, 3, 7, 4)), why="batch dims"),
    Sample(((2, 3, 5, 7), (2, 1, 7, 4)), why="weights broadcast over one batch dim"),
    Sample(((2, 1, 5, 7), (3, 7, 4)), why="both broadcast, ranks differ"),
    Sample(((2, 5, 7), (7, 4)), why="one weight matrix for all of the batch"),
    Sample(((2, 4, 6, 5), (2, 4, 6, 5)), Attrs(transpose_b=True), why="attention scores: queries times keys transposed"),
    Sample(((7,), (7, 5)), why="a vector on the left drops M"),
    Sample(((3, 5, 7), (7,)), Attrs(transpose_b=True), why="a vector on the right drops N; its transpose is ignored"),
    Sample(((33,), (33,)), why="two vectors give rank 0"),
    Sample(((6, 17), (17, 16)), Attrs(accumulation_mode="relaxed"), why="another accumulation mode"),
    Sample(((6, 32), (32, 17), (17,)), dtypes=(DType.bf16,) * 3, why="bf16 into bf16, bias in bf16"),
    Sample(((6, 33), (33, 17)), dtypes=(DType.bf16,) * 2, out_dtypes=(DType.f32,), why="bf16 into f32"),
    Sample(((5, 16), (16, 8)), dtypes=(DType.f16,) * 2, out_dtypes=(DType.f16,), why="f16 into f16"),
)

SPECS = (
    OpSpec(
        "MatMul",
        Schema(
            inputs=ports("src", "weights", "bias"),
            outputs=ports("dst:T1"),
            num_inputs=(2, 3),
            types={"T": F, "T1": F},
            attrs={
                **dict.fromkeys(_TRANSPOSES, Attr("bool", default=False)),
                "accumulation_mode": Attr("string", default="strict", choices=_MODES),
            },
            check=check,
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=flops,
            threshold=lambda call: 2 * sqrt(inner_size(call)) + 4,
            f32_alternatives=_in_f32,
            follows_fpmath=True,
            computes=Computes.matmul,
        ),
        Testing(
            fill=_numbers,
            domain=domain,
            samples=tuple(s if s.out_dtypes else Sample(s.shapes, s.attrs, s.dtypes, s.dtypes[:1] or (DType.f32,), s.why) for s in SAMPLES),
            laws=(Law("the rows of dst sum to the summed rows of src times weights", _columns_sum_up),),
            fills_quantised=True,
            zero_limit=lambda call: 0.90,
        ),
        Lowering(
            Role.anchor,
            form=Contraction(
                reduced=lambda call: (inner_size(call),),
                index=lambda call, at, over: ((*at[:-1], *over), (*at[:-2], *over, at[-1])),
                group_columns=lambda call: call.outs[0].shape[-1],
            ),
            decompose=decompose,
            is_canonical=is_canonical,
            takes_panels=lambda attrs: not attrs.flag(_TRANSPOSES[1]),
        ),
    ),
)
