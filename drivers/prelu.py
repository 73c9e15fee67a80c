"""prelu: max(x, 0) + slope * min(x, 0), or its gradients. `benchgraph --prelu --dir=FWD_D,BWD_DW 8x64x56x56:1x64x1x1`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, check_direction, colons, data_type, descriptor, direction, dtype_of, dtypes, minibatch, source_tags
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

WAYS = ("FWD_D", "FWD_I", "BWD_DW")


def parse(text: str) -> Shapes:
    """SRC:WEI[_nNAME]; a shorter WEI is filled up with ones behind, as benchdnn does."""
    problem = parse_shapes(text, 2, 2, "8x64x56x56:1x64x1x1")
    src, wei = problem.shapes
    if len(wei) > len(src):
        raise ValueError(f"WEI has {len(wei)} sizes and SRC {len(src)}; give WEI as many, or fewer")
    return replace(problem, shapes=(src, wei + (1,) * (len(src) - len(wei))))


def source_dtypes() -> Any:
    return knob(None, colons(data_type, 2), "DT|SRC:WEI[,...]", "data types of src and the slopes, instead of --dt", product=True)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt. dst is like src, and each gradient like its tensor."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:WEI")
    sdt: Colons | None = source_dtypes()
    stag: Colons = source_tags("abx:any", "SRC:WEI", "layouts of src, which is that of dst, and of the slopes")
    mb: int = minibatch()
    case: Shapes = descriptor(parse, "SRC:WEI[_nNAME]", "WEI has 1 where a slope serves a whole dim")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    problem = knobs.case.with_mb(knobs.mb)
    _check(problem)
    types, tags = [dtype_of(name) for name in (knobs.sdt or knobs.dt).of(2)], knobs.stag.of(2)
    src, wei, dst = (Arg(name, problem.shapes[i], types[i], tags[i], "--stag") for name, i in (("src", 0), ("wei", 1), ("dst", 0)))
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir != "BWD_DW":
        ins = d.alike(d.read(src), d.read(wei, constant=wei.is_free))
        t = d.b.op("PReLU", *ins, data_format="NCX", per_channel_broadcast=False)
        d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
        return d.graph()
    d.no_post_ops(knobs.attr_post_ops)
    ins = d.alike(d.read(src), d.read(wei, constant=wei.is_free), d.read(replace(dst, name="diff_dst")))
    gradients = d.b.outs("PReLUBackward", *ins, dtypes=(None, None), data_format="NCX")
    for t, arg in zip(gradients, (src, wei), strict=True):
        d.write(t, replace(arg, name=f"diff_{arg.name}"))
    return d.graph()


def _check(problem: Shapes) -> None:
    """Raise InvalidShape where the slopes do not broadcast to src."""
    src, wei = problem.shapes
    for dim, (size, slopes) in enumerate(zip(src, wei, strict=True)):
        if slopes not in (size, 1):
            raise InvalidShape(f"dim {dim} is {size} in SRC and {slopes} in WEI {spelt(wei)}", fix=f"give it {size} in WEI, or 1")


EXAMPLES = ("--prelu --dir=FWD_D,BWD_DW 8x64x56x56:1x64x1x1", "--prelu --sdt=bf16:f32 --stag=axb:any --batch=shapes_odd")
DRIVER = Driver(
    "prelu", "rectifiers with slopes that are data, or their gradients", Knobs, build, fill="reals", inert=INERT, examples=EXAMPLES
)
