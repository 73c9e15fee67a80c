"""Which graphs are legal: ports, types, attributes, and what follows when a user overrides a shape or an attribute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.ranges import Range
from benchgraph.ops.spec.call import Declared, F, Types


@dataclass(frozen=True)
class Port:
    """An input or output: its oneDNN name and its type variable ('T'), a key of Schema.types."""

    name: str
    type: str = "T"


def ports(*names: str) -> tuple[Port, ...]:
    """Ports from their names, each with its type variable after a colon unless that is T.

    >>> ports("src", "bias:T2")
    (Port(name='src', type='T'), Port(name='bias', type='T2'))
    """
    return tuple(Port(*name.split(":")) for name in names)


def port_of(ports: tuple[Port, ...], position: int) -> Port:
    """The port of an operand; the last one repeats."""
    return ports[min(position, len(ports) - 1)]


@dataclass(frozen=True)
class Attr:
    """An attribute. type is oneDNN's JSON name: bool, s64, f32, string, s64[], f32[]. default None and not required: may be absent.

    range: the legal numbers; None: all of the type. per: "dim" or "spatial dim", of the first input, for each of which a list has a number,
    unless it is the default; an empty list counts as absent where it may be.
    """

    type: str
    required: bool = False
    default: AttrValue | None = None
    choices: tuple[str, ...] = ()
    range: Range | None = None
    per: str = ""


Check: TypeAlias = Callable[[Attrs, tuple[Declared, ...], tuple[DType, ...]], str]
Refit: TypeAlias = Callable[[Attrs, Types, Types, frozenset[str]], tuple[Attrs, tuple[Shape, ...]]]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Ports of one name are one tensor; `src/dst` is chosen by the attribute use_dst."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    num_inputs: tuple[int, ...] = ()  # the legal counts; (): as many as there are ports
    num_outputs: tuple[int, ...] = ()
    variadic_inputs: tuple[int, int] | None = None  # (fewest, most) instead; the last port then repeats
    variadic_outputs: tuple[int, int] | None = None
    types: dict[str, tuple[DType, ...]] = field(default_factory=lambda: {"T": F})  # by type variable; {}: any dtype for each port
    attrs: dict[str, Attr] = field(default_factory=dict)
    extensions: dict[str, Attr] = field(default_factory=dict)  # attributes that oneDNN does not have; without them the op is oneDNN's
    check: Check | None = None  # (attrs, ins, out_dtypes): further constraints, '' or a message with its remedy ("what; fix")
    shape_attr: str = ""  # the attribute that gives the output's shape; an output shape known from the graph replaces its value
    family: str = ""  # kinds of one family can replace each other on the same operands; benchdnn's families are binary and eltwise
    # refit(attrs, old, new, named): all attributes and input shapes after a user has set some of them. old, new: the inputs' types before
    # and after; named: the inputs (by port name) and attributes that were set
    refit: Refit | None = None
