"""BatchNormInference, BatchNormForwardTraining, BatchNormTrainingBackward: every channel, over batch and spatial dims, normalised.

The channel is the last dim (NXC) or dim 1 (NCX); mean, variance, gamma and beta are (C,). Any rank from 2 on, backward too.
Training: variance is biased, in the batch's statistics and in the running ones, which become momentum * old + (1 - momentum) * batch.
momentum has no default in the schema; if absent it is 0.5, as in oneDNN's code (3.2 to 3.13). gamma may come without beta (then 0).
Backward: the statistics are the batch's, as given. gamma scales diff_src whenever it is given: oneDNN's code ignores it when there is no
output diff_gamma, which is not the gradient of the forward op.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.fill_rules import norms
from benchgraph.ops.fill_rules.filling import per_port
from benchgraph.ops.fill_rules.norms import Norm
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.norms import normalise
from benchgraph.ops.norms.normalise import EPSILON, STATS, VARIANCES, Gradient, Rows
from benchgraph.ops.overflow import Arithmetic
from benchgraph.ops.ranges import SHARE
from benchgraph.ops.spatial import DATA_FORMAT, all_but_channel, beside_channel, channels_of
from benchgraph.ops.spec import Attr, Decomposer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.steps import in_steps, reduced, reshaped, stored

INFERENCE_FLOPS, BACKWARD_FLOPS = 4, 2 * normalise.FLOPS  # per element: subtract, divide, scale, shift; LayerNorm's gradients'


def _axes(call: Call) -> tuple[int, ...]:
    """The normalised axes: all but the channel."""
    return all_but_channel(call.attrs, len(call.ins[0].shape))


def _norm(call: Call) -> Norm:
    return Norm(call.ins[0].shape, _axes(call), _per_channel(call))


def _zero_limit(call: Call) -> float:
    """In bf16 a difference of neighbours is often 0."""
    return 0.99 if call.ins[0].dtype is DType.bf16 else 0.30


def _per_channel(call: Call) -> Shape:
    return beside_channel(call.attrs, call.ins[0].shape)


def _check_channels(attrs: Attrs, ins: tuple[TensorType, ...], names: tuple[str, ...]) -> Shape:
    """(C,), which is the shape of all inputs of these names. Raises InvalidShape."""
    src = ins[0].shape
    want = (channels_of(attrs, src, "src", "batch normalisation"),)
    for t, name in zip(ins[-len(names) :], names, strict=True):
        normalise.expect_shape(name, t, want, f"while src {src} has {want[0]} channels")
    return want


def _spread(call: Call, arrays: tuple[Array, ...]) -> tuple[Reals, ...]:
    """(C,) arrays reshaped so that they broadcast against src."""
    return tuple(real(a).reshape(_per_channel(call)) for a in arrays)


# ---- BatchNormInference ----------------------------------------------------------------------------------------------


def _infer_inference(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    _check_channels(attrs, ins, ("gamma", "beta", "mean", "variance"))
    return (ins[0].shape,)


def _inferred(call: Call, ins: tuple[Array, ...], a: Arithmetic) -> tuple[Array, ...]:
    """gamma over the deviation first, as libraries compute it per channel."""
    gamma, beta, mean, variance = _spread(call, ins[1:])
    scale = a.step(gamma / np.sqrt(variance + call.attrs.real("epsilon")))
    return (a.step(a.step(real(ins[0]) - mean) * scale) + beta,)


def _decompose_inference(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Subtract, Multiply, Add; gamma over the deviation is computed per channel."""
    gamma, beta, mean, variance = (reshaped(d, v, _per_channel(call)) for v in ins[1:])
    scale = d.op("Multiply", gamma, normalise.inverse_deviation(d, variance, call.attrs.real("epsilon")), dtype=DType.f32)
    steps = (("Subtract", mean), ("Multiply", scale), ("Add", beta))
    return (in_steps(d, ins[0], steps, call.outs[0].dtype),)


