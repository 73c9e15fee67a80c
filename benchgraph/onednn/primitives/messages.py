"""Messages about primitives. Plain values: oneDNN's process imports none of our IR.

A Program is a chain of primitives on values. It names no layout but those of its borders: which layouts the values between have, and where
reorders are needed, is decided there (builder.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """How a primitive sees a plain value: dims, strides in elements, oneDNN's number of the dtype.

    order: which dim of the value each dim of the view is; None for other views (a split, merged or added dim), which need a plain value.
    """

    dims: Dims
    strides: Dims
    dtype: int
    order: Dims | None


@dataclass(frozen=True)
class Operand:
    """A value as an argument (DNNL_ARG_*). is_free: the primitive may choose its layout."""

    arg: int
    value: int
    view: View
    is_free: bool = False


# ---- arguments of the functions that create primitive descriptors ----------------------------------------------------


@dataclass(frozen=True)
class Md:
    """The memory descriptor of an operand. is_any: its dims and dtype with layout any, for hints."""

    arg: int
    is_any: bool = False


@dataclass(frozen=True)
class Mds:
    """An array of memory descriptors."""

    args: tuple[int, ...]


@dataclass(frozen=True)
class Int:
    """int, unsigned and enumerations."""

    value: int


@dataclass(frozen=True)
class Dim:
    """dnnl_dim_t."""

    value: int


@dataclass(frozen=True)
class Real:
    """float."""

    value: float


@dataclass(frozen=True)
class DimList:
    """dnnl_dims_t."""

    values: Dims


@dataclass(frozen=True)
class RealList:
    """Pointer to floats."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Given:
    """What the process has: engine, attr, hint (the forward primitive descriptor of a backward one), or nothing (a null pointer)."""

    what: str


ENGINE, ATTR, HINT, NOTHING = Given("engine"), Given("attr"), Given("hint"), Given("nothing")

Argument: TypeAlias = Md | Mds | Int | Dim | Real | DimList | RealList | Given


@dataclass(frozen=True)
class Call:
    """A C function that creates a primitive descriptor, without the result's pointer."""

    function: str
    arguments: tuple[Argument, ...]


# ---- attributes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factors:
    """Scales or zero points of an argument. mask: bit i set if they vary along dim i; then one per index. values: () if they are an
    operand, DNNL_ARG_ATTR_SCALES or DNNL_ARG_ATTR_ZERO_POINTS of the argument.
    """

    arg: int
    mask: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Eltwise:
    alg: int
    alpha: float
    beta: float


@dataclass(frozen=True)
class Binary:
    """operand, condition: the arguments that hold them. condition: of a selection between the running value and the operand; 0 for none."""

    alg: int
    operand: int
    condition: int = 0


@dataclass(frozen=True)
class Sum:
    """dst += scale * (old dst - zero_point). operand: the argument that is copied to dst before."""

    scale: float
    zero_point: int
    dtype: int
    operand: int


PostOp: TypeAlias = Eltwise | Binary | Sum


@dataclass(frozen=True)
class Attributes:
    """fpmath: the math mode's number; integers: whether it applies to integers too, None for oneDNN's default."""

    fpmath: int = 0
    integers: bool | None = None
    scales: tuple[Factors, ...] = ()
    zero_points: tuple[Factors, ...] = ()
    post_ops: tuple[PostOp, ...] = ()


# ---- programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Primitive:
    """name: of its sort, for people. hint: creates the forward primitive descriptor that a backward one needs. chooses_borders: whether it
    chooses the layout of free outputs that are the user's, too, and a reorder follows: convolutions are slow in others.

    workspace: the value that is the forward primitive's workspace: an output if `makes_workspace`, else an input; 0 for none.
    """

    name: str
    create: Call
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attrs: Attributes = Attributes()
    hint: Call | None = None
    workspace: int = 0
    makes_workspace: bool = False
    chooses_borders: bool = False


@dataclass(frozen=True)
class Alias:
    """dst is src with other dims; its elements are not moved. Both are dense."""

    src: Operand
    dst: Operand


ProgramStep: TypeAlias = Primitive | Alias


@dataclass(frozen=True)
class Border:
    """A value in a plain buffer of the user's. Outputs are written there."""

    value: int
    view: View
    is_constant: bool = False
    is_output: bool = False


@dataclass(frozen=True)
class Program:
    """between: the values between steps, as they are when they are plain; temporaries are described by the operand that makes them."""

    borders: tuple[Border, ...]
    steps: tuple[ProgramStep, ...]
    between: tuple[tuple[int, View], ...] = ()


@dataclass(frozen=True)
class Trial:
    """What oneDNN makes of a program. refused: the first call that it refuses, and why; '' if none. reference: the first reference
    implementation among its primitives, '' if there is none.
    """

    refused: str = ""
    reference: str = ""


@dataclass(frozen=True)
class Built:
    """A program whose primitives are created. reorders: inserted, in each execution; prepared: executions of the first time only, which
    convert constants. nbytes: of values between primitives. implementations: (primitive, name) of all primitives of each step.
    """

    number: int
    seconds: float
    primitives: int
    reorders: int
    prepared: int
    nbytes: int
    implementations: tuple[tuple[tuple[str, str], ...], ...]
