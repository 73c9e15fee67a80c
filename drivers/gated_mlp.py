"""gated_mlp: (activation(src gate) * (src up)) down. `benchgraph --gated_mlp --dt=bf16 --activation=gelu_tanh 32x256x512`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.problem import Driver

from ._algs import Numbers, eltwise
from ._attrs import AttributeKnobs
from ._layout import is_of_rank
from ._options import INERT, Colons, descriptor, dtype_of, dtypes, folded, minibatch, tag
from ._shapes import Shapes, parse_shapes

if TYPE_CHECKING:
    from benchgraph.graph import Graph

ACTIVATIONS = {"swish": Numbers(1), "gelu_erf": Numbers(), "gelu_tanh": Numbers()}


def parse(text: str) -> Shapes:
    """MBxICxOC[_nNAME]"""
    problem = parse_shapes(text, 1, 1, "32x256x512")
    if len(problem.shapes[0]) != 3:
        raise ValueError(f"{len(problem.shapes[0])} sizes; give the rows, the model's size and the hidden one, as in 32x256x512")
    return problem


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's. Weights of any layout count as constant. Their scales are those of wei, wei_up and wei_down."""

    dt: Colons = dtypes("SRC:GATE:UP:DOWN:DST")
    stag: str = tag("abx", "layout of src; of 3 dims, as abc: rows x 1 x columns")
    wtag: str = tag("abx", "layout of all weights")
    dtag: str = tag("abx", "layout of dst")
    activation: str = knob("swish", folded(*ACTIVATIONS), "NAME[,...]", "swish, gelu_erf or gelu_tanh, of the gate (swish)", product=True)
    mb: int = minibatch()
    case: Shapes = descriptor(parse, "MBxICxOC[_nNAME]", "rows, size of the model, hidden size")


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft

    mb, ic, oc = knobs.case.with_mb(knobs.mb).shapes[0]
    if not ic or not oc:
        raise InvalidShape("a matrix without elements", fix="give sizes of 1 or more")
    sdt, *wdts, ddt = (dtype_of(name) for name in knobs.dt.of(5))
    is_3d = any(is_of_rank(tag, 3) for tag in (knobs.stag, knobs.wtag, knobs.dtag))
    rows, weights = ((mb, 1), (1,)) if is_3d else ((mb,), ())
    channels = len(rows)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    src = d.read(Arg("src", (*rows, ic), sdt, knobs.stag, "--stag", channels=channels))
    gate, up, down = (
        d.read(Arg(name, (*weights, *shape), dtype, knobs.wtag, "--wtag", channels=channels), constant=True)
        for name, shape, dtype in zip(("wei", "wei_up", "wei_down"), ((ic, oc), (ic, oc), (oc, ic)), wdts, strict=True)
    )
    dst = Arg("dst", (*rows, ic), ddt, knobs.dtag, "--dtag", channels=channels)
    gated = eltwise(knobs.activation, ACTIVATIONS[knobs.activation]).forward(
        d.b, d.b.op("MatMul", *d.alike(src, gate)), ACTIVATIONS[knobs.activation]
    )
    hidden = d.b.op("Multiply", *d.alike(gated, d.b.op("MatMul", *d.alike(src, up))))
    ins = d.alike(hidden, down)
    t = d.b.op("MatMul", *ins, dtype=ddt if ddt is ins[0].dtype else DType.f32)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


EXAMPLES = (
    "--gated_mlp --dt=bf16 --activation=swish,gelu_tanh 32x256x512",
    "--gated_mlp --dt=f16:u4:u4:u4:f16 --batch=shapes_odd",
)
DRIVER = Driver("gated_mlp", "the gated layers of a transformer", Knobs, build, inert=INERT, examples=EXAMPLES)
