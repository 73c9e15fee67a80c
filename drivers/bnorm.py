"""bnorm: batch normalisations and their gradients. `benchgraph --bnorm --dir=FWD_D,BWD_DW --flags=CH,CHR mb8ic64ih56`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._norm import INERT, WAYS, Flags, NormShape, flags, parse_batch, refused, scaled, shifted
from ._options import Strides, check_direction, descriptor, direction, dtype_of, minibatch, one_dtype, strides, tag

if TYPE_CHECKING:
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Arg, Draft


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's."""

    dir: str = direction(*WAYS)
    dt: str = one_dtype("f32", "data type of src and dst (f32)")
    tag: str = tag("abx", "layout of src and dst")
    strides: Strides = strides("SRC:DST")
    flags: Flags = flags("GCHRA")
    mb: int = minibatch()
    case: NormShape = descriptor(parse_batch, "mbNicNidNihNiwNepsX[nNAME]", "0 to 3 dims")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    shape, dtype = knobs.case.with_mb(knobs.mb).shape, dtype_of(knobs.dt)
    own = [knobs.strides.of(i, knobs.tag, "abx", "--tag") for i in range(2)]
    src = Arg("src", shape, dtype, knobs.tag, given=own[0])
    dst = Arg("dst", shape, dtype, knobs.tag, given=own[1])
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir.startswith("BWD"):
        d.no_post_ops(knobs.attr_post_ops)
        _backward(d, knobs, src, dst)
    else:
        _forward(d, knobs, src, dst)
    return d.graph()


def _forward(d: Draft, knobs: Knobs, src: Arg, dst: Arg) -> None:
    """Training and inference differ in the flags alone: without G either computes the batch's statistics."""
    given = knobs.flags
    x = d.read(src)
    t = _inferred(d, knobs, x) if "G" in given else _trained(d, knobs, x)
    if "A" in given:
        t = d.b.op("Add", *d.alike(t, d.read(_named("src1", src))))
    if "A" in given or "R" in given:
        t = d.b.op("ReLU", t)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)


def _inferred(d: Draft, knobs: Knobs, x: LogicalTensor) -> LogicalTensor:
    if not ("C" in knobs.flags and "H" in knobs.flags):
        raise refused("BatchNormInference always has a scale and a shift", knobs.flags, "use GCH, or leave G out")
    ins = [_per_channel(d, name, knobs) for name in ("scale", "shift", "mean", "variance")]
    return d.b.op("BatchNormInference", x, *ins, epsilon=knobs.case.eps, data_format="NCX")


def _trained(d: Draft, knobs: Knobs, x: LogicalTensor) -> LogicalTensor:
    """By the batch's statistics, which are results, and so are the running ones: the op always has them. A scale or a shift alone is an op
    of its own: oneDNN's library takes none without the other."""
    is_affine = "C" in knobs.flags and "H" in knobs.flags
    names = ("mean", "variance", "scale", "shift")[: 4 if is_affine else 2]
    ins = [_per_channel(d, name, knobs) for name in names]
    t = d.b.outs("BatchNormForwardTraining", x, *ins, dtypes=(None,) * 5, epsilon=knobs.case.eps, data_format="NCX")[0]
    if not is_affine and "C" in knobs.flags:
        t = scaled(d, t, _per_channel(d, "scale", knobs, beside=True))
    if not is_affine and "H" in knobs.flags:
        t = shifted(d, t, _per_channel(d, "shift", knobs, beside=True))
    return t


def _backward(d: Draft, knobs: Knobs, src: Arg, dst: Arg) -> None:
    """dst stands for the workspace of a fused ReLU: its gradient is that of the normalisation's result where dst is above 0."""
    from benchgraph.core.attrs import Attrs
    from benchgraph.core.dtypes import DType

    from ._draft import QUANTISED

    given = knobs.flags
    if "G" in given:
        raise refused("no gradient takes the statistics for constants", given, "leave G out")
    x, diff_dst = d.read(src), d.read(_named("diff_dst", dst))
    if "A" in given or "R" in given:
        diff_dst = d.b.op("ReLUBackward", *d.alike(d.read(dst), diff_dst), use_dst=True)
    if "A" in given:
        d.write(diff_dst, _named("diff_src1", src))
        if src.dtype not in QUANTISED:  # else what is written is another tensor
            d.b.end(diff_dst)
    stats = [_per_channel(d, name, knobs) for name in ("mean", "variance")]
    scale = [_per_channel(d, "scale", knobs)] if "C" in given else []
    # the op makes the gradients of scale and shift together
    dtypes = (None,) * (3 if knobs.dir == "BWD_DW" and scale else 1)
    attrs = Attrs(epsilon=knobs.case.eps, data_format="NCX")
    outs = d.b.append("BatchNormTrainingBackward", (x, diff_dst, *stats, *scale), attrs, dtypes)
    d.write(outs[0], _named("diff_src", src))
    if knobs.dir == "BWD_DW" and "H" in given and not scale:
        (t,) = d.alike(diff_dst, result=DType.f32)
        d.b.op("ReduceSum", t, axes=(0, *range(2, len(src.shape))), keep_dims=False)


def _per_channel(d: Draft, name: str, knobs: Knobs, *, beside: bool = False) -> LogicalTensor:
    """beside: of a shape that broadcasts to src's."""
    from benchgraph.core.dtypes import DType

    from ._draft import Arg

    c = knobs.case
    return d.read(Arg(name, (c.ic, *(1,) * len(c.spatial)) if beside else (c.ic,), DType.f32))


def _named(name: str, like: Arg) -> Arg:
    return replace(like, name=name)


EXAMPLES = (
    "--bnorm --dir=FWD_D,BWD_DW --flags=CH,CHR mb8ic64ih56",
    "--bnorm --dir=FWD_I --flags=GCH --tag=axb --batch=shapes_odd",
)
DRIVER = Driver("bnorm", "batch normalisations, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
