"""sum: a weighted sum of tensors of one shape. `benchgraph --sum --sdt=f32:f32:f32 --scales=1:2:0.5 8x64x56x56`"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidArguments
from benchgraph.options.knobs import knob
from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import AttributeKnobs, Entry, Quantisation
from ._options import INERT, Colons, colons_of_all, data_type, dst_dtype, dtype_of, dtypes, minibatch, one_shape, real, source_tags, tag
from ._shapes import Shapes

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Draft


def source_dtypes() -> Any:
    help = "data types of the sources, two or more, instead of --dt"
    return knob(None, colons_of_all(data_type), "SRC0:SRC1...[,...]", help, product=True)


def weights() -> Any:
    def number(word: str) -> str:
        real(word)
        return word

    help = "weights of the sources (1); of sources that are not quantised, other weights are constants with numbers of --fill"
    return knob(Colons(("1",)), colons_of_all(number), "X|X0:X1...[,...]", help, product=True)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --ddt and two sources of --sdt."""

    dt: Colons = dtypes("SRC:DST")
    sdt: Colons | None = source_dtypes()
    ddt: str = dst_dtype()
    stag: Colons = source_tags("abx", "SRC0:SRC1...", "layouts of the sources")
    dtag: str = tag("undef", "layout of dst")
    scales: Colons = weights()
    mb: int = minibatch()
    case: Shapes = one_shape("8x64x56x56")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft, src_dst

    (shape,) = knobs.case.with_mb(knobs.mb).shapes
    sdt, ddt = src_dst(knobs.dt, "", knobs.ddt)
    types = [dtype_of(name) for name in knobs.sdt.values] if knobs.sdt else [sdt, sdt]
    if len(types) < 2:
        raise InvalidArguments("one source", where=f"--sdt={knobs.sdt}", fix="give the data types of two or more, joined by ':'")
    tags, weights = knobs.stag.each(len(types), "--stag"), [float(x) for x in knobs.scales.each(len(types), "--scales")]
    dst = Arg("dst", shape, ddt, knobs.dtag, "--dtag")
    d = Draft(_with_weights(knobs.attr_scales, types, weights), knobs.attr_zero_points, knobs.attr_fpmath)
    sources = d.alike(*(d.read(Arg(f"msrc{i}", shape, dtype, tags[i], "--stag")) for i, dtype in enumerate(types)), result=ddt)
    first, *others = (_weighted(d, t, dtype, weight) for t, dtype, weight in zip(sources, types, weights, strict=True))
    d.write(d.post_ops(reduce(partial(d.b.op, "Add"), others, first), knobs.attr_post_ops, dst), dst)
    return d.graph()


def _with_weights(scales: Quantisation, types: list[DType], weights: list[float]) -> Quantisation:
    """The scales of quantised sources, with their weights in them. Raises CannotExpress for a source that has both."""
    from ._draft import QUANTISED

    entries = list(scales.entries)
    for i, (dtype, weight) in enumerate(zip(types, weights, strict=True)):
        if dtype not in QUANTISED or weight == 1:
            continue
        if scales.of(f"msrc{i}"):
            what = f"source {i} has a weight and a scale of its own"
            raise CannotExpress(what, where="--scales, --attr-scales", fix="leave one of them out")
        entries.append(Entry(f"msrc{i}", "common", repr(weight)))
    return Quantisation(tuple(entries))


def _weighted(d: Draft, t: LogicalTensor, dtype: DType, weight: float) -> LogicalTensor:
    """A source times its weight, which is in the scale of one that is quantised."""
    from ._draft import QUANTISED

    return t if weight == 1 or dtype in QUANTISED else d.b.op("Multiply", t, d.b.constant((1,), t.dtype))


EXAMPLES = ("--sum --sdt=f32:f32:f32 --scales=1:2:0.5 8x64x56x56", "--sum --sdt=s8:u8 --ddt=f32 --scales=0.25:2 --batch=shapes_residual")
# reals: an integer weight may be 0, and makes zeros of a source, which prove nothing
DRIVER = Driver("sum", "a weighted sum of tensors of one shape", Knobs, build, fill="reals", inert=INERT, examples=EXAMPLES)
