"""What one row of the op table says. Everything the system knows about an op kind is in its row; nothing else lists op kinds.

A row answers: which graphs are legal (schema), what shapes come out (infer), what the numbers are (reference, float64), what it costs
(flops), how exact it must be (threshold), what data to test it on (fill, domain, samples), what must hold whoever computes it (laws),
and how it is compiled: `lower`, one of the forms below, or `decompose` into simpler ops, or `unsupported` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.attrs import NO_ATTRS, Attrs, AttrValue
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.ranges import Range
from benchgraph.ops.strategies.noise import Noise
from benchgraph.tir.ir import BinOp, Const, Expr

Array: TypeAlias = NDArray[np.generic]
F = (DType.f32, DType.bf16, DType.f16)  # graph-api.md section 1.0: the float types most ops take
TO_BF16 = frozenset({"bf16", "any"})  # math modes that let f32 operands be rounded to bf16, see `follows_fpmath`


class Category(Enum):
    """The Graph Compiler paper's classes: own a loop nest, join one, or be decomposed first."""

    tunable = "tunable"
    fusible = "fusible"
    complex = "complex"


class Role(Enum):
    """How an op may take part in a partition.

    anchor: owns the partition's loop nest. pointwise: dst[i] needs only i, src[i] and broadcast operands. row: needs whole rows of its
    input along its axes (softmax, reductions). movement: same elements, other places. none: always alone.
    """

    anchor = "anchor"
    pointwise = "pointwise"
    row = "row"
    movement = "movement"
    none = "none"


class Computes(Enum):
    """What an op means to those who look for attention and gated perceptrons: displacement, and passes that reorder a softmax."""

    matmul = "matmul"
    sum = "sum"
    difference = "difference"
    maximum = "maximum"
    minimum = "minimum"
    comparison = "comparison"
    choice = "choice"
    exp = "exp"
    softmax = "softmax"


# ---- schema ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Port:
    """An input or output: its oneDNN name and its type variable ('T'), a key of OpSpec.types."""

    name: str
    type: str = "T"


def port_of(ports: tuple[Port, ...], position: int) -> Port:
    """The port of an operand; the last one repeats."""
    return ports[min(position, len(ports) - 1)]


@dataclass(frozen=True)
class Attr:
    """An attribute. type is oneDNN's JSON name: bool, s64, f32, string, s64[], f32[]. default None and not required: may be absent."""

    type: str
    required: bool = False
    default: AttrValue | None = None
    choices: tuple[str, ...] = ()
    range: Range | None = None  # of numbers; None: every one of the type


# ---- one concrete use of an op ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """An op with its types known: what references, costs, thresholds and decompositions look at. attrs: with the schema's defaults."""

    kind: str
    attrs: Attrs
    ins: tuple[TensorType, ...]
    outs: tuple[TensorType, ...]


@dataclass(frozen=True)
class Sample:
    """A small concrete use, for tests and documentation. why: what it is there to catch.

    dtypes: input dtypes, f32 when empty. out_dtypes: when they cannot be inferred (TypeCast, Quantize).
    """

    shapes: tuple[Shape, ...]
    attrs: Attrs = NO_ATTRS
    dtypes: tuple[DType, ...] = ()
    out_dtypes: tuple[DType, ...] = ()
    why: str = "plain"


@dataclass(frozen=True)
class Law:
    """Something that must hold for the outputs whoever computed them, independent of `reference`.

    holds(call, ins, outs) gets float64 arrays and a relative tolerance that fits the dtype; it returns True or False.
    """

    name: str
    holds: Callable[[Call, tuple[Array, ...], tuple[Array, ...], float], bool]


# ---- what an op is tested on ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filling:
    """says: what the data are, for people. make(t, noise): the elements of a tensor of this type, in its numpy dtype.

    Mostly that is the port's own tensor; a displacement rule may have one made further up in the graph, of another shape and dtype.
    """

    says: str
    make: Callable[[TensorType, Noise], Array]


