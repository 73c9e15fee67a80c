"""Samples of the convolutions: one list of problems, each as all six ops, and problems for single ops."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution import problem
from benchgraph.ops.convolution.problem import INTO_DST, INTO_SRC, INTO_WEI, OUT, Sides, infer, wei_shape
from benchgraph.ops.spatial import data_shape
from benchgraph.ops.spec import Sample


@dataclass(frozen=True)
class _Case:
    """A problem: images, channels in and out, the spatial dims of its src, the kernel; and the attributes.

    ncx: channels first; oix: the kernel last.
    """

    why: str
    batch: int
    channels: int
    out: int
    spatial: Shape
    kernel: Shape
    strides: Shape = ()
    dilations: Shape = ()
    begin: Shape = ()
    end: Shape = ()
    groups: int = 1
    ncx: bool = False
    oix: bool = False
    auto_pad: str = "None"
    dtype: DType = DType.f32

    def attrs(self, sides: Sides) -> Attrs:
        ones, zeros = (1,) * len(self.kernel), (0,) * len(self.kernel)
        formats = ("XOI", "IOX") if sides.is_transposed else ("XIO", "OIX")
        return Attrs(
            strides=self.strides or ones, dilations=self.dilations or ones, pads_begin=self.begin or zeros, pads_end=self.end or zeros,
            groups=self.groups, data_format="NCX" if self.ncx else "NXC", weights_format=formats[self.oix], auto_pad=self.auto_pad,
        )  # fmt: skip

    def shapes(self, sides: Sides) -> tuple[Shape, Shape, Shape]:
        """src, wei and dst of the problem as the op's tensors have them."""
        attrs = self.attrs(sides)
        src = data_shape(attrs, self.batch, self.channels, self.spatial)
        wei = wei_shape(attrs, self.kernel, self.channels // self.groups, self.out)
        return src, wei, infer(attrs, (src, wei), Sides(0, 1, OUT, sides.is_transposed), None)

    def sample(self, sides: Sides, shape_attr: str = "") -> Sample:
        """The op of the problem that computes side OUT. shape_attr: the attribute that gets the output's shape."""
        shapes = self.shapes(sides)
        positions = (sides.src, sides.wei, sides.dst)
        ins = tuple(shapes[positions.index(i)] for i in (0, 1))
        attrs = self.attrs(sides).updated(**{shape_attr: shapes[positions.index(OUT)]} if shape_attr else {})
        return Sample(ins, attrs, (self.dtype,) * 2, why=self.why)


CASES = (
    _Case("1x1: a product of matrices", 2, 5, 16, (3, 4), (1, 1)),
    _Case("3x3 with padding", 2, 3, 17, (6, 5), (3, 3), begin=(1, 1), end=(1, 1)),
    _Case("channels first, stride 2", 1, 4, 8, (7, 9), (3, 3), strides=(2, 2), begin=(1, 1), end=(1, 1), ncx=True, oix=True),
    _Case("1 spatial dim, kernel longer than a stride of 3", 2, 3, 5, (17,), (5,), strides=(3,), begin=(2,), end=(0,)),
    _Case("3 spatial dims", 1, 2, 3, (3, 4, 5), (2, 3, 2), begin=(1, 0, 1), end=(0, 1, 0), ncx=True),
    _Case("dilations", 1, 3, 4, (9, 8), (3, 2), dilations=(2, 3), begin=(2, 0), end=(1, 3)),
    _Case("dilations and strides", 1, 2, 3, (11, 10), (3, 3), strides=(2, 3), dilations=(2, 1), begin=(1, 2), end=(2, 0)),
    _Case("groups", 2, 6, 9, (5, 5), (3, 3), begin=(1, 1), end=(1, 1), groups=3),
    _Case("groups and stride, channels and kernel first", 1, 4, 6, (6, 7), (2, 3), strides=(2, 2), groups=2, ncx=True, oix=True),
    _Case("a group per channel", 2, 17, 17, (5, 6), (3, 3), begin=(1, 1), end=(1, 1), groups=17),
    _Case("a group per channel, channels first, stride 2", 1, 5, 5, (6, 6), (3, 3), strides=(2, 2), begin=(1, 1), end=(0, 1), groups=5,
          ncx=True, oix=True),
    _Case("a group per channel, stride and dilation", 1, 16, 16, (9,), (3,), strides=(2,), dilations=(3,), begin=(2,), end=(1,), groups=16),
    _Case("several outputs of a one-channel group", 1, 3, 6, (4, 4), (2, 2), groups=3),
    _Case("stride beyond the kernel: positions that no window reads", 1, 3, 4, (7, 8), (1, 2), strides=(2, 3)),
    _Case("auto_pad SAME_UPPER", 1, 3, 4, (6, 7), (3, 2), strides=(1, 1), auto_pad="SAME_UPPER"),
    _Case("auto_pad SAME_LOWER, pads are ignored", 1, 2, 4, (5, 6), (2, 4), begin=(7, 7), end=(7, 7), auto_pad="SAME_LOWER"),
    _Case("auto_pad VALID, pads are ignored", 1, 2, 4, (5, 6), (2, 3), strides=(2, 1), begin=(1, 1), end=(1, 1), auto_pad="VALID"),
    _Case("padding beyond kernel and stride", 1, 3, 4, (6, 7), (3, 2), strides=(2, 3), begin=(5, 7), end=(9, 4)),
    _Case("stride beyond the kernel, padding beyond both", 1, 4, 6, (7, 6), (2, 1), strides=(3, 2), begin=(4, 3), end=(2, 5), groups=2),
    _Case("windows that leave out the end of the source", 1, 2, 3, (8, 9), (3, 3), strides=(3, 4)),
    _Case("more columns than a panel, K over a block", 1, 70, 100, (4, 5), (2, 2)),
    _Case("sizes 1", 1, 1, 1, (1, 1), (1, 1)),
    _Case("no images", 0, 3, 4, (5, 5), (3, 3)),
    _Case("bf16", 2, 6, 8, (5, 4), (3, 3), begin=(1, 1), end=(1, 1), dtype=DType.bf16),
    _Case("f16, channels first", 1, 3, 8, (5, 6), (3, 3), strides=(2, 2), begin=(1, 1), end=(1, 1), ncx=True, oix=True, dtype=DType.f16),
)  # fmt: skip


def _samples(sides: Sides, shape_attr: str = "") -> tuple[Sample, ...]:
    return tuple(case.sample(sides, shape_attr) for case in CASES)


def _with_bias(s: Sample, out: int) -> Sample:
    return replace(s, shapes=(*s.shapes, (out,)), dtypes=s.dtypes[:1] * 3, why=f"{s.why}; bias")


def _with_shape_tensor(s: Sample) -> Sample:
    return replace(s, shapes=(*s.shapes, (len(s.shapes[0]),)), dtypes=(*s.dtypes[:2], DType.s32), why=f"{s.why}; its shape is an input too")


_PADDED, _STRIDED, _NARROW = CASES[1], CASES[2], CASES[-2]
FORWARD = (*_samples(INTO_DST), *(_with_bias(c.sample(INTO_DST), c.out) for c in (_PADDED, _STRIDED, _NARROW)))
BY_DATA = (
    *_samples(INTO_SRC, "dst_shape"),
    _with_shape_tensor(_PADDED.sample(INTO_SRC, "dst_shape")),
    replace(_PADDED.sample(INTO_SRC), why="the least source that has these windows"),
)
BY_WEIGHTS = (*_samples(INTO_WEI, "weights_shape"), _with_shape_tensor(_PADDED.sample(INTO_WEI, "weights_shape")))


def _transposed_sample(case: _Case) -> Sample:
    """output_padding makes up for what the windows leave out of the source."""
    s = case.sample(problem.TRANSPOSED)
    least = infer(s.attrs.updated(output_padding=(0,) * len(case.kernel)), s.shapes, problem.TRANSPOSED, None)
    have = case.shapes(problem.TRANSPOSED)[0]
    spatial = range(2, len(have)) if case.ncx else range(1, len(have) - 1)
    return replace(s, attrs=s.attrs.updated(output_padding=tuple(have[i] - least[i] for i in spatial)))


TRANSPOSED = (
    *(_transposed_sample(case) for case in CASES),
    *(_with_bias(_transposed_sample(c), c.channels) for c in (_PADDED, _STRIDED, _NARROW)),
)
TRANSPOSED_BY_DATA = _samples(problem.TRANSPOSED_BY_DATA)
TRANSPOSED_BY_WEIGHTS = (
    *_samples(problem.TRANSPOSED_BY_WEIGHTS, "weights_shape"),
    _with_shape_tensor(_PADDED.sample(problem.TRANSPOSED_BY_WEIGHTS, "weights_shape")),
)
_DEPTHWISE_CASES = tuple(replace(case, oix=False) for case in CASES if case.groups == case.channels == case.out)


def _parts(case: _Case, blocks: Shape) -> Sample:
    s = case.sample(INTO_WEI, "weights_shape")
    return replace(s, attrs=s.attrs.updated(blocks=blocks), why=f"{case.why}, in blocks of {blocks}")


def _transposed(case: _Case, blocks: Shape) -> Sample:
    """With x last, split by the stride."""
    s, ((n, *others, _, channels), dst) = _parts(case, blocks), case.sample(INTO_WEI).shapes
    stride, dilation = case.strides[-1] if case.strides else 1, case.dilations[-1] if case.dilations else 1
    length = dst[-2] + (case.kernel[-1] - 1) * dilation // stride
    return replace(s, shapes=((n, *others, channels, stride, length), dst), why=f"{s.why}; transposed")


def _stored(s: Sample) -> tuple[Sample, ...]:
    """A sample of floats into their own dtype, and one of quantised integers."""
    integers = replace(s, attrs=s.attrs.updated(zero=3.0), dtypes=(DType.u8, DType.s8), out_dtypes=(DType.f32,), why=f"{s.why}; stored")
    return replace(s, attrs=s.attrs.updated(zero=0.0), out_dtypes=s.dtypes[:1]), integers


DEPTHWISE = (
    tuple(s for case in _DEPTHWISE_CASES for s in _stored(case.sample(INTO_DST))),
    tuple(s for case in _DEPTHWISE_CASES for s in _stored(case.sample(INTO_SRC, "dst_shape"))),
    tuple(_parts(case, blocks) for case, blocks in zip(_DEPTHWISE_CASES, ((2, 5, 6), (1, 3, 1), (1, 1), (1, 1, 1)), strict=True)),
)


_PARTIAL_CASES = (
    (_Case("3x3", 2, 3, 17, (8, 7), (3, 3)), (1, 2, 5)),
    (_Case("all in one part", 2, 6, 8, (5, 4), (3, 3)), (2, 3, 2)),
    (_Case("strides and dilations", 2, 2, 3, (13, 12), (3, 3), strides=(2, 3), dilations=(2, 1)), (2, 1, 2)),
    (_Case("one channel, 3 spatial dims", 1, 1, 18, (3, 4, 9), (2, 1, 3), dilations=(1, 1, 2)), (1, 1, 2, 5)),
    (_Case("groups", 2, 6, 9, (5, 5), (3, 3), groups=3), (1, 3, 1)),
    (_Case("several outputs of a one-channel group", 2, 3, 6, (9,), (2,), groups=3), (1, 4)),
)
PARTIAL = tuple(tuple(sample(case, blocks) for case, blocks in _PARTIAL_CASES) for sample in (_parts, _transposed))


def _phased(case: _Case, phases: Shape, first: Shape, end: Shape) -> Sample:
    s = case.sample(INTO_DST)
    return replace(s, attrs=s.attrs.updated(phases=phases, first=first, end=end), why=case.why)


PHASED = (
    _phased(_Case("3x3 under stride 2", 2, 5, 4 * 7, (6, 5), (2, 2)), (2, 2), (0, 1, 0, 1), (2, 2, 2, 2)),
    _phased(_Case("groups, phases of complete panels", 1, 4, 2 * 3 * 64, (9,), (3,), groups=2), (3,), (0, 1, 1), (3, 3, 2)),
    _phased(_Case("a phase without a tap", 1, 3, 2 * 16, (4, 3), (2, 1)), (2, 1), (0, 0, 0), (2, 0, 1)),
    _phased(_Case("3 spatial dims", 1, 2, 8 * 16, (3, 4, 3), (2, 2, 2)), (2, 2, 2), (0, 1) * 3, (2,) * 6),
)
