"""GroupNorm: the channels of every image in `groups` equal parts, each normalised to mean 0 and variance 1; gamma and beta per channel.

src is (N, C, spatial...) or (N, spatial..., C), the spatial dims any number from none on; statistics are (N, groups). The computation
uses (N, groups, C / groups, spatial) or (N, spatial, groups, C / groups), a view of src without a copy.
"""

from __future__ import annotations

from math import prod

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.fill_rules.norms import Norm
from benchgraph.ops.norms import normalise
from benchgraph.ops.norms.normalise import EPSILON, USE_AFFINE
from benchgraph.ops.ranges import STEPS
from benchgraph.ops.spatial import DATA_FORMAT, channel_axis, channels_of
from benchgraph.ops.spec import Attr, Call, Sample


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src, groups = ins[0].shape, attrs.integer("groups")
    channels = channels_of(attrs, src, "src", "GroupNorm")
    if groups < 1 or channels % groups:
        raise InvalidShape(f"the {channels} channels of src {src} do not make {groups} groups", fix="let groups divide the channels")
    for t, name in zip(ins[1:], ("gamma", "beta"), strict=False):
        normalise.expect_shape(name, t, (channels,), f"while src {src} has {channels} channels")
    return src, (src[0], groups), (src[0], groups)


def _norm(call: Call) -> Norm:
    src, groups = call.ins[0].shape, call.attrs.integer("groups")
    axis = channel_axis(call.attrs, len(src))
    parts, spatial = (groups, src[axis] // groups), prod(src) // max(src[0] * src[axis], 1)
    return Norm((src[0], *parts, spatial), (2, 3), (*parts, 1)) if axis == 1 else Norm((src[0], spatial, *parts), (1, 3), parts)


def _attrs(groups: int, data_format: str = "NCX", base: Attrs = NO_ATTRS, **more: object) -> Attrs:
    return base.updated(groups=groups, data_format=data_format).updated(**more)


_F3 = (DType.f32,) * 3
_BARE = Attrs(use_affine=False, keep_stats=False)

SPECS = (
    normalise.forward_row(
        "GroupNorm",
        _norm,
        infer,
        {
            "groups": Attr("s64", required=True, range=STEPS),
            "keep_stats": normalise.KEEP_STATS,
            "use_affine": USE_AFFINE,
            "epsilon": EPSILON,
            "data_format": DATA_FORMAT,
        },
        (
            Sample(((2, 6, 5, 3), (6,), (6,)), _attrs(3), out_dtypes=_F3, why="channels in dim 1, all optional inputs and outputs"),
            Sample(((2, 5, 3, 6), (6,), (6,)), _attrs(3, "NXC"), out_dtypes=_F3, why="channels last"),
            Sample(((2, 3, 8),), _BARE.updated(groups=2), why="data_format left out is NXC"),
            Sample(((2, 4, 17),), _attrs(1, base=_BARE), why="one group: all of an image"),
            Sample(((2, 4, 17), (4,), (4,)), _attrs(4, keep_stats=False), why="one group per channel; size not a multiple of a vector"),
            Sample(((3, 10), (10,), (10,)), _attrs(5), out_dtypes=_F3, why="no spatial dims"),
            Sample(((2, 4, 2, 3, 5),), _attrs(2, use_affine=False), out_dtypes=_F3, why="three spatial dims"),
            Sample(((3, 4),), _attrs(4, base=_BARE), why="groups of one element are 0"),
            Sample(((1, 7, 4),), _attrs(2, "NXC", _BARE, epsilon=0.5), why="one image, and an epsilon that matters"),
            Sample(((2, 6, 11), (6,), (6,)), _attrs(2), (DType.bf16, *_F3[:2]), (DType.bf16, *_F3[:2]), "bf16, the rest f32"),
            Sample(((2, 5, 6), (6,), (6,)), _attrs(2, "NXC"), (DType.bf16,) * 3, (DType.bf16,) * 3, "bf16 throughout, channels last"),
            Sample(((2, 4, 9), (4,), (4,)), _attrs(2), (DType.f16, *_F3[:2]), (DType.f16, *_F3[:2]), "f16, the rest f32"),
        ),
    ),
)
