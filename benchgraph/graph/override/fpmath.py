"""The floating-point math mode (--attr-fpmath)."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import FPMATH_MODES


def with_fpmath(graph: Graph, mode: str, apply_to_int: bool = False) -> Graph:
    """The graph with another math mode. Raises InvalidArguments for an unknown one."""
    if mode not in FPMATH_MODES:
        raise InvalidArguments(f"unknown mode '{mode}'", fix=did_you_mean(mode, FPMATH_MODES) or f"choose one of {', '.join(FPMATH_MODES)}")
    return replace(graph, fpmath_mode=mode, fpmath_apply_to_int=apply_to_int)
