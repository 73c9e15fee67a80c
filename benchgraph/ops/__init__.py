"""The op table: one row (spec.OpSpec) per op kind.

Passes, partition rules and comparisons do not select ops by kind; they ask rows for properties. Only copies and conversions of the
compiler's own (CONVERT, RECENTRE) are recognised by kind. Kinds are named where ops are translated (torch/, onednn/), where a pass builds
ops (gir/build.py), and in graphs (End).

spec/             what a row is: schema, semantics, testing, lowering

Rows, one file for each op or family:

elementwise/      ReLU, Exp, Pow, PReLU, Add, Select, BiasAdd, TypeCast ...
matmul.py         MatMul
convolution/      Convolution, ConvTranspose and their gradients
softmax/          SoftMax, LogSoftmax and their gradients
norms/            LayerNorm, GroupNorm, RMSNorm, BatchNorm and their gradients
reduce.py         ReduceSum, ReduceMax, ReduceL2 ...; _RowMax
pooling/          AvgPool, MaxPool and their gradients
interpolation/    Interpolate and its gradient
quantisation/     Quantize, Dequantize, static and dynamic
layout_ops.py     StaticTranspose, StaticReshape, Reorder
concat.py         Concat
gen_index.py      GenIndex
dropout.py        Dropout
structural.py     End, Wildcard
internal.py       _Pad, _Crop, _Flip, _Unfold: the layout ops among the compiler's own ops (INTERNAL lists all of these)

What rows share, with the part of a row that needs it:

ranges.py         schema: the legal numbers of attributes
axis.py           shapes: the attribute `axis`, and shapes along axes
broadcast.py      shapes: broadcasting
spatial.py        shapes: data formats, windows over spatial dims
sums.py           references: sums of products, some of them not finite
overflow.py       references: what f32 may give for numbers beyond its range
fill_rules/       testing: benchdnn's rules for the data of inputs, mostly integers
fills.py          testing: real-valued data of samples
laws.py           testing: laws that several ops obey
formulas.py       lowering: f32 expressions
steps.py          lowering: decompositions: a value in another shape or dtype, a reduction, a chain of binary ops
unit_steps.py     lowering: which dims keep unit stride through a layout op
heads.py          lowering: the heads of attention, merged in one axis or split
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import NoSuchOpKind, did_you_mean
from benchgraph.core.printable import quoted
from benchgraph.ops import concat, dropout, gen_index, internal, layout_ops, matmul, reduce, structural
from benchgraph.ops.convolution import internal_rows as internal_convolution
from benchgraph.ops.convolution import rows as convolution
from benchgraph.ops.elementwise import bias, binary, cast, power, prelu, select, unary, unary_backward
from benchgraph.ops.interpolation import interpolate
from benchgraph.ops.norms import batch_norm, group_norm, layer_norm, rms_norm
from benchgraph.ops.pooling import pool, pool_backward
from benchgraph.ops.quantisation import bounded_reciprocal, dynamic_quantize, quantised_product, quantize
from benchgraph.ops.softmax import log_softmax, softmax, softmax_backward
from benchgraph.ops.spec import Attr, Call, Declared, OpSpec, Sample, checks

__all__ = ["INTERNAL", "OPS", "call_of", "check_form", "check_op", "spec", "with_defaults"]

_MODULES = (
    convolution, internal_convolution, internal, unary, unary_backward, binary, select, bias, matmul, softmax, softmax_backward,
    log_softmax, layer_norm, rms_norm, group_norm, batch_norm, reduce, pool, pool_backward, interpolate, gen_index, dropout,
    layout_ops, concat, power, prelu, cast, quantize, dynamic_quantize, bounded_reciprocal, quantised_product, structural,
)  # fmt: skip

_ROWS: dict[str, OpSpec] = {row.kind: row for module in _MODULES for row in module.SPECS}
OPS: dict[str, OpSpec] = {kind: row for kind, row in _ROWS.items() if not row.is_internal}
INTERNAL: dict[str, OpSpec] = {kind: row for kind, row in _ROWS.items() if row.is_internal}


def spec(kind: str) -> OpSpec:
    """The row of an op kind. Raises NoSuchOpKind with the nearest kind there is."""
    if kind in _ROWS:
        return _ROWS[kind]
    raise NoSuchOpKind(f"unknown op kind {quoted(kind)}", fix=did_you_mean(kind, OPS) or "'benchgraph ops' lists them")


def attrs_of(kind: str) -> dict[str, Attr]:
    """The legal attributes of an op in a graph: oneDNN's, and extensions."""
    return spec(kind).schema.attrs | spec(kind).schema.extensions


def with_defaults(kind: str, attrs: Attrs) -> Attrs:
    """The attributes with the schema's defaults for those that are absent."""
    return checks.fill_defaults(spec(kind), attrs)


def check_op(kind: str, attrs: Attrs, in_types: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> None:
    """Verify an op as oneDNN does when it is added to a graph, defaults filled first.

    in_types: dtype and shape per input, the shape None where it is not known yet. Raises NoSuchOpKind, InvalidGraphOp or
    InvalidDataType, naming the port or attribute and the remedy; `where` is left to the caller, who knows op and file.
    """
    checks.check(_public(kind), attrs, in_types, out_dtypes)


def check_form(kind: str, attrs: Attrs, num_inputs: int, num_outputs: int) -> None:
    """The part of `check_op` that needs no dtypes and shapes, and on which `infer` and `refit` of a row rely. Raises as `check_op`."""
    checks.check_form(_public(kind), attrs, num_inputs, num_outputs)


def _public(kind: str) -> OpSpec:
    row = spec(kind)
    if row.is_internal:
        raise NoSuchOpKind(f"unknown op kind {quoted(kind)}", fix="kinds that begin with '_' are the compiler's own")
    return row


def call_of(kind: str, sample: Sample) -> Call:
    """A sample of a row as a Call, with inferred shapes and output dtypes."""
    return checks.call_of(spec(kind), sample)
