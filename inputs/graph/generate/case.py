"""What a case is, and what the modules of cases share.

A case is a function that builds a graph; its name is the file's, its module the family's. The decorator says where the file goes, into
how many partitions the fused policy cuts the graph, and how much of the testing it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph import Graph, GraphBuilder

Build = Callable[[GraphBuilder], None]

CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    """path: relative to inputs/graph. partitions: what the fused policy makes of it, not counting End.

    smoke: its plain line is in the smoke batch already, not first in the ci one. ci, sweep: options of further lines, for the ci batch and
    for the batch of everything.
    """

    family: str
    path: str
    build: Build
    partitions: int = 1
    smoke: bool = False
    ci: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()

    def graph(self) -> Graph:
        b = GraphBuilder()
        self.build(b)
        return b.graph()

    def line(self, options: str = "") -> str:
        """A line of a batch file."""
        expected = f"--expected-n-partitions={self.partitions}" if self.partitions != 1 else ""
        return " ".join(word for word in ("--reset", expected, options, f"--case={self.path}") if word)


def add(
    family: str,
    folder: str,
    name: str,
    build: Build,
    *,
    partitions: int = 1,
    smoke: bool = False,
    ci: tuple[str, ...] = (),
    sweep: tuple[str, ...] = (),
) -> None:
    """Register a case."""
    CASES.append(Case(family.rpartition(".")[2], f"{folder}/{name}.json".lstrip("/"), build, partitions, smoke, ci, sweep))


def case(folder: str = "", **how: object) -> Callable[[Build], Build]:
    """Register a build function under its own name; how: as `add` takes it."""

    def register(build: Build) -> Build:
        add(build.__module__, folder, build.__name__, build, **how)  # type: ignore[arg-type]
        return build

    return register


# ---- what several families build with --------------------------------------------------------------------------------

SCALE = 0.12  # of every quantised tensor, as in the Graph Compiler paper's int8 workloads
ZERO_POINT = 2
POOL = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1)}  # as after a first convolution
CHANNELS_FIRST = {"data_format": "NCX", "weights_format": "OIX"}

NARROW = "--dt=bf16,f16"


def conv_attrs(rank: int = 2, pad: int = 1, **more: object) -> dict[str, object]:
    """Stride 1, dilation 1, `pad` on all sides, in oneDNN's default formats, but for what `more` says."""
    ones, pads = (1,) * rank, (pad,) * rank
    return {"strides": ones, "dilations": ones, "pads_begin": pads, "pads_end": pads, **more}


def layer(b: GraphBuilder, x: LogicalTensor, n: int, name: str = "") -> LogicalTensor:
    """x times constant weights, plus a constant bias."""
    k = x.known_shape[-1]
    return b.op("MatMul", x, b.constant((k, n), x.dtype), b.constant((n,), x.dtype), name=name)


def dequantised(b: GraphBuilder, x: LogicalTensor, group: tuple[int, ...], dtype: DType = DType.f32) -> LogicalTensor:
    """x, of four bits, with a scale in dtype and a zero point of x's dtype per group; constant if x is."""
    groups = tuple(d // g for d, g in zip(x.known_shape, group, strict=True))
    scales, zps = (b.constant(groups, t) if x.is_constant else b.input(groups, t) for t in (dtype, x.dtype))
    return b.op("DynamicDequantize", x, scales, zps, qtype="per_group", group_shape=group)


def random_numbers(b: GraphBuilder) -> tuple[LogicalTensor, LogicalTensor, LogicalTensor]:
    """seed, offset and probability of a Dropout."""
    dtypes = (DType.s64, DType.s64, DType.f32)
    seed, offset, probability = (b.input((), dtype, property_type=PropertyType.host_scalar) for dtype in dtypes)
    return seed, offset, probability
