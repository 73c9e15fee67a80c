"""How an op is compiled: its role in a partition, and its form or decomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.spec.call import Array, Call
from benchgraph.ops.spec.forms import Contraction, Elementwise, Form, LayoutOp, Reduction, Window
from benchgraph.tir.ir import BinOp


class Category(Enum):
    """The Graph Compiler paper's classes: own a loop nest, join one, or be decomposed first."""

    tunable = "tunable"
    fusible = "fusible"
    complex = "complex"


class Role(Enum):
    """How an op may take part in a partition.

    anchor: owns the partition's loop nest. pointwise: dst[i] needs only i, src[i] and broadcast operands. row: needs whole rows of its
    input along its axes (softmax, reductions). layout_op: the same elements at other indices. none: always alone.
    """

    anchor = "anchor"
    pointwise = "pointwise"
    row = "row"
    layout_op = "layout op"
    none = "none"


class Decomposer(Protocol):
    """What a decomposition builds with. Values are opaque handles; types are those of Graph IR."""

    def op(self, kind: str, *ins: int, attrs: Attrs = ..., shape: Shape | None = ..., dtype: DType | None = ...) -> int:
        """Append an op with one output and return that value. The shape is inferred, the dtype is the first input's, unless given."""

    def const(self, value: Array | float, dtype: DType = DType.f32) -> int:
        """A compile-time constant; a Python number makes a scalar of shape ()."""

    def type(self, value: int) -> TensorType:
        """Dtype and shape of a value."""


Decompose: TypeAlias = Callable[[Decomposer, Call, tuple[int, ...]], tuple[int, ...]]


@dataclass(frozen=True)
class Lowering:
    """An op has a form, a decomposition, or the reason why it is not compiled; both where only some calls need decomposing."""

    role: Role
    form: Form | None = None
    decompose: Decompose | None = None
    is_canonical: Callable[[Call], bool] | None = None  # with both: whether the call has the form; all others are decomposed
    unsupported: str = ""  # with neither: the reason
    takes_panels: Callable[[Attrs], bool] = lambda attrs: False  # whether the second operand may be packed in panels of columns

    @property
    def category(self) -> Category:
        if isinstance(self.form, Contraction | Window):
            return Category.tunable
        return Category.complex if self.decompose is not None else Category.fusible

    @property
    def is_elementwise(self) -> bool:
        return isinstance(self.form, Elementwise)

    @property
    def is_pointwise(self) -> bool:
        """Element by element, and the same function at every position."""
        return isinstance(self.form, Elementwise) and self.form.position is None

    @property
    def is_contraction(self) -> bool:
        return isinstance(self.form, Contraction)

    @property
    def is_reduction(self) -> bool:
        return isinstance(self.form, Reduction)

    @property
    def is_layout_op(self) -> bool:
        return isinstance(self.form, LayoutOp)

    @property
    def is_window(self) -> bool:
        return isinstance(self.form, Window)

    @property
    def reduces_with(self) -> BinOp | None:
        """The operation of a pure reduction, one without a finish."""
        return self.form.op if isinstance(self.form, Reduction) and self.form.finish is None else None

    @property
    def channel_weights(self) -> int | None:
        """See Window.channel_weights."""
        return self.form.channel_weights if isinstance(self.form, Window) else None
