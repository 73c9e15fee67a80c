"""What a row of the op table is: an op kind with its schema, semantics, testing and lowering.

call.py       Call: one use of an op, its types known
schema.py     Schema: which graphs are legal
semantics.py  Semantics: shapes, float64 reference, cost, tolerance, and the algebra that rewrites rely on
testing.py    Testing: data, samples, and laws that hold for any implementation
forms.py      the forms of computation that the compiler lowers: element by element, reduction, GEMM, layout op, window
lowering.py   Lowering: how an op is compiled, as one of those forms or decomposed into simpler ops
checks.py     an op of a graph checked against the schema of its row; samples as calls
"""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.ops.spec.call import TO_BF16, Array, Call, Declared, Domain, F, Types
from benchgraph.ops.spec.forms import (
    Border,
    Box,
    Contraction,
    Elementwise,
    Form,
    Indices,
    Interval,
    LayoutOp,
    Reduction,
    Source,
    Tap,
    Window,
)
from benchgraph.ops.spec.lowering import Category, Decompose, Decomposer, Lowering, Role
from benchgraph.ops.spec.schema import Attr, Check, Port, Refit, Schema, port_of, ports
from benchgraph.ops.spec.semantics import Computes, Infer, Reference, Semantics
from benchgraph.ops.spec.testing import Filling, FillRule, Law, Sample, Testing

__all__ = [
    "TO_BF16",
    "Array",
    "Attr",
    "Border",
    "Box",
    "Call",
    "Category",
    "Check",
    "Computes",
    "Contraction",
    "Declared",
    "Decompose",
    "Decomposer",
    "Domain",
    "Elementwise",
    "F",
    "FillRule",
    "Filling",
    "Form",
    "Indices",
    "Infer",
    "Interval",
    "Law",
    "LayoutOp",
    "Lowering",
    "OpSpec",
    "Port",
    "Reduction",
    "Reference",
    "Refit",
    "Role",
    "Sample",
    "Schema",
    "Semantics",
    "Source",
    "Tap",
    "Testing",
    "Types",
    "Window",
    "port_of",
    "ports",
]  # fmt: skip


@dataclass(frozen=True)
class OpSpec:
    """One row. kind: the JSON spelling."""

    kind: str
    schema: Schema
    semantics: Semantics
    testing: Testing
    lowering: Lowering

    @property
    def is_internal(self) -> bool:
        """An op of the compiler's own: decompositions use it, graphs of users may not."""
        return self.kind.startswith("_")
