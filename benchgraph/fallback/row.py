"""A row of the table of numpy functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchgraph.fallback.function import Array, Function

Inputs: TypeAlias = Sequence[Array | None]
Shapes: TypeAlias = Sequence[tuple[int, ...]]
Compute: TypeAlias = Callable[[Function, list[Any]], Any]

PICKS = 0.0  # threshold of what only takes and moves elements
ROUNDS = 10.0  # of a function of each element, computed in f32
SUMS = 100.0  # of sums in numpy's order


@dataclass(frozen=True)
class NumpyOp:
    """compute(function, inputs): one result or a tuple, in the dtype that ONNX gives it. A left-out input is None; trailing ones may be
    missing.

    flops(shapes of the inputs, of the outputs); None: not known. threshold: the relative error allowed, in eps(f32). index: the input that
    holds indices, -1 for none, and indexed: into which axis of input 0, by default the attribute axis. carries: the inputs whose values the
    result consists of. is_judged: whether onnx's reference computes all of it as ONNX says.
    """

    compute: Compute
    flops: Callable[[Function, Shapes, Shapes], int] | None = None
    threshold: float = ROUNDS
    index: int = -1
    indexed: Callable[[Function], int] = lambda f: f.integer("axis", 0)
    carries: tuple[int, ...] = ()
    is_judged: bool = True


def given(ins: Sequence[Any], i: int) -> Any:
    """Input i, None if it is left out."""
    return ins[i] if i < len(ins) else None


def nothing(f: Function, ins: Shapes, outs: Shapes) -> int:
    """The FLOPs of what only moves elements."""
    return 0


def move(compute: Compute, *, index: int = -1, carries: tuple[int, ...] = (0,), **more: Any) -> NumpyOp:
    """A row of what only takes, moves or repeats elements of these inputs."""
    return NumpyOp(compute, nothing, PICKS, index, carries=carries, **more)
