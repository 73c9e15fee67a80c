"""concat: sources laid side by side along a dim. `benchgraph --concat --axis=1 8x64x56x56:8x128x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, descriptor, dst_dtype, dtypes, integer, source_tags, src_dtype, tag
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

MOST_SOURCES = 64  # of Concat


def parse(text: str) -> Shapes:
    """SRC0:SRC1[:SRC2...][_nNAME]"""
    return parse_shapes(text, 2, MOST_SOURCES, "8x64x56x56:8x128x56x56")


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt. All sources have one data type."""

    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    stag: Colons = source_tags("abx", "SRC0:SRC1...", "layouts of the sources")
    dtag: str = tag("undef", "layout of dst")
    axis: int = knob(1, integer, "N[,N...]", "the dim along which sources are joined (1)", product=True)
    case: Shapes = descriptor(parse, "SRC0:SRC1[:SRC2...][_nNAME]", "shapes that differ along --axis alone")


def dst_shape(problem: Shapes, axis: int) -> tuple[int, ...]:
    """The shape of dst. Raises InvalidShape where the sources do not fit together."""
    first, *others = problem.shapes
    if any(len(shape) != len(first) for shape in others):
        what = f"{' and '.join(map(spelt, problem.shapes))} have different numbers of sizes"
        raise InvalidShape(what, fix="give each source as many")
    if not 0 <= axis < len(first):
        raise InvalidShape(f"--axis={axis} of sources of {len(first)} dims", fix=f"give 0 to {len(first) - 1}")
    for i, shape in enumerate(others, 1):
        for dim, (a, b) in enumerate(zip(first, shape, strict=True)):
            if a != b and dim != axis:
                what = f"dim {dim} is {a} in source 0 and {b} in source {i}, and --axis={axis}"
                raise InvalidShape(what, fix="make the sizes equal, or join along that dim")
    return (*first[:axis], sum(shape[axis] for shape in problem.shapes), *first[axis + 1 :])


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft, src_dst

    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    dst = Arg("dst", dst_shape(knobs.case, knobs.axis), ddt, knobs.dtag, "--dtag")
    tags = knobs.stag.each(len(knobs.case.shapes), "--stag")
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    ins = [d.read(Arg(f"msrc{i}", shape, sdt, tags[i], "--stag")) for i, shape in enumerate(knobs.case.shapes)]
    d.write(d.post_ops(d.b.op("Concat", *d.alike(*ins), axis=knobs.axis), knobs.attr_post_ops, dst), dst)
    return d.graph()


EXAMPLES = ("--concat --axis=1 8x64x56x56:8x128x56x56", "--concat --sdt=s8 --ddt=u8 --stag=axb 2x3x5x5:2x4x5x5:2x1x5x5")
DRIVER = Driver("concat", "sources laid side by side along a dim", Knobs, build, inert=INERT, examples=EXAMPLES)
