"""binary: a function of two tensors. `benchgraph --binary --alg=add,mul 32x64x56x56:1x64x1x1`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidShape
from benchgraph.harness.knobs import knob
from benchgraph.harness.parsers import dtype_name
from benchgraph.harness.problem import CannotExpress, Driver

from ._algs import BINARY_ALIASES, BINARY_NAMES, binary
from ._attrs import PostOps, Quantisation, post_ops, scales, zero_points
from ._layout import check_tag
from ._options import Colons, algorithm, colons, descriptor, dst_dtype, dtypes, minibatch, tag
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
class Knobs:
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt."""

    dt: Colons = dtypes("SRC0:SRC1:DST")
    sdt: Colons | None = knob(
        None, colons(dtype_name, 2), "DT|SRC0:SRC1[,...]", "data types of the sources, instead of what --dt says", product=True
    )
    ddt: str = dst_dtype()
    stag: Colons = knob(Colons(("any",)), colons(check_tag, 2), "TAG|SRC0:SRC1[,...]", "layouts of the sources (any)", product=True)
    dtag: str = tag("any", "layout of dst")
    alg: str = algorithm("add", BINARY_NAMES, BINARY_ALIASES)
    mb: int = minibatch()
    attr_scales: Quantisation = scales()
    attr_zero_points: Quantisation = zero_points()
    attr_post_ops: PostOps = post_ops()
    case: Shapes = descriptor(parse, "A:B[:CONDITION][_nNAME]", "two shapes that broadcast, and for select that of the condition")


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
    needed = 3 if knobs.alg == "select" else 2
    if len(problem.shapes) != needed:
        what = f"{len(problem.shapes)} shapes for {knobs.alg}, which takes {needed}"
        raise InvalidShape(what, fix="the third one is the condition of select" if needed == 2 else "write A:B:CONDITION")
    types, tags = _dtypes(knobs), knobs.stag.of(2)
    dst = Arg("dst", dst_shape(problem), types[2], knobs.dtag, "--dtag")
    d = Draft(knobs.attr_scales, knobs.attr_zero_points)
    args = [Arg(f"src{i}", problem.shapes[i], types[i], tags[i], "--stag") for i in (0, 1)]
    exact = (DType.s32,) if knobs.alg in EXACT else ()
    ins = [d.read(arg, as_it_is=exact) for arg in args]
    ins = list(d.alike(*ins, result=None if knobs.alg in COMPARISONS else types[2]))
    if knobs.alg == "select":
        t = d.b.op("Select", d.read(Arg("condition", problem.shapes[2], DType.boolean)), *ins)
    else:
        t = binary(d.b, knobs.alg, *ins)
    if t.dtype is DType.boolean and knobs.attr_post_ops.ops:
        raise CannotExpress("nothing can go on with booleans", where="--attr-post-ops", fix="leave it out")
    d.write(d.post_ops(t, knobs.attr_post_ops, dst), dst)
    return d.graph()


def _dtypes(knobs: Knobs) -> tuple[DType, DType, DType]:
    """Of both sources and dst, which is boolean for a comparison unless its dtype is asked for by name."""
    from benchgraph.core.dtypes import DType

    *sources, dst = knobs.dt.of(3)
    if knobs.alg in COMPARISONS and len(knobs.dt.values) == 1:
        dst = "boolean"
    src0, src1 = knobs.sdt.of(2) if knobs.sdt else sources
    return DType(src0), DType(src1), DType(knobs.ddt or dst)


DRIVER = Driver("binary", "a function of two tensors", Knobs, build)
