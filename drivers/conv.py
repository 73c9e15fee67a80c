"""conv: convolutions and their gradients. `benchgraph --conv --dir=FWD_B,BWD_D,BWD_WB mb8ic64ih56oc64oh56kh3ph1`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import PostOps, Quantisation, dropout, math_mode, post_ops, reductions, rounding_mode, scales, zero_points
from ._conv_shape import ConvShape, parse_conv
from ._layout import PLAIN, strides_of
from ._options import (
    INERT,
    Colons,
    Strides,
    algorithm,
    bias_dtype,
    check_direction,
    configured,
    descriptor,
    direction,
    dtype_of,
    dtypes,
    legacy_configuration,
    minibatch,
    strides,
    tag,
)

if TYPE_CHECKING:
    from benchgraph.core.attrs import Attrs
    from benchgraph.graph import Graph

    from ._draft import Arg, Draft

CHOSEN = "axb"  # channels last: the layout that convolutions are compiled for, and so the one for `any`
WAYS = ("FWD_B", "FWD_D", "FWD_I", "BWD_D", "BWD_W", "BWD_WB")
WITH_BIAS = ("FWD_B", "BWD_WB")


@dataclass(frozen=True)
class Knobs:
    """Names and defaults are benchdnn's, but that a bias is of the weights' dtype. Weights of any layout count as constant."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:WEI:DST")
    cfg: str = legacy_configuration()
    stag: str = tag("any", "layout of src; any is channels last")
    wtag: str = tag("any", "layout of the weights; any: constant, packed once")
    dtag: str = tag("any", "layout of dst; any is channels last")
    strides: Strides = strides("SRC:WEI:DST")
    bia_dt: str = bias_dtype("by --dir, the weights' or f32")
    alg: str = algorithm("direct", ("direct", "auto", "wino"), {})
    mb: int = minibatch()
    attr_scales: Quantisation = scales()
    attr_zero_points: Quantisation = zero_points()
    attr_post_ops: PostOps = post_ops()
    attr_fpmath: str = math_mode()
    attr_dropout: str = dropout()
    attr_rounding_mode: str = rounding_mode()
    attr_precomputed_reductions: str = reductions()
    case: ConvShape = descriptor(parse_conv, "mbNgNicNihNocNohNkhNshNphNdhN...[nNAME]", "1 to 3 dims")


@dataclass(frozen=True)
class Args:
    """The arguments, with logical dims NC... and OI..., whatever their layout."""

    src: Arg
    wei: Arg
    dst: Arg
    bia: Arg | None


