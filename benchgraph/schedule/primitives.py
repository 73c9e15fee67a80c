"""Schedules as data: frozen lists of primitives on the axes of a nest, with text that parses.

    tile m by 64; tile n by 256, 64; order n.0, batch, m.0, n.1; parallel n.0, batch, m.0; tensorize m.1, n.2, k

A loop is an axis, or with a tiled one axis.level: `n.0` goes from block to block of 256 columns, `n.1` in one from block to block of 64,
`n.2` from column to column. What `tensorize` names is one call of a microkernel.

    unroll_jam d2 by 8; unroll t1; order d0, d1, d2, d3, t0, t1; parallel d0, d1, d2; vectorize d3

Eight windows at neighbouring indices along d2 are computed together, by vectors of d3; of their taps, t0 are a loop, and t1 unrolled.

    tile m by 16; tile n by 256, 64; tile k by 512; order m.0, n.0, k.0, n.1; parallel m.0; pack wei at k.0; prefetch wei at k.0; ...

Each block of 512 x 256 weights is packed or converted right before it is multiplied by, while the calls before fetch what it is made from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias

from benchgraph.core.errors import ParseError
from benchgraph.core.fields import HasText


@dataclass(frozen=True)
class _Blocks:
    """A primitive that cuts an axis into blocks. sizes: of these, and of blocks within them, largest first."""

    verb: ClassVar[str]
    axis: str
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.verb} {self.axis} by {', '.join(map(str, self.sizes))}"


class Tile(_Blocks):
    """Blocks that are computed one after the other, or by several tasks."""

    verb = "tile"


class SplitReduce(_Blocks):
    """Blocks of a reduced axis, whose results are combined in order."""

    verb = "split_reduce"


@dataclass(frozen=True)
class UnrollJam:
    """So many neighbouring iterations of a loop, computed together by the loops inside. phases: of rows that are added to one, where not
    all that reduce are meant (`Access.phase`)."""

    loop: str
    count: int
    phases: tuple[int, ...] = ()

    def __str__(self) -> str:
        phases = f" in phase {', '.join(map(str, self.phases))}" if self.phases else ""
        return f"unroll_jam {self.loop} by {self.count}{phases}"

    def of(self, phase: int) -> int:
        """The count in a phase."""
        return self.count if not self.phases or phase in self.phases else 1


NO_JAM = UnrollJam("", 1)


@dataclass(frozen=True)
class _Loops:
    """A primitive that names loops, outermost first."""

    verb: ClassVar[str]
    loops: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.verb} {', '.join(self.loops)}"


class Fuse(_Loops):
    """Axes that are one loop, which is called as the last of them."""

    verb = "fuse"


class Order(_Loops):
    """The loops outside of what is tensorized."""

    verb = "order"


class Parallel(_Loops):
    """The loops whose iterations are tasks, the outermost ones of the order."""

    verb = "parallel"


class Tensorize(_Loops):
    """The loops that one call of a microkernel is."""

    verb = "tensorize"


class Unroll(_Loops):
    """Loops whose iterations are one expression, where each of them counts."""

    verb = "unroll"


class Vectorize(_Loops):
    """The innermost loop, which runs in vectors."""

    verb = "vectorize"


@dataclass(frozen=True)
class Pack:
    """In each iteration of a loop, what the loops inside read of an operand is copied or converted first, or copied with its padding."""

    operand: str
    loop: str
    is_padded: bool = False

    def __str__(self) -> str:
        return f"pack {self.operand}{' with padding' if self.is_padded else ''} at {self.loop}"


@dataclass(frozen=True)
class Prefetch:
    """In each iteration of a loop, what the next one reads of an operand is fetched."""

    operand: str
    loop: str

    def __str__(self) -> str:
        return f"prefetch {self.operand} at {self.loop}"


@dataclass(frozen=True)
class Recompute:
    """Values that take at most so many instructions on a vector are computed again where later loops read them, instead of stored."""

    instructions: int

    def __str__(self) -> str:
        return f"recompute {self.instructions}"


Primitive: TypeAlias = _Blocks | _Loops | UnrollJam | Pack | Prefetch | Recompute
_LISTS = {kind.verb: kind for kind in (Fuse, Order, Parallel, Tensorize, Unroll, Vectorize)}
_BLOCKS = {kind.verb: kind for kind in (Tile, SplitReduce)}
_TILE, _LIST = re.compile(r"(\w+) (\w+) by (\d{1,9}(?:, \d{1,9})*)"), re.compile(r"(\w+) (\w+(?:\.\d+)?(?:, \w+(?:\.\d+)?)*)")
_PACK, _PREFETCH = re.compile(r"pack (\w+)( with padding)? at (\w+(?:\.\d+)?)"), re.compile(r"prefetch (\w+) at (\w+(?:\.\d+)?)")
_RECOMPUTE = re.compile(r"recompute (\d{1,9})")
_UNROLL_JAM = re.compile(r"unroll_jam (\w+(?:\.\d+)?) by (\d{1,9})(?: in phase (\d{1,9}(?:, \d{1,9})*))?")


@dataclass(frozen=True)
class Schedule(HasText):
    """At most one tile of each axis, any number of fused loops, and one of each other primitive."""

    primitives: tuple[Primitive, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.primitives))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        return parse(text)

    def sizes(self, axis: str) -> tuple[int, ...]:
        """Sizes of the blocks of an axis; none for one that is not cut."""
        return self._sizes.get(axis, ())

    @cached_property
    def _sizes(self) -> dict[str, tuple[int, ...]]:
        return {p.axis: p.sizes for p in self.primitives if isinstance(p, _Blocks)}

    @property
    def order(self) -> tuple[str, ...]:
        return self._named(Order)

    @property
    def tensorized(self) -> tuple[str, ...]:
        return self._named(Tensorize)

    @property
    def parallel(self) -> tuple[str, ...]:
        return self._named(Parallel)

    def with_parallel(self, loops: tuple[str, ...]) -> Schedule:
        """The same with so many of its parallel loops, on one thread where there are none."""
        parallel = Parallel(loops)
        return Schedule(tuple(parallel if isinstance(p, Parallel) else p for p in self.primitives if loops or not isinstance(p, Parallel)))

    @property
    def unrolled(self) -> tuple[str, ...]:
        return self._named(Unroll)

    @cached_property
    def jam(self) -> UnrollJam:
        """The loop whose neighbouring iterations are computed together, and how many of them."""
        return next((p for p in self.primitives if isinstance(p, UnrollJam)), NO_JAM)

    @property
    def split(self) -> str:
        """The loop that is a split reduction; '' where none is."""
        return next((p.axis for p in self.primitives if isinstance(p, SplitReduce)), "")

    @cached_property
    def fused(self) -> dict[str, tuple[str, ...]]:
        """By loop, the axes that it is made of, if there are several."""
        return {p.loops[-1]: p.loops for p in self.primitives if isinstance(p, Fuse)}

    @property
    def vectorized(self) -> str:
        return self._named(Vectorize)[-1]

    @property
    def recomputed(self) -> int:
        """Instructions up to which values are computed again."""
        return next((p.instructions for p in self.primitives if isinstance(p, Recompute)), 0)

    @property
    def packed(self) -> Pack | None:
        return next((p for p in self.primitives if isinstance(p, Pack)), None)

    @property
    def prefetches(self) -> bool:
        """Whether an operand is fetched ahead."""
        return any(isinstance(p, Prefetch) for p in self.primitives)

    @cached_property
    def _loops(self) -> dict[type[_Loops], tuple[str, ...]]:
        return {type(p): p.loops for p in self.primitives if isinstance(p, _Loops)}

    def _named(self, kind: type[_Loops]) -> tuple[str, ...]:
        return self._loops.get(kind, ())


@lru_cache(maxsize=4096)
def parse(text: str) -> Schedule:
    """A schedule from its text. Raises ParseError.

    >>> str(parse("tile m by 64; order batch, m.0; parallel batch; tensorize m.1, n, k"))
    'tile m by 64; order batch, m.0; parallel batch; tensorize m.1, n, k'
    """
    schedule = Schedule(tuple(map(_primitive, text.split("; "))))
    order, parallel = schedule.order, schedule.parallel
    if order[: len(parallel)] != parallel:
        raise ParseError(
            "parallel loops are not the outermost ones", where=f"schedule '{text}'", fix=f"parallel loops begin `order`: {order}"
        )
    return schedule


def _primitive(text: str) -> Primitive:
    if (tile := _TILE.fullmatch(text)) and tile[1] in _BLOCKS:
        return _BLOCKS[tile[1]](tile[2], _numbers(tile[3].split(", ")))
    if jam := _UNROLL_JAM.fullmatch(text):
        return UnrollJam(jam[1], int(jam[2]), _numbers(jam[3].split(", ")) if jam[3] else ())
    if pack := _PACK.fullmatch(text):
        return Pack(pack[1], pack[3], is_padded=pack[2] is not None)
    if prefetch := _PREFETCH.fullmatch(text):
        return Prefetch(prefetch[1], prefetch[2])
    if recompute := _RECOMPUTE.fullmatch(text):
        return Recompute(int(recompute[1]))
    if (other := _LIST.fullmatch(text)) and other[1] in _LISTS:
        return _LISTS[other[1]](tuple(other[2].split(", ")))
    what = "not a primitive of a schedule"
    raise ParseError(what, where=f"'{text}'", fix="write e.g. 'tile m by 64; order m.0, n; parallel m.0; tensorize m.1, n, k'")


def _numbers(words: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(int, words))
