"""Convolutions that compute all phases of a strided gradient at once.

Output channels are grouped by phase (output position modulo the stride), and each phase uses only some of the taps. Backward data of a
convolution with stride s is a convolution of stride 1 with s times as many output channels per spatial dim (s*s in 2d): those of phase r
hold the taps r, r + s ... of the kernel. Where s does not divide the kernel, some phases have fewer taps than others, and their weights are
0 elsewhere:

    3 taps, stride 2       tap 0 of 2    tap 1
    channels of phase 0    wei[2]        wei[0]
    channels of phase 1    0             wei[1]

A 3x3 kernel with stride 2 has four phases of 2x2 taps: 9 of these 16 taps are not zero, and products of one phase's channels multiply only
those. Attributes: `phases`, their number along each dim; `first` and `end`, for each phase of each dim, its first tap and the one after its
last. Channels of dst: group, phase, channel.
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
        ends = list(zip(attrs.integers("first"), attrs.integers("end"), strict=True))
        return cls(tuple(tuple(ends[i:j]) for i, j in pairwise(accumulate(attrs.integers("phases"), initial=0))))

    def attrs(self) -> dict[str, Shape]:
        """The attributes that `of` reads."""
        ends = [end for along in self.taps for end in along]
        return {"phases": self.counts, "first": tuple(a for a, _ in ends), "end": tuple(b for _, b in ends)}

    @property
    def counts(self) -> Shape:
        return tuple(map(len, self.taps))

    def uses_all_taps(self, taps: Shape) -> bool:
        return all(ends == (0, count) for along, count in zip(self.taps, taps, strict=True) for ends in along)

    def box(self, phases: Sequence[int]) -> Box:
        """The smallest box that holds the taps of all these phases (in row-major order); at least one tap."""
        box = []
        for along, indices in zip(self.taps, np.unravel_index(list(phases), self.counts), strict=True):
            first, end = min(along[r][0] for r in indices), max(along[r][1] for r in indices)
            box.append((first, max(end, first + 1)))
        return tuple(box)


def taps_of_phases(phase_count: int, kernel_extent: int, zeros_in_front: int, dilation: int, taps: int) -> Box:
    """The taps that each phase uses along one dim, of a flipped kernel split into phases.

    kernel_extent: with the gaps of its dilation. zeros_in_front: added before the kernel. taps: of each phase, used or not.
    """
    intervals = []
    for r in range(phase_count):
        kernel = [t * phase_count + r - zeros_in_front for t in range(taps)]
        used = [taps - 1 - t for t, i in enumerate(kernel) if 0 <= i < kernel_extent and i % dilation == 0]
        intervals.append((min(used), max(used) + 1) if used else (0, 0))
    return tuple(intervals)


def taps_of_columns(p: Problem, attrs: Attrs, first: int, count: int) -> Box:
    """The box of taps that the `count` channels of dst from `first` on use."""
    phases = Phases.of(attrs)
    channels_per_phase = p.group_out // prod(phases.counts)
    return phases.box([c % prod(phases.counts) for c in range(first // channels_per_phase, (first + count - 1) // channels_per_phase + 1)])


def has_weight(p: Problem, attrs: Attrs) -> NDArray[np.bool_]:
    """A mask of the weights that the attributes allow to be other than 0: [kernel, C/groups, OC]."""
    phases = Phases.of(attrs)
    by_phase = np.zeros((*p.kernel, prod(phases.counts)), np.bool_)
    for phase, index in enumerate(np.ndindex(*phases.counts)):
        where: tuple[slice | int, ...] = (*(slice(*along[r]) for along, r in zip(phases.taps, index, strict=True)), phase)
        by_phase[where] = True
    channels_per_phase = p.group_out // prod(phases.counts)
    columns = p.groups, prod(phases.counts), channels_per_phase
    return np.broadcast_to(by_phase[..., None, None, :, None], (*p.wei[:-1], *columns)).reshape(p.wei)
