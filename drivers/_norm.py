"""What the normalisations share: flags, descriptors with an epsilon, layouts of src and dst, scale and shift as ops of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchgraph.options.knobs import knob
from benchgraph.options.problem import CannotExpress

from ._layout import PLAIN
from ._options import INERT as OF_ALL
from ._options import Colons, colons, tag_word
from ._sizes import MB, Grammar, Named, read_named, spelt_inputs, spelt_words

if TYPE_CHECKING:
    from benchgraph.core.tensor import LogicalTensor

    from ._draft import Draft

WAYS = ("FWD_D", "FWD_I", "BWD_D", "BWD_DW")
EPSILON = 1 / 16  # benchdnn's default; LayerNorm's descriptors have none of their own
INERT = {**OF_ALL, "--check-alg": "--fill says which data", "--debug-check-ws": "there is no workspace"}
MEANINGS = {
    "G": "statistics are inputs",
    "C": "scale",
    "H": "shift",
    "R": "ReLU after it",
    "A": "Add and ReLU after it",
    "M": "root mean square",
}


@dataclass(frozen=True)
class Flags:
    """In the order of MEANINGS."""

    letters: str = ""

    def __str__(self) -> str:
        return self.letters

    def __contains__(self, letter: str) -> bool:
        return letter in self.letters


def flags(known: str, refused: str = "") -> Any:
    """known: those of the driver; refused: those of them that always skip a case.

    S, which older batch files have, is scale and shift, as are CH.
    """

    def parse(word: str) -> Flags:
        given = word.replace("S", "CH")
        wrong = next((letter for letter in given if letter not in known), None)
        if wrong is not None:
            raise ValueError(f"'{wrong}' is no flag; there are {', '.join(known)}")
        return Flags("".join(letter for letter in MEANINGS if letter in given))

    help = "; ".join(f"{letter}: {MEANINGS[letter]}{' (skipped)' if letter in refused else ''}" for letter in known)
    return knob(Flags(), parse, "FLAGS[,...]", help, product=True)


def two_tags() -> Any:
    """Layouts of src and dst."""
    help = "layouts of src and dst; dst's any, or none: that of src (abx)"
    return knob(Colons(("abx",)), colons(tag_word, 2), "TAG|SRC:DST[,...]", help, product=True)


def tags_of(given: Colons) -> tuple[str, str]:
    src, *dst = given.values
    return src, dst[0] if dst and dst[0] not in PLAIN else src


# ---- descriptors -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormShape:
    """g: groups of channels, 0 where there are none."""

    mb: int
    ic: int
    spatial: tuple[int, ...]
    eps: float = EPSILON
    g: int = 0
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.mb, self.ic, *self.spatial)

    def with_mb(self, mb: int) -> NormShape:
        return replace(self, mb=mb) if mb else self

    def __str__(self) -> str:
        groups, eps = f"g{self.g}" if self.g else "", f"eps{self.eps!r}" if self.eps != EPSILON else ""
        return spelt_words([groups, f"mb{self.mb}", f"ic{self.ic}{spelt_inputs(self.spatial)}", eps], self.name)


def norm_shape(named: Named, g: int = 0) -> NormShape:
    """What a descriptor's sizes mean. Raises ValueError."""
    ic, eps = named.need("ic", "channels"), named.fractions.get("eps", EPSILON)
    if g and ic % g:
        raise ValueError(f"g{g} does not divide ic{ic}; give a number of groups that does")
    return NormShape(named.sizes.get("mb", MB), ic, named.inputs(), eps, g, named.title)


SIZES = ("mb", "ic", "id", "ih", "iw")
BATCH = Grammar(SIZES, "mb96ic64ih112eps0.001", "mb, ic, id, ih, iw and eps", ("eps",))
GROUP = Grammar(("g", *SIZES), "g32mb2ic64ih56eps0.001", "g, mb, ic, id, ih, iw and eps", ("eps",))


def parse_batch(text: str) -> NormShape:
    """mbXicX[idXihXiwX][epsY][nNAME]. Raises ValueError."""
    return norm_shape(read_named(text, BATCH))


def parse_group(text: str) -> NormShape:
    """gX and what a batch normalisation has. Raises ValueError."""
    named = read_named(text, GROUP)
    return norm_shape(named, named.need("g", "groups"))


# ---- ops -------------------------------------------------------------------------------------------------------------


def scaled(d: Draft, t: LogicalTensor, scale: LogicalTensor) -> LogicalTensor:
    """Times a scale alone: the ops take none without a shift."""
    return d.b.op("Multiply", *d.alike(t, scale))


def shifted(d: Draft, t: LogicalTensor, shift: LogicalTensor) -> LogicalTensor:
    """Plus a shift alone."""
    return d.b.op("Add", *d.alike(t, shift))


def refused(what: str, given: Flags, fix: str) -> CannotExpress:
    return CannotExpress(what, where=f"--flags={given}", fix=fix)
