"""LayerNorm, LayerNormBackward: each row, which is src's dims from begin_norm_axis on, normalised to mean 0 and variance 1.

gamma and beta broadcast against the row: the shape of the row, or (C,) along the last dim. keep_stats gives mean and variance (biased)
of every row, in the shape of the dims before begin_norm_axis. LayerNormBackward reads these statistics; diff_gamma and diff_beta have
gamma's shape; beta is not read. use_affine and the ports must agree, which oneDNN does not check.
"""

from __future__ import annotations

import numpy as np

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.axis import axis_of, kept
from benchgraph.ops.broadcast import broadcast_to
from benchgraph.ops.fill_rules import norms
from benchgraph.ops.fill_rules.filling import per_port
from benchgraph.ops.fill_rules.norms import Norm
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.norms import normalise
from benchgraph.ops.norms.normalise import EPSILON, STATS, USE_AFFINE, VARIANCES, Gradient
from benchgraph.ops.overflow import Arithmetic
from benchgraph.ops.spec import Attr, Decomposer, Law, Lowering, OpSpec, Role, Sample, Schema, Testing, ports
from benchgraph.ops.spec.call import Array, Call, Declared, F
from benchgraph.ops.steps import reshaped

BEGIN = Attr("s64", default=-1)
BACKWARD_FLOPS = 2 * normalise.FLOPS  # per element


def first_axis(attrs: Attrs, rank: int) -> int:
    return axis_of(attrs, rank, "begin_norm_axis")


def row_axes(call: Call) -> tuple[int, ...]:
    rank = len(call.ins[0].shape)
    return tuple(range(first_axis(call.attrs, rank), rank))


def norm(call: Call) -> Norm:
    return Norm(call.ins[0].shape, row_axes(call), call.ins[1].shape if len(call.ins) > 1 else ())


def _kept(call: Call) -> Shape:
    """The shape of the statistics with the row's dims as 1."""
    return kept(call.ins[0].shape, row_axes(call))


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    first = first_axis(attrs, len(src))
    for t, name in zip(ins[1:], ("gamma", "beta"), strict=False):
        broadcast_to(t.shape, src[first:], name, "the normalised dims")
    return src, src[:first], src[:first]


