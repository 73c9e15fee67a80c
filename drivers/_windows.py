"""The spatial dims of windows: convolutions, transposed ones and pools.

For d, h and w each: i, o (input and output), k (kernel), s (stride, 1), p (padding in front), d (zeros between the taps, 0). Three dims
when any d is named, else two when any h is.

A dim that is not named at all is like the one before it: w is like h, and h like d. So is the rest of one that is named, but not its input
or its kernel; of any other, strides and dilations that are not said are 1 and 0, as benchdnn has it. Of the output and the padding one
follows from the other: without p and o the padding is 0; with o alone, p is half of what the windows stick out, rounded down. The padding
behind is whatever the output needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ._sizes import LETTERS, Named

VARIABLES = "ioksp"
NAMES = tuple(v + letter for letter in LETTERS for v in (*VARIABLES, "d"))
DEFAULTS = {"s": 1, "d": 0}


@dataclass(frozen=True)
class Dim:
    """One spatial dim of a convolution or a pool. dilation: benchdnn's, 0 for none. pad: in front."""

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

    def output(self) -> int:
        """The output that follows from padding on both sides."""
        return (self.i + 2 * self.p - self.window) // self.s + 1

    def padding(self) -> int:
        """The padding that follows from the output."""
        return max(((self.o - 1) * self.s + self.window - self.i) // 2, 0)

    def outputs(self) -> tuple[int, int]:
        """The least output, whose windows need no padding behind, and the largest: windows begin before it ends, or by symmetry."""
        least = max((self.i + self.p - self.window) // self.s + 1, 1)
        return least, max((self.i + self.p - 1) // self.s, (self.i + 2 * self.p - self.window) // self.s) + 1


@dataclass(frozen=True)
class PoolDim(Dim):
    """One spatial dim of a pool, whose last windows may lie in the padding altogether, as its first ones may."""

    def outputs(self) -> tuple[int, int]:
        """The padding behind may be as long as a window, or as that in front."""
        least, most = super().outputs()
        return least, max(most, (self.i + self.p + max(self.p, self.window) - self.window) // self.s + 1)


@dataclass(frozen=True)
class TransposedDim(Dim):
    """One spatial dim of a transposed convolution: windows of the output, one for each element of the input."""

    @property
    def _rest(self) -> int:
        return (self.i - 1) * self.s + self.window - self.o - self.p

    @property
    def pad_end(self) -> int:
        """What is cut off behind; 0 when the last window ends inside the output."""
        return max(self._rest, 0)

    @property
    def output_padding(self) -> int:
        """How far the output goes on behind the last window, less than a stride."""
        return max(-self._rest, 0)

    def output(self) -> int:
        return (self.i - 1) * self.s + self.window - 2 * self.p

    def padding(self) -> int:
        return max(((self.i - 1) * self.s + self.window - self.o) // 2, 0)

    def outputs(self) -> tuple[int, int]:
        """Of an output the convolution the other way makes the input."""
        least = min((self.i - 1) * self.s - self.p + 1, self.output())
        return max(least, 1), (self.i - 1) * self.s + self.window - self.p + self.s - 1


def read_dims(named: Named, of: type[Dim] = Dim) -> tuple[Dim, ...]:
    """The dims, all of them. Raises ValueError saying which size is wrong and how to mend it."""
    letters = named.letters()
    if not letters:
        raise ValueError("no spatial size is given; write at least ihN and khN")
    dims = list[Dim]()
    for letter in letters:
        own = {v: named.sizes[v + letter] for v in (*VARIABLES, "d") if v + letter in named.sizes}
        dims.append(_dim(letter, own, dims[-1] if dims else None, of))
    return tuple(dims)


def spelt_dims(dims: tuple[Dim, ...]) -> list[str]:
    """A word for each dim that is not like the one before it."""
    befores = (None, *dims)
    return [_spelt(letter, dim) for letter, dim, before in zip(LETTERS[-len(dims) :], dims, befores, strict=False) if dim != before]


def _spelt(letter: str, dim: Dim) -> str:
    """Strides and dilations only where they are not what is read when nothing is said."""
    said = [f"i{letter}{dim.i}", f"o{letter}{dim.o}", f"k{letter}{dim.k}"]
    return "".join([*said, *(f"{v}{letter}{getattr(dim, v)}" for v in "sd" if getattr(dim, v) != DEFAULTS[v]), f"p{letter}{dim.p}"])


def _dim(letter: str, own: dict[str, int], before: Dim | None, of: type[Dim]) -> Dim:
    """One dim from its own sizes and those of the dim before it. Raises ValueError."""
    if before is not None and not own:
        return before
    known = DEFAULTS | own
    if before is not None and not {"i", "k"} <= set(own):
        known = {v: getattr(before, v) for v in "iksd"} | own
        if "o" not in own:
            known = {"p": before.p} | known
    for v, what in (("i", "input"), ("k", "kernel")):
        if v not in known:
            raise ValueError(f"{v}{letter} is missing; write {v}{letter}N, the size of the {what}")
    dim = of(known["i"], known.get("o", 0), known["k"], known["s"], known.get("p", 0), known["d"])
    for v in "iks":
        if getattr(dim, v) < 1:
            raise ValueError(f"{v}{letter} is 0; give it 1 or more")
    if not dim.o:
        dim = replace(dim, o=dim.output())
    elif "p" not in known:
        dim = replace(dim, p=dim.padding())
    return _checked(dim, letter)


def _checked(dim: Dim, letter: str) -> Dim:
    """The dim, if its sizes fit together. Raises ValueError."""
    facts = f"i{letter}{dim.i} k{letter}{dim.k} s{letter}{dim.s} d{letter}{dim.d} p{letter}{dim.p}"
    if dim.o < 1:
        raise ValueError(f"no window fits: {facts} reaches over {dim.window}; make the input, the padding or the kernel fit")
    least, most = dim.outputs()
    if not least <= dim.o <= most:
        raise ValueError(f"o{letter}{dim.o} does not follow from {facts}; give it {least} to {most}, or leave it out")
    return dim
