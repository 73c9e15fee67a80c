"""Command-line changes to a graph, as pure functions Graph -> Graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, prod

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidShape
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape, TensorType, dense_strides
from benchgraph.graph.infer import infer_outputs, infer_shapes
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops.spec import Contraction, OpSpec, Role


def row_major(graph: Graph) -> Graph:
    """The graph with its own layouts only: those left to a library (any) or known to the one that wrote it (opaque) become row-major."""
    foreign = (LayoutType.any, LayoutType.opaque)
    changed = {
        t.id: replace(t, layout_type=LayoutType.strided, strides=None, layout_id=0)
        for t in graph.tensors.values()
        if t.layout_type in foreign
    }
    return graph.with_tensors(changed) if changed else graph


def with_batch(graph: Graph, mb: int) -> Graph:
    """The graph at another batch size (`--mb`); 0, or the batch it has, changes nothing.

    Dim 0 of every input that carries the batch becomes mb, and every other shape is inferred anew. An input carries the batch when
    none of the ways from it through the graph meets an operand whose dim 0 is something else (`_flow`). Its strides stay, unless
    dim 0 is not the outermost one in memory; then, as for all inferred shapes, they are made dense in the old order.
    A reshape to a fixed shape whose volume no longer fits gets its dim 0 scaled like the volume (a dim 0 that is the batch becomes mb).

    Raises InvalidArguments when no input carries a batch, InvalidShape when the new shapes do not fit together.
    """
    if mb < 0:
        raise InvalidArguments(f"the batch size is {mb}", fix="give a positive number, or 0 to keep the graph's own")
    known = infer_shapes(graph)
    if mb == 0:
        return known
    carrying = _carrying(known)
    tensors = {t.id: t for t in known.inputs}
    chosen = [t for t in known.inputs if carrying[t.id]]
    if not chosen:
        raise InvalidArguments("no graph input carries a batch in dim 0", fix="leave --mb out for this graph")
    tensors |= {t.id: _resized(t, (mb, *t.known_shape[1:])) for t in chosen}
    resized: dict[int, Op] = {}
    for op in known.order:
        resized[op.id] = _at_new_shapes(op, tuple(tensors[t.id] for t in op.inputs))
        tensors |= {t.id: t for t in resized[op.id].outputs}
    changed = replace(known, ops=tuple(resized[op.id] for op in known.ops))
    return known if changed == known else changed


# ---- which inputs carry the batch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Flow:
    """ports: inputs of an op through which a batch in dim 0 may come. outputs: those whose dim 0 is then the batch."""

    ports: tuple[int, ...]
    outputs: tuple[int, ...]


def _carrying(graph: Graph) -> dict[int, bool]:
    """Tensor id -> every use of it, and of what is made from it, takes its dim 0 for the batch."""
    flows: dict[int, _Flow] = {}
    batched = {t.id for t in graph.inputs}  # as far as the ops seen so far allow
    for op in graph.order:
        flows[op.id] = _flow(graph, op, batched)
        batched |= {op.outputs[i].id for i in flows[op.id].outputs}
    carries: dict[int, bool] = {}
    for op in reversed(graph.order):
        flow = flows[op.id]
        onward = all(carries.get(op.outputs[i].id, True) for i in flow.outputs)
        for port, t in enumerate(op.inputs):
            carries[t.id] = carries.get(t.id, True) and onward and port in flow.ports
    return carries


def _flow(graph: Graph, op: Op, batched: set[int]) -> _Flow:
    """Try it: double dim 0 of the operands that may carry the batch, and see which outputs follow. No port, when any other dim does."""
    row = ops.spec(op.kind)
    ports = tuple(p for p, t in enumerate(op.inputs) if t.id in batched and _may_carry(graph, row, op, p))
    new = [TensorType(t.dtype, (2 * t.known_shape[0] or 2, *t.known_shape[1:])) if p in ports else t.type for p, t in enumerate(op.inputs)]
    try:
        shapes = row.infer(op.full_attrs, tuple(new))
    except InvalidShape:
        return _Flow(ports, (0,)) if _fixed_shape(row) else _Flow((), ())
    followers = []
    for i, (t, shape) in enumerate(zip(op.outputs, shapes, strict=False)):
        if len(shape) != len(t.known_shape) or shape[1:] != t.known_shape[1:]:
            return _Flow((), ())
        if shape != t.known_shape:
            followers.append(i)
    return _Flow(ports, tuple(followers))


def _may_carry(graph: Graph, row: OpSpec, op: Op, port: int) -> bool:
    """Whether dim 0 of this operand lines up with dim 0 of the output (or, for rows and movements, of the first operand).

    Gradients of rows have the first operand's shape too; statistics have its leading dims.
    An operand whose dim 0 is 1 broadcasts, unless a batch of 1 is meant: it is the first operand, was computed, or is a whole tensor.
    """
    t = op.inputs[port]
    if not t.known_shape:
        return False
    if row.role not in (Role.anchor, Role.pointwise) and row.variadic is None:
        return t.known_shape == op.inputs[0].known_shape[: len(t.known_shape)]
    if not op.outputs:
        return True
    out = op.outputs[0].known_shape
    aligned = len(t.known_shape) == len(out) and t.known_shape[0] == out[0]
    if isinstance(row.lower, Contraction) and port == 1:
        return aligned and len(out) > 2 and not (t.is_constant and out[0] == 1)
    whole = t.known_shape == out and len(out) > 2 and not t.is_constant
    return aligned and (out[0] != 1 or port == 0 or t.id in graph.producers or whole)


def _fixed_shape(row: OpSpec) -> str:
    """The attribute that says what shape the output has; '' when there is none."""
    return row.shape_attr or ("shape" if row.role is Role.movement and "shape" in row.attrs else "")


# ---- the new shapes --------------------------------------------------------------------------------------------------


def _at_new_shapes(op: Op, ins: tuple[LogicalTensor, ...]) -> Op:
    """The op on resized inputs, with its outputs' shapes inferred anew."""
    if ins == op.inputs:
        return op
    unknown = replace(op, outputs=tuple(replace(t, shape=None, strides=None) for t in op.outputs))
    try:
        fresh = replace(unknown, attrs=_fitted(op, ins), inputs=ins)
    except BenchgraphError as bad:
        raise bad.inside(op.label) from bad
    shapes = [t.known_shape for t in infer_outputs(fresh, ins)]
    return replace(fresh, outputs=tuple(_resized(t, shape) for t, shape in zip(op.outputs, shapes, strict=True)))