def _undoes(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    gamma, beta, mean, variance = _spread(call, ins[1:])
    dev = np.sqrt(variance + call.attrs.real("epsilon"))
    return near((real(outs[0]) - beta) / gamma * dev + mean, real(ins[0]), 32 * rtol)


# ---- BatchNormForwardTraining ----------------------------------------------------------------------------------------


def _infer_training(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    channels = _check_channels(attrs, ins, ("mean", "variance", "gamma", "beta")[: len(ins) - 1])
    return (ins[0].shape,) + (channels,) * 4


def _momentum(call: Call) -> float:
    """As the f32 number that the attribute is."""
    return float(np.float32(call.attrs.real("momentum"))) if "momentum" in call.attrs else 0.5


def _training_in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
    """As for the other norms; and running statistics are NaN where the old or the batch's are infinite, if computed as old + share * gap.
    With a share of 0 there is no gap."""
    src, axes = real(ins[0]), _axes(call)
    alternatives = normalise.moments_in_f32(src, axes) or (normalise.moments(src, axes),)
    return tuple(outs for moments in alternatives for outs in _stepped(call, ins, _trained(call, ins, *moments, normalise.SCALED)))


def _stepped(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
    """These outputs, and others with NaN where the gap between old and new statistics is infinite."""
    dst, *running, mean, variance = outs
    olds = zip(running, ins[1:3], (mean, variance), strict=True)
    lost = [np.where(np.isfinite(real(old)) & np.isfinite(overflow.as_f32(real(new))), r, np.nan) for r, old, new in olds]
    is_stepped = _momentum(call) not in (0, 1) and not all(map(np.array_equal, lost, running))
    return (outs, (dst, *lost, mean, variance)) if is_stepped else (outs,)


def _trained(call: Call, ins: tuple[Array, ...], mean: Reals, variance: Reals, a: Arithmetic = overflow.EXACT) -> tuple[Array, ...]:
    src, momentum = real(ins[0]), _momentum(call)
    dst = (src - mean) / np.sqrt(variance + call.attrs.real("epsilon"))
    for operate, operand in zip((np.multiply, np.add), _spread(call, ins[3:]), strict=False):
        dst = a.step(operate(dst, operand))
    mean, variance = mean.ravel(), variance.ravel()
    pairs = zip(map(real, ins[1:3]), (mean, variance), strict=True)
    shares = (momentum, 1 - momentum)
    parts = ([share * stat for share, stat in zip(shares, pair, strict=True) if share] for pair in pairs)
    return a.result(dst), *(np.asarray(sum(running)) for running in parts), mean, variance


def _decompose_training(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """LayerNorm's ops along other axes; the running statistics in the same nest."""
    centred, mean, variance = normalise.centre(d, ins[0], _axes(call))
    inverse = normalise.inverse_deviation(d, variance, call.attrs.real("epsilon"))
    gamma_beta = tuple(reshaped(d, v, _per_channel(call)) for v in ins[3:])
    dst = in_steps(d, centred, (("Multiply", inverse), *normalise.affine(gamma_beta)), call.outs[0].dtype)
    running = tuple(_running(d, call, old, batch) for old, batch in zip(ins[1:3], (mean, variance), strict=True))
    stats = (stored(d, v, t) for v, t in zip((*running, mean, variance), call.outs[1:], strict=True))
    return (dst, *stats)


def _running(d: Decomposer, call: Call, old: int, batch: int) -> int:
    """momentum * old + (1 - momentum) * batch, in batch's shape, as a + share * (b - a) with a share of at most 1/2.

    A larger share would cancel most digits where a is much larger than b. An operand with a share of 0 is left out, infinities too.
    """
    momentum, old = _momentum(call), reshaped(d, old, d.type(batch).shape)
    if momentum in (0, 1):
        return old if momentum else batch
    start, end, share = (batch, old, momentum) if momentum <= 0.5 else (old, batch, 1 - momentum)
    gap = d.op("Subtract", end, start, dtype=DType.f32)
    return d.op("Add", start, d.op("Multiply", gap, d.const(share)), dtype=DType.f32)


def _rows(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Rows:
    given = _spread(call, ins[3:])
    gamma = given[0] if given else 1.0
    beta = given[1] if len(given) > 1 else 0.0
    mean, variance = _spread(call, outs[3:])
    return Rows(real(ins[0]), (real(outs[0]) - beta) / gamma, _axes(call), mean, variance)


def _is_on_the_way(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """The gap between the running statistics and the batch's is momentum times the old gap."""
    for old, running, batch in zip(ins[1:3], outs[1:3], outs[3:5], strict=True):
        slack = 16 * rtol * (1 + float(np.max(np.abs(batch))) + float(np.max(np.abs(old))))
        if np.any(np.abs((real(running) - real(batch)) - _momentum(call) * (real(old) - real(batch))) > slack):
            return False
    return True


# ---- BatchNormTrainingBackward ---------------------------------------------------------------------------------------


def _infer_backward(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    channels = _check_channels(attrs, ins, ("mean", "variance", "gamma")[: len(ins) - 2])
    normalise.expect_shape("diff_dst", ins[1], ins[0].shape, "unlike src")
    return ins[0].shape, channels, channels


def _parts(call: Call, ins: tuple[Array, ...], a: Arithmetic = overflow.EXACT) -> tuple[Reals, Reals, Reals]:
    """src normalised, gamma over the deviation, the deviation."""
    mean, variance = _spread(call, ins[2:4])
    dev = np.sqrt(variance + call.attrs.real("epsilon"))
    gamma = _spread(call, ins[4:])
    return a.step(a.step(real(ins[0]) - mean) / dev), (gamma[0] if gamma else 1.0) / dev, dev


def _backward(call: Call, ins: tuple[Array, ...], a: Arithmetic) -> tuple[Array, ...]:
    axes, diff_dst = _axes(call), real(ins[1])
    x, scale, _ = _parts(call, ins, a)
    diff_gamma, diff_beta = a.sum(diff_dst * x, axes), a.sum(diff_dst, axes)
    return (scale * normalise.gradient_formula(x, diff_dst, axes, a), diff_gamma, diff_beta)[: len(call.outs)]


def _decompose_backward(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """diff_gamma and diff_beta are the sums that diff_src needs anyway: one nest over channels."""
    src, diff_dst = ins[:2]
    mean, variance, *gamma = (reshaped(d, v, _per_channel(call)) for v in ins[2:])
    inverse = normalise.inverse_deviation(d, variance, call.attrs.real("epsilon"))
    x = normalise.standardised(d, src, mean, inverse)
    diff_gamma = reduced(d, "ReduceSum", d.op("Multiply", diff_dst, x, dtype=DType.f32), _axes(call))
    diff_beta = reduced(d, "ReduceSum", diff_dst, _axes(call))
    count = d.const(_norm(call).reduced_size)
    along, shift = d.op("Divide", diff_gamma, count), d.op("Divide", diff_beta, count)
    left = d.op("Subtract", diff_dst, shift, dtype=DType.f32)
    steps = (("Subtract", d.op("Multiply", x, along)), ("Multiply", inverse), *(("Multiply", g) for g in gamma))
    diff_src = in_steps(d, left, steps, call.outs[0].dtype)
    sums = (stored(d, v, t) for v, t in zip((diff_gamma, diff_beta), call.outs[1:], strict=False))
    return (diff_src, *sums)


def _gradient(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Gradient:
    x, scale, dev = _parts(call, ins)
    return Gradient(real(outs[0]), x, real(ins[1]) * scale * dev, np.broadcast_to(dev, x.shape), _axes(call))


def _sums_recover_products(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """Per channel, diff_beta is the sum of diff_dst, and deviation * diff_gamma + mean * diff_beta that of diff_dst * src."""
    if len(outs) < 2:
        return True
    axes, diff_dst, src = _axes(call), real(ins[1]), real(ins[0])
    dev, beta = np.sqrt(real(ins[3]) + call.attrs.real("epsilon")), diff_dst.sum(axis=axes)
    slack = 32 * rtol * (1 + np.abs(diff_dst).sum(axis=axes) * (1 + np.abs(src).max() + np.abs(real(ins[2]))))
    ok = np.all(np.abs(dev * real(outs[1]) + real(ins[2]) * beta - (diff_dst * src).sum(axis=axes)) <= slack)
    return bool(ok and (len(outs) == 2 or np.all(np.abs(real(outs[2]) - beta) <= slack)))


_NCX, _NXC = (Attrs(data_format=f, epsilon=0.0625) for f in ("NCX", "NXC"))
_f32, _bf16, _f16 = DType.f32, DType.bf16, DType.f16
_SHAPES: tuple[tuple[Shape, int, Attrs, tuple[DType, DType], str], ...] = (
    ((2, 5, 3, 4), 5, _NCX, (_f32, _f32), "channel in dim 1"),
    ((2, 3, 4, 17), 17, _NXC, (_f32, _f32), "channel last, a tail"),
    ((3, 2, 8), 8, Attrs(epsilon=1e-05), (_f32, _f32), "data_format left out is NXC; a small epsilon"),
    ((7, 19), 19, _NCX, (_f32, _f32), "no spatial dims: both formats are one"),
    ((2, 3, 2, 2, 7), 3, _NCX, (_f32, _f32), "three spatial dims"),
    ((3, 1, 16), 1, _NCX, (_f32, _f32), "one channel"),
    ((2, 4, 33), 4, _NCX, (_bf16, _f32), "bf16, the rest f32"),
    ((4, 3, 15), 15, _NXC, (_bf16, _bf16), "bf16 throughout, channel last"),
    ((2, 5, 9), 5, _NCX, (_f16, _f32), "f16, the rest f32"),
)


def _samples(data: int, stats: int, outs: int) -> tuple[Sample, ...]:
    """data: inputs like src. stats: inputs (C,). outs: dst or diff_src, then (C,) ones."""
    return tuple(
        Sample((shape,) * data + ((c,),) * stats, attrs, (t,) * data + (s,) * stats, (t,) + (s,) * (outs - 1), why)
        for shape, c, attrs, (t, s), why in _SHAPES
    )


_PLANES = (2, 3, 5, 5)
_EPSILON = replace(EPSILON, required=True, default=None)

SPECS = (
    OpSpec(
        "BatchNormInference",
        Schema(
            inputs=ports("src:T1", "gamma:T2", "beta:T2", "mean:T2", "variance:T2"),
            outputs=ports("dst:T1"),
            types={"T1": F, "T2": STATS},
            attrs={"epsilon": _EPSILON, "data_format": DATA_FORMAT},
            check=normalise.check_stats("gamma, beta, mean and variance", data=1),
        ),
        overflow.semantics(
            _inferred,
            infer=_infer_inference,
            flops=lambda call: INFERENCE_FLOPS * call.ins[0].elements,
            # a root, two quotients, three more operations, each off by half an eps, and some slack for cancelling
            threshold=lambda call: 8.0,
        ),
        Testing(
            fill=per_port(norms.paired(_norm), norms.scale, norms.shift, norms.mean, norms.variance),
            domain=fills.per_port(fills.MEAN_ONE, fills.AWAY_FROM_ZERO, fills.PLAIN, fills.uniform(0.5, 1.5), VARIANCES),
            samples=(*_samples(1, 4, 1), Sample(((1, 1), *((1,),) * 4), _NCX, why="a single element")),
            laws=(Law("less beta, over gamma, times the deviation, plus mean, it is src", _undoes),),
            zero_limit=_zero_limit,
        ),
        Lowering(Role.pointwise, decompose=_decompose_inference),
    ),
    OpSpec(
        "BatchNormForwardTraining",
        Schema(
            inputs=ports("src:T1", "mean:T2", "variance:T2", "gamma:T2", "beta:T2"),
            outputs=ports("dst:T1", "running_mean:T2", "running_variance:T2", "batch_mean:T2", "batch_variance:T2"),
            num_inputs=(3, 4, 5),
            types={"T1": F, "T2": STATS},
            attrs={"epsilon": _EPSILON, "momentum": Attr("f32", range=SHARE), "data_format": DATA_FORMAT},
            check=normalise.check_stats("statistics, gamma and beta", data=1),
        ),
        Semantics(
            infer=_infer_training,
            reference=lambda call, ins: _trained(call, ins, *normalise.moments(real(ins[0]), _axes(call))),
            flops=lambda call: normalise.FLOPS * call.ins[0].elements,
            threshold=lambda call: normalise.walk(_norm(call).reduced_size),
            f32_alternatives=_training_in_f32,
        ),
        Testing(
            fill=per_port(norms.paired(_norm), norms.mean, norms.variance, norms.scale, norms.shift),
            domain=fills.per_port(fills.MEAN_ONE, fills.uniform(0.5, 1.5), VARIANCES, fills.AWAY_FROM_ZERO, fills.PLAIN),
            samples=(
                *_samples(1, 4, 5),
                Sample((_PLANES, (3,), (3,)), _NCX.updated(momentum=0.75), out_dtypes=(_f32,) * 5, why="a momentum, no gamma and beta"),
                Sample((_PLANES, (3,), (3,), (3,)), _NCX.updated(momentum=0.1), out_dtypes=(_f32,) * 5, why="gamma without beta"),
                Sample((_PLANES, *((5,),) * 4), _NXC.updated(momentum=1.0), out_dtypes=(_f32,) * 5, why="running statistics that stay"),
                Sample(((2, 3, 5), (3,), (3,)), _NCX.updated(momentum=0.5), (_bf16,) * 3, (_bf16,) * 5, "bf16 running statistics"),
                Sample(((1, 4), *((4,),) * 4), _NCX, out_dtypes=(_f32,) * 5, why="one element per channel: dst is beta"),
            ),
            laws=(*normalise.forward_laws(_rows), Law("the running statistics go momentum's share of the way", _is_on_the_way)),
            zero_limit=_zero_limit,
        ),
        Lowering(Role.row, decompose=_decompose_training),
    ),
    OpSpec(
        "BatchNormTrainingBackward",
        Schema(
            inputs=ports("src:T1", "diff_dst:T1", "mean:T2", "variance:T2", "gamma:T2"),
            outputs=ports("diff_src:T1", "diff_gamma:T2", "diff_beta:T2"),
            num_inputs=(4, 5),
            num_outputs=(1, 2, 3),
            types={"T1": F, "T2": STATS},
            attrs={"epsilon": _EPSILON, "data_format": DATA_FORMAT},
            check=normalise.check_stats("statistics and gamma", data=2),
        ),
        overflow.semantics(
            _backward,
            infer=_infer_backward,
            flops=lambda call: BACKWARD_FLOPS * call.ins[0].elements,
            threshold=lambda call: normalise.gradient_walk(_norm(call).reduced_size),
        ),
        Testing(
            fill=per_port(norms.beside_the_mean(_norm), norms.gradient, norms.mean, norms.variance, norms.scale),
            domain=fills.per_port(fills.MEAN_ONE, fills.PLAIN, fills.uniform(0.5, 1.5), VARIANCES, fills.AWAY_FROM_ZERO),
            samples=(
                *_samples(2, 3, 3),
                Sample((_PLANES, _PLANES, (3,), (3,)), _NCX, out_dtypes=(_f32,), why="no gamma, diff_src alone"),
                Sample((_PLANES, _PLANES, (3,), (3,), (3,)), _NCX, out_dtypes=(_f32,), why="gamma counts without diff_gamma"),
                Sample((_PLANES, _PLANES, (5,), (5,), (5,)), _NXC, out_dtypes=(_f32,) * 2, why="diff_gamma without diff_beta"),
                Sample((_PLANES, _PLANES, (3,), (3,)), _NCX, out_dtypes=(_f32,) * 3, why="sums without a gamma"),
                Sample(((1, 4), (1, 4), *((4,),) * 3), _NCX, out_dtypes=(_f32,) * 3, why="one element per channel"),
            ),
            laws=(
                *normalise.backward_laws(_gradient),
                Law("diff_gamma and diff_beta give the sum of diff_dst * src", _sums_recover_products),
            ),
            gradient_of="BatchNormForwardTraining",
            zero_limit=_zero_limit,
        ),
        Lowering(Role.row, decompose=_decompose_backward),
    ),
)
