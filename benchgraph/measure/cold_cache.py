"""--cold-cache: which data are in memory rather than in a cache when an execution begins.

    none   data stay where the last execution left them
    wei    constant tensors, and what the library computed from them (packed weights, folded scales), are cold
    all    these, and every other input and output of every partition

and with +tlb[:SIZE] the TLB too. Cold means flushed: benchdnn uses another copy of the data for each execution, which is equivalent but
would need thousands of copies of small data. Temporaries inside a partition, code and stacks stay warm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy and the ops, which checking an option does without
    from benchgraph.core.arrays import Array
    from benchgraph.core.tensor import LogicalTensor
    from benchgraph.library.protocol import Chain

DEFAULT_TLB = "1G"
_UNITS = {"M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class ColdCache:
    """what: none, wei or all. tlb_bytes: memory to touch, page by page."""

    what: str
    tlb_bytes: int

    @property
    def is_made(self) -> bool:
        return self.what != "none" or self.tlb_bytes > 0

    def victims(self, data: Sequence[tuple[LogicalTensor, Array]], chain: Chain) -> list[Array]:
        """The arrays to flush, of a chain that reads and writes these data."""
        if self.what == "none":
            return []
        named = [array for tensor, array in data if self.what == "all" or tensor.is_constant]
        return [*named, *chain.constants]


def cold_cache(word: str) -> ColdCache:
    """Parse the value of --cold-cache, already validated by the option's parser."""
    what, _, tlb = word.partition("+")
    size = re.fullmatch(r"(\d+)([MG])", tlb.removeprefix("tlb").removeprefix(":") or DEFAULT_TLB) if tlb else None
    return ColdCache(what, int(size[1]) * _UNITS[size[2]] if size else 0)