def _fitted(op: Op, ins: tuple[LogicalTensor, ...]) -> Attrs:
    """The attributes, a fixed target shape scaled in dim 0 when its volume no longer fits the input's."""
    row = ops.spec(op.kind)
    name = _fixed_shape(row)
    if not name:
        return op.attrs
    try:
        row.infer(op.full_attrs, tuple(t.type for t in ins))
    except InvalidShape:
        old, new = prod(op.inputs[0].known_shape), prod(ins[0].known_shape)
        target = op.attrs.integers(name)
        scaled = Fraction(target[0] * new, old) if target and old else Fraction(1, 2)
        if scaled.denominator != 1 or scaled < 0:
            raise
        return op.attrs.updated(**{name: (int(scaled), *target[1:])})
    return op.attrs


def _resized(t: LogicalTensor, shape: Shape) -> LogicalTensor:
    """The tensor with other dims, its strides in the same order of axes."""
    if shape == t.known_shape:
        return t
    return t.with_shape(shape, None if t.strides is None else _restrided(t.known_shape, t.strides, shape))


def _restrided(old_shape: Shape, old: Shape, shape: Shape) -> Shape:
    if len(shape) != len(old_shape):
        return dense_strides(shape)
    inner = 1 + sum((d - 1) * s for d, s in zip(shape[1:], old[1:], strict=True))
    if shape[1:] == old_shape[1:] and old[0] >= inner:
        return old
    outermost_first = sorted(range(len(shape)), key=lambda a: (-inf if a == 0 and old_shape[0] == 1 else -old[a], a))
    strides, step = [0] * len(shape), 1
    for axis in reversed(outermost_first):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
