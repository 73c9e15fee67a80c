"""Nests without a product and without a window, as their schedule is chosen for: what their ops access, and how much they compute.

An access is a vector of steps: by how many elements it moves per axis of the nest, through broadcasts, views and strides.

    y: f32[8,3,20,30] by [1800,1,90,3] = ReLU(x, with the same strides)     reads x and writes y by [1800, 1, 90, 3]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from benchgraph.core.dtypes import DType
from benchgraph.core.record import note
from benchgraph.gir.domain import Axes, Domain, domain_of, right_aligned
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.layouts import layout_block
from benchgraph.gir.text import print_attrs, print_type
from benchgraph.gir.views import nest_index, strides_of
from benchgraph.machine.target import Target
from benchgraph.ops import unit_steps
from benchgraph.ops.spec import Elementwise, Indices, LayoutOp, Reduction
from benchgraph.schedule.elements import Access, ElementNest, axes_of, space
from benchgraph.schedule.elements_cost import choose_elements
from benchgraph.schedule.limits import shares_blocks, shares_rows
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.tuning import forced_or_chosen
from benchgraph.tir.instructions import instructions
from benchgraph.tir.ir import Const, Load, Scope, Store, Var, tensor


def scheduled_elements(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The nest with the schedule of least cost, or the one that tuning prescribes, unless it has no loops, or nothing to do."""
    nest = element_nest(g, node)
    if nest is None:
        return node
    schedule, why = forced_or_chosen(g.forced_by_nest, nest_text(g, node), space(nest, target), partial(choose_elements, nest, target))
    note(node.name, why=why)
    return _with_shared_inputs(g, replace(node, schedule=schedule), nest, schedule, target)


def _with_shared_inputs(g: Graph, node: FusedOp, nest: ElementNest, schedule: Schedule, target: Target) -> FusedOp:
    """A split reduction with the inputs that the nest beside it reads too, and L2 does not hold: the two are fused, block by block.

    nest0 { rows of diff_src }            ->   nest0 { rows of diff_src }
    nest1 { sums over all rows }               nest1 { sums over all rows } shared=[0,1] blocks=64

    A block is what a task of the reduction reads, so that the second of the two reads it from L2; or, where the loops over rows can be one,
    each row from L1 (by_rows). tir/passes/merge_blocks.py fuses the loops where that is legal. docs/measurements/parallel-loops.md
    """
    if not schedule.split or not nest.is_shared:
        return node
    shared = tuple(v for v in node.ins if v in g.ins and len(g.consumers[v]) > 1 and g.value(v).type.elements >= nest.size(nest.axes))
    nbytes, rows = sum(g.value(v).type.nbytes for v in shared), nest.size(axes_of(schedule, schedule.split))
    tasks = ceil(rows / schedule.sizes(schedule.split)[0])
    if not shares_blocks(nbytes, tasks, target):
        return node
    return replace(node, shared=shared, blocks=tasks, by_rows=shares_rows(nbytes, rows, target))


def element_nest(g: Graph, node: FusedOp) -> ElementNest | None:
    """None where it has no loops, or nothing to do."""
    nest = _Reader(g, node, domain_of(g, node.ops)).nest()
    return nest if nest.axes and (nest.reduced or nest.size(nest.axes)) else None


def rows_nest(g: Graph, node: FusedOp, stage: Stage) -> ElementNest | None:
    """What ops of a stage do on the whole rows of a task, or of its block of scores; None where none of them reduces any."""
    ops = tuple(op for op, anchor in zip(stage.ops, stage.anchors, strict=True) if anchor is Anchor.rows)
    if not any(op.lowering.is_reduction for op in ops):
        return None
    nest = _Reader(g, replace(node, stages=(replace(stage, ops=ops),)), domain_of(g, stage.ops)).nest()
    *others, columns = nest.extents
    rows = (*(1 for _ in others[1:]), *(min(m, node.mb) for m in others[-1:]))
    return replace(nest, extents=(*rows, min(columns, node.score_columns or columns)))


def nest_text(g: Graph, node: FusedOp) -> str:
    """The nest as tuning files name it: its ops, and what crosses its border.

    Exp, ReduceSum {axes=[1]}: f32[8,30] by [30, 1], f32[8] by [1]
    """
    ops = ", ".join(f"{op.kind}{print_attrs(op.kind, op.attrs)}" for op in node.ops)
    operands = (g.value(v) for v in (*node.ins, *node.outs))
    types = ", ".join(f"{print_type(v.type)} by {list(v.strides or ())}" for v in operands)
    return f"{ops}: {types}"


