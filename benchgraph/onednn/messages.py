"""What this process and that of oneDNN say to each other. Plain values: the other side imports none of our IR.

A request is a tuple (name of a method of session.Session, arguments); the answer is Answer or Refusal. Objects of oneDNN stay on its
side, and are known here by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

ANY, STRIDED, OPAQUE = 1, 2, 3  # dnnl_graph_layout_type_t

Value: TypeAlias = float | int | bool | str | tuple[float, ...] | tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A logical tensor in oneDNN's numbers. strides: in elements, () unless layout is STRIDED. layout_id: of an OPAQUE one."""

    id: int
    dtype: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    property: int
    layout: int = STRIDED
    layout_id: int = 0


@dataclass(frozen=True)
class Op:
    """attrs: (code, form as in table.Entry, value)."""

    id: int
    kind: int
    name: str
    attrs: tuple[tuple[int, str, Value], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Graph:
    """integers: whether the math mode holds for ops on integers too; None leaves it to oneDNN."""

    ops: tuple[Op, ...]
    fpmath: int
    integers: bool | None


@dataclass(frozen=True)
class Part:
    """A partition. ops: ids; inputs, outputs: ids of tensors, as oneDNN lists its ports."""

    number: int
    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_supported: bool


@dataclass(frozen=True)
class Placed:
    """A tensor as compiled, and the bytes that memory for it must have."""

    tensor: Tensor
    nbytes: int


@dataclass(frozen=True)
class Compiled:
    """A compiled partition. inplace: (input id, output id) that may share memory."""

    number: int
    seconds: float
    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    inplace: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Step:
    """A compiled partition on buffers: their numbers, in the order of its inputs and outputs."""

    compiled: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Hello:
    """What was loaded. runtime: of its threads, by dnnl_config.h's name."""

    version: tuple[int, int, int]
    runtime: str
    path: str


@dataclass(frozen=True)
class Answer:
    value: object


@dataclass(frozen=True)
class Refusal:
    """status: dnnl_status_t by name; what: which call, on what."""

    status: str
    what: str
    fix: str = ""
