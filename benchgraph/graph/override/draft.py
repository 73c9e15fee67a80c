"""A graph with inputs, outputs or attributes changed, before the rest is inferred.

Shapes, batch and attributes may only fit together (a reshape's target and the new batch), so all are set first, then the rest is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidShape, within
from benchgraph.core.tensor import LayoutType, LogicalTensor, dense_strides
from benchgraph.graph.infer import infer_outputs, infer_shapes, merged_inputs
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.override.layout import NewShape, axes_of, resized, strides_in
from benchgraph.ops.spec import OpSpec, Role


@dataclass(frozen=True)
class Draft:
    """graph: the original, perhaps illegal. inputs: id -> its new description. outputs: id -> the change.

    attrs: op id -> all its present attributes; named: op id -> which of them were set. relaid: outputs follow the layout of their op's
    first input, rather than their former order of axes. mb: fixed target shapes are scaled with the volume.
    """

    graph: Graph
    inputs: Mapping[int, LogicalTensor] = field(default_factory=dict)
    outputs: Mapping[int, NewShape] = field(default_factory=dict)
    attrs: Mapping[int, Attrs] = field(default_factory=dict)
    named: Mapping[int, frozenset[str]] = field(default_factory=dict)
    relaid: bool = False
    mb: int = 0


def inferred(graph: Graph) -> Graph | None:
    """The graph with its shapes; None if it is illegal."""
    try:
        return infer_shapes(graph)
    except BenchgraphError:
        return None


def settle(draft: Draft) -> Graph:
    """The graph with all dependent shapes and strides. Raises the errors of shape inference, naming the op.

    Only what depends on a change is inferred again. Outputs are dense: with the order of axes of the op's first input if layouts were set
    and the rank is the same (row-major after a transpose, reshape or reorder), else with their former order.
    """
    known = inferred(draft.graph)
    old = known or draft.graph
    tensors = merged_inputs(old.with_tensors(dict(draft.inputs)))
    settled: dict[int, Op] = {}
    for op in old.order:
        ins, attrs = tuple(tensors[t.id] for t in op.inputs), draft.attrs.get(op.id, op.attrs)
        is_same = known is not None and ins == op.inputs and attrs == op.attrs and not any(t.id in draft.outputs for t in op.outputs)
        new = op if is_same else _remade(draft, op, ins, attrs)
        settled[op.id] = new
        tensors |= {t.id: t for t in (*new.inputs, *new.outputs)}
    changed = replace(old, ops=tuple(settled[op.id] for op in old.ops)).with_tensors(tensors)
    return known if known == changed else infer_shapes(changed)


def _remade(draft: Draft, op: Op, ins: tuple[LogicalTensor, ...], attrs: Attrs) -> Op:
    """The op on these inputs, whose shapes are known, with all its shapes inferred again."""
    with within(op.label):
        ops.check_form(op.kind, attrs, len(ins), len(op.outputs))
        ins, attrs = _refitted(draft, op, ins, attrs)
        given = tuple(draft.outputs.get(t.id, NewShape()).dims for t in op.outputs)
        bare = tuple(replace(t, shape=dims, strides=None) for t, dims in zip(op.outputs, given, strict=True))
        if draft.mb:
            attrs = scaled_target(op, ins, attrs)
    fresh = replace(op, attrs=attrs, inputs=ins, outputs=bare)
    return replace(fresh, outputs=tuple(_laid_out(draft, op, i, t, ins) for i, t in enumerate(infer_outputs(fresh, ins))))


def _laid_out(draft: Draft, op: Op, position: int, t: LogicalTensor, ins: tuple[LogicalTensor, ...]) -> LogicalTensor:
    """The output, whose shape is known, with its strides."""
    shape, change = t.known_shape, draft.outputs.get(t.id)
    if change is not None:
        return replace(t, strides=change.strides_of(t.id, shape), layout_type=LayoutType.strided)
    if t.layout_type in (LayoutType.any, LayoutType.opaque):
        return t
    if not draft.relaid:
        return resized(op.outputs[position], shape)
    row = ops.spec(op.kind)
    moves = row.lowering.role is Role.layout_op and row.schema.variadic_inputs is None
    follows = position == 0 and not moves and bool(ins) and len(ins[0].known_shape) == len(shape)
    return replace(t, strides=strides_in(shape, axes_of(ins[0])) if follows else dense_strides(shape))


def _refitted(draft: Draft, op: Op, ins: tuple[LogicalTensor, ...], attrs: Attrs) -> tuple[tuple[LogicalTensor, ...], Attrs]:
    """Inputs and attributes after the row's adjustment (`Schema.refit`). Raises InvalidArguments."""
    row = ops.spec(op.kind)
    if row.schema.refit is None or not all(t.has_known_shape for t in op.inputs):
        return ins, attrs
    old, new = tuple(t.type for t in op.inputs), tuple(t.type for t in ins)
    ports = {port.name for port, t in zip(row.schema.inputs, ins, strict=False) if t.id in draft.inputs}
    fitted, shapes = row.schema.refit(ops.with_defaults(op.kind, attrs), old, new, draft.named.get(op.id, frozenset()) | ports)
    changed = {name: value for name, value in fitted.items() if name in attrs or name in row.schema.attrs}
    for t, shape in zip(ins, shapes, strict=True):
        if shape != t.known_shape and t.id in draft.graph.producers:
            what = f"input {t.id} would have to become {shape} from {t.known_shape}, but it is computed"
            raise InvalidArguments(what, fix="set the shapes that it is computed from")
    return tuple(resized(t, shape) for t, shape in zip(ins, shapes, strict=True)), attrs.updated(**changed)


def scaled_target(op: Op, ins: tuple[LogicalTensor, ...], attrs: Attrs) -> Attrs:
    """The attributes; a fixed target shape is scaled in dim 0 if its volume no longer fits the input's."""
    name = target_attr(ops.spec(op.kind))
    if not name:
        return attrs
    try:
        ops.spec(op.kind).semantics.infer(ops.with_defaults(op.kind, attrs), tuple(t.type for t in ins))
    except InvalidShape:
        old, new = prod(op.inputs[0].known_shape), prod(ins[0].known_shape)
        target = attrs.integers(name)
        scaled = Fraction(target[0] * new, old) if target and old else Fraction(1, 2)
        if scaled.denominator != 1 or scaled < 0:
            raise
        return attrs.updated(**{name: (int(scaled), *target[1:])})
    return attrs


def target_attr(row: OpSpec) -> str:
    """The attribute that holds the output's shape; '' if there is none."""
    return row.schema.shape_attr or ("shape" if row.lowering.role is Role.layout_op and "shape" in row.schema.attrs else "")
