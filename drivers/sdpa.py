"""sdpa: softmax(q k * scale + mask) v, or its gradients. `benchgraph --sdpa --mask=buffer 1x12x128x64:1x12x64x128:1x12x128x64`"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.parsers import natural
from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, check_direction, descriptor, direction, dtypes, folded, one_dtype, tag
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.graph import Graph

WAYS = ("FWD_I", "FWD_D", "BWD_D")
MASKS = ("none", "buffer", "buffer_1d", "buffer_2d", "causal_top_left", "causal_bottom_right")
MASK_ALIASES = {f"causal:{corner}": f"causal_{corner}" for corner in ("top_left", "bottom_right")}
SCALES = ("none", "mul", "div")


def parse(text: str) -> Shapes:
    """Q:K:V[_nNAME]"""
    problem = parse_shapes(text, 3, 3, "1x12x128x64:1x12x64x128:1x12x128x64")
    ranks = {len(shape) for shape in problem.shapes}
    if len(ranks) > 1 or min(ranks) < 2:
        raise ValueError(
            "the tensors have different numbers of sizes, or one; give each the same, 2 or more, as in 1x8x4x16:1x8x16x4:1x8x4x16"
        )
    return problem


def mask() -> Any:
    help = (
        "none; a tensor to add: buffer, of all scores, buffer_2d, of queries and keys, buffer_1d, of keys; causal_top_left, _bottom_right"
    )
    return knob("none", folded(*MASKS, aliases=MASK_ALIASES), "MASK[,...]", help, product=True)


def scale() -> Any:
    help = "scores times a constant (none) or an input (mul), or divided by an input (div); --fill chooses it"
    return knob("none", folded(*SCALES, aliases={"library": "none"}), "SCALE[,...]", help, product=True)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's. In --attr-scales q is src, and k and v are wei."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("Q:K:V:DST")
    qtag: str = tag("abx", "layout of the queries")
    ktag: str = tag("abx", "layout of the keys")
    vtag: str = tag("abx", "layout of the values")
    dtag: str = tag("abx", "layout of dst")
    mdt: str = one_dtype("f32", "data type of a mask that is a tensor (f32)")
    mask: str = mask()
    scale: str = scale()
    kv_head_number: int = knob(0, natural, "N[,N...]", "heads of keys and values; 0: what the descriptor says", product=True)
    case: Shapes = descriptor(parse, "Q:K:V[_nNAME]", "BxHxSxD:BxHxDxT:BxHxTxD")


def dst_shape(problem: Shapes) -> tuple[int, ...]:
    """The shape of dst. Raises InvalidShape where the shapes do not fit together."""
    q, k, v = problem.shapes
    if q[-1] != k[-2]:
        raise InvalidShape(f"queries {spelt(q)} have heads of {q[-1]}, and keys {spelt(k)} of {k[-2]}", fix="give keys as heads x keys")
    if k[-1] != v[-2]:
        raise InvalidShape(f"{k[-1]} keys in {spelt(k)} and {v[-2]} values in {spelt(v)}", fix="make them equal")
    if k[:-2] != v[:-2]:
        raise InvalidShape(f"keys {spelt(k)} and values {spelt(v)} differ in batch or heads", fix="make them equal")
    if q[:-3] != k[:-3] or (len(q) > 2 and q[-3] % k[-3]):
        what = f"queries {spelt(q)} and keys {spelt(k)}: batch or heads do not fit"
        raise InvalidShape(what, fix="give both one batch, and queries a multiple of the heads of keys")
    return (*q[:-1], v[-1])


def build(knobs: Knobs) -> Graph:
    from . import _attention

    check_direction(knobs.dir, WAYS)
    dst, keys = dst_shape(knobs.case), knobs.case.shapes[1]
    if knobs.kv_head_number and (len(keys) < 3 or keys[-3] != knobs.kv_head_number):
        what = f"--kv-head-number={knobs.kv_head_number} and keys {spelt(keys)}"
        raise InvalidShape(what, fix="give keys and values as many heads, or leave the option out")
    return _attention.build(knobs, dst)


ALIASES = {"--mask-type": "--mask", "--scale-type": "--scale"}
EXAMPLES = ("--sdpa --mask=buffer --dt=bf16 1x8x32x64:1x8x64x32:1x8x32x64", "--sdpa --dir=BWD_D --batch=shapes_odd")
# reals: the statistics of a row of one score are that score, and many integers are 0, which proves nothing
DRIVER = Driver("sdpa", "attention, or its gradients", Knobs, build, fill="reals", inert=INERT, aliases=ALIASES, examples=EXAMPLES)
