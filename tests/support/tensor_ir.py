"""The Tensor IR of small graphs, as lowering makes it and after passes."""

from __future__ import annotations

from benchgraph.core.passes import Pass
from benchgraph.lower import Lowered, lower
from benchgraph.machine.target import Target
from benchgraph.tir import passes
from benchgraph.tir.ir import Func
from tests.support.graph_ir import scheduled
from tests.support.partitions import Source
from tests.support.targets import TARGET


def before(name: str) -> tuple[Pass[Func], ...]:
    """The passes of the pipeline in front of the one of this name."""
    return passes.PIPELINE[: [p.name for p in passes.PIPELINE].index(name)]


def lowered(source: Source, target: Target = TARGET) -> Lowered:
    """The functions that lowering makes, before passes."""
    return lower(scheduled(source, target))


def tir(source: Source, pipeline: tuple[Pass[Func], ...] = passes.PIPELINE, target: Target = TARGET) -> Func:
    """The main function after the passes of a pipeline."""
    return passes.run(lowered(source, target).main, target, observe=lambda *_: None, pipeline=pipeline)
