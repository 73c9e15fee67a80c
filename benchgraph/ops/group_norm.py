"""GroupNorm: the channels of every image in `groups` equal parts, each normalised to mean 0 and variance 1; gamma and beta per channel.

src is (N, C, spatial...) or (N, spatial..., C), the spatial dims any number from none on; statistics are (N, groups). The computation
sees (N, groups, C / groups, spatial) or (N, spatial, groups, C / groups), which is a view of src, so that no element moves.
"""

from __future__ import annotations

from math import prod

import numpy as np

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, normalize
from benchgraph.ops.axis import kept
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.normalize import EPSILON, STATS, USE_AFFINE, Rows
from benchgraph.ops.spatial import DATA_FORMAT, channel_axis
from benchgraph.ops.spec import Array, Attr, Call, Decomposer, F, OpSpec, Port, Role, Sample
from benchgraph.ops.steps import in_steps, reshaped, stored
from benchgraph.ops.strategies import norms
from benchgraph.ops.strategies.filling import per_port

FLOPS = 7  # per element: sum, subtract, square, sum, divide, scale, shift


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, groups = ins[0].shape, attrs.integer("groups")
    if len(src) < 2:
        raise InvalidShape(f"src {src} has rank {len(src)}", fix="GroupNorm takes rank 2 or more: batch and channel")
    channels = src[channel_axis(attrs, len(src))]
    if groups < 1 or channels % groups:
        raise InvalidShape(f"the {channels} channels of src {src} do not make {groups} groups", fix="let groups divide the channels")
    for t, name in zip(ins[1:], ("gamma", "beta"), strict=False):
        normalize.expect_shape(name, t, (channels,), f"while src {src} has {channels} channels")
    return src, (src[0], groups), (src[0], groups)


def _grouped(call: Call) -> Shape:
    src, groups = call.ins[0].shape, call.attrs.integer("groups")
    axis = channel_axis(call.attrs, len(src))
    parts, spatial = (groups, src[axis] // groups), prod(src) // max(src[0] * src[axis], 1)
    return (src[0], *parts, spatial) if axis == 1 else (src[0], spatial, *parts)


def _axes(call: Call) -> tuple[int, int]:
    """What is normalised together, in the grouped shape."""
    return (2, 3) if channel_axis(call.attrs, len(call.ins[0].shape)) == 1 else (1, 3)


def _affine_shape(call: Call) -> Shape:
    """gamma and beta as they broadcast against the grouped src."""
    grouped = _grouped(call)
    return (*grouped[1:3], 1) if _axes(call) == (2, 3) else grouped[2:]


def _folded(call: Call) -> int:
    return prod(_grouped(call)[a] for a in _axes(call))


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0]).reshape(_grouped(call))
    mean, variance = normalize.moments(src, _axes(call))
    dst = (src - mean) / np.sqrt(variance + call.attrs.real("epsilon"))
    if len(ins) > 1:
        gamma, beta = (real(a).reshape(_affine_shape(call)) for a in ins[1:])
        dst = dst * gamma + beta
    stats = (s.reshape(t.shape) for s, t in zip((mean, variance), call.outs[1:], strict=False))
    return (dst.reshape(call.outs[0].shape), *stats)


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """LayerNorm's ops on src seen as groups."""
    src = reshaped(d, ins[0], _grouped(call))
    gamma_beta = tuple(reshaped(d, v, _affine_shape(call)) for v in ins[1:])
    centred, mean, variance = normalize.centre(d, src, _axes(call))
    inverse = normalize.inverse_deviation(d, variance, call.attrs.real("epsilon"))
    dst = in_steps(d, centred, (("Multiply", inverse), *normalize.affine(gamma_beta)), call.outs[0].dtype)
    stats = (stored(d, s, t) for s, t in zip((mean, variance), call.outs[1:], strict=False))
    return (reshaped(d, dst, call.outs[0].shape), *stats)


def _rows(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...]) -> Rows:
    grouped, axes = _grouped(call), _axes(call)
    dst: Reals = real(outs[0]).reshape(grouped)
    if len(ins) > 1:
        gamma, beta = (real(a).reshape(_affine_shape(call)) for a in ins[1:])
        dst = (dst - beta) / gamma
    mean, variance = (real(s).reshape(kept(grouped, axes)) for s in outs[1:]) if len(outs) > 1 else (None, None)
    return Rows(real(ins[0]).reshape(grouped), dst, axes, mean, variance)


def _attrs(groups: int, data_format: str = "NCX", base: Attrs = NO_ATTRS, **more: object) -> Attrs:
    return base.updated(groups=groups, data_format=data_format).updated(**more)


_F3 = (DType.f32,) * 3
_BARE = Attrs(use_affine=False, keep_stats=False)

SPECS = (
    OpSpec(
        kind="GroupNorm",
        role=Role.row,
        inputs=(Port("src", "T1"), Port("gamma", "T2"), Port("beta", "T2")),
        outputs=(Port("dst", "T1"), Port("mean", "T2"), Port("variance", "T2")),
        types={"T1": F, "T2": STATS},
        attrs={
            "groups": Attr("s64", required=True),
            "keep_stats": Attr("bool", default=True),
            "use_affine": USE_AFFINE,
            "epsilon": EPSILON,
            "data_format": DATA_FORMAT,
        },
        num_inputs=(1, 3),
        num_outputs=(1, 3),
        infer=infer,
        reference=reference,
        flops=lambda call: FLOPS * call.ins[0].elements,
        threshold=lambda call: normalize.walk(_folded(call)),
        fill=per_port(norms.paired(lambda call: (_grouped(call), _axes(call))), norms.scale, norms.shift),
        domain=fills.per_port(fills.MEAN_ONE, fills.away_from_zero, fills.PLAIN),
        samples=(
            Sample(((2, 6, 5, 3), (6,), (6,)), _attrs(3), out_dtypes=_F3, why="channels in dim 1, everything else on"),
            Sample(((2, 5, 3, 6), (6,), (6,)), _attrs(3, "NXC"), out_dtypes=_F3, why="channels last"),
            Sample(((2, 3, 8),), _BARE.updated(groups=2), why="data_format left out is NXC"),
            Sample(((2, 4, 17),), _attrs(1, base=_BARE), why="one group: all of an image"),
            Sample(((2, 4, 17), (4,), (4,)), _attrs(4, keep_stats=False), why="a group per channel, a tail"),
            Sample(((3, 10), (10,), (10,)), _attrs(5), out_dtypes=_F3, why="no spatial dims"),
            Sample(((2, 4, 2, 3, 5),), _attrs(2, use_affine=False), out_dtypes=_F3, why="three spatial dims"),
            Sample(((3, 4),), _attrs(4, base=_BARE), why="groups of one element are 0"),
            Sample(((1, 7, 4),), _attrs(2, "NXC", _BARE, epsilon=0.5), why="one image, and an epsilon that matters"),
            Sample(((2, 6, 11), (6,), (6,)), _attrs(2), (DType.bf16, *_F3[:2]), (DType.bf16, *_F3[:2]), "bf16, the rest f32"),
            Sample(((2, 5, 6), (6,), (6,)), _attrs(2, "NXC"), (DType.bf16,) * 3, (DType.bf16,) * 3, "bf16 throughout, channels last"),
            Sample(((2, 4, 9), (4,), (4,)), _attrs(2), (DType.f16, *_F3[:2]), (DType.f16, *_F3[:2]), "f16, the rest f32"),
        ),
        laws=normalize.forward_laws(_rows),
        check=normalize.check_forward,
        decompose=decompose,
    ),
)
