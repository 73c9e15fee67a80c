"""Messages between this process and oneDNN's. Plain values: oneDNN's process imports none of our IR.

Requests name a method of session.Session and its arguments (library/remote.py). Objects of oneDNN stay in its process, and are identified
by number.
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
    """integers: whether the math mode applies to ops on integers too; None for oneDNN's default."""

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
    """A compiled tensor, and the size of its memory in bytes."""

    tensor: Tensor
    nbytes: int


@dataclass(frozen=True)
class Compiled:
    """A compiled partition. inplace: pairs (input id, output id) that may share memory.

    implementations: (primitive, name) of each; rejected: (primitive, name, reason) of those that were tried, where dispatch is logged.
    """

    number: int
    seconds: float
    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    inplace: tuple[tuple[int, int], ...]
    implementations: tuple[tuple[str, str], ...] = ()
    rejected: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Step:
    """A compiled partition on buffers: their numbers, in the order of its inputs and outputs."""

    compiled: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Hello:
    """The loaded library. runtime: of its threads, in dnnl_config.h's terms."""

    version: tuple[int, int, int]
    runtime: str
    path: str