def args_of(knobs: Knobs) -> Args:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg

    c = knobs.case.with_mb(knobs.mb)
    sdt, wdt, ddt = (dtype_of(name) for name in configured(knobs.dt, knobs.cfg).of(3))
    kernel = tuple(dim.k for dim in c.dims)
    stag, dtag = (CHOSEN if tag in PLAIN else tag for tag in (knobs.stag, knobs.dtag))
    tags = ((knobs.stag, "--stag"), (knobs.wtag, "--wtag"), (knobs.dtag, "--dtag"))
    own = [knobs.strides.of(i, tag, "any", option) for i, (tag, option) in enumerate(tags)]
    src = Arg("src", (c.mb, c.ic, *(dim.i for dim in c.dims)), sdt, stag, "--stag", given=own[0])
    dst = Arg("dst", (c.mb, c.oc, *(dim.o for dim in c.dims)), ddt, dtag, "--dtag", given=own[2])
    if own[1] and c.g > 1:
        raise CannotExpress("weights of groups are no dims of their own", where=f"--strides={knobs.strides}", fix="give them a tag")
    strides = own[1] or weight_strides(knobs.wtag, c.g, c.oc, c.ic // c.g, kernel)
    wei = Arg("wei", (c.oc, c.ic // c.g, *kernel), wdt, knobs.wtag, "--wtag", channels=0, given=strides)
    wide = wdt if wdt.is_float and wdt.bits > 8 else DType.f32
    has_bias = knobs.bia_dt != "undef" or knobs.dir in WITH_BIAS
    bia = Arg("bia", (c.oc,), wide if knobs.bia_dt == "undef" else dtype_of(knobs.bia_dt)) if has_bias else None
    return Args(src, wei, dst, bia)


def weight_strides(tag: str, g: int, oc: int, ic: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of weights (oc, ic, *kernel), ic per group. A tag may be for them, or for (g, oc / g, ic, *kernel), as benchdnn's are.

    Raises CannotExpress when groups and the output channels of a group lie so that they are no single dim.
    """
    merged = (oc, ic, *kernel)
    if g == 1 or (len(tag) == len(merged) and not set("xy") & set(tag)):
        return strides_of(tag, merged, "--wtag")
    group, first, *rest = strides_of(tag, (g, oc // g, ic, *kernel), "--wtag")
    if oc // g > 1 and group != oc // g * first:
        what = "weights whose groups and output channels are no single dim, as oneDNN Graph has them"
        raise CannotExpress(what, where=f"--wtag={tag}", fix="use a tag in which o follows g")
    return (group if oc == g else first, *rest)


def build(knobs: Knobs) -> Graph:
    from ._draft import Draft

    check_direction(knobs.dir, WAYS)
    if knobs.alg == "wino" or knobs.cfg.endswith("_wino"):
        where = "--alg=wino" if knobs.alg == "wino" else f"--cfg={knobs.cfg}"
        raise CannotExpress("no op asks for an algorithm", where=where, fix="use direct or auto")
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir.startswith("BWD"):
        d.no_post_ops(knobs.attr_post_ops, forward="FWD_B")
    args = args_of(knobs)
    steps = {"BWD_D": _backward_data, "BWD_W": _backward_weights, "BWD_WB": _backward_weights}
    steps.get(knobs.dir, _forward)(d, args, knobs)
    return d.graph()


def _forward(d: Draft, args: Args, knobs: Knobs) -> None:
    ins = [d.read(args.src), d.read(args.wei, constant=args.wei.is_free)]
    if args.bia is not None:
        ins.append(d.read(args.bia, constant=args.wei.is_free))
    t = d.b.append("Convolution", d.alike(*ins, result=args.dst.dtype), _attrs(knobs))[0]
    d.write(d.post_ops(t, knobs.attr_post_ops, args.dst), args.dst)


def _backward_data(d: Draft, args: Args, knobs: Knobs) -> None:
    ins = d.alike(d.read(args.dst), d.read(args.wei, constant=args.wei.is_free), result=args.src.dtype)
    d.write(d.b.append("ConvolutionBackwardData", ins, _attrs(knobs).updated(dst_shape=args.src.shape))[0], args.src)


def _backward_weights(d: Draft, args: Args, knobs: Knobs) -> None:
    """The gradient of the weights, and that of the bias if there is one."""
    diff_dst = d.read(args.dst)
    ins = d.alike(d.read(args.src), diff_dst, result=args.wei.dtype)
    d.write(d.b.append("ConvolutionBackwardWeights", ins, _attrs(knobs).updated(weights_shape=args.wei.shape))[0], args.wei)
    if args.bia is not None:
        (diff_dst,) = d.alike(ins[1], result=args.bia.dtype)
        d.write(d.b.op("BiasAddBackward", diff_dst, data_format="NCX"), args.bia)


def _attrs(knobs: Knobs) -> Attrs:
    from benchgraph.core.attrs import Attrs

    dims = knobs.case.dims
    return Attrs(
        strides=tuple(dim.s for dim in dims),
        pads_begin=tuple(dim.p for dim in dims),
        pads_end=tuple(dim.pad_end for dim in dims),
        dilations=tuple(dim.d + 1 for dim in dims),
        groups=knobs.case.g,
        data_format="NCX",
        weights_format="OIX",
    )


EXAMPLES = ("--conv --dir=FWD_B,BWD_D,BWD_WB mb8ic64ih56oc64oh56kh3ph1", "--conv --dt=u8:s8:u8 --attr-scales=wei:per_oc --batch=shapes_odd")
DRIVER = Driver("conv", "convolutions of one to three dims, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
