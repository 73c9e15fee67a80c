"""reduction: sums, means, extremes and norms along dims. `benchgraph --reduction --alg=sum,max 8x64x56x56:8x64x1x1`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, algorithm, descriptor, dst_dtype, dtypes, minibatch, number, src_dtype, tag
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

KINDS = {"sum": ("ReduceSum",), "mul": ("ReduceProd",), "max": ("ReduceMax",), "min": ("ReduceMin",), "mean": ("ReduceMean",)}
# by the power p. With eps 0, the forms with max(sum, eps) and with sum + eps are one
NORMS: dict[float, tuple[str, ...]] = {1.0: ("ReduceL1",), 2.0: ("ReduceL2",)}
POWERS: dict[float, tuple[str, ...]] = {1.0: ("ReduceL1",), 2.0: ("Square", "ReduceSum")}
BY_P = {"norm_lp_max": NORMS, "norm_lp_sum": NORMS, "norm_lp_power_p_max": POWERS, "norm_lp_power_p_sum": POWERS}
ALGS = (*KINDS, *BY_P, "dynamic_quantize")


def parse(text: str) -> Shapes:
    """SRC:DST[_nNAME], with 1 in DST for every dim that is reduced."""
    problem = parse_shapes(text, 2, 2, "8x64x56x56:8x64x1x1")
    src, dst = problem.shapes
    if len(src) != len(dst):
        raise ValueError(f"SRC has {len(src)} sizes and DST {len(dst)}; give DST as many, with 1 for every dim that is reduced")
    return problem


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    stag: str = tag("abx", "layout of src")
    dtag: str = tag("any", "layout of dst")
    alg: str = algorithm("sum", ALGS, {f"reduction_{name}": name for name in ALGS})
    p: float = number(1.0, "the power of a norm")
    eps: float = number(0.0, "what a norm adds")
    mb: int = minibatch()
    case: Shapes = descriptor(parse, "SRC:DST[_nNAME]", "DST has 1 where SRC is reduced")


def axes_of(problem: Shapes) -> tuple[int, ...]:
    """The dims that are reduced. Raises InvalidShape."""
    src, dst = problem.shapes
    for dim, (before, after) in enumerate(zip(src, dst, strict=True)):
        if after not in (before, 1):
            raise InvalidShape(f"dim {dim} is {before} in SRC and {after} in DST", fix=f"give it {before} in DST, or 1 to reduce it")
    axes = tuple(dim for dim, after in enumerate(dst) if after == 1)
    if not axes:
        raise InvalidShape(f"{spelt(src)}:{spelt(dst)} reduces nothing", fix="write 1 in DST for every dim to reduce")
    return axes


def kinds_of(knobs: Knobs) -> tuple[str, ...]:
    """The ops that do it, the last one the reduction. Raises CannotExpress."""
    if knobs.alg in KINDS:
        return KINDS[knobs.alg]
    if knobs.alg not in BY_P:
        raise CannotExpress("no op computes scales and quantises by them", where=f"--alg={knobs.alg}", fix="use another algorithm")
    if knobs.eps or knobs.p not in BY_P[knobs.alg]:
        what = f"no op means {knobs.alg} with p {knobs.p:g} and eps {knobs.eps:g}"
        raise CannotExpress(what, fix="give p 1 or 2 and eps 0")
    return BY_P[knobs.alg][knobs.p]


def build(knobs: Knobs) -> Graph:

    from ._draft import Arg, Draft, src_dst

    problem = knobs.case.with_mb(knobs.mb)
    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    *before, reduce = kinds_of(knobs)
    axes = axes_of(problem)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    (t,) = d.alike(d.read(Arg("src", problem.shapes[0], sdt, knobs.stag, "--stag")), result=ddt)
    for kind in before:
        t = d.b.op(kind, t)
    dst = Arg("dst", problem.shapes[1], ddt, knobs.dtag, "--dtag")
    d.write(d.post_ops(d.b.op(reduce, t, axes=axes, keep_dims=True), knobs.attr_post_ops, dst), dst)
    return d.graph()


EXAMPLES = ("--reduction --alg=sum,max 8x64x56x56:8x64x1x1", "--reduction --alg=norm_lp_sum --p=2 --dt=bf16 32x1000:32x1")
DRIVER = Driver("reduction", "sums, means, extremes and norms along dims", Knobs, build, inert=INERT, examples=EXAMPLES)
