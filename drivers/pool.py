"""pool: maxima and means of windows, and their gradients. `benchgraph --pool --alg=max,avg_p --dir=FWD_I,BWD_D ic64ih112oh56kh3sh2ph0`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.options.problem import CannotExpress, Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, algorithm, check_direction, descriptor, direction, dtype_of, dtypes, minibatch, tag
from ._sizes import MB, Grammar, read_named, spelt_words
from ._windows import NAMES, Dim, PoolDim, read_dims, spelt_dims

if TYPE_CHECKING:
    from benchgraph.core.attrs import Attrs
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Draft

WAYS = ("FWD_D", "FWD_I", "BWD_D")
KINDS = {"max": "MaxPool", "avg_np": "AvgPool", "avg_p": "AvgPool"}
ALIASES = {"pooling_max": "max", "pooling_avg_exclude_padding": "avg_np", "pooling_avg_include_padding": "avg_p"}
KNOWN = "mb, ic, and ih, oh, kh, sh, ph, dh with their like for d and w"
GRAMMAR = Grammar(("mb", "ic", *NAMES), "ic64ih56kh3sh2ph1", KNOWN)


@dataclass(frozen=True)
class PoolShape:
    mb: int
    ic: int
    dims: tuple[Dim, ...]
    name: str = ""

    def with_mb(self, mb: int) -> PoolShape:
        return replace(self, mb=mb) if mb else self

    def __str__(self) -> str:
        """The shortest text that is read as this problem, but that mb and the sizes of input, output and kernel are always said."""
        return spelt_words([f"mb{self.mb}", f"ic{self.ic}", *spelt_dims(self.dims)], self.name)


def parse(text: str) -> PoolShape:
    """Read a descriptor. Raises ValueError saying what is wrong, at which character or size, and how to mend it."""
    named = read_named(text, GRAMMAR)
    ic = named.need("ic", "channels")
    return PoolShape(named.sizes.get("mb", MB), ic, read_dims(named, PoolDim), named.title)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:DST")
    tag: str = tag("abx", "layout of src and dst")
    alg: str = algorithm("max", tuple(KINDS), ALIASES)
    mb: int = minibatch()
    case: PoolShape = descriptor(parse, "mbNicNihNohNkhNshNphNdhN...[nNAME]", "1 to 3 dims")


def build(knobs: Knobs) -> Graph:
    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    c = knobs.case.with_mb(knobs.mb)
    sdt, ddt = (dtype_of(name) for name in knobs.dt.of(2))
    src = Arg("src", (c.mb, c.ic, *(dim.i for dim in c.dims)), sdt, knobs.tag)
    dst = Arg("dst", (c.mb, c.ic, *(dim.o for dim in c.dims)), ddt, knobs.tag)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir == "BWD_D":
        d.no_post_ops(knobs.attr_post_ops)
        before = [d.read(src)] if knobs.alg == "max" else []
        ins = d.alike(*before, d.read(dst), result=sdt)
        d.write(_gradient(d, ins, knobs, src.shape), src)
    else:
        ins = d.alike(d.read(src), result=ddt)
        t = d.b.append(KINDS[knobs.alg], ins, _attrs(knobs))[0]
        d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _gradient(d: Draft, ins: tuple[LogicalTensor, ...], knobs: Knobs, src: tuple[int, ...]) -> LogicalTensor:
    """The maxima's places follow from src, which takes the place of a workspace."""
    if knobs.alg == "max":
        return d.b.append("MaxPoolBackward", ins, _attrs(knobs))[0]
    return d.b.append("AvgPoolBackward", ins, _attrs(knobs).updated(src_shape=src))[0]


def _attrs(knobs: Knobs) -> Attrs:
    """Raises CannotExpress for means of dilated windows."""
    from benchgraph.core.attrs import Attrs

    dims = knobs.case.dims
    attrs = Attrs(
        strides=tuple(dim.s for dim in dims),
        pads_begin=tuple(dim.p for dim in dims),
        pads_end=tuple(dim.pad_end for dim in dims),
        kernel=tuple(dim.k for dim in dims),
        data_format="NCX",
    )
    if knobs.alg == "max":
        return attrs.updated(dilations=tuple(dim.d + 1 for dim in dims))
    if any(dim.d for dim in dims):
        raise CannotExpress("AvgPool has no dilations", where=f"--alg={knobs.alg}", fix="use max, or leave the dilation out")
    return attrs.updated(exclude_pad=knobs.alg == "avg_np")


EXAMPLES = (
    "--pool --alg=max,avg_np --dir=FWD_I,BWD_D mb8ic64ih112oh56kh3sh2ph0",
    "--pool --alg=avg_p --tag=axb --dt=bf16 --batch=shapes_odd",
)
DRIVER = Driver("pool", "maxima and means of windows, or their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
