"""The part of a graph that a drawing needs: small enough to keep with every result, so that a report needs no case file. Free of numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpSketch:
    """attrs: each as name=value, long values shortened. reads, makes: ids of tensors, in port order."""

    id: int
    kind: str
    name: str
    attrs: tuple[str, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass(frozen=True)
class Sketch:
    """ops: in topological order. tensors: id -> label, as `%3 f32 8x64 ab`. inputs, outputs: those of the graph."""

    ops: tuple[OpSketch, ...]
    tensors: dict[int, str]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
