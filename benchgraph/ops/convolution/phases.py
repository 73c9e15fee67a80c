"""Convolutions whose output channels are the phases of another convolution's stride; each phase uses some of the taps.

A gradient by data under a stride s is a convolution of stride 1 with s times the channels along each dim: those of phase r hold the taps r,
r + s ... of the kernel. Where s does not divide the kernel, a phase has fewer of them than another one, and its weights are 0 elsewhere:

    3 taps, stride 2       tap 0 of 2    tap 1
    channels of phase 0    wei[2]        wei[0]
    channels of phase 1    0             wei[1]

Of 3x3 taps, 9 of the 16 remain that four phases of 2x2 would multiply. Attributes: `phases`, their number along each dim; `first` and
`last`, for each phase of each dim, its first tap and the one after its last. Channels of dst: group, phase, channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution.problem import Problem
from benchgraph.ops.spec import Box


@dataclass(frozen=True)
class Phases:
    """taps[dim][phase]: the interval of taps along the dim that channels of this phase use."""

    taps: tuple[Box, ...]

    @classmethod
    def of(cls, attrs: Attrs) -> Phases:
        ends = list(zip(attrs.integers("first"), attrs.integers("last"), strict=True))
        return cls(tuple(tuple(ends[i:j]) for i, j in pairwise(accumulate(attrs.integers("phases"), initial=0))))

    def attrs(self) -> dict[str, Shape]:
        """The attributes that `of` reads."""
        ends = [end for along in self.taps for end in along]
        return {"phases": self.counts, "first": tuple(a for a, _ in ends), "last": tuple(b for _, b in ends)}

    @property
    def counts(self) -> Shape:
        return tuple(map(len, self.taps))

    def read_all(self, taps: Shape) -> bool:
        return all(ends == (0, count) for along, count in zip(self.taps, taps, strict=True) for ends in along)

    def box(self, phases: Sequence[int]) -> Box:
        """The smallest box that holds the taps of all these phases (in row-major order); at least one tap."""
        box = []
        for along, indices in zip(self.taps, np.unravel_index(list(phases), self.counts), strict=True):
            first, last = min(along[r][0] for r in indices), max(along[r][1] for r in indices)
            box.append((first, max(last, first + 1)))
        return tuple(box)


def taps_of_phases(strides: int, reach: int, ahead: int, dilation: int, taps: int) -> Box:
    """The taps of each phase along one dim, of a flipped kernel split by the stride, with `ahead` zeros in front."""
    intervals = []
    for r in range(strides):
        kernel = [t * strides + r - ahead for t in range(taps)]
        used = [taps - 1 - t for t, i in enumerate(kernel) if 0 <= i < reach and i % dilation == 0]
        intervals.append((min(used), max(used) + 1) if used else (0, 0))
    return tuple(intervals)


def taps_of_columns(p: Problem, attrs: Attrs, first: int, count: int) -> Box:
    """The box of taps that the `count` channels of dst from `first` on use."""
    phases = Phases.of(attrs)
    size = p.group_out // prod(phases.counts)
    return phases.box([c % prod(phases.counts) for c in range(first // size, (first + count - 1) // size + 1)])


def has_weight(p: Problem, attrs: Attrs) -> NDArray[np.bool_]:
    """A mask of the weights that the attributes allow to be other than 0: [kernel, C/groups, OC]."""
    phases = Phases.of(attrs)
    by_phase = np.zeros((*p.kernel, prod(phases.counts)), np.bool_)
    for phase, index in enumerate(np.ndindex(*phases.counts)):
        where: tuple[slice | int, ...] = (*(slice(*along[r]) for along, r in zip(phases.taps, index, strict=True)), phase)
        by_phase[where] = True
    size = p.group_out // prod(phases.counts)
    return np.broadcast_to(by_phase[..., None, None, :, None], (*p.wei[:-1], p.groups, prod(phases.counts), size)).reshape(p.wei)
