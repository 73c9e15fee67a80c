"""deconv: transposed convolutions and their gradients. `benchgraph --deconv --dir=FWD_B,BWD_D,BWD_WB mb2ic64ih14oc32oh28kh4sh2ph1`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import (
    CHOSEN_AT_RUN_TIME,
    AttributeKnobs,
    Entry,
    Quantisation,
    dims_of,
)
from ._conv_shape import ConvShape, parse_deconv
from ._convolution import WAYS, Step, Steps, args_of, attrs_of, draft_of, graph_of
from ._layout import PLAIN, strides_of
from ._options import INERT, Colons, algorithm, bias_dtype, descriptor, direction, dtypes, legacy_configuration, minibatch, tag

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.graph import Graph

    from ._draft import Arg

ALIASES = {"deconvolution_direct": "direct", "deconvolution_wino": "wino"}


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's, but that a bias is of the weights' dtype. Weights of any layout count as constant."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:WEI:DST")
    cfg: str = legacy_configuration()
    stag: str = tag("any", "layout of src; any is channels last")
    wtag: str = tag("any", "layout of the weights; any: constant, packed once")
    dtag: str = tag("any", "layout of dst; any is channels last")
    bia_dt: str = bias_dtype("by --dir, the weights' or f32")
    alg: str = algorithm("direct", ("direct", "auto", "wino"), ALIASES)
    mb: int = minibatch()
    case: ConvShape = descriptor(parse_deconv, "mbNgNicNihNocNohNkhNshNphNdhN...[nNAME]", "1 to 3 dims")


def weights_of(knobs: Knobs, dtype: DType) -> Arg:
    """The weights as ConvTranspose has them, (ic, oc per group, *kernel). A tag is for benchdnn's dims, ([g,] oc, ic, *kernel).

    Raises CannotExpress where groups and their input channels lie so that they are no single dim.
    """
    from ._draft import Arg

    c = knobs.case
    o, i, kernel = c.oc // c.g, c.ic // c.g, tuple(dim.k for dim in c.dims)
    if knobs.wtag in PLAIN:
        return Arg("wei", (c.ic, o, *kernel), dtype, knobs.wtag, "--wtag", channels=1)
    if c.g == 1:
        by_o, by_i, *rest = strides_of(knobs.wtag, (o, i, *kernel), "--wtag")
    else:
        by_group, by_o, by_i, *rest = strides_of(knobs.wtag, (c.g, o, i, *kernel), "--wtag")
        if i > 1 and by_group != i * by_i:
            what = "weights whose groups and input channels are no single dim, as oneDNN Graph has them"
            raise CannotExpress(what, where=f"--wtag={knobs.wtag}", fix="use any, or a tag in which i follows g")
        by_i = by_i if i > 1 else by_group
    return Arg("wei", (c.ic, o, *kernel), dtype, knobs.wtag, "--wtag", given=(by_i, by_o, *rest), channels=1)


def of_weights(given: Quantisation, case: ConvShape, option: str) -> Quantisation:
    """Scales or zero points with what is said of the weights' first dim, their outputs, said of ConvTranspose's second, and the other way.

    Raises CannotExpress for numbers along the outputs of groups, which are two dims.
    """
    return Quantisation(tuple(_of_weights(entry, case, option) for entry in given.entries))


def _of_weights(entry: Entry, case: ConvShape, option: str) -> Entry:
    if entry.arg != "wei" or entry.is_whole or entry.policy in CHOSEN_AT_RUN_TIME:
        return entry
    dims = dims_of(entry.policy, 2 + len(case.dims), 0)
    if case.g > 1 or len(dims) != 1:
        what = f"{entry.policy} of wei is not one dim of {'grouped ' if case.g > 1 else ''}weights"
        raise CannotExpress(what, where=f"{option}={entry}", fix="give one number, or numbers along one dim without groups")
    return replace(entry, policy=str(1 << {0: 1, 1: 0}.get(dims[0], dims[0])))


def build(knobs: Knobs) -> Graph:
    given = of_weights(knobs.attr_scales, knobs.case, "--attr-scales")
    points = of_weights(knobs.attr_zero_points, knobs.case, "--attr-zero-points")
    d = draft_of(replace(knobs, attr_scales=given, attr_zero_points=points))
    args = args_of(knobs, [None] * 3, lambda dtype: weights_of(knobs, dtype))
    attrs = attrs_of(knobs.case, weights_format="IOX")
    steps = Steps(
        Step("ConvTranspose", attrs.updated(output_padding=knobs.case.output_paddings)),
        Step("ConvTransposeBackwardData", attrs),
        Step("ConvTransposeBackwardWeights", attrs.updated(weights_shape=args.wei.shape)),
    )
    return graph_of(d, knobs, args, steps)


EXAMPLES = (
    "--deconv --dir=FWD_B,BWD_D,BWD_WB mb2ic64ih14oc32oh28kh4sh2ph1",
    "--deconv --dt=bf16 --attr-post-ops=relu --batch=shapes_odd",
)
DRIVER = Driver("deconv", "transposed convolutions, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
