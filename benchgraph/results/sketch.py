"""A graph as far as a picture of it goes: small enough to be kept with every result, so that a report needs no case file.

Free of numpy, like everything `benchgraph --help` touches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpSketch:
    """attrs: each as name=value, long values cut. reads, makes: ids of tensors, in port order."""

    id: int
    kind: str
    name: str
    attrs: tuple[str, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass(frozen=True)
class Sketch:
    """ops: each after those it reads from. tensors: id -> label, as `%3 f32 8x64 ab`. inputs, outputs: what crosses the graph's border."""

    ops: tuple[OpSketch, ...]
    tensors: dict[int, str]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
