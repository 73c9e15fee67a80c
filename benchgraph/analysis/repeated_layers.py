"""Layers of repeated blocks as one: encoder.layer.0.attention.q, encoder.layer.1.attention.q, ... are encoder.layer.*.attention.q.

A block is repeated where a part of its layers' names is a number (layer1.0 and layer1.1 of torch, /layers.0/ and /layers.1/ of ONNX), the
other parts are equal, and the layers are alike: the same kinds of ops, on the same shapes, with the same operations and bytes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchgraph.results.layers import LayerTiming

ANY = "*"
_PARTS = re.compile(r"([./#])")  # separators of a name, which are parts too; # where an op is called by kind and id


@dataclass(frozen=True)
class LayerRow:
    """One layer, or several that are alike, in order. name: with * for the numbers in which they differ."""

    name: str
    layers: tuple[LayerTiming, ...]

    @property
    def first(self) -> LayerTiming:
        return self.layers[0]

    @property
    def count(self) -> int:
        return len(self.layers)

    @property
    def seconds(self) -> float:
        """Of all of them."""
        return sum(layer.median_s for layer in self.layers)

    @property
    def together(self) -> LayerTiming:
        """All of them as one layer."""
        samples = tuple(map(sum, zip(*(layer.samples_s for layer in self.layers), strict=True)))
        weights = [(layer.median_s, layer.busy) for layer in self.layers if layer.busy is not None]
        busy = sum(s * b for s, b in weights) / sum(s for s, _ in weights) if any(s for s, _ in weights) else None
        sums = sum(layer.flops for layer in self.layers), sum(layer.bytes for layer in self.layers)
        return replace(self.first, name=self.name, flops=sums[0], bytes=sums[1], samples_s=samples, busy=busy)

    @property
    def implementations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(layer.implementation for layer in self.layers))

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(layer.partition for layer in self.layers))

    @property
    def least_s(self) -> float:
        """Of the fastest one."""
        return min(layer.median_s for layer in self.layers)

    @property
    def most_s(self) -> float:
        """Of the slowest one."""
        return max(layer.median_s for layer in self.layers)


def single(layers: Iterable[LayerTiming]) -> list[LayerRow]:
    """A row for each."""
    return [LayerRow(layer.name, (layer,)) for layer in layers]


def folded(layers: Sequence[LayerTiming]) -> list[LayerRow]:
    """A row for each layer that is like no other, or for all that are alike, in order of the first. Numbers at the left, which are those of
    outer blocks, are left open first, so that inner numbers tell layers of one block apart as long as those are not alike."""
    rows = [_Open(tuple(_PARTS.split(layer.name)), (layer,)) for layer in layers]
    for position in range(max((len(row.parts) for row in rows), default=0)):
        groups = dict[Hashable, list[_Open]]()
        for row in rows:
            groups.setdefault(row.key(position), []).append(row)
        rows = [_together(group, position) for group in groups.values()]
    return [LayerRow("".join(row.parts), row.layers) for row in rows]


@dataclass(frozen=True)
class _Open:
    """Layers that are alike, and the parts of their names, with ANY for the numbers that are left open."""

    parts: tuple[str, ...]
    layers: tuple[LayerTiming, ...]

    def key(self, position: int) -> Hashable:
        """What rows have in common that are one if the number at this position is left open; their own layers where there is none."""
        if position >= len(self.parts) or not self.parts[position].isdecimal():
            return self.layers
        return self.opened(position), _alike(self.layers[0])

    def opened(self, position: int) -> tuple[str, ...]:
        return (*self.parts[:position], ANY, *self.parts[position + 1 :])


def _together(rows: Sequence[_Open], position: int) -> _Open:
    if len(rows) == 1:
        return rows[0]
    return _Open(rows[0].opened(position), tuple(layer for row in rows for layer in row.layers))


def _alike(layer: LayerTiming) -> Hashable:
    """What layers of a row have in common."""
    return layer.kinds, layer.shapes, layer.flops, layer.bytes
