"""Graph IR: the compiler's own graph. DNN ops on values with layouts; later, ops grouped into fused ops with anchors. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.options import Forced
from benchgraph.core.remember import remembered
from benchgraph.core.tensor import Shape, TensorType, dense_strides
from benchgraph.gir.parameters import Parameters
from benchgraph.tir.ir import Expr


class Constness(IntEnum):
    """variable: known at each execution. runtime: the same in every execution, seen at the first. compile: known now."""

    variable = 0
    runtime = 1
    compile = 2


@dataclass(frozen=True)
class Literal:
    """Compile-time constant data, hashable by content."""

    dtype: DType
    shape: Shape
    raw: bytes

    @property
    def array(self) -> NDArray[np.generic]:
        return np.frombuffer(self.raw, self.dtype.numpy).reshape(self.shape)


@dataclass(frozen=True)
class View:
    """A value that has no buffer of its own: its elements lie in `base`, moved by one data-movement op.

    kind, attrs, src_shape, dst_shape: that op. inverse False: this value is the op's dst and base its src; True: the other way round
    (the producer writes straight to where the movement would have put the elements).
    """

    base: int
    kind: str
    attrs: Attrs
    src_shape: Shape
    dst_shape: Shape
    inverse: bool


@dataclass(frozen=True)
class Value:
    """What flows between ops.

    strides: in elements, set for the partition's strided border tensors, whose buffers belong to the user. literal: compile-time data.
    """

    id: int
    dtype: DType
    shape: Shape
    layout: Layout
    constness: Constness = Constness.variable
    strides: Shape | None = None
    literal: Literal | None = None
    view: View | None = None

    @property
    @remembered
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    @property
    def known_strides(self) -> Shape:
        """The strides in elements, row-major where none are given; of a value without blocks."""
        return dense_strides(self.shape) if self.strides is None else self.strides

    @property
    def is_constant(self) -> bool:
        return self.constness > Constness.variable

    @property
    def number(self) -> float | None:
        """What it is, if that is one number known now."""
        literal = self.literal
        return float(literal.array.astype(np.float64).item()) if literal is not None and literal.array.size == 1 else None


@dataclass(frozen=True)
class Op:
    """A basic (or, before decompose, complex) op; ins and outs are value ids."""

    kind: str
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    attrs: Attrs = NO_ATTRS


class Anchor(Enum):
    """Where in its fused op's loop nest an op runs, outermost first (the Graph Compiler paper's anchors, for one task of mb rows).

    batch: once per batch entry, before its tasks. rows: on the task's rows, whole ([mb, N]). panel: inside the column loop, on the
    [kb, nb] of wei that the microkernel is about to read. tile: there too, on the [mb, nb] tile the microkernel has just written.
    kernel: the microkernel itself.
    """

    batch = "batch"
    rows = "rows"
    panel = "panel"
    tile = "tile"
    kernel = "kernel"


@dataclass(frozen=True)
class Cut:
    """How a loop cuts an axis of a stage's iteration space: one index of the axis is `unit` of the loop's."""

    axis: int
    unit: int = 1


@dataclass(frozen=True)
class Stage:
    """At most one tunable op, first, and the ops on its result, in order; anchors[i] is where ops[i] runs.

    parameters: of the template for the tunable op, once it is scheduled. along: of a stage at the batch anchor, for each batch loop that
    it is inside of, outermost first, the axis of its own iteration space that runs along the loop; None where it does not depend on the
    loop. cuts: of a stage at the panel anchor, for k and for the columns of the product that follows, the axis that is cut with them; None
    where all of the stage's own is made for every piece. sums_rows: the tunable op sums over the nest's rows, to which each task adds its
    part; its post-ops wait for an entry's last task.
    """

    ops: tuple[Op, ...]
    anchors: tuple[Anchor, ...]
    parameters: Parameters | None = None
    along: tuple[int | None, ...] = ()
    cuts: tuple[Cut | None, Cut | None] = (None, None)
    sums_rows: bool = False

    @property
    def nb(self) -> int:
        """Columns of one microkernel call; 0 when there is no tunable op."""
        return self.parameters.nb if self.parameters is not None else 0

    @property
    def is_per_entry(self) -> bool:
        """It runs once per batch entry, before the entry's tasks."""
        return Anchor.batch in self.anchors

    @property
    def is_per_panel(self) -> bool:
        """It makes a piece of wei for the product of the next stage that has one, before each microkernel call."""
        return Anchor.panel in self.anchors