def _infer_backward(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    first = first_axis(attrs, len(src))
    normalise.expect_shape("diff_dst", ins[1], src, "unlike src")
    for t, name in zip(ins[2:4], ("mean", "variance"), strict=True):
        normalise.expect_shape(name, t, src[:first], f"which does not fit src {src} normalised from axis {first} on")
    if len(ins) == 4:
        return (src,)
    broadcast_to(ins[4].shape, src[first:], "gamma", "the normalised dims")
    return src, ins[4].shape, ins[4].shape


def _check_backward(attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> str:
    if attrs.flag("use_affine") and len(out_dtypes) != 3:
        return "use_affine is true, but the outputs diff_gamma and diff_beta are missing; add them, or set use_affine to false"
    if len(out_dtypes) == 3 and not attrs.flag("use_affine"):
        return "use_affine is false, but there are outputs diff_gamma and diff_beta; set use_affine to true, or remove them"
    wrong_types = normalise.check_stats("gamma and statistics", data=2)(attrs, ins, out_dtypes)
    return normalise.check_affine(attrs, len(ins) - 4, "gamma") or wrong_types


def _backward_parts(call: Call, ins: tuple[Array, ...], a: Arithmetic = overflow.EXACT) -> tuple[Reals, Reals, Reals]:
    """src normalised, diff_dst times gamma, and the deviation."""
    mean, variance = (real(s).reshape(_kept(call)) for s in ins[2:4])
    dev = np.sqrt(variance + call.attrs.real("epsilon"))
    g = a.step(real(ins[1]) * (real(ins[4]) if len(ins) > 4 else 1.0))
    return a.step(a.step(real(ins[0]) - mean) / dev), g, dev


def _sum_to(values: Reals, shape: Shape, a: Arithmetic) -> Reals:
    lead = values.ndim - len(shape)
    axes = tuple(i for i in range(values.ndim) if i < lead or shape[i - lead] == 1)
    return a.sum(values, axes).reshape(shape)


def _backward(call: Call, ins: tuple[Array, ...], a: Arithmetic) -> tuple[Array, ...]:
    x, g, dev = _backward_parts(call, ins, a)
    diff_src = normalise.gradient_formula(x, g, row_axes(call), a) / dev
    if len(call.outs) == 1:
        return (diff_src,)
    return diff_src, _sum_to(real(ins[1]) * x, call.outs[1].shape, a), _sum_to(real(ins[1]), call.outs[2].shape, a)


def _decompose_backward(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Two means per row, then diff_src; diff_gamma and diff_beta are sums over rows, in another nest."""
    src, diff_dst = ins[:2]
    mean, variance = (reshaped(d, v, _kept(call)) for v in ins[2:4])
    inverse = normalise.inverse_deviation(d, variance, call.attrs.real("epsilon"))
    g = d.op("Multiply", diff_dst, ins[4], dtype=DType.f32) if len(ins) > 4 else diff_dst
    x = normalise.standardised(d, src, mean, inverse)
    diff_src = normalise.gradient(d, x, inverse, g, row_axes(call), call.outs[0].dtype)
    if len(call.outs) == 1:
        return (diff_src,)
    again = normalise.standardised(d, src, mean, inverse)  # recomputed, so that no x of src's size is stored between nests
    diff_gamma = normalise.sum_to(d, d.op("Multiply", diff_dst, again, dtype=DType.f32), call.outs[1])
    return diff_src, diff_gamma, normalise.sum_to(d, diff_dst, call.outs[2])


def _gradient(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Gradient:
    x, g, dev = _backward_parts(call, ins)
    return Gradient(real(outs[0]), x, g, dev, row_axes(call))


def _longest_sum(call: Call) -> int:
    """Over a row, or over rows."""
    size = norm(call).reduced_size
    return max(size, call.ins[0].elements // max(size, 1))


def _gammas_total(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    if len(outs) == 1:
        return True
    x, _, _ = _backward_parts(call, ins)
    diff_dst, want = real(ins[1]), np.array([np.vdot(real(ins[1]), x), real(ins[1]).sum()])
    got = np.array([real(o).sum() for o in outs[1:]])
    return bool(np.all(np.abs(got - want) <= 16 * rtol * (1 + np.abs(diff_dst).sum() * (1 + np.abs(x).max()))))


_NO_STATS, _BARE = Attrs(keep_stats=False), Attrs(keep_stats=False, use_affine=False)
_F3 = (DType.f32,) * 3
SAMPLES = (
    Sample(((4, 17), (17,), (17,)), _NO_STATS, why="rows with gamma and beta, a tail"),
    Sample(((3, 16),), _BARE, why="neither affine nor statistics"),
    Sample(((2, 3, 33),), Attrs(use_affine=False), out_dtypes=_F3, why="statistics of rank 2"),
    Sample(((2, 3, 4, 5), (4, 5), (4, 5)), Attrs(begin_norm_axis=2), out_dtypes=_F3, why="rows of two dims, gamma in their shape"),
    Sample(((2, 3, 5), (5,), (5,)), Attrs(begin_norm_axis=-2), out_dtypes=_F3, why="rows of two dims, gamma along the last"),
    Sample(((3, 4, 5),), Attrs(begin_norm_axis=0, use_affine=False), out_dtypes=_F3, why="everything is one row, statistics of rank 0"),
    Sample(((5, 1), (1,), (1,)), _NO_STATS, why="a row of one is beta"),
    Sample(((1000,), (1000,), (1000,)), Attrs(begin_norm_axis=-1), out_dtypes=_F3, why="a long vector"),
    Sample(((3, 7), (7,), (7,)), Attrs(keep_stats=False, epsilon=0.5), why="an epsilon that matters"),
    Sample(((2, 7, 1, 15),), Attrs(begin_norm_axis=1, use_affine=False), out_dtypes=_F3, why="a dim of 1 within the row"),
    Sample(((4, 33), (33,), (33,)), Attrs(), (DType.bf16, DType.f32, DType.f32), (DType.bf16, DType.f32, DType.f32), "bf16, the rest f32"),
    Sample(((4, 19), (19,), (19,)), Attrs(), (DType.bf16,) * 3, (DType.bf16,) * 3, "bf16 throughout"),
    Sample(((3, 31), (31,), (31,)), Attrs(), (DType.f16, DType.f32, DType.f32), (DType.f16, DType.f32, DType.f32), "f16, the rest f32"),
)


def _back(shape: Shape, first: int, *gammas: Shape, dtypes: tuple[DType, ...] = (), why: str, **attrs: AttrValue) -> Sample:
    """src, diff_dst, mean, variance and what more there is; dtypes: of src and of the statistics."""
    data, stats = dtypes or (DType.f32, DType.f32)
    shapes = (shape, shape, shape[:first], shape[:first], *gammas)
    outs = (data, stats, stats) if gammas else (data,)
    return Sample(shapes, Attrs(attrs, use_affine=bool(gammas)), (data, data) + (stats,) * (len(shapes) - 2), outs, why)


_BACKWARD_SAMPLES = (
    _back((4, 17), 1, (17,), (17,), why="all six inputs, a tail"),
    _back((4, 16), 1, (16,), why="beta left out: it is not needed"),
    _back((2, 3, 33), 2, why="no affine, rank 3"),
    _back((2, 3, 4, 5), 2, (4, 5), (4, 5), begin_norm_axis=2, why="rows of two dims, gamma in their shape"),
    _back((2, 3, 5), 1, (5,), (5,), begin_norm_axis=-2, why="rows of two dims, gamma along the last"),
    _back((3, 4), 0, (3, 4), (3, 4), begin_norm_axis=0, why="gamma of src's shape: nothing to sum over"),
    _back((5, 1), 1, (1,), (1,), why="rows of one"),
    _back((3, 7), 1, (7,), (7,), epsilon=0.5, why="an epsilon that matters"),
    _back((4, 33), 1, (33,), (33,), dtypes=(DType.bf16, DType.f32), why="bf16, the rest f32"),
    _back((4, 19), 1, (19,), (19,), dtypes=(DType.bf16, DType.bf16), why="bf16 throughout"),
    _back((3, 31), 1, (31,), dtypes=(DType.f16, DType.f32), why="f16, the rest f32"),
)

SPECS = (
    normalise.forward_row(
        "LayerNorm",
        norm,
        infer,
        {"keep_stats": normalise.KEEP_STATS, "begin_norm_axis": BEGIN, "use_affine": USE_AFFINE, "epsilon": EPSILON},
        SAMPLES,
    ),
    OpSpec(
        "LayerNormBackward",
        Schema(
            inputs=ports("src:T1", "diff_dst:T1", "mean:T2", "variance:T2", "gamma:T2", "beta:T2"),
            outputs=ports("diff_src:T1", "diff_gamma:T2", "diff_beta:T2"),
            num_inputs=(4, 5, 6),
            num_outputs=(1, 3),
            types={"T1": F, "T2": STATS},
            attrs={"begin_norm_axis": BEGIN, "use_affine": USE_AFFINE, "epsilon": EPSILON},
            check=_check_backward,
        ),
        overflow.semantics(
            _backward,
            infer=_infer_backward,
            flops=lambda call: BACKWARD_FLOPS * call.ins[0].elements,
            threshold=lambda call: normalise.gradient_walk(_longest_sum(call)),
        ),
        Testing(
            fill=per_port(norms.beside_the_mean(norm), norms.gradient, norms.mean, norms.variance, norms.scale, norms.shift),
            domain=fills.per_port(fills.MEAN_ONE, fills.PLAIN, fills.uniform(0.5, 1.5), VARIANCES, fills.AWAY_FROM_ZERO, fills.PLAIN),
            samples=_BACKWARD_SAMPLES,
            laws=(*normalise.backward_laws(_gradient), Law("diff_gamma and diff_beta sum to what all elements give", _gammas_total)),
            gradient_of="LayerNorm",
        ),
        Lowering(Role.row, decompose=_decompose_backward),
    ),
)
