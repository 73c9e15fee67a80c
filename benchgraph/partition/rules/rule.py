"""What a rule is, and the conditions on ops that rules use. Conditions read the op's row of the op table, never its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Role

Condition: TypeAlias = Callable[[Op], bool]


class Growth(Enum):
    """How a partition grows from its first op.

    anywhere: along every data-flow edge, up and down; values with other readers become extra outputs.
    line: down from one running value to the next, only through values without other readers; up only through `prepares`.
    """

    anywhere = "anywhere"
    line = "line"


@dataclass(frozen=True)
class Rule:
    """One way to make a partition: an op that `starts` it, and the ops that join.

    name: the file's stem; the partition's kind. joins: the ops that the partition may add as it grows. prepares (line only): the
    producers of operands that may join above the first op. samples: by name, the text of graphs that become exactly one partition of this
    kind. near_misses: by the reason, those that do not. A text without a header has `graph engine=cpu fpmath=strict`.
    """

    name: str
    starts: Condition
    joins: Condition
    samples: Mapping[str, str]
    near_misses: Mapping[str, str] = field(default_factory=dict)
    prepares: Condition | None = None
    growth: Growth = Growth.anywhere


def role_in(*roles: Role) -> Condition:
    """Is the op's role one of these?"""
    wanted = frozenset(roles)
    return lambda op: spec(op.kind).lowering.role in wanted


def _is_computed_in(dtype: DType) -> bool:
    """A float type that ops compute in; the 8-bit ones are quantised types."""
    return dtype.is_float and dtype.bits > 8


def widens_operand(op: Op) -> bool:
    """A cast or dequantisation that makes an operand to compute with: Dequantize, TypeCast, but not Quantize."""
    return spec(op.kind).semantics.is_conversion and _is_computed_in(op.outputs[0].dtype)


def follows_in_place(op: Op) -> bool:
    """A pointwise op on a running value, casts and Quantize included; a Dequantize prepares the next op instead."""
    row = spec(op.kind)
    return row.lowering.role is Role.pointwise and (_is_computed_in(op.inputs[0].dtype) or not row.semantics.is_conversion)
