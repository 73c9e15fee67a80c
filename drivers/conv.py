"""conv: convolutions and their gradients. `benchgraph --conv --dir=FWD_B,BWD_D,BWD_WB mb8ic64ih56oc64oh56kh3ph1`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import AttributeKnobs
from ._conv_shape import ConvShape, parse_conv
from ._convolution import WAYS, Step, Steps, args_of, attrs_of, draft_of, graph_of
from ._layout import strides_of
from ._options import (
    INERT,
    Colons,
    Strides,
    algorithm,
    bias_dtype,
    descriptor,
    direction,
    dtypes,
    legacy_configuration,
    minibatch,
    strides,
    tag,
)

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.graph import Graph

    from ._draft import Arg


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
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
    case: ConvShape = descriptor(parse_conv, "mbNgNicNihNocNohNkhNshNphNdhN...[nNAME]", "1 to 3 dims")


def weights_of(knobs: Knobs, given: tuple[int, ...] | None, dtype: DType) -> Arg:
    """The weights, (oc, ic per group, *kernel). Raises CannotExpress."""
    from ._draft import Arg

    c = knobs.case
    kernel = tuple(dim.k for dim in c.dims)
    if given and c.g > 1:
        raise CannotExpress("weights of groups are no dims of their own", where=f"--strides={knobs.strides}", fix="give them a tag")
    strides = given or weight_strides(knobs.wtag, c.g, c.oc, c.ic // c.g, kernel)
    return Arg("wei", (c.oc, c.ic // c.g, *kernel), dtype, knobs.wtag, "--wtag", channels=0, given=strides)


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
    d = draft_of(knobs)
    tags = ((knobs.stag, "--stag"), (knobs.wtag, "--wtag"), (knobs.dtag, "--dtag"))
    own = [knobs.strides.of(i, tag, "any", option) for i, (tag, option) in enumerate(tags)]
    args = args_of(knobs, own, lambda dtype: weights_of(knobs, own[1], dtype))
    attrs = attrs_of(knobs.case, weights_format="OIX")
    steps = Steps(
        Step("Convolution", attrs),
        Step("ConvolutionBackwardData", attrs.updated(dst_shape=args.src.shape)),
        Step("ConvolutionBackwardWeights", attrs.updated(weights_shape=args.wei.shape)),
    )
    return graph_of(d, knobs, args, steps)


EXAMPLES = ("--conv --dir=FWD_B,BWD_D,BWD_WB mb8ic64ih56oc64oh56kh3ph1", "--conv --dt=u8:s8:u8 --attr-scales=wei:per_oc --batch=shapes_odd")
DRIVER = Driver("conv", "convolutions of one to three dims, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
