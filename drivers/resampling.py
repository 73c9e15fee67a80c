"""resampling: images made larger or smaller, or the gradient. `benchgraph --resampling --alg=linear mb8ic64_ih28oh56`"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.options.problem import Driver

from ._attrs import AttributeKnobs
from ._options import INERT, Colons, algorithm, check_direction, descriptor, direction, dst_dtype, dtypes, minibatch, src_dtype, tag
from ._sizes import LETTERS, MB, Grammar, read_named, spelt_words

if TYPE_CHECKING:
    from benchgraph.graph import Graph

WAYS = ("FWD_D", "FWD_I", "BWD_D")
ALGS = ("nearest", "linear")
GRAMMAR = Grammar(
    names=("mb", "ic", *(v + letter for letter in LETTERS for v in "io")),
    example="mb8ic64_ih28oh56",
    known="mb, ic, ih, oh and their like for d and w",
)


@dataclass(frozen=True)
class Resampling:
    """Images (mb, ic, *src) become (mb, ic, *dst)."""

    mb: int
    ic: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    name: str = ""

    def with_mb(self, mb: int) -> Resampling:
        return replace(self, mb=mb) if mb else self

    def __str__(self) -> str:
        """The shortest text that is read as this problem, but that mb and the sizes of the first dim are always said."""
        words, before = [f"mb{self.mb}ic{self.ic}"], (0, 0)
        for letter, dim in zip(LETTERS[-len(self.src) :], zip(self.src, self.dst, strict=True), strict=True):
            words.append(f"i{letter}{dim[0]}o{letter}{dim[1]}" if dim != before else "")
            before = dim
        return spelt_words(words, self.name)


def parse(text: str) -> Resampling:
    """mbNicN_idNodN_ihNohN_iwNowN[_nNAME]. A dim that is not named at all is like the one before it."""
    found = read_named(text, GRAMMAR)
    ic, src, dst = found.need("ic", "channels"), found.inputs(), list[int]()
    if not src:
        raise ValueError(f"no spatial size is given; write at least ihN and ohN, as in {GRAMMAR.example}")
    for i, letter in enumerate(found.letters()):
        named = {v for v in "io" if v + letter in found.sizes}
        if len(named) == 1:
            missing = "output" if named == {"i"} else "input"
            raise ValueError(f"{missing[0]}{letter} is missing; write {missing[0]}{letter}N, the size of the {missing}")
        dst.append(found.need(f"o{letter}", "elements") if named else dst[i - 1])
    return Resampling(found.sizes.get("mb", MB), ic, src, tuple(dst), found.title)


@dataclass(frozen=True)
class Knobs(AttributeKnobs):
    """Names and defaults are benchdnn's; --dt speaks for --sdt and --ddt. src and dst have one layout."""

    dir: str = direction(*WAYS)
    dt: Colons = dtypes("SRC:DST")
    sdt: str = src_dtype()
    ddt: str = dst_dtype()
    tag: str = tag("abx", "layout of src and dst")
    alg: str = algorithm("nearest", ALGS, {f"resampling_{name}": name for name in ALGS})
    mb: int = minibatch()
    case: Resampling = descriptor(parse, "mbNicN_idNodN_ihNohN_iwNowN[_nNAME]", "1 to 3 dims")


def build(knobs: Knobs) -> Graph:
    from benchgraph.core.attrs import Attrs

    from ._draft import Arg, Draft, src_dst

    check_direction(knobs.dir, WAYS)
    problem = knobs.case.with_mb(knobs.mb)
    sdt, ddt = src_dst(knobs.dt, knobs.sdt, knobs.ddt)
    src = Arg("src", (problem.mb, problem.ic, *problem.src), sdt, knobs.tag, "--tag")
    dst = Arg("dst", (problem.mb, problem.ic, *problem.dst), ddt, knobs.tag, "--tag")
    d, attrs = (
        Draft(knobs.attr_scales, knobs.attr_zero_points, knobs.attr_fpmath),
        Attrs(mode=knobs.alg, sizes=problem.dst, data_format="NCX"),
    )
    if knobs.dir == "BWD_D":
        d.no_post_ops(knobs.attr_post_ops)
        ins = d.alike(d.read(src), d.read(replace(dst, name="diff_dst")))  # of src, the op wants the shape
        d.write(d.b.append("InterpolateBackward", ins, attrs)[0], replace(src, name="diff_src"))
        return d.graph()
    ins = d.alike(d.read(src), result=ddt)
    d.write(d.post_ops(d.b.append("Interpolate", ins, attrs)[0], knobs.attr_post_ops, dst), dst)
    return d.graph()


EXAMPLES = ("--resampling --alg=linear mb8ic64_ih28oh56", "--resampling --dir=BWD_D --dt=bf16 --tag=axb mb2ic8_ih7oh6_iw14ow12")
DRIVER = Driver("resampling", "images made larger or smaller, or the gradient", Knobs, build, inert=INERT, examples=EXAMPLES)
