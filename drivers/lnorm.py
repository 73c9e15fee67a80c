"""lnorm: layer normalisations and their gradients, RMSNorm too. `benchgraph --lnorm --dir=FWD_D,BWD_DW --flags=CH 8x32x1024`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._norm import EPSILON, INERT, WAYS, Flags, flags, refused, scaled, shifted, tags_of, two_tags
from ._options import Colons, check_direction, direction, dtype_of, dtypes, minibatch, one_dtype, one_shape
from ._options import tag as one_tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Arg, Draft


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; the epsilon is 1/16."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:DST")
    tag: Colons = two_tags()
    stat_tag: str = one_tag("any", "layout of mean and variance")
    ss_dt: str = one_dtype("f32", "data type of scale and shift (f32)")
    flags: Flags = flags("GCHM", refused="G")
    mb: int = minibatch()
    case: Shapes = one_shape("8x32x1024")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    if "G" in knobs.flags:
        raise refused("no op takes the statistics of its rows, or takes them for constants", knobs.flags, "leave G out")
    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    sdt, ddt = (dtype_of(name) for name in knobs.dt.of(2))
    stag, dtag = tags_of(knobs.tag)
    src, dst = Arg("src", shape, sdt, stag), Arg("dst", shape, ddt, dtag)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir.startswith("BWD"):
        d.no_post_ops(knobs.attr_post_ops)
        _backward(d, knobs, src, dst)
    else:
        (x,) = d.alike(d.read(src), result=ddt)
        t = _by_root(d, knobs, x) if "M" in knobs.flags else _forward(d, knobs, x)
        d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _by_root(d: Draft, knobs: Knobs, x: LogicalTensor) -> LogicalTensor:
    """Rows over the root of their mean square, which is no result of RMSNorm."""
    scale = [_affine(d, knobs, "scale")] if "C" in knobs.flags else []
    t = d.b.op("RMSNorm", x, *scale, epsilon=EPSILON)
    return shifted(d, t, _affine(d, knobs, "shift")) if "H" in knobs.flags else t


def _forward(d: Draft, knobs: Knobs, x: LogicalTensor) -> LogicalTensor:
    """With the statistics as results in training. A scale or a shift alone is an op of its own."""
    from benchgraph.core.dtypes import DType

    is_training, is_affine = knobs.dir == "FWD_D", "C" in knobs.flags and "H" in knobs.flags
    ins = [_affine(d, knobs, name) for name in ("scale", "shift")] if is_affine else []
    dtypes = (None, DType.f32, DType.f32) if is_training else (None,)
    t, *stats = d.b.outs("LayerNorm", x, *ins, dtypes=dtypes, epsilon=EPSILON, use_affine=is_affine, keep_stats=is_training)
    for name, stat in zip(("mean", "variance"), stats, strict=False):
        d.write(stat, _statistic(knobs, name))
    if not is_affine and "C" in knobs.flags:
        t = scaled(d, t, _affine(d, knobs, "scale"))
    if not is_affine and "H" in knobs.flags:
        t = shifted(d, t, _affine(d, knobs, "shift"))
    return t


def _backward(d: Draft, knobs: Knobs, src: Arg, dst: Arg) -> None:
    """LayerNormBackward makes the gradients of scale and shift together or not at all."""
    from benchgraph.core.dtypes import DType

    if "M" in knobs.flags:
        raise refused("no op is the gradient of RMSNorm", knobs.flags, "leave M out, or use --dir=FWD_D")
    x, diff_dst = d.alike(d.read(src), d.read(dst), result=src.dtype)
    stats = [d.read(_statistic(knobs, name)) for name in ("mean", "variance")]
    with_weights = knobs.dir == "BWD_DW"
    if "C" in knobs.flags and with_weights:
        scale = _affine(d, knobs, "scale")
        dtypes = (None, DType.f32, DType.f32)
        outs = d.b.outs("LayerNormBackward", x, diff_dst, *stats, scale, dtypes=dtypes, epsilon=EPSILON, use_affine=True)
        d.write(outs[0], src)
        for t, name in zip(outs[1:], ("diff_scale", "diff_shift"), strict=True):
            d.write(t, _vector(knobs, name))
        return
    g = scaled(d, diff_dst, _affine(d, knobs, "scale")) if "C" in knobs.flags else diff_dst
    ins = d.alike(x, g)
    d.write(d.b.op("LayerNormBackward", *ins, *stats, epsilon=EPSILON, use_affine=False), src)
    if "H" in knobs.flags and with_weights:
        axes = tuple(range(len(src.shape) - 1))
        d.write(d.b.op("ReduceSum", diff_dst, axes=axes, keep_dims=False), _vector(knobs, "diff_shift"))


def _vector(knobs: Knobs, name: str) -> Arg:
    from ._draft import Arg

    return Arg(name, knobs.case.shapes[0][-1:], dtype_of(knobs.ss_dt))


def _affine(d: Draft, knobs: Knobs, name: str) -> LogicalTensor:
    """A scale or a shift, in f32 as the statistics are: the ops have one data type for them all."""
    from benchgraph.core.dtypes import DType

    return d.cast(d.read(_vector(knobs, name)), DType.f32)


def _statistic(knobs: Knobs, name: str) -> Arg:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg

    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    return Arg(name, shape[:-1], DType.f32, knobs.stat_tag, "--stat-tag")


EXAMPLES = ("--lnorm --dir=FWD_D,BWD_DW --flags=CH 8x32x1024", "--lnorm --dir=FWD_I --flags=CM --dt=bf16 --batch=shapes_odd")
DRIVER = Driver("lnorm", "layer normalisations, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
