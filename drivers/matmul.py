"""matmul: matrix products. `benchgraph --matmul --dt=bf16 --attr-post-ops=relu 128x512:512x256`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidShape, within
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import natural
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs, masked
from ._options import (
    INERT,
    Colons,
    Strides,
    bias_dtype,
    configured,
    descriptor,
    dtype_of,
    dtypes,
    legacy_configuration,
    minibatch,
    pattern,
    run_time_sizes,
    strides,
    tag,
)
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

    from ._draft import Arg


def parse(text: str) -> Shapes:
    """[BATCHx]MxK:[BATCHx]KxN[:[BATCHx]MxN][_nNAME]"""
    shapes = parse_shapes(text, 2, 3, "128x512:512x256")
    ranks = {len(shape) for shape in shapes.shapes}
    if len(ranks) > 1 or min(ranks) < 2:
        raise ValueError("the tensors have different numbers of sizes, or one; give each the same, 2 or more, as in 2x8x16:1x16x32")
    return shapes


def encoding() -> Any:
    """Neutral where no tensor is named."""
    lacks = "tensors of oneDNN Graph are dense"
    form = pattern(r"[a-z]*(\+[\d.]+)?(:[a-z]*(\+[\d.]+)?)*", "write SRC:WEI:DST, each empty or an encoding such as csr+0.99")
    return knob("", lambda word: form(word).strip(":"), "SRC:WEI:DST[,...]", "sparse encodings", product=True, lacks=lacks)


def grouped() -> Any:
    """Its sizes may be joined by commas, so that a list of alternatives cannot be told from them."""
    form = pattern(r"\d+:\d+:\d+([+,]\d+)*(:\d+)?(,\d+:\d+:[\d+]+(:\d+)?)*", "write DIM:GROUPS:SIZE+SIZE..., as in 0:2:32+64")
    lacks = "a product has one matrix for all rows of a batch entry"
    return knob("", form, "DIM:GROUPS:SIZE+...", "groups of rows with a matrix each", lacks=lacks)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's, but for --wtag: weights of any layout count as constant, and are packed once."""

    dt: Colons = dtypes("SRC:WEI:DST")
    cfg: str = legacy_configuration()
    stag: str = tag("any", "layout of src")
    wtag: str = tag("any", "layout of the weights; any: constant, packed once")
    dtag: str = tag("any", "layout of dst")
    strides: Strides = strides("SRC:WEI:DST")
    bia_dt: str = bias_dtype("no bias")
    bia_mask: int = knob(2, natural, "N[,N...]", "bit i: the bias has dim i of dst (2)", product=True)
    runtime_dims_masks: str = run_time_sizes()
    encoding: str = encoding()
    grouped: str = grouped()
    mb: int = minibatch()
    case: Shapes = descriptor(parse, "MxK:KxN[:MxN][_nNAME]", "batch dims in front, which broadcast")


def with_mb(problem: Shapes, mb: int) -> Shapes:
    """With another batch: the outermost dim, which is M when there are two dims."""
    if not mb:
        return problem
    src, wei, *dst = problem.shapes
    if len(src) == 2:
        return replace(problem, shapes=((mb, src[1]), wei, *((mb, d[1]) for d in dst)))
    return problem.with_mb(mb)


def dst_shape(problem: Shapes) -> tuple[int, ...]:
    """The shape of dst, which the descriptor may state. Raises InvalidShape where the shapes do not fit together."""
    src, wei, *given = problem.shapes
    if src[-1] != wei[-2]:
        what = f"src {spelt(src)} has K={src[-1]}, its last size, and weights {spelt(wei)} K={wei[-2]}, the one before the last"
        raise InvalidShape(what, fix="make them equal")
    batch = list[int]()
    for dim, (a, b) in enumerate(zip(src[:-2], wei[:-2], strict=True)):
        if a != b and 1 not in (a, b):
            raise InvalidShape(f"batch dim {dim} is {a} in src and {b} in the weights", fix="make them equal, or one of them 1")
        batch.append(b if a == 1 else a)
    dst = (*batch, src[-2], wei[-1])
    if given and given[0] != dst:
        raise InvalidShape(f"dst is {spelt(given[0])}, but src and weights give {spelt(dst)}", fix="correct it, or leave it out")
    return dst


def build(knobs: Knobs) -> Graph:
    # imported here: the options are read, and --help printed, without loading numpy
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft

    problem = with_mb(knobs.case, knobs.mb)
    shape, rank = dst_shape(problem), len(problem.shapes[0])
    types = [dtype_of(name) for name in configured(knobs.dt, knobs.cfg).of(3)]
    tags = ((knobs.stag, "--stag"), (knobs.wtag, "--wtag"), (knobs.dtag, "--dtag"))
    own = [knobs.strides.of(i, tag, "any", option) for i, (tag, option) in enumerate(tags)]
    wei = Arg("wei", problem.shapes[1], types[1], knobs.wtag, "--wtag", channels=rank - 1, given=own[1])
    dst = Arg("dst", shape, types[2], knobs.dtag, "--dtag", channels=rank - 1, given=own[2])
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    src = d.read(Arg("src", problem.shapes[0], types[0], knobs.stag, "--stag", channels=rank - 1, given=own[0]))
    ins = d.alike(src, d.read(wei, constant=wei.is_free))
    bias = [d.read(bias_of(knobs, shape), constant=wei.is_free)] if knobs.bia_dt != "undef" else []
    if all(b.dtype is ins[0].dtype for b in bias):
        result = types[2] if types[2] is ins[0].dtype else DType.f32  # of bf16 and f16, MatMul makes f32 as well
        t = d.b.op("MatMul", *ins, *bias, dtype=result)
    else:
        t = d.b.op("Add", d.b.op("MatMul", *ins, dtype=DType.f32), d.cast(bias[0], DType.f32))
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def bias_of(knobs: Knobs, dst: tuple[int, ...]) -> Arg:
    """The bias: the dims of dst that --bia-mask names; a vector when that is the last one alone, which is the form that fuses."""
    from ._draft import Arg

    with within(f"--bia-mask={knobs.bia_mask}"):
        shape = masked(str(knobs.bia_mask), dst, len(dst) - 1)
    return Arg("bia", shape[-1:] if set(shape[:-1]) == {1} else shape, dtype_of(knobs.bia_dt), option="--bia-dt")


EXAMPLES = (
    "--matmul --dt=bf16 --attr-post-ops=relu+sum 128x512:512x256",
    "--matmul --dt=u8:s8:f32 --attr-scales=wei:per_oc --batch=shapes_2d",
)
DRIVER = Driver("matmul", "matrix products, as benchdnn describes them", Knobs, build, inert=INERT, examples=EXAMPLES)
