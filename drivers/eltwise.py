"""eltwise: one function of every element. `benchgraph --eltwise --alg=gelu_erf,tanh --dir=FWD_D,BWD_D 32x64x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._algs import ELTWISE_ALIASES, ELTWISE_NAMES, Numbers, eltwise, gradient
from ._attrs import AttributeKnobs
from ._options import INERT, algorithm, check_direction, direction, dtype_of, minibatch, number, one_dtype, one_shape, tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.graph import Graph


WAYS = ("FWD_D", "FWD_I", "BWD_D")


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's."""

    dir: str = direction(*WAYS)
    dt: str = one_dtype("f32", "data type of src and dst (f32)")
    tag: str = tag("abx", "layout of src and dst")
    alg: str = algorithm("relu", ELTWISE_NAMES, ELTWISE_ALIASES)
    alpha: float = number(0.0, "the algorithm's first number, if it has one")
    beta: float = number(0.0, "its second number")
    mb: int = minibatch()
    case: Shapes = one_shape("32x64x56x56")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    numbers = Numbers(knobs.alpha, knobs.beta)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)

    def arg(name: str) -> Arg:
        return Arg(name, shape, dtype_of(knobs.dt), knobs.tag)

    if knobs.dir == "BWD_D":
        d.no_post_ops(knobs.attr_post_ops)
        known = d.read(arg("dst" if knobs.alg.endswith("_dst") else "src"))
        d.write(gradient(knobs.alg, numbers)(d.b, known, d.read(arg("diff_dst")), numbers), arg("diff_src"))
    else:
        t = eltwise(knobs.alg, numbers).forward(d.b, d.read(arg("src")), numbers)
        d.write(d.post_ops(t, knobs.attr_post_ops, arg("dst")), arg("dst"))
    return d.graph()


EXAMPLES = ("--eltwise --alg=gelu_erf,tanh --dir=FWD_D,BWD_D 32x64x56x56", "--eltwise --alg=clip --alpha=-1 --beta=1 --dt=bf16 8x1000")
DRIVER = Driver("eltwise", "one function of every element, or its gradient", Knobs, build, inert=INERT, examples=EXAMPLES)