@dataclass(frozen=True)
class Fused:
    """Stages that share one parallel loop nest. ins, outs: values with buffers (view roots) that cross its border.

    next_entry, next_rows: inputs of which the next batch entry's part, or the next task's rows, are fetched while rows are worked on.
    together: neighbouring windows that may be computed together (lower/stencil_jam.py), in nests of windows.
    """

    name: str
    stages: tuple[Stage, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    next_entry: tuple[int, ...] = ()
    next_rows: tuple[int, ...] = ()
    together: int = 1

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(op for stage in self.stages for op in stage.ops)

    @property
    def parameters(self) -> Parameters | None:
        """Of the first tunable op that works on the nest's rows; all of those have the same rows."""
        return next((stage.parameters for stage in self.stages if stage.parameters is not None and not stage.sums_rows), None)

    @property
    def mb(self) -> int:
        """Rows of one parallel task; 0 for nests without a tunable op, which cut their tasks from the values' shapes."""
        return self.parameters.mb if self.parameters is not None else 0

    @property
    def split_n(self) -> bool:
        """The columns of the only tunable op are spread over tasks too."""
        return self.parameters is not None and self.parameters.split_n

    @property
    def panels_first(self) -> bool:
        """The loop over panels of columns is around all others."""
        return self.parameters is not None and self.parameters.panels_first

    @property
    def step(self) -> int:
        """Columns of scores that are worked on at a time, with running folds (gir/flash_attention.py); 0 where whole rows are."""
        return self.parameters.step if self.parameters is not None else 0


Node: TypeAlias = Op | Fused


@dataclass(frozen=True)
class Graph:
    """nodes in topological order. ins, outs: the partition's border values.

    unsettled: (out, layout) where the user gave a layout that its producer may not be able to write, or, with None, left the choice open;
    such values stand in `values` as row-major until propagate-layout has settled them. forced: template parameters that are not to be
    chosen. fpmath_mode: what the operands of products may be rounded to.
    """

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    unsettled: tuple[tuple[int, Layout | None], ...] = ()
    forced: tuple[Forced, ...] = ()
    fpmath_mode: str = "strict"

    @cached_property
    def by_id(self) -> dict[int, Value]:
        return {v.id: v for v in self.values}

    def value(self, id: int) -> Value:
        return self.by_id[id]

    @cached_property
    def producer(self) -> dict[int, Node]:
        return {v: node for node in self.nodes for v in node.outs}

    @cached_property
    def places(self) -> dict[int, int]:
        """By what it makes, a node's place among the nodes."""
        return {v: place for place, node in enumerate(self.nodes) for v in node.outs}

    @cached_property
    def consumers(self) -> dict[int, tuple[Node, ...]]:
        """Value id -> the nodes that read it, each once; leaving the graph is not a consumer."""
        found: dict[int, list[Node]] = {v.id: [] for v in self.values}
        for node in self.nodes:
            for v in dict.fromkeys(node.ins):
                found[v].append(node)
        return {v: tuple(nodes) for v, nodes in found.items()}

    @cached_property
    def viewed(self) -> frozenset[int]:
        """The values that others are views of."""
        return frozenset(v.view.base for v in self.values if v.view is not None)

    @cached_property
    def of_constants(self) -> frozenset[int]:
        """The values that need no input that varies, before mark-runtime-constants says so."""
        found = {v.id for v in self.values if v.is_constant and v.id not in self.producer}
        for node in self.nodes:
            if found.issuperset(node.ins):
                found.update(node.outs)
        return frozenset(found)

    @cached_property
    def _roots(self) -> dict[int, int]:
        return {}

    def root(self, id: int) -> int:
        """The value whose buffer holds this one's elements."""
        above = list[int]()  # views of views may be as many as a graph has ops
        while id not in self._roots and (view := self.by_id[id].view) is not None:
            above.append(id)
            id = view.base
        found = self._roots.get(id, id)
        self._roots.update(dict.fromkeys(above, found))
        return found

    @cached_property
    def chains(self) -> dict[int, tuple[int, tuple[Expr, ...]]]:
        """By value, what gir/views.py has found out of its views."""
        return {}

    def changed(self, values: dict[int, Value]) -> Graph:
        """The graph with these values exchanged or added, by id; the same object when there are none."""
        if not values:
            return self
        known = set(self.by_id)
        kept = tuple(values.get(v.id, v) for v in self.values)
        return replace(self, values=kept + tuple(v for id, v in values.items() if id not in known))
