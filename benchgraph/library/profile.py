"""Partitions whose executions tell when each of their layers ran (core/layers.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core.layers import Layer, Span
from benchgraph.layers import compile_layers
from benchgraph.partition.ir import Partition
from benchgraph.runtime.executable import Array
from benchgraph.runtime.profiled import ProfiledBound


@dataclass(frozen=True)
class LayeredStep:
    """A partition, bound. layer_of: its statements -> layers of all steps."""

    bound: ProfiledBound
    layer_of: tuple[int, ...]


@dataclass(frozen=True)
class LayeredSteps:
    """The Profiled of this library."""

    layers: tuple[Layer, ...]
    steps: tuple[LayeredStep, ...]

    def run(self) -> Sequence[Span]:
        for step in self.steps:
            step.bound()
        return [span for step in self.steps for span in step.bound.spans(step.layer_of)]


def profiled(partitions: Sequence[Partition], inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]) -> LayeredSteps:
    """As library.protocol.Library.profiled. Layers are named by their ops, in the order of the graph."""
    layers, steps = list[Layer](), list[LayeredStep]()
    for position, (p, ins, outs) in enumerate(zip(partitions, inputs, outputs, strict=True)):
        compiled = compile_layers(p)
        bound = compiled.executable.bind(ins, outs)
        assert isinstance(bound, ProfiledBound)
        steps.append(LayeredStep(bound, tuple(len(layers) + layer for layer in compiled.layer_of)))
        layers += compiled.layers(p, position)
    return LayeredSteps(tuple(layers), tuple(steps))