class _Reader:
    def __init__(self, g: Graph, node: FusedOp, domain: Domain) -> None:
        self.g, self.node, self.domain = g, node, domain
        self.private = private_values(g, node)
        self.variables = tuple(Var(f"${axis}") for axis in range(len(domain.extents)))
        self.phase = dict[int, int]()  # by value: that of ops which may read it
        self.instructions, self.sums = Counter[int](), Counter[int]()
        self.chains = dict[int, tuple[int, int]]()  # by value that is computed per element: its chain's instructions, bits of its operands

    def nest(self) -> ElementNest:
        g, node, domain = self.g, self.node, self.domain
        accesses, work = tuple(access for op in node.ops for access in self._of_op(op)), prod(domain.extents)
        phases = range(max(self.instructions) + 1)
        return ElementNest(
            domain.extents,
            domain.reduced,
            accesses,
            tuple(self.instructions[phase] for phase in phases),
            tuple(self.sums[phase] for phase in phases),
            is_pointwise(g, node, domain),
            _block(g, node),
            min(work / max(g.value(v).type.elements, 1) for v in node.outs) if not domain.reduced else 1.0,
            any(len(g.consumers[g.root(v)]) > 1 for v in node.ins if g.value(v).type.elements >= work),
        )

    def _at(self, axes: Axes) -> Indices:
        return nest_index(axes, self.variables)

    def _access(self, id: int, index: Indices, phase: int, *, is_store: bool = False) -> Access:
        v = self.g.root(id)
        bits = self.g.value(v).dtype.bits
        return Access(
            v, bits, strides_of(self.g, id, index, self.variables), phase, is_store, id in self.private, *self.chains.get(id, (0, 0))
        )

    def _of_op(self, op: Op) -> Iterator[Access]:
        """Those that lower/region.py makes, in order."""
        g, domain, src, dst = self.g, self.domain, next(iter(op.ins), -1), op.outs[0]
        form, phase = op.lowering.form, max((self.phase.get(v, 0) for v in op.ins), default=0)
        self.phase.update(dict.fromkeys(op.outs, phase + isinstance(form, Reduction)))
        work = _per_element(g, op)
        match form:
            case Elementwise():
                index = self._at(domain.axes[dst])
                reads = [self._access(v, right_aligned(index, len(g.value(v).shape), Const(0)), phase) for v in op.ins]
                self._record(op, work, reads)
                yield from reads
                for position in () if form.position is None else form.position(op.attrs, g.value(dst).shape, index):
                    yield Access(-1, 0, tuple(unit_steps.step(position, var) for var in self.variables), phase)
                for v in op.outs:
                    yield self._access(v, index, phase, is_store=True)
            case Reduction():
                self.sums[phase] += 1
                yield self._access(src, self._at(domain.axes.get(src) or tuple(range(len(self.variables)))), phase)
                yield self._access(dst, self._at(domain.axes[dst]), phase, is_store=True)
            case LayoutOp():
                shapes = g.value(src).shape, g.value(dst).shape
                if dst in domain.scattered:
                    assert form.target is not None
                    index = self._at(domain.axes[src])
                    yield self._access(src, index, phase)
                    yield self._access(dst, form.target(op.attrs, *shapes, index), phase, is_store=True)
                else:
                    index = self._at(domain.axes[dst])
                    yield self._access(src, form.source(op.attrs, *shapes, index), phase)
                    yield self._access(dst, index, phase, is_store=True)
        axes = domain.axes.get(src if isinstance(form, Reduction) or dst in domain.scattered else dst, self.variables)
        is_per_element = not domain.reduced or domain.reduced.intersection(axes) or axes is self.variables
        self.instructions[phase] += work if is_per_element else 0

    def _record(self, op: Op, work: int, reads: Sequence[Access]) -> None:
        """What computes its result again: its own instructions and store, and what computes operands that are private."""
        own = [a for a in reads if a.axes & self.domain.reduced]
        if len(op.outs) == 1 and all(a.instructions or not a.is_private for a in own):
            count = work + 1 + sum(a.instructions - 1 for a in own if a.is_private)
            self.chains[op.outs[0]] = count, sum(a.source_bits if a.is_private else a.bits for a in own)


def instructions_of(g: Graph, op: Op) -> int:
    """On all elements of an op that is no product."""
    elements = max(g.value(v).type.elements for v in (*op.ins, *op.outs))
    return elements * _per_element(g, op)


def _per_element(g: Graph, op: Op) -> int:
    """Instructions on an element, without those that load and store it."""
    form, dst = op.lowering.form, g.value(op.outs[0])
    if not isinstance(form, Elementwise):
        return 1
    index, dtypes = tuple(Var(f"${axis}") for axis in range(len(dst.shape))), (g.value(v).dtype for v in op.ins)
    loads = (Load(tensor("r", DType.f32 if dtype.is_float else dtype, (), Scope.register), ()) for dtype in dtypes)
    values = form.values(op.attrs, dst.shape, index, tuple(loads))[: len(op.outs)]
    return sum(instructions(Store(tensor("r", dst.dtype, (), Scope.register), (), value)) for value in values)


def is_pointwise(g: Graph, node: FusedOp, domain: Domain) -> bool:
    """Whether every op runs over every axis: only elementwise and layout ops, none of them once per row, without blocked layouts."""
    axes = [domain.axes[v] for op in node.ops for v in op.outs if v in domain.axes]
    has_forms = all(isinstance(op.lowering.form, Elementwise | LayoutOp) for op in node.ops)
    return has_forms and not domain.reduced and all(a == axes[0] for a in axes) and not _block(g, node)


def _block(g: Graph, node: FusedOp) -> int:
    return layout_block(g, (*(v for op in node.ops for v in op.outs), *node.ins))  # results before operands


def private_values(g: Graph, node: FusedOp) -> frozenset[int]:
    """Values that nothing outside of the nest reads."""
    return frozenset(v for op in node.ops for v in op.outs if v not in node.outs and g.value(v).view is None)
