"""shuffle: the elements of a dim in another order, group by group. `benchgraph --shuffle --group=4 --axis=1 1x68x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import positive
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, check_direction, direction, dtype_of, integer, minibatch, one_dtype, one_shape, tag
from ._shapes import Shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

WAYS = ("FWD_D", "FWD_I", "BWD_D")


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's. src and dst have one data type and layout."""

    dir: str = direction(*WAYS)
    dt: str = one_dtype("f32", "data type of src and dst (f32)")
    tag: str = tag("abx", "layout of src and dst")
    axis: int = knob(1, integer, "N[,N...]", "the dim that is shuffled (1)", product=True)
    group: int = knob(1, positive, "N[,N...]", "the elements of a group, which are pulled apart (1)", product=True)
    mb: int = minibatch()
    case: Shapes = one_shape("8x64x56x56")


def build(knobs: Knobs) -> Graph:
    """The dim as a matrix of groups, transposed. src[u * group + v] goes to dst[v * groups + u]; the gradient goes back."""
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    groups = _groups(shape, knobs.axis, knobs.group)
    dtype, is_backward = dtype_of(knobs.dt), knobs.dir == "BWD_D"
    src, dst = (Arg(name, shape, dtype, knobs.tag, "--tag") for name in (("diff_dst", "diff_src") if is_backward else ("src", "dst")))
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if is_backward:
        d.no_post_ops(knobs.attr_post_ops)
    before, after = shape[: knobs.axis], shape[knobs.axis + 1 :]
    matrix = (knobs.group, groups) if is_backward else (groups, knobs.group)
    t = d.b.op("StaticReshape", d.read(src), shape=(*before, *matrix, *after), special_zero=False)
    order = list(range(len(shape) + 1))
    order[knobs.axis : knobs.axis + 2] = (knobs.axis + 1, knobs.axis)
    t = d.b.op("StaticReshape", d.b.op("StaticTranspose", t, order=tuple(order)), shape=shape, special_zero=False)
    d.write(t if is_backward else d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _groups(shape: tuple[int, ...], axis: int, group: int) -> int:
    """How many groups the dim has. Raises InvalidShape."""
    if not 0 <= axis < len(shape):
        raise InvalidShape(f"--axis={axis} of {spelt(shape)}", fix=f"give 0 to {len(shape) - 1}")
    if shape[axis] % group:
        raise InvalidShape(f"groups of {group} do not divide dim {axis}, which is {shape[axis]}", fix="give --group a divisor of it")
    return shape[axis] // group


EXAMPLES = ("--shuffle --group=4 --axis=1 1x68x56x56", "--shuffle --dir=BWD_D --dt=f32,s8 --tag=axb --group=4 1x240x28x28")
DRIVER = Driver("shuffle", "the elements of a dim in another order, group by group", Knobs, build, inert=INERT, examples=EXAMPLES)
