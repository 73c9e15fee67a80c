"""Ops that numpy executes, because no library has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class _Times(Protocol):
    @property
    def median_s(self) -> float: ...


class _Partition(Protocol):
    """A PartitionTiming."""

    @property
    def ops(self) -> tuple[int, ...]: ...
    @property
    def timing(self) -> _Times: ...


@dataclass(frozen=True)
class FallbackKind:
    """Those of one kind. kind: of the model's node; by: numpy or onnx; ops: ids; flops: of all, None where they are not known."""

    kind: str
    by: str
    ops: tuple[int, ...]
    flops: int | None

    def share(self, partitions: Sequence[_Partition]) -> float:
        """Of the time of all partitions, each alone."""
        own, total = set(self.ops), sum(p.timing.median_s for p in partitions)
        return sum(p.timing.median_s for p in partitions if own.issuperset(p.ops)) / total if total else 0.0
