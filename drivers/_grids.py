"""Scales and zero points that no attribute holds: inputs of DynamicDequantize, one number for each group of a tensor.

per_oc               a number for each index of a dim      qtype per_channel
per_ocic:f16:32x1    one for each group of 32 x 1 numbers  qtype per_group
common, of u4, s4    one number                            qtype per_tensor

The numbers are data: --fill chooses them, also those that the command line gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape
from benchgraph.ops.spec import F
from benchgraph.options.problem import CannotExpress

from ._attrs import CHOSEN_AT_RUN_TIME, Entry, dims_of
from ._options import dtype_of
from ._shapes import spelt

if TYPE_CHECKING:
    from benchgraph.graph import GraphBuilder

    from ._draft import Arg

READ = (DType.u8, DType.s8, DType.u4, DType.s4)  # by DynamicDequantize
ZERO_POINTS = (DType.s4, DType.u4, DType.u8, DType.s8, DType.s32)
SCALES, POINTS = "--attr-scales", "--attr-zero-points"


@dataclass(frozen=True)
class Grid:
    """Numbers for groups of a tensor. group: the size of one along each dim; axis: the dim, where each index of one has a number."""

    group: Shape
    axis: int | None

    @property
    def attrs(self) -> Attrs:
        if self.axis is not None:
            return Attrs(qtype="per_channel", axis=self.axis)
        return Attrs(qtype="per_group", group_shape=self.group)

    def numbers(self, shape: Shape) -> Shape:
        """The shape of scales and zero points of a tensor of a shape."""
        return (shape[self.axis],) if self.axis is not None else tuple(n // size for n, size in zip(shape, self.group, strict=True))


def is_grid(entry: Entry | None, arg: Arg) -> bool:
    """Whether numbers lie along several dims, or in groups. Those along one dim may be an attribute."""
    if entry is None or entry.policy in CHOSEN_AT_RUN_TIME:
        return False
    dims = dims_of(entry.policy, len(arg.shape), arg.channels)
    return max(dims, default=0) < len(arg.shape) and (len(dims) > 1 or any(group_sizes(entry, arg)[dim] != 1 for dim in dims))


def dequantised(b: GraphBuilder, t: LogicalTensor, arg: Arg, scale: Entry | None, point: Entry | None) -> LogicalTensor:
    """The tensor less its zero points, times its scales, in the data type of these. Raises CannotExpress, InvalidShape."""
    grids = {grid for entry, option in ((scale, SCALES), (point, POINTS)) if (grid := _grid(entry, arg, option))}
    if len(grids) > 1:
        what = f"no op has scales and zero points of {arg.name} in different groups"
        raise CannotExpress(what, where=f"{SCALES}={scale}, {POINTS}={point}", fix="give both the same policy and groups")
    grid = next(iter(grids), None)
    shape = grid.numbers(arg.shape) if grid else (1,)
    kinds = [_dtype(scale, DType.f32, F, SCALES)] + ([_dtype(point, DType.s32, ZERO_POINTS, POINTS)] if point else [])
    property_type = PropertyType.constant if t.is_constant else PropertyType.variable
    numbers = [b.input(shape, dtype, property_type=property_type) for dtype in kinds]
    return b.append("DynamicDequantize", (t, *numbers), grid.attrs if grid else Attrs(qtype="per_tensor"), (kinds[0],))[0]


def group_sizes(entry: Entry, arg: Arg) -> Shape:
    """What GROUPS says of each dim: it is for the last ones; 1 for those that it does not name."""
    said = tuple(int(size) for size in entry.groups.split("x")) if entry.groups else ()
    return (*(1,) * (len(arg.shape) - len(said)), *said)


def _grid(entry: Entry | None, arg: Arg, option: str) -> Grid | None:
    """Where an argument has numbers; None where it has one number."""
    if entry is None:
        return None
    where = f"{option}={entry}"
    if entry.policy in CHOSEN_AT_RUN_TIME:
        raise CannotExpress("no op computes scales and quantises by them", where=where, fix="give scales by number or along a dim")
    dims = dims_of(entry.policy, len(arg.shape), arg.channels)
    if not dims:
        return None
    sizes = group_sizes(entry, arg)
    if dims[-1] >= len(arg.shape) or len(sizes) > len(arg.shape):
        raise InvalidShape(f"{arg.name} is {spelt(arg.shape)}, of {len(arg.shape)} dims", where=where, fix="name these alone")
    for dim in dims:
        if sizes[dim] < 1 or arg.shape[dim] % sizes[dim]:
            what = f"groups of {sizes[dim]} do not divide dim {dim} of {arg.name} {spelt(arg.shape)}"
            raise InvalidShape(what, where=where, fix="give a size that does")
    group = tuple(sizes[dim] if dim in dims else max(size, 1) for dim, size in enumerate(arg.shape))
    return Grid(group, dims[0] if len(dims) == 1 and sizes[dims[0]] == 1 else None)


def _dtype(entry: Entry | None, default: DType, known: tuple[DType, ...], option: str) -> DType:
    dtype = dtype_of(entry.dtype) if entry and entry.dtype else default
    if dtype not in known:
        fix = f"use {', '.join(each.value for each in known)}"
        raise CannotExpress(f"DynamicDequantize takes none of {dtype.value}", where=f"{option}={entry}", fix=fix)
    return dtype
