"""reorder: from one data type and layout to another. `benchgraph --reorder --sdt=f32 --ddt=bf16 --stag=nchw --dtag=nhwc 8x64x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchgraph.options.knobs import knob
from benchgraph.options.parsers import one_of
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, Strides, dst_dtype, dtypes, minibatch, one_shape, pattern, run_time_sizes, src_dtype, strides, tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.graph import Graph


def compensation() -> Any:
    form = pattern(r"|none|[a-z_0-9]+:\d+(\+[a-z_0-9]+:\d+)*", "write FLAG:MASK, as in s8s8_comp:1")
    help, lacks = "sums that a memory descriptor carries along", "a tensor of oneDNN Graph carries nothing but its elements"
    return knob("", lambda word: form(word).replace("none", ""), "FLAG:MASK[+...][,...]", help, product=True, lacks=lacks)


def cross_engine() -> Any:
    read = one_of("none", "cpu2gpu", "gpu2cpu")
    help, lacks = "none (default), cpu2gpu or gpu2cpu", "there is one engine, the CPU"
    return knob("", lambda word: read(word).replace("none", ""), "WAY[,...]", help, product=True, lacks=lacks)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    stag: str = tag("abx", "layout of src")
    dtag: str = tag("abx", "layout of dst")
    strides: Strides = strides("SRC:DST")
    oflag: str = compensation()
    cross_engine: str = cross_engine()
    runtime_dim_mask: str = run_time_sizes()
    mb: int = minibatch()
    case: Shapes = one_shape("8x64x56x56")


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft, src_dst

    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    own = [knobs.strides.of(i, tag, "abx", option) for i, (tag, option) in enumerate(((knobs.stag, "--stag"), (knobs.dtag, "--dtag")))]
    dst = Arg("dst", shape, ddt, knobs.dtag, "--dtag", given=own[1])
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    t = d.read(Arg("src", shape, sdt, knobs.stag, "--stag", given=own[0]))
    if t.dtype is sdt:  # it is a float; other types have been read by an op, whose result is then written
        t = d.b.op("Reorder", t) if sdt is ddt else d.cast(t, DType.f32)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


EXAMPLES = ("--reorder --sdt=f32 --ddt=bf16 --stag=nchw --dtag=nhwc 8x64x56x56", "--reorder --dt=f32:s8 --attr-scales=dst:per_dim_1 64x128")
DRIVER = Driver("reorder", "from one data type and layout to another", Knobs, build, inert=INERT, examples=EXAMPLES)
