"""Convolutions whose output channels are the phases of another one's stride, and meet some of its taps each.

A gradient by data under a stride s is a convolution of stride 1 with s times the channels along each dim: those of phase r hold the taps r,
r + s ... of the kernel. Where s does not divide the kernel, a phase has fewer of them than another one, and its weights are 0 elsewhere:

    3 taps, stride 2       tap 0 of 2    tap 1
    channels of phase 0    wei[2]        wei[0]
    channels of phase 1    0             wei[1]

Of 3x3 taps, 9 of the 16 remain that four phases of 2x2 would multiply. Attribute `phases`: how many there are along each dim; `first` and
`last`: phase by phase and dim after dim, the first tap that it meets and the one after the last. Channels of dst: group, phase, channel.
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
    """met[dim][phase]: the taps along the dim that channels of this phase meet, from the first to before the last."""

    met: tuple[Box, ...]

    @classmethod
    def of(cls, attrs: Attrs) -> Phases:
        ends = list(zip(attrs.integers("first"), attrs.integers("last"), strict=True))
        return cls(tuple(tuple(ends[i:j]) for i, j in pairwise(accumulate(attrs.integers("phases"), initial=0))))

    def attrs(self) -> dict[str, Shape]:
        """What `of` reads."""
        ends = [end for along in self.met for end in along]
        return {"phases": self.counts, "first": tuple(a for a, _ in ends), "last": tuple(b for _, b in ends)}

    @property
    def counts(self) -> Shape:
        return tuple(map(len, self.met))

    def meet_all(self, taps: Shape) -> bool:
        return all(ends == (0, count) for along, count in zip(self.met, taps, strict=True) for ends in along)

    def box(self, phases: Sequence[int]) -> Box:
        """The taps that any of these phases meets, numbered as they lie one behind the other; at least one."""
        found = []
        for along, places in zip(self.met, np.unravel_index(list(phases), self.counts), strict=True):
            first, last = min(along[r][0] for r in places), max(along[r][1] for r in places)
            found.append((first, max(last, first + 1)))
        return tuple(found)


def met_along(strides: int, reach: int, ahead: int, dilation: int, taps: int) -> Box:
    """The taps that each phase meets along one dim, of a kernel that is laid out backwards in steps of the stride, so many zeros ahead."""
    found = []
    for r in range(strides):
        kernel = [t * strides + r - ahead for t in range(taps)]
        met = [taps - 1 - t for t, i in enumerate(kernel) if 0 <= i < reach and i % dilation == 0]
        found.append((min(met), max(met) + 1) if met else (0, 0))
    return tuple(found)


def columns_met(p: Problem, attrs: Attrs, first: int, count: int) -> Box:
    """The taps that so many channels of dst meet, from `first` on."""
    found = Phases.of(attrs)
    size = p.group_out // prod(found.counts)
    return found.box([c % prod(found.counts) for c in range(first // size, (first + count - 1) // size + 1)])


def is_met(p: Problem, attrs: Attrs) -> NDArray[np.bool_]:
    """Where weights are not 0 by what the attributes say: [kernel, C/groups, OC]."""
    found = Phases.of(attrs)
    by_phase = np.zeros((*p.kernel, prod(found.counts)), np.bool_)
    for phase, place in enumerate(np.ndindex(*found.counts)):
        where: tuple[slice | int, ...] = (*(slice(*along[r]) for along, r in zip(found.met, place, strict=True)), phase)
        by_phase[where] = True
    size = p.group_out // prod(found.counts)
    return np.broadcast_to(by_phase[..., None, None, :, None], (*p.wei[:-1], p.groups, prod(found.counts), size)).reshape(p.wei)
