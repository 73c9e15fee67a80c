"""Spatial arithmetic of pooling, convolution and interpolation: spatial axes, padding, the number of windows.

A window is a kernel laid over the padded source: tap k of window o is at source position o * stride + k * dilation - pad_begin, along
each spatial dim.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import MAX_NDIMS, Shape
from benchgraph.ops.spec import Attr

DATA_FORMAT = Attr("string", default="NXC", choices=("NCX", "NXC"))
AUTO_PAD = Attr("string", default="None", choices=("None", "SAME_UPPER", "SAME_LOWER", "VALID"))  # case sensitive, as in oneDNN
ONES, ZEROS = (1,) * MAX_NDIMS, (0,) * MAX_NDIMS  # oneDNN's defaults for lists with one number per spatial dim, and for shapes


def channel_axis(attrs: Attrs, rank: int) -> int:
    """Where data_format puts the channel; up to rank 2 both formats are the same."""
    return 1 if attrs.get("data_format") == "NCX" and rank > 2 else rank - 1


def spatial_axes(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """All axes but the batch (0) and the channel, in order."""
    return tuple(axis for axis in range(1, rank) if axis != channel_axis(attrs, rank))


def channels_of(attrs: Attrs, shape: Shape, name: str, taker: str) -> int:
    """The number of channels of data. Raises InvalidShape below rank 2, naming the tensor and the op (`taker`)."""
    if len(shape) < 2:
        raise InvalidShape(f"{name} {shape} has rank {len(shape)}", fix=f"{taker} takes rank 2 or more: batch and channel")
    return shape[channel_axis(attrs, len(shape))]


def beside_channel(attrs: Attrs, shape: Shape) -> Shape:
    """A (C,) operand's shape as it broadcasts against data of this shape: (C,) or (C, 1, ...)."""
    axis = channel_axis(attrs, len(shape))
    return (shape[axis],) + (1,) * (len(shape) - 1 - axis)


def all_but_channel(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The batch's axis and the spatial ones."""
    return tuple(axis for axis in range(rank) if axis != channel_axis(attrs, rank))


def spatial_dims(attrs: Attrs, shape: Shape) -> Shape:
    """The sizes of the spatial axes. Raises InvalidShape when there is none."""
    if len(shape) < 3:
        raise InvalidShape(f"shape {shape} has rank {len(shape)}", fix="give it a batch, a channel and at least one spatial dim")
    return tuple(shape[axis] for axis in spatial_axes(attrs, len(shape)))


def data_shape(attrs: Attrs, batch: int, channels: int, spatial: Shape) -> Shape:
    """The shape with these sizes in the order of data_format.

    >>> data_shape(Attrs(data_format="NCX"), 2, 3, (5, 7)), data_shape(Attrs(data_format="NXC"), 2, 3, (5, 7))
    ((2, 3, 5, 7), (2, 5, 7, 3))
    """
    return (batch, channels, *spatial) if attrs.get("data_format") == "NCX" else (batch, *spatial, channels)


@dataclass(frozen=True)
class Windows:
    """The windows of one call, with one number per spatial dim in every field. The pads include those of auto_pad."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads_begin: Shape
    pads_end: Shape

    @property
    def reach(self) -> Shape:
        """Source positions from a window's first tap to its last one, both included: the effective kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def count(self, spatial: Shape, *, ceil: bool = False) -> Shape:
        """The number of windows over a source of these spatial dims.

        ceil: one more where the padded source extends beyond the last complete window; its taps may reach past the padding, or all be in
        it. Raises InvalidShape when no window fits; a source without elements may have none.
        """
        counts = []
        for i, (size, reach, stride) in enumerate(zip(spatial, self.reach, self.strides, strict=True)):
            padded = size + self.pads_begin[i] + self.pads_end[i]
            rest = padded - reach
            if rest < 0 < size:
                what = f"a window spans {reach} along spatial dim {i}, where src with its pads has {padded}"
                raise InvalidShape(what, fix="make the kernel or its dilations smaller, or the pads larger")
            counts.append(0 if rest < 0 else (-(-rest // stride) if ceil else rest // stride) + 1)
        return tuple(counts)


def windows(attrs: Attrs, spatial: Shape, kernel: Shape, *, transposed: bool = False) -> Windows:
    """The windows over a source of these spatial dims, from the attributes strides, dilations (absent: 1), pads_begin, pads_end, auto_pad.

    transposed: the windows of ConvTranspose, where auto_pad does not look at the source (`spatial` is then that of its src).
    The lists of pads may be empty where auto_pad gives them. Raises InvalidShape for lists that do not fit the spatial dims, and for sizes
    below 1.
    """
    rank = len(spatial)
    strides = _per_dim("attribute 'strides'", attrs.integers("strides"), rank, least=1)
    dilations = attrs.integers("dilations") if "dilations" in attrs else ONES
    dilations = ONES[:rank] if dilations == ONES else _per_dim("attribute 'dilations'", dilations, rank, least=1)
    auto = attrs.get("auto_pad", "None")
    absent = () if auto == "None" else ZEROS[:rank]
    pads = {name: attrs.integers(name) or absent for name in ("pads_begin", "pads_end")}
    begin, end = (_per_dim(f"attribute '{name}'", sizes, rank, least=0) for name, sizes in pads.items())
    given = Windows(_per_dim("kernel", kernel, rank, least=1), strides, dilations, begin, end)
    if auto == "None":
        return given
    totals = [0] * rank
    if auto != "VALID":
        overlap = strides if transposed else tuple(size % stride or stride for size, stride in zip(spatial, strides, strict=True))
        totals = [max(0, reach - step) for reach, step in zip(given.reach, overlap, strict=True)]
    begin = tuple((total + (auto == "SAME_LOWER")) // 2 for total in totals)
    return Windows(given.kernel, strides, dilations, begin, tuple(total - b for total, b in zip(totals, begin, strict=True)))


def _per_dim(what: str, values: Shape, rank: int, least: int) -> Shape:
    if len(values) != rank:
        dims = "1 spatial dim" if rank == 1 else f"{rank} spatial dims"
        raise InvalidShape(f"{what} is {values}, for a source with {dims}", fix="give it one number per spatial dim")
    if any(v < least for v in values):
        raise InvalidShape(f"{what} is {values}", fix=f"give it sizes of {least} or more")
    return values
