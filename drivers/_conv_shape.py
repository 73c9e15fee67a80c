"""benchdnn's convolution descriptors: mb8_g1ic64ih56oc64oh56kh3ph1n"resnet_50:res2a".

Sizes are names and numbers, with _ between them where one likes: mb (2), g (1), ic, oc; and for d, h and w each: i, o (input and output),
k (kernel), s (stride, 1), p (padding in front), d (zeros between the taps, 0). Three dims when any d is named, else two when any h is.

A dim that is not named at all is like the one before it: w is like h, and h like d. Of the output and the padding one follows from the
other: without p and o the padding is 0; with o alone, p is half of what the windows stick out, rounded down. The padding behind is
whatever the output needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from benchgraph.core.errors import did_you_mean

LETTERS = "dhw"
VARIABLES = "ioksp"
NAMES = ("mb", "g", "ic", "oc", *(v + letter for letter in LETTERS for v in (*VARIABLES, "d")))
MB = 2  # benchdnn's default, as are these
DEFAULTS = {"s": 1, "d": 0}


@dataclass(frozen=True)
class Dim:
    """One spatial dim. dilation: benchdnn's, 0 for none. pad: in front."""

    i: int
    o: int
    k: int
    s: int
    p: int
    d: int

    @property
    def window(self) -> int:
        """How far the kernel reaches: from its first tap to its last."""
        return (self.k - 1) * (self.d + 1) + 1

    @property
    def pad_end(self) -> int:
        """Padding behind; 0 when the last window ends inside the input."""
        return max((self.o - 1) * self.s + self.window - self.i - self.p, 0)


@dataclass(frozen=True)
class ConvShape:
    mb: int
    g: int
    ic: int
    oc: int
    dims: tuple[Dim, ...]
    name: str = ""

    def with_mb(self, mb: int) -> ConvShape:
        return replace(self, mb=mb) if mb else self

    def __str__(self) -> str:
        """The shortest text that is read as this problem, but that mb and the sizes of input, output and kernel are always said."""
        words = [f"mb{self.mb}", f"g{self.g}" if self.g != 1 else "", f"ic{self.ic}oc{self.oc}"]
        for letter, dim, before in zip(LETTERS[-len(self.dims) :], self.dims, (None, *self.dims), strict=False):
            if dim != before:
                words.append(_spelt(letter, dim, before))
        return "_".join(word for word in words if word) + (f'_n"{self.name}"' if self.name else "")


def _spelt(letter: str, dim: Dim, before: Dim | None) -> str:
    """Strides and dilations only where they are not what is read when nothing is said."""
    silent = DEFAULTS if before is None else {"s": before.s, "d": before.d}
    said = [f"i{letter}{dim.i}", f"o{letter}{dim.o}", f"k{letter}{dim.k}"]
    return "".join([*said, *(f"{v}{letter}{getattr(dim, v)}" for v in "sd" if getattr(dim, v) != silent[v]), f"p{letter}{dim.p}"])


def parse_conv(text: str) -> ConvShape:
    """Read a descriptor. Raises ValueError saying what is wrong, at which character or size, and how to mend it."""
    sizes, title = _sizes(text)
    for needed in ("ic", "oc"):
        if needed not in sizes:
            raise ValueError(f"{needed} is missing; write {needed}N, the number of {'input' if needed == 'ic' else 'output'} channels")
    letters = next((LETTERS[at:] for at, letter in enumerate(LETTERS) if any(name[-1] == letter for name in sizes)), "")
    if not letters:
        raise ValueError("no spatial size is given; write at least ihN and khN")
    g, ic, oc = sizes.get("g", 1), sizes["ic"], sizes["oc"]
    if g < 1 or ic % g or oc % g:
        raise ValueError(f"g{g} does not divide ic{ic} and oc{oc}; give a number of groups that does")
    return ConvShape(sizes.get("mb", MB), g, ic, oc, _dims(sizes, letters), title)


def _sizes(text: str) -> tuple[dict[str, int], str]:
    """The sizes by name, and the problem's name."""
    sizes, at = dict[str, int](), 0
    while at < len(text) and text[at] != "n":
        if text[at] == "_":
            at += 1
            continue
        word = re.match(r"([a-zA-Z]*)([0-9]*)", text[at:])
        assert word is not None, "the pattern matches the empty text"
        name, number = word.groups()
        where = f"at character {at + 1}: "
        if not name:
            raise ValueError(f"{where}'{text[at]}' where the name of a size is due; write sizes as in ic64ih56oc64kh3ph1")
        if name not in NAMES:
            known = did_you_mean(name, NAMES) or "there are mb, g, ic, oc, and ih, oh, kh, sh, ph, dh with their like for d and w"
            raise ValueError(f"{where}no size is called '{name}'; {known}")
        if not number:
            raise ValueError(f"{where}{name} has no number; write {name}N")
        if name in sizes:
            raise ValueError(f"{where}{name} is given twice; leave one out")
        sizes[name] = int(number)
        at += len(name) + len(number)
    title = text[at + 1 :].strip('"')
    if at < len(text) and not title:
        raise ValueError(f"at character {at + 1}: the name after 'n' is empty; write nNAME, or leave the n out")
    return sizes, title


def _dims(sizes: dict[str, int], letters: str) -> tuple[Dim, ...]:
    dims = list[Dim]()
    for letter in letters:
        named = {v: sizes[v + letter] for v in (*VARIABLES, "d") if v + letter in sizes}
        dims.append(_dim(letter, named, dims[-1] if dims else None))
    return tuple(dims)


def _dim(letter: str, named: dict[str, int], before: Dim | None) -> Dim:
    """One dim from its own sizes and those of the dim before it. Raises ValueError."""
    if before is not None and not named:
        return before
    known = (DEFAULTS if before is None else {v: getattr(before, v) for v in "iksd"}) | named
    for v, what in (("i", "input"), ("k", "kernel")):
        if v not in known:
            raise ValueError(f"{v}{letter} is missing; write {v}{letter}N, the size of the {what}")
    if before is not None and "o" not in known:
        known = {"p": before.p} | known
    dim = Dim(known["i"], known.get("o", 0), known["k"], known["s"], known.get("p", 0), known["d"])
    for v in "iks":
        if getattr(dim, v) < 1:
            raise ValueError(f"{v}{letter} is 0; give it 1 or more")
    if "o" not in known:
        dim = replace(dim, o=(dim.i + 2 * dim.p - dim.window) // dim.s + 1)
    elif "p" not in known:
        dim = replace(dim, p=max(((dim.o - 1) * dim.s + dim.window - dim.i) // 2, 0))
    return _checked(dim, letter)


def _checked(dim: Dim, letter: str) -> Dim:
    """The dim, if its sizes fit together. Raises ValueError."""
    facts = f"i{letter}{dim.i} k{letter}{dim.k} s{letter}{dim.s} d{letter}{dim.d} p{letter}{dim.p}"
    if dim.o < 1:
        raise ValueError(f"no window fits: {facts} reaches over {dim.window}; make the input, the padding or the kernel fit")
    least = max((dim.i + dim.p - dim.window) // dim.s + 1, 1)  # windows that need no padding behind
    most = max((dim.i + dim.p - 1) // dim.s, (dim.i + 2 * dim.p - dim.window) // dim.s) + 1  # that begin before it ends, or by symmetry
    if not least <= dim.o <= most:
        raise ValueError(f"o{letter}{dim.o} does not follow from {facts}; give it {least} to {most}, or leave it out")
    return dim
