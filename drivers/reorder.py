"""reorder: from one data type and layout to another. `benchgraph --reorder --sdt=f32 --ddt=bf16 --stag=nchw --dtag=nhwc 8x64x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.harness.problem import Driver

from ._attrs import PostOps, Quantisation, post_ops, scales, zero_points
from ._options import Colons, dst_dtype, dtypes, minibatch, one_shape, src_dtype, tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.graph import Graph


@dataclass(frozen=True)
class Knobs:
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    stag: str = tag("abx", "layout of src")
    dtag: str = tag("abx", "layout of dst")
    mb: int = minibatch()
    attr_scales: Quantisation = scales()
    attr_zero_points: Quantisation = zero_points()
    attr_post_ops: PostOps = post_ops()
    case: Shapes = one_shape("8x64x56x56")


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft, src_dst

    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    dst = Arg("dst", shape, ddt, knobs.dtag, "--dtag")
    d = Draft(knobs.attr_scales, knobs.attr_zero_points)
    t = d.read(Arg("src", shape, sdt, knobs.stag, "--stag"))
    if t.dtype is sdt:  # it is a float; other types have been read by an op, whose result is then written
        t = d.b.op("Reorder", t) if sdt is ddt else d.cast(t, DType.f32)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


DRIVER = Driver("reorder", "from one data type and layout to another", Knobs, build)
