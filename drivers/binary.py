"""binary: a function of two tensors. `benchgraph --binary --alg=add,mul 32x64x56x56:1x64x1x1`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.options.knobs import knob
from benchgraph.options.problem import CannotExpress, Driver

from ._algs import BINARY_ALIASES, BINARY_NAMES, binary
from ._attrs import AttributeKnobs
from ._options import (
    INERT,
    Colons,
    Strides,
    algorithm,
    colons,
    data_type,
    descriptor,
    dst_dtype,
    dtype_of,
    dtypes,
    minibatch,
    strides,
    tag,
    tag_word,
)
from ._shapes import Shapes, parse_shapes, spelt

if TYPE_CHECKING:
    from benchgraph.core.dtypes import DType
    from benchgraph.graph import Graph

COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
EXACT = ("add", "sub", "ge", "le")  # their ops compute with s32 as well


def parse(text: str) -> Shapes:
    """A:B[:CONDITION][_nNAME]; a shorter one is filled up with ones behind, as benchdnn does."""
    problem = parse_shapes(text, 2, 3, "8x64x56x56:1x64")
    rank = max(len(shape) for shape in problem.shapes)
    return replace(problem, shapes=tuple(shape + (1,) * (rank - len(shape)) for shape in problem.shapes))


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dt: Colons = dtypes("SRC0:SRC1:DST")
    sdt: Colons | None = knob(None, colons(data_type, 2), "DT|SRC0:SRC1[,...]", "data types of the sources, instead of --dt", product=True)
    ddt: str = dst_dtype()
    stag: Colons = knob(Colons(("any",)), colons(tag_word, 2), "TAG|SRC0:SRC1[,...]", "layouts of the sources (any)", product=True)
    dtag: str = tag("any", "layout of dst")
    strides: Strides = strides("SRC0:SRC1:DST")
    alg: str = algorithm("add", BINARY_NAMES, BINARY_ALIASES)
    mb: int = minibatch()
    case: Shapes = descriptor(
        parse, "A:B[:CONDITION][_nNAME]", "two shapes that broadcast, and for select that of the condition, else like dst"
    )


def dst_shape(problem: Shapes) -> tuple[int, ...]:
    """What the tensors broadcast to. Raises InvalidShape."""
    dst = list[int]()
    for dim, sizes in enumerate(zip(*problem.shapes, strict=True)):
        several = {size for size in sizes if size != 1}
        if len(several) > 1:
            what = f"dim {dim} is {' and '.join(str(size) for size in sizes)} in {':'.join(map(spelt, problem.shapes))}"
            raise InvalidShape(what, fix="make the sizes equal, or all but one kind of them 1")
        dst.append(several.pop() if several else 1)
    return tuple(dst)


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.dtypes import DType

    from ._draft import Arg, Draft

    problem = knobs.case.with_mb(knobs.mb)
    if len(problem.shapes) != 2 and knobs.alg != "select":
        what = f"{len(problem.shapes)} shapes for {knobs.alg}, which takes 2"
        raise InvalidShape(what, fix="the third one is the condition of select")
    types, tags = _dtypes(knobs), (*knobs.stag.of(2), knobs.dtag)
    own = [knobs.strides.of(i, tag, "any", "--dtag" if i == 2 else "--stag") for i, tag in enumerate(tags)]
    dst = Arg("dst", dst_shape(problem), types[2], knobs.dtag, "--dtag", given=own[2])
    d = Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath)
    args = [Arg(f"src{i}", problem.shapes[i], types[i], tags[i], "--stag", given=own[i]) for i in (0, 1)]
    exact = (DType.s32,) if knobs.alg in EXACT else ()
    ins = [d.read(arg, as_it_is=exact) for arg in args]
    ins = list(d.alike(*ins, result=None if knobs.alg in COMPARISONS else types[2]))
    if knobs.alg == "select":
        condition = problem.shapes[2] if len(problem.shapes) == 3 else dst.shape
        t = d.b.op("Select", d.read(Arg("condition", condition, DType.boolean)), *ins)
    else:
        t = binary(d.b, knobs.alg, *ins)
    if t.dtype is DType.boolean and knobs.attr_post_ops.ops:
        raise CannotExpress("nothing can go on with booleans", where="--attr-post-ops", fix="leave it out")
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _dtypes(knobs: Knobs) -> tuple[DType, DType, DType]:
    """Of both sources and dst, which is boolean for a comparison unless its dtype is asked for by name."""
    *sources, dst = knobs.dt.of(3)
    if knobs.alg in COMPARISONS and len(knobs.dt.values) == 1:
        dst = "boolean"
    src0, src1 = knobs.sdt.of(2) if knobs.sdt else sources
    return dtype_of(src0), dtype_of(src1), dtype_of(knobs.ddt or dst)


EXAMPLES = ("--binary --alg=add,mul 32x64x56x56:1x64x1x1", "--binary --sdt=u8:s8 --ddt=f32 --alg=max 8x64:8x64")
DRIVER = Driver("binary", "a function of two tensors", Knobs, build, inert=INERT, examples=EXAMPLES)
