"""ip: inner products, as matrix products of flattened arguments. `benchgraph --ip --dir=FWD_B,BWD_D,BWD_WB mb32ic2048oc1000`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._attrs import (
    CHOSEN_AT_RUN_TIME,
    AttributeKnobs,
    dims_of,
)
from ._options import (
    INERT,
    Colons,
    check_direction,
    configured,
    descriptor,
    direction,
    dtype_of,
    dtypes,
    legacy_configuration,
    minibatch,
    tag,
)
from ._sizes import MB, Grammar, read_named, spelt_inputs, spelt_words

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.graph import Graph

    from ._draft import Arg, Draft

WAYS = ("FWD_B", "FWD_D", "FWD_I", "BWD_D", "BWD_W", "BWD_WB")
WITH_BIAS = ("FWD_B", "BWD_WB")
GRAMMAR = Grammar(("mb", "ic", "id", "ih", "iw", "oc"), "mb32ic256ih6oc1000", "mb, ic, id, ih, iw and oc")


@dataclass(frozen=True)
class ProductShape:
    """spatial: sizes of src and the weights behind the channels, none to three."""

    mb: int
    ic: int
    spatial: tuple[int, ...]
    oc: int
    name: str = ""

    def with_mb(self, mb: int) -> ProductShape:
        return replace(self, mb=mb) if mb else self

    def __str__(self) -> str:
        return spelt_words([f"mb{self.mb}", f"ic{self.ic}{spelt_inputs(self.spatial)}", f"oc{self.oc}"], self.name)


def parse(text: str) -> ProductShape:
    """mbXicX[idXihXiwX]ocX[nNAME], where a spatial size that is not named is that of the dim before it. Raises ValueError."""
    named = read_named(text, GRAMMAR)
    ic, oc = named.need("ic", "input channels"), named.need("oc", "output channels")
    return ProductShape(named.sizes.get("mb", MB), ic, named.inputs(), oc, named.title)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's. A bias is of the weights' dtype; weights of any layout count as constant, and are packed once."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:WEI:DST")
    cfg: str = legacy_configuration()
    stag: str = tag("any", "layout of src")
    wtag: str = tag("any", "layout of the weights; any: constant, packed once")
    dtag: str = tag("any", "layout of dst")
    mb: int = minibatch()
    case: ProductShape = descriptor(parse, "mbNicNidNihNiwNocN[nNAME]", "0 to 3 dims")


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft

    check_direction(knobs.dir, WAYS)
    c = knobs.case.with_mb(knobs.mb)
    sdt, wdt, ddt = (dtype_of(name) for name in configured(knobs.dt, knobs.cfg).of(3))
    src = _matrix(Arg("src", (c.mb, c.ic, *c.spatial), sdt, knobs.stag, "--stag"), knobs)
    wei = _matrix(Arg("wei", (c.oc, c.ic, *c.spatial), wdt, knobs.wtag, "--wtag", channels=0), knobs)
    dst = Arg("dst", (c.mb, c.oc), ddt, knobs.dtag, "--dtag")
    bia = Arg("bia", (c.oc,), wdt if wdt.is_float and wdt.bits > 8 else DType.f32)
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    if knobs.dir.startswith("BWD"):
        d.no_post_ops(knobs.attr_post_ops, forward="FWD_B")
        diff_dst = d.read(dst)
        if knobs.dir == "BWD_D":
            weights = _flat(d, d.read(wei, constant=wei.is_free))
            _write(d, _product(d, *d.alike(diff_dst, weights), wanted=sdt), src)
        else:
            ins = [diff_dst, _flat(d, d.read(src))]
            _write(d, _product(d, *d.alike(*ins), wanted=wdt, transpose_a=True), wei)
        if knobs.dir in WITH_BIAS:
            (t,) = d.alike(diff_dst, result=bia.dtype)
            d.write(d.b.op("BiasAddBackward", t, data_format="NCX"), bia)
        return d.graph()
    ins = [_flat(d, d.read(src)), _flat(d, d.read(wei, constant=wei.is_free))]
    if knobs.dir in WITH_BIAS:
        ins.append(d.read(bia, constant=wei.is_free))
    t = _product(d, *d.alike(*ins), wanted=ddt, transpose_b=True)
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _product(d: Draft, *ins: LogicalTensor, wanted: DType, transpose_a: bool = False, transpose_b: bool = False) -> LogicalTensor:
    """The product in the dtype of its operands, or in f32, which MatMul makes of bf16 and f16 as well."""
    from benchgraph.core.dtypes import DType

    dtype = wanted if wanted is ins[0].dtype else DType.f32
    return d.b.op("MatMul", *ins, dtype=dtype, transpose_a=transpose_a, transpose_b=transpose_b)


def _matrix(arg: Arg, knobs: Knobs) -> Arg:
    """The argument as the matrix that it is in memory, if its dims behind the first one lie as a single dim, and have no numbers each."""
    shape, strides = arg.shape, arg.strides
    inner = [(size, stride) for size, stride in zip(shape[1:], strides[1:], strict=True) if size != 1]
    is_one = all(stride == size_in * stride_in for (_, stride), (size_in, stride_in) in pairwise(inner))
    entries = [e for q in (knobs.attr_scales, knobs.attr_zero_points) if (e := q.of(arg.name)) is not None and not e.is_whole]
    are_rows = all(e.policy not in CHOSEN_AT_RUN_TIME and dims_of(e.policy, len(shape), arg.channels) == (0,) for e in entries)
    if not (is_one and are_rows):
        return arg
    flat = (shape[0], prod(shape[1:]))
    return replace(arg, shape=flat, given=(strides[0], inner[-1][1] if inner else 1))


def _flat(d: Draft, t: LogicalTensor) -> LogicalTensor:
    shape = t.known_shape
    return t if len(shape) == 2 else d.b.op("StaticReshape", t, shape=(shape[0], prod(shape[1:])), special_zero=False)


def _write(d: Draft, t: LogicalTensor, arg: Arg) -> None:
    """A gradient, with the dims of what it is the gradient of."""
    shape = arg.shape
    d.write(t if len(shape) == 2 else d.b.op("StaticReshape", t, shape=shape, special_zero=False), arg)


EXAMPLES = ("--ip --dir=FWD_B,BWD_D,BWD_WB mb32ic2048oc1000", "--ip --dt=bf16 --attr-post-ops=relu --batch=shapes_vgg")
DRIVER = Driver("ip", "inner products, and their gradients", Knobs, build, inert=INERT, examples=EXAMPLES)
