"""Graph IR: DNN ops on values with layouts; later, ops grouped into fused ops with anchors. Frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout
from benchgraph.core.memoise import memoised
from benchgraph.core.options import Forced
from benchgraph.core.tensor import Shape, TensorType, dense_strides
from benchgraph.gir.parameters import Parameters
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, Lowering, Semantics
from benchgraph.schedule.primitives import NO_JAM, Schedule, UnrollJam
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
    """A value without a buffer: its elements are those of `base`, moved by one layout op.

    kind, attrs, src_shape, dst_shape: that op; the shapes are those of the two values. inverse False: this value is the op's dst and base
    its src; True: the other way round, so that the producer writes where the op would have put the elements.
    """

    base: int
    kind: str
    attrs: Attrs
    src_shape: Shape
    dst_shape: Shape
    inverse: bool


@dataclass(frozen=True)
class Value:
    """A tensor between ops. strides: in elements, set for the partition's strided border tensors. literal: compile-time data."""

    id: int
    dtype: DType
    shape: Shape
    layout: Layout
    constness: Constness = Constness.variable
    strides: Shape | None = None
    literal: Literal | None = None
    view: View | None = None

    @property
    @memoised
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    @property
    @memoised
    def known_strides(self) -> Shape:
        """The strides in elements of a value without blocks, those of its layout where none are given."""
        return self.strides or self.layout.strides(self.shape) or dense_strides(self.shape)

    @property
    def is_constant(self) -> bool:
        return self.constness > Constness.variable

    @property
    def scalar(self) -> float | None:
        """The number that it is, if it has one element that is known now."""
        literal = self.literal
        return float(literal.array.astype(np.float64).item()) if literal is not None and literal.array.size == 1 else None


@dataclass(frozen=True)
class Op:
    """A basic (or, before decompose, complex) op; ins and outs are value ids."""

    kind: str
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    attrs: Attrs = NO_ATTRS

    @property
    def ops(self) -> tuple[Op, ...]:
        """Itself, as a fused op has several."""
        return (self,)

    @property
    def lowering(self) -> Lowering:
        """How the op table says it is compiled."""
        return spec(self.kind).lowering

    @property
    def semantics(self) -> Semantics:
        """What the op table says it computes."""
        return spec(self.kind).semantics


class Anchor(Enum):
    """Where in its fused op's loop nest an op runs, outermost first (the Graph Compiler paper's anchors, for one task of mb rows).

    batch: once per batch entry, before its tasks. rows: on the task's whole rows, [mb, N]. panel: inside the column loop, on the block of
    wei that the microkernel reads next. tile: there too, on the [mb, nb] tile that the microkernel has just written. kernel: the
    microkernel.
    """

    batch = "batch"
    rows = "rows"
    panel = "panel"
    tile = "tile"
    kernel = "kernel"


@dataclass(frozen=True)
class Cut:
    """How a loop cuts an axis of a stage's iteration space: one index of the axis is `unit` indices of the loop."""

    axis: int
    unit: int = 1


@dataclass(frozen=True)
class Stage:
    """At most one tunable op, first, and the ops on its result, in order; anchors[i] is where ops[i] runs.

    parameters: of the template for the tunable op, once it is scheduled. along: of a stage at the batch anchor, for each batch loop around
    it, outermost first, the axis of its iteration space that runs along the loop; None where it does not depend on the loop. cuts: of a
    stage at the panel anchor, for k and for the columns of the product that follows, the axis that is cut with them; None where each block
    needs all of the stage. reduces_rows: the tunable op reduces over the nest's rows; each task adds its part, and post-ops wait for an
    entry's last task. jam: of rows that are reduced, by ops that run on whole ones or by a gemv.
    """

    ops: tuple[Op, ...]
    anchors: tuple[Anchor, ...]
    parameters: Parameters | None = None
    along: tuple[int | None, ...] = ()
    cuts: tuple[Cut | None, Cut | None] = (None, None)
    reduces_rows: bool = False
    jam: UnrollJam = NO_JAM

    @property
    def nb(self) -> int:
        """Columns of one microkernel call; 0 when there is no tunable op."""
        return self.parameters.nb if self.parameters is not None else 0

    @property
    def is_product(self) -> bool:
        return self.ops[0].lowering.is_contraction

    @property
    def is_batch_invariant(self) -> bool:
        """Whether it runs once per batch entry, before the entry's tasks (gir/batch_invariants.py)."""
        return Anchor.batch in self.anchors

    @property
    def is_per_task(self) -> bool:
        """Whether each task runs it to its end: not once per batch entry, nor a part of it per task."""
        return not (self.is_batch_invariant or self.reduces_rows)

    @property
    def is_packing(self) -> bool:
        """Whether it makes a block of wei for the next stage with a product, before each microkernel call (gir/on_the_fly_packing.py)."""
        return Anchor.panel in self.anchors


