"""gnorm: group normalisations. `benchgraph --gnorm --dir=FWD_D,FWD_I --flags=,CH g32mb2ic64ih28`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._norm import INERT, Flags, NormShape, flags, parse_group, refused, scaled, shifted, tags_of, two_tags
from ._options import Colons, check_direction, descriptor, direction, dtype_of, dtypes, minibatch

if TYPE_CHECKING:
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Draft

WAYS = ("FWD_D", "FWD_I")


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:DST")
    tag: Colons = two_tags()
    flags: Flags = flags("GCH", refused="G")
    mb: int = minibatch()
    case: NormShape = descriptor(parse_group, "gNmbNicNidNihNiwNepsX[nNAME]", "0 to 3 dims")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    if "G" in knobs.flags:
        raise refused("GroupNorm computes its statistics", knobs.flags, "leave G out")
    shape = knobs.case.with_mb(knobs.mb).shape
    sdt, ddt = (dtype_of(name) for name in knobs.dt.of(2))
    stag, dtag = tags_of(knobs.tag)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    (x,) = d.alike(d.read(Arg("src", shape, sdt, stag)), result=ddt)
    dst = Arg("dst", shape, ddt, dtag)
    d.write(d.post_ops(_forward(d, knobs, x), knobs.attr_post_ops, dst), dst)
    return d.graph()


def _forward(d: Draft, knobs: Knobs, x: LogicalTensor) -> LogicalTensor:
    """With the statistics as results in training. A scale or a shift alone is an op of its own."""
    from benchgraph.core.attrs import Attrs
    from benchgraph.core.dtypes import DType

    from ._draft import Arg

    c = knobs.case
    is_training, is_affine = knobs.dir == "FWD_D", "C" in knobs.flags and "H" in knobs.flags
    ins = [d.read(Arg(name, (c.ic,), DType.f32)) for name in ("scale", "shift")] if is_affine else []
    dtypes = (None, DType.f32, DType.f32) if is_training else (None,)
    attrs = Attrs(groups=c.g, epsilon=c.eps, data_format="NCX", use_affine=is_affine, keep_stats=is_training)
    t = d.b.append("GroupNorm", (x, *ins), attrs, dtypes)[0]
    beside = (c.ic, *(1,) * len(c.spatial))
    if not is_affine and "C" in knobs.flags:
        t = scaled(d, t, d.read(Arg("scale", beside, DType.f32)))
    if not is_affine and "H" in knobs.flags:
        t = shifted(d, t, d.read(Arg("shift", beside, DType.f32)))
    return t


EXAMPLES = ("--gnorm --dir=FWD_D,FWD_I --flags=,CH g32mb2ic64ih28", "--gnorm --flags=CH --tag=axb --dt=bf16 --batch=shapes_odd")
DRIVER = Driver("gnorm", "group normalisations", Knobs, build, inert=INERT, examples=EXAMPLES)
