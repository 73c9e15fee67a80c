"""A random graph, op by op. Every op reads a tensor of the graph, mostly a recent one, and others where types match.

Ops are chosen by role, so that chains of post-ops after anchors, rows of attention and quantised operands are frequent: these exercise
fusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random

from benchgraph import ops
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import HOST_SCALARS, LogicalTensor, PropertyType, Shape, TensorType, dense_strides
from benchgraph.fuzz.draw import ANYTHING, Fit, Tally, draw, ranks
from benchgraph.graph.check import validate
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.onednn.encode import has
from benchgraph.onednn.table import Version
from benchgraph.ops.spec import Call, OpSpec, Role

ROLES = {Role.pointwise: 9, Role.anchor: 4, Role.row: 4, Role.layout_op: 4}  # weights of the next op's role
# Weights for the first op: graphs mostly begin with an expensive one.
BEGINNINGS = {Role.pointwise: 2, Role.anchor: 9, Role.row: 3, Role.layout_op: 2}
MISFIT = 0.05  # weight of a row without samples of the tensor's rank
CONVERTS = 2  # weight of casts and (de)quantisation
GRADIENT = 0.4  # weight of a gradient against other rows of its role
FRESH = 0.06  # share of ops that start a new component
LAST, RECENT = 0.6, 0.25  # share of ops that read the last tensor, and one of the last few; others read any
JOINS = 0.6  # share of further inputs that reuse a tensor of the same type
SANDWICH = 0.2  # share of new inputs behind a conversion
ENDS = 0.1  # share of read tensors that an End also makes outputs
STRANGE = 0.25  # share of graph inputs with permuted or padded strides; a third of that for results


@dataclass
class Growth:
    """A graph under construction, of at most `most` ops. tally: of all draws. release: of a oneDNN that supports all of it; None: any."""

    rng: Random
    most: int
    tally: Tally
    fpmath: tuple[str, bool] = ("strict", False)
    release: Version | None = None
    ops: list[Op] = field(default_factory=list)
    next_op: int = 0
    next_tensor: int = 0

    @property
    def tensors(self) -> list[LogicalTensor]:
        """All of them, in order of creation."""
        return list({t.id: t for op in self.ops for t in (*op.inputs, *op.outputs)}.values())

    def grow(self, count: int) -> None:
        """Append ops until there are so many, or too many draws failed."""
        for _ in range(2 * count):
            if len(self.ops) >= count:
                return
            self._append_one()

    def _append_one(self) -> None:
        src = self._source()
        row, port = _row(self.rng, src.type if src else None, ROLES if self.ops else BEGINNINGS)
        fit = ANYTHING if src is None else Fit(port, src.type)
        call = draw(self.rng, row, fit, self.tally)
        if call is not None:
            self._append(row, call, {} if src is None else {port: src})

    def _source(self) -> LogicalTensor | None:
        """The tensor that the next op reads; None for an op with new inputs only."""
        made, roll = [t for op in self.ops for t in op.outputs], self.rng.random()
        if not made or self.rng.random() < FRESH:
            return None
        if roll < LAST:
            return made[-1]
        return self.rng.choice(made[-5:] if roll < LAST + RECENT else self.tensors)

    def _append(self, row: OpSpec, call: Call, given: dict[int, LogicalTensor]) -> Op | None:
        """Append the op; None if the release lacks it."""
        ins = tuple(given[i] if i in given else self._operand(row, i, t) for i, t in enumerate(call.ins))
        outs = tuple(self._tensor(t, self._strides(t.shape, STRANGE / 3), PropertyType.undef) for t in call.outs)
        op = Op(self.next_op, row.kind, call.attrs, ins, outs)
        if self.release is not None and not has(op, self.release):
            return None
        self.ops.append(op)
        self.next_op += 1
        return op

    def _operand(self, row: OpSpec, port: int, type_: TensorType) -> LogicalTensor:
        """A tensor of this type: an existing one, a new input, or one converted from a new input."""
        same = [t for t in self.tensors if t.type == type_ and not t.is_host_scalar]
        if same and self.rng.random() < JOINS:
            return same[-1 - int(len(same) * self.rng.random() ** 2)]
        if self.rng.random() < SANDWICH and (converted := self._converted(type_)) is not None:
            return converted
        if type_.shape == () and type_.dtype in HOST_SCALARS and self.rng.random() < 0.5:
            return self._tensor(type_, (), PropertyType.host_scalar)
        is_constant = self.rng.random() < (0.5 if port else 0.1)
        property_type = PropertyType.constant if is_constant else self.rng.choice((PropertyType.variable, PropertyType.undef))
        return self._tensor(type_, self._strides(type_.shape, STRANGE), property_type)

    def _converted(self, type_: TensorType) -> LogicalTensor | None:
        """A new tensor of this type made by a cast or dequantisation; None if none was found or only one more op is allowed."""
        known = _conversions(type_.dtype)
        if not known or len(self.ops) + 2 > self.most:
            return None
        row, sources = self.rng.choice(known)
        call = draw(self.rng, row, Fit(0, TensorType(self.rng.choice(sources), type_.shape), type_.dtype), self.tally)
        if call is None or call.outs[0] != type_:
            return None
        op = self._append(row, call, {})
        return None if op is None else op.outputs[0]

    def _tensor(self, type: TensorType, strides: Shape, property_type: PropertyType) -> LogicalTensor:
        self.next_tensor += 1
        return LogicalTensor(self.next_tensor - 1, type.dtype, type.shape, strides, property_type=property_type)

    def _strides(self, shape: Shape, share: float) -> Shape:
        """Row-major; or, for this share of tensors, with permuted axes and padding."""
        if len(shape) < 2 or self.rng.random() >= share:
            return dense_strides(shape)
        axes = list(range(len(shape)))
        if self.rng.random() < 0.7:
            self.rng.shuffle(axes)
        strides, step, gaps = [0] * len(shape), 1, self.rng.random() < 0.5
        for axis in reversed(axes):
            strides[axis] = step
            step *= max(shape[axis], 1)
            step += self.rng.choice((0, 0, 1, 3, 16)) if gaps and len(shape) > 1 else 0
        return tuple(strides)

    def drop(self, ids: set[int]) -> None:
        """Remove these ops, by id, and all that depend on them."""
        lost = set[int]()
        kept = []
        for op in self.ops:
            if op.id in ids or any(t.id in lost for t in op.inputs):
                lost |= {t.id for t in op.outputs}
            else:
                kept.append(op)
        self.ops = kept

    def finish(self) -> None:
        """Make a few tensors outputs of the graph that are also read in it."""
        for t in [t for op in self.ops for t in op.outputs]:
            if len(self.ops) < self.most and self.rng.random() < ENDS and _takes(END, t.dtype):
                self.ops.append(Op(self.next_op, END, Attrs(), (t,), ()))
                self.next_op += 1

    def graph(self) -> Graph:
        mode, apply_to_int = self.fpmath
        return validate(Graph(tuple(self.ops), fpmath_mode=mode, fpmath_apply_to_int=apply_to_int or None))


# ---- the choice of a row ---------------------------------------------------------------------------------------------


def _row(rng: Random, src: TensorType | None, roles: Mapping[Role, float]) -> tuple[OpSpec, int]:
    """A row and one of its ports that takes the type; for None any row and port 0. Rows of one role share its weight."""
    dtype, rank = (None, None) if src is None else (src.dtype, len(src.shape))
    rows = [(row, ports) for row in ops.OPS.values() if not row.lowering.unsupported and (ports := _takes(row.kind, dtype))]
    weights_in_role = [_weight(row, ports, rank) for row, ports in rows]
    totals: dict[object, float] = {}
    for (row, _), weight in zip(rows, weights_in_role, strict=True):
        totals[_group(row)] = totals.get(_group(row), 0.0) + weight
    of_group = {group: max(total, 1.0) for group, total in totals.items()}  # so that a role without fitting rows is rarely chosen
    weights = [
        weight * (CONVERTS if row.semantics.is_conversion else roles[row.lowering.role]) / of_group[_group(row)]
        for (row, _), weight in zip(rows, weights_in_role, strict=True)
    ]
    row, ports = rng.choices(rows, weights)[0]
    ports = tuple(p for p in ports if rank in ranks(row.kind, p)) or ports
    return row, ports[0] if rng.random() < 0.6 else rng.choice(ports)


def _weight(row: OpSpec, ports: tuple[int, ...], rank: int | None) -> float:
    """Of a row within its role."""
    fits = rank is None or any(rank in ranks(row.kind, port) for port in ports)
    return (GRADIENT if row.testing.gradient_of else 1.0) * (1.0 if fits else MISFIT)


def _group(row: OpSpec) -> object:
    return "converts" if row.semantics.is_conversion else row.lowering.role


@cache
def _takes(kind: str, dtype: DType | None) -> tuple[int, ...]:
    """The inputs of a row that take a dtype; for None the first one."""
    row = ops.spec(kind)
    if dtype is None:
        return (0,)
    return tuple(i for i, port in enumerate(row.schema.inputs) if dtype in row.schema.types.get(port.type, ()))


@cache
def _conversions(dtype: DType) -> tuple[tuple[OpSpec, tuple[DType, ...]], ...]:
    """Rows of conversions into this dtype, each with the dtypes it converts from."""
    rows = [row for row in ops.OPS.values() if row.semantics.is_conversion and dtype in row.schema.types[row.schema.outputs[0].type]]
    return tuple((row, tuple(d for d in row.schema.types[row.schema.inputs[0].type] if d is not dtype)) for row in rows)
