"""What scheduled nests take, one after the other: how their products and the values between them move through the caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from benchgraph.core.memoise import memoised_within
from benchgraph.gir.gemm_nest import gemm_nest
from benchgraph.gir.ir import FusedOp, Graph, Stage
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.parameters import Parameters
from benchgraph.gir.product import product
from benchgraph.machine.table import rates
from benchgraph.machine.target import Target
from benchgraph.schedule.nest import Loop
from benchgraph.schedule.sequence import Data, Nest, Step, of_one_core, sequence_ns

ROWS = "batch", "m"  # loops that move rows


def nests_ns(g: Graph, nodes: Sequence[FusedOp], target: Target) -> float:
    """Nanoseconds of these nests in order, each with the schedule that it has."""
    return sequence_ns([_nest(g, node, target) for node in nodes], target, rates(target))


@memoised_within
def _nest(g: Graph, node: FusedOp, target: Target) -> Nest:
    kernels = [s for s in node.stages if s.parameters is not None and not s.reduces_rows]
    parallel = _parallel(node.parameters, is_alone=len(kernels) == 1) if node.parameters else [Loop("batch", _rows(g, node))]
    view = _View(g, node, target, int(prod(loop.trips for loop in parallel if loop.axis != "n")))
    steps = tuple(view.step(stage) for stage in kernels)
    known = {d.name for step in steps for d in step.data}
    tasks, used = of_one_core(parallel, target.cores), min(int(prod(loop.trips for loop in parallel)), target.cores)
    return Nest(tasks, used, steps, tuple(d for d in view.others() if d.name not in known))


def _parallel(p: Parameters, *, is_alone: bool) -> list[Loop]:
    """The loops over tasks."""
    columns, rows = Loop("n", p.npn), [Loop("batch", p.batch), Loop("m", p.mpn)]
    if not is_alone or not p.split_n:
        return rows
    return [columns, *rows] if p.panels_first else [*rows, columns]


def _inner(p: Parameters) -> tuple[Loop, ...]:
    """The loops of a task around its microkernel calls."""
    return (Loop("n", p.nsn),)


def _rows(g: Graph, node: FusedOp) -> int:
    """Of a nest without a product, whose rows are those of its largest value."""
    largest = max((g.value(v).type for op in node.ops for v in (*op.ins, *op.outs)), key=lambda t: t.elements)
    return prod(largest.shape[:-1])


@dataclass(frozen=True)
class _View:
    """A nest as its cost sees it. blocks: of rows."""

    g: Graph
    node: FusedOp
    target: Target
    blocks: int

    @cached_property
    def made(self) -> frozenset[int]:
        """The buffers that its ops write."""
        return frozenset(self.g.root(v) for op in self.node.ops for v in op.outs)

    def step(self, stage: Stage) -> Step:
        p, op = stage.parameters, stage.ops[0]
        assert p is not None
        what = product(self.g, op)
        (src, wei), one, blocks = what.call.ins, what.has_one_wei, p.batch * p.mpn
        rows, columns = min(p.mb, p.m), min(p.nb, p.n)
        of_wei = wei.nbytes * columns / p.n / (1 if one else p.batch)
        axes = ("n", "k") if one else ("batch", "n", "k")
        data = (
            self._data(op.ins[0], src.nbytes / blocks, (*ROWS, "k")),
            self._data(op.ins[1], of_wei, axes, waits=not (p.prefetch or p.panels_first)),
            self._result(stage, p, rows, columns),
        )
        return Step(gemm_nest(what, self.target), rows, columns, _inner(p), data)

    def _result(self, stage: Stage, p: Parameters, rows: int, columns: int) -> Data:
        """What the stage leaves for others: the last value of the product's shape, or the product itself."""
        made = [v for op in stage.ops for v in op.outs if self.g.value(v).type.elements == p.batch * p.m * p.n]
        leaving = [v for v in made if self.g.root(v) in self.node.outs]
        v = (leaving or made)[-1]
        if p.score_columns:
            return Data(self._name(v), F32_BYTES * rows * p.score_columns, ROWS, is_written=True, is_temporary=True)
        nbytes = self.g.value(v).dtype.nbytes(rows * columns)
        return Data(self._name(v), nbytes, (*ROWS, "n"), is_written=True, is_temporary=not leaving)

    def others(self) -> Iterator[Data]:
        """Of a task: what crosses the nest's border. Few elements are the same in all tasks."""
        for v in dict.fromkeys((*self.node.ins, *self.node.outs)):
            t = self.g.value(v).type
            by_rows = t.elements >= self.blocks
            yield Data(self._name(v), t.nbytes / (self.blocks if by_rows else 1), ROWS if by_rows else (), is_written=v in self.node.outs)

    def _data(self, v: int, nbytes: float, axes: tuple[str, ...], *, waits: bool = False) -> Data:
        root = self.g.root(v)
        is_made = root in self.made
        return Data(self._name(v), nbytes, axes, is_temporary=is_made and root not in self.node.outs, waits=waits)

    def _name(self, v: int) -> str:
        return f"%{self.g.root(v)}"
