"""benchdnn's descriptors of convolutions, and of transposed ones: mb8_g1ic64ih56oc64oh56kh3ph1n"resnet_50:res2a".

mb (2), g (1), ic, oc, and the sizes of windows (`_windows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ._sizes import MB, Grammar, read_named, spelt_words
from ._windows import NAMES, Dim, TransposedDim, read_dims, spelt_dims

KNOWN = "mb, g, ic, oc, and ih, oh, kh, sh, ph, dh with their like for d and w"
GRAMMAR = Grammar(("mb", "g", "ic", "oc", *NAMES), "ic64ih56oc64kh3ph1", KNOWN)


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

    @property
    def output_paddings(self) -> tuple[int, ...]:
        """Of a transposed convolution: how far the output goes on behind the last window."""
        return tuple(dim.output_padding for dim in self.dims if isinstance(dim, TransposedDim))

    def __str__(self) -> str:
        """The shortest text that is read as this problem, but that mb and the sizes of input, output and kernel are always said."""
        channels = f"ic{self.ic}oc{self.oc}"
        return spelt_words([f"mb{self.mb}", f"g{self.g}" if self.g != 1 else "", channels, *spelt_dims(self.dims)], self.name)


def parse_conv(text: str) -> ConvShape:
    """Read a descriptor. Raises ValueError saying what is wrong, at which character or size, and how to mend it."""
    return _parse(text, Dim)


def parse_deconv(text: str) -> ConvShape:
    """As `parse_conv`, but the output has a window for every element of the input."""
    return _parse(text, TransposedDim)


def _parse(text: str, of: type[Dim]) -> ConvShape:
    named = read_named(text, GRAMMAR)
    ic, oc = named.need("ic", "input channels"), named.need("oc", "output channels")
    if not named.letters():
        raise ValueError("no spatial size is given; write at least ihN and khN")
    g = named.sizes.get("g", 1)
    if g < 1 or ic % g or oc % g:
        raise ValueError(f"g{g} does not divide ic{ic} and oc{oc}; give a number of groups that does")
    return ConvShape(named.sizes.get("mb", MB), g, ic, oc, read_dims(named, of), named.title)