# ---- how an op is compiled -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Elementwise:
    """dst[i] = expr(attrs, src_0[i], src_1[i], ...) with numpy broadcasting; a tuple for several outputs, all of one shape.

    Operands arrive as f32 when they are floats of any width, else in their own dtype; the result is cast to dst's dtype. An expression
    that is used twice is computed once.
    place: for an op whose numbers depend on where they stand. place(attrs, dst_shape, i) gives s64 expressions of the index i, which expr
    gets after the operands.
    """

    expr: Callable[[Attrs, tuple[Expr, ...]], Expr | tuple[Expr, ...]]
    place: Callable[[Attrs, Shape, tuple[Expr, ...]], tuple[Expr, ...]] | None = None

    def values(self, attrs: Attrs, shape: Shape, at: tuple[Expr, ...], operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The element at index `at` of every output, whose shape is this one."""
        places = () if self.place is None else self.place(attrs, shape, at)
        found = self.expr(attrs, (*operands, *places))
        return found if isinstance(found, tuple) else (found,)


@dataclass(frozen=True)
class Reduction:
    """dst = fold of src over attrs' axes with `op` in `acc`, starting from init, then finish(count, acc in f32)."""

    op: BinOp
    init: float
    finish: Callable[[int, Expr], Expr] | None = None
    acc: DType = DType.f32

    @property
    def start(self) -> Const:
        return Const(self.init if self.acc.is_float else int(self.init), self.acc)


Interval: TypeAlias = tuple[int, int]  # the first index and the one after the last
Box: TypeAlias = tuple[Interval, ...]  # per axis
Border: TypeAlias = tuple[tuple[int, int], ...]  # per dim, how many indices at its begin and at its end


@dataclass(frozen=True)
class Contraction:
    """The batch-reduce GEMM template: dst[..., m, n] = sum over reduced axes of src[...] * wei[...]. f32 operands, dst of rank >= 2.

    reduced(call): the extents of the reduced axes; the last one is the microkernel's k, the others are its batch.
    index(call, at, over): the index of src and of wei for the index `at` of dst and `over` of the reduced axes, affine in both, but that
    src may depend on the column n by n // columns(call): so many columns in a row share their elements of src (those of a group).
    met(call, first, count): the part of the reduced axes but k outside of which wei is 0 for so many columns; None: there is no such part.
    """

    reduced: Callable[[Call], Shape]
    index: Callable[[Call, tuple[Expr, ...], tuple[Expr, ...]], tuple[tuple[Expr, ...], tuple[Expr, ...]]]
    columns: Callable[[Call], int]
    met: Callable[[Call, int, int], Box] | None = None


@dataclass(frozen=True)
class Movement:
    """dst holds the elements of src in other places.

    source(attrs, src_shape, dst_shape, dst_index) gives the src index of the element at dst_index;
    target(attrs, src_shape, dst_shape, src_index) the inverse, None when some of src has no place in dst. Both are affine, or div/mod of
    affine, in the indices.
    parts: for an op of several sources, each of which fills a part of dst. parts(attrs, src_shapes) gives, for each of them, the
    attributes with which source and target speak of its part.
    inverse: inverse(attrs, src_shape, dst_shape, shape) gives the attributes with which the same op moves back what goes with dst: its
    shape has dst's dims, or 1 where it is the same all along. None where it cannot.
    """

    source: Callable[[Attrs, Shape, Shape, tuple[Expr, ...]], tuple[Expr, ...]]
    target: Callable[[Attrs, Shape, Shape, tuple[Expr, ...]], tuple[Expr, ...]] | None = None
    parts: Callable[[Attrs, tuple[Shape, ...]], tuple[Attrs, ...]] | None = None
    inverse: Callable[[Attrs, Shape, Shape, Shape], Attrs | None] | None = None


Indices: TypeAlias = tuple[Expr, ...]
Source: TypeAlias = Callable[[int, Indices], Expr]  # (port, index) -> that element of an input, as Elementwise operands arrive


@dataclass(frozen=True)
class Tap:
    """What one tap adds to the fold, and when: every condition compares indices, and value is computed only where all of them hold."""

    value: Expr
    when: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Window:
    """dst[i] = finish(call, i, fold with `op` of tap(call, i, t, src) over the t that count, from `init` on), all in f32.

    op None: there is one tap, and where it counts it is the result. init: where it depends on the call, a function of it.

    taps(call): the extents of the box that t runs through: kernel positions, the windows that cover an element, interpolation corners.
    before: windows over the shape of an input port, run first; what they make are further inputs, numbered after the call's own.
    unclamped(call, i, t, src, axis): where taps have no conditions but indices that are clamped to src, the same tap with those along this
    axis of dst as they come, under the conditions that they are on src. All taps of the box count.
    padding(call): where a tap's only conditions are that its element of the first input exists, an element that would count for nothing.

    Conditions that are linear in i and t keep borders apart from the interior, where nothing is compared: write them so where possible.
    """

    taps: Callable[[Call], Shape]
    op: BinOp | None
    init: float | Callable[[Call], float]
    tap: Callable[[Call, Indices, Indices, Source], Tap]
    finish: Callable[[Call, Indices, Expr], Expr] | None = None
    before: tuple[tuple[int, Window], ...] = ()
    unclamped: Callable[[Call, Indices, Indices, Source, int], Tap] | None = None
    shared: int | None = None  # the port of weights that every element of a channel meets; their last axis is that of the channels
    padding: Callable[[Call], float | None] | None = None

    def start(self, call: Call) -> float:
        """`init` of this call."""
        return self.init(call) if callable(self.init) else self.init


Lowering: TypeAlias = Elementwise | Reduction | Contraction | Movement | Window


class Decomposer(Protocol):
    """What a `decompose` function builds with. Values are opaque handles; types are those of Graph IR."""

    def op(self, kind: str, *ins: int, attrs: Attrs = ..., shape: Shape | None = ..., dtype: DType | None = ...) -> int:
        """Append an op with one output and return that value. The shape is inferred, the dtype is the first input's, unless given."""

    def const(self, value: Array | float, dtype: DType = DType.f32) -> int:
        """A compile-time constant; a Python number makes a scalar of shape ()."""

    def type(self, value: int) -> TensorType:
        """Dtype and shape of a value."""


Decompose: TypeAlias = Callable[[Decomposer, Call, tuple[int, ...]], tuple[int, ...]]
Infer: TypeAlias = Callable[[Attrs, tuple[TensorType, ...]], tuple[Shape, ...]]
Reference: TypeAlias = Callable[[Call, tuple[Array, ...]], tuple[Array, ...]]
Strategy: TypeAlias = Callable[[Call, int], Filling]
Domain: TypeAlias = Callable[[Call, int, np.random.Generator], Array]
Declared: TypeAlias = tuple[DType, Shape | None]  # what a graph says of a tensor before shapes are inferred
Check: TypeAlias = Callable[[Attrs, tuple[Declared, ...], tuple[DType, ...]], str]
Types: TypeAlias = tuple[TensorType, ...]
Refit: TypeAlias = Callable[[Attrs, Types, Types, frozenset[str]], tuple[Attrs, tuple[Shape, ...]]]


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """One row. What is left out is as in most rows: floats alone, exact, nothing special."""

    kind: str  # the JSON spelling
    role: Role

    # ---- which graphs are legal
    inputs: tuple[Port, ...]  # ports of one name are one tensor; `src/dst` is what use_dst says
    outputs: tuple[Port, ...]
    num_inputs: tuple[int, ...] = ()  # the legal counts; (): as many as there are ports
    num_outputs: tuple[int, ...] = ()
    variadic: tuple[int, int] | None = None  # (least, most) instead; the last port then repeats
    variadic_outputs: tuple[int, int] | None = None
    types: dict[str, tuple[DType, ...]] = field(default_factory=lambda: {"T": F})  # by type variable; {}: any, and every port its own
    attrs: dict[str, Attr] = field(default_factory=dict)
    extensions: dict[str, Attr] = field(default_factory=dict)  # attributes that oneDNN has not; without them the op is oneDNN's
    check: Check | None = None  # (attrs, ins, out_dtypes): constraints beyond the schema, a message with its remedy ("what; fix") or ''

    # ---- what comes out, and what it costs
    # infer(attrs, ins): the shapes of all of `outputs`, of which a call may have fewer; () where it says nothing. Raises InvalidShape.
    infer: Infer
    shape_attr: str = ""  # the attribute that gives the output's shape; where the graph knows that shape, it takes the attribute's place
    reference: Reference  # float64 in (integers and booleans stay what they are), float64 out, rounded only where the op itself rounds
    flops: Callable[[Call], int]  # floating-point operations

    # ---- how exact it must be, on what data
    # threshold(call): the relative error allowed, in units of eps(f32), the type that everything is computed in; 0 for picking and moving
    threshold: Callable[[Call], float] = lambda call: 0.0
    # in_f32(call, ins): other outputs, as right as the reference's, that f32 arithmetic may have for numbers beyond its range; mostly ()
    in_f32: Callable[[Call, tuple[Array, ...]], tuple[tuple[Array, ...], ...]] = lambda call, ins: ()
    # fill(call, port): what mode C fills an input with, benchdnn's strategy; call may have dtypes of quantised operands, not the op's
    fill: Strategy
    fills_quantised: bool = False  # an operand behind a Dequantize is filled as this op wants it
    factors: tuple[float, ...] = ()  # what an operand is filled with that stands beside a computed one; () for what `fill` says
    zero_limit: Callable[[Call], float] = lambda call: 0.30  # the largest share of zeros at which dst is to be trusted
    sure_zeros: Callable[[Call], float] = lambda call: 0.0  # the share of dst that is 0 for any numbers, so that its zeros prove something
    domain: Domain  # (call, port, rng): real numbers of the kind that the op meets in use, float64 or the port's integer type
    samples: tuple[Sample, ...]
    laws: tuple[Law, ...]
    gradient_of: str = ""  # of a backward op: the forward kind, to whose numerical derivative by x tests hold every output `diff_x`

    # ---- how it is compiled
    lower: Lowering | None = None
    decompose: Decompose | None = None
    is_canonical: Callable[[Call], bool] | None = None  # with both: the call needs no decomposing; `lower` is for such calls only
    unsupported: str = ""  # with neither: the reason

    # ---- what passes and displacement ask
    computes: Computes | None = None  # what the op means to attention patterns
    converts: bool = False  # casts and (de)quantisation, which pre-process an operand of an anchor
    is_product: bool = False
    product_kind: str = ""  # for a division, the kind that multiplies by the reciprocal instead
    commutative: bool = False
    is_homogeneous: bool = False  # scaling the first operand by a positive number scales dst, up to rounding, if both are floats
    least: float | None = None  # dst is the larger of src and this number
    # monotone: for each operand, whether dst rises (1) or falls (-1) with it (False is below True), 0 for one of which only the shape
    # counts; an op with a place rises with that. (): nothing is known
    monotone: tuple[int, ...] = ()
    # streamed(attrs): for a product, the ports whose operand may lie in column blocks, which the microkernel goes through one by one
    streamed: Callable[[Attrs], tuple[int, ...]] = lambda attrs: ()
    border: Callable[[Attrs], Border] | None = None  # of dst, where it holds zeros alone
    follows_fpmath: bool = False  # a math mode lets its f32 operands be rounded: products of matrices, and convolutions

    # ---- what a user's changes to a graph ask
    family: str = ""  # kinds of one family can stand in for each other on the same operands; benchdnn's are binary and eltwise
    # refit(attrs, old, new, named): what must follow when a user sets inputs or attributes: all attributes, and the shape of every input.
    # old, new: the inputs' types before and now; named: the inputs (by port name) and attributes that were set
    refit: Refit | None = None

    @property
    def category(self) -> Category:
        if isinstance(self.lower, Contraction | Window):
            return Category.tunable
        return Category.complex if self.decompose is not None else Category.fusible

    @property
    def is_elementwise(self) -> bool:
        return isinstance(self.lower, Elementwise)

    @property
    def folds_with(self) -> BinOp | None:
        """For a reduction that is nothing but a fold: with what."""
        return self.lower.op if isinstance(self.lower, Reduction) and self.lower.finish is None else None

    @property
    def is_pointwise(self) -> bool:
        """Element by element, wherever the element is."""
        return isinstance(self.lower, Elementwise) and self.lower.place is None

    @property
    def is_contraction(self) -> bool:
        return isinstance(self.lower, Contraction)

    @property
    def is_movement(self) -> bool:
        return isinstance(self.lower, Movement)

    @property
    def is_window(self) -> bool:
        return isinstance(self.lower, Window)

    @property
    def shared_weights(self) -> int | None:
        return self.lower.shared if isinstance(self.lower, Window) else None

    @property
    def is_internal(self) -> bool:
        """An op of the compiler's own, which decompositions are made of and no graph of a user's may name."""
        return self.kind.startswith("_")