@dataclass(frozen=True)
class FusedOp:
    """Stages that share one parallel loop nest. ins, outs: values with buffers (view roots) that cross its border.

    prefetched_entries, prefetched_rows: inputs of which the next batch entry's part, or the next task's rows, are prefetched. is_serial: of
    a nest of products: one thread runs all tasks. schedule: of a nest without a product. prefetched: inputs that loops prefetch.
    non_temporal: results that are stored past the caches, where that is in whole lines.
    shared: inputs of which the nest and one beside it read so many `blocks`, by_rows: row by row (gir/elements.py).
    """

    name: str
    stages: tuple[Stage, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    prefetched_entries: tuple[int, ...] = ()
    prefetched_rows: tuple[int, ...] = ()
    is_serial: bool = False
    schedule: Schedule | None = None
    prefetched: tuple[int, ...] = ()
    non_temporal: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    blocks: int = 0
    by_rows: bool = False

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(op for stage in self.stages for op in stage.ops)

    @property
    @memoised
    def row_products(self) -> tuple[Stage, ...]:
        """The stages of products that iterate over the nest's rows."""
        return tuple(stage for stage in self.stages if stage.is_product and not stage.reduces_rows)

    @property
    def parameters(self) -> Parameters | None:
        """Those of the first of these; all have the same rows."""
        return next((stage.parameters for stage in self.row_products), None)

    @property
    def mb(self) -> int:
        """Rows of one parallel task; 0 for nests without a tunable op, whose tasks follow from the values' shapes."""
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
    def score_columns(self) -> int:
        """Columns of scores at a time in flash attention (gir/flash_attention.py); 0 for nests of whole rows."""
        return self.parameters.score_columns if self.parameters is not None else 0


Node: TypeAlias = Op | FusedOp


@dataclass(frozen=True)
class Graph:
    """nodes in topological order. ins, outs: the partition's border values.

    open_layouts: (output, layout) where the user gave a layout that its producer may not be able to write, or, with None, left it to the
    compiler; such values are row-major until settle-borders. forced: schedules that tuning prescribes. fpmath_mode: what the
    operands of products may be rounded to. tasks: fewest that loops of nests may be left with when they are fused, where they have them.
    """

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    open_layouts: tuple[tuple[int, Layout | None], ...] = ()
    forced: tuple[Forced, ...] = ()
    fpmath_mode: str = "strict"
    tasks: int = 1

    @cached_property
    def by_id(self) -> dict[int, Value]:
        return {v.id: v for v in self.values}

    def value(self, id: int) -> Value:
        return self.by_id[id]

    @cached_property
    def untuned(self) -> Graph:
        """The graph without what tuning prescribes, which no pass before `schedule` may depend on."""
        return replace(self, forced=()) if self.forced else self

    @cached_property
    def forced_by_nest(self) -> dict[str, Forced]:
        """By the text of a nest, what tuning prescribes for it."""
        return {f.nest: f for f in reversed(self.forced)}

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """All ops, fused or not, in order."""
        return tuple(op for node in self.nodes for op in node.ops)

    @property
    def nests(self) -> tuple[FusedOp, ...]:
        return tuple(node for node in self.nodes if isinstance(node, FusedOp))

    def map_nests(self, change: Callable[[FusedOp], FusedOp]) -> Graph:
        """The graph with each fused op changed; the same object when none is."""
        nodes = tuple(change(node) if isinstance(node, FusedOp) else node for node in self.nodes)
        return self if nodes == self.nodes else replace(self, nodes=nodes)

    def is_init(self, node: Node) -> bool:
        """Whether init computes a node."""
        return self.value(node.outs[0]).is_constant

    @cached_property
    def producer(self) -> dict[int, Node]:
        return {v: node for node in self.nodes for v in node.outs}

    def maker(self, id: int) -> Op | None:
        """The op that makes a value, in a graph whose ops are not fused yet."""
        node = self.producer.get(id)
        return node if isinstance(node, Op) else None

    @cached_property
    def consumers(self) -> dict[int, tuple[Node, ...]]:
        """Value id -> the nodes that read it, each once; leaving the graph is not a consumer."""
        readers: dict[int, list[Node]] = {v.id: [] for v in self.values}
        for node in self.nodes:
            for v in dict.fromkeys(node.ins):
                readers[v].append(node)
        return {v: tuple(nodes) for v, nodes in readers.items()}

    def readers(self, id: int) -> tuple[Op, ...]:
        """The ops that read a value, each once, in a graph whose ops are not fused yet."""
        return cast(tuple[Op, ...], self.consumers[id])

    def call(self, op: Op) -> Call:
        """An op with the types of its values."""
        return Call(op.kind, op.attrs, tuple(self.value(v).type for v in op.ins), tuple(self.value(v).type for v in op.outs))

    @cached_property
    def viewed(self) -> frozenset[int]:
        """The values that others are views of."""
        return frozenset(v.view.base for v in self.values if v.view is not None)

    @cached_property
    def computed_from_constants(self) -> frozenset[int]:
        """Constants and the values computed from them alone, which mark-runtime-constants marks; outputs of the graph are none, nor are
        parts of another value's buffer, which init does not have."""
        constants = {v.id for v in self.values if v.is_constant}
        for node in self.nodes:
            is_whole = all(self.value(v).view is None for v in node.outs)
            if is_whole and node.ins and constants.issuperset(node.ins) and not set(node.outs).intersection(self.outs):
                constants.update(node.outs)
        return frozenset(constants)

    @cached_property
    def _roots(self) -> dict[int, int]:
        return {}

    def root(self, id: int) -> int:
        """The value whose buffer holds this one's elements."""
        known = self._roots
        if id in known:
            return known[id]
        path = [id]  # views of views may be as many as a graph has ops
        while path[-1] not in known and (view := self.by_id[path[-1]].view) is not None:
            path.append(view.base)
        root = known.get(path[-1], path[-1])
        known.update(dict.fromkeys(path, root))
        return root

    @cached_property
    def chains(self) -> dict[int, tuple[Expr, ...]]:
        """Value id -> its chain of views, as far as gir/views.py has computed them."""
        return {}

    def with_values(self, values: dict[int, Value]) -> Graph:
        """The graph with these values replaced or added, by id; the same object when there are none."""
        if not values:
            return self
        known = set(self.by_id)
        kept = tuple(values.get(v.id, v) for v in self.values)
        return replace(self, values=kept + tuple(v for id, v in values.items() if id not in known))
