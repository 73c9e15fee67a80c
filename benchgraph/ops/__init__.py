"""The op table: one row (spec.OpSpec) per op kind, one file per op or family. The only place that knows op kinds by name.

    unary           ReLU, GELU, Exp ...: one input, element by element
    unary_backward  their gradients; unary_gradient_data: what these are tested on
    power           Pow
    prelu           PReLU, PReLUBackward
    binary          Add, Multiply, GreaterEqual ...: two inputs that broadcast
    select          Select
    bias            BiasAdd, BiasAddBackward
    matmul          MatMul
    convolution     Convolution, ConvTranspose and their gradients; conv_problem: what they have in common; conv_decompose: how they are
                    made of products; conv_phases: of which columns meet some of the taps; conv_partial: gradients by weights in parts;
                    conv_depthwise; conv_samples
    softmax         SoftMax; its gradient: softmax_backward
    log_softmax     LogSoftmax and its gradient
    layer_norm      LayerNorm and its gradient
    rms_norm        RMSNorm
    group_norm      GroupNorm
    batch_norm      BatchNormInference, BatchNormForwardTraining and its gradient
    reduce          ReduceSum, ReduceMax, ReduceL2 ...; _RowMax, an op of the compiler's own
    pool            AvgPool, MaxPool; their gradients: pool_backward
    interpolate     Interpolate and its gradient; interpolate_dims: the places of outputs, and one spatial dim after the other
    gen_index       GenIndex
    dropout         Dropout
    movement        StaticTranspose, StaticReshape, Reorder
    concat          Concat
    cast            TypeCast
    quantize        Quantize, Dequantize; dynamic_quantize: with scales known at execution only, and bounded_reciprocal, what is multiplied
                    by instead; quantised_product: products of what they make, in integers, and _Recentre and _Total, ops of the
                    compiler's own
    structural      End, Wildcard
    internal        _Pad, _Crop, _Flip, _Unfold: ops of the compiler's own

Shared by them: spec (what a row is), schema (a row's checks), ranges (of attributes), broadcast (shapes), axis (the attribute, and shapes
along axes), spatial (data formats, windows), fills (real-valued test data), strategies (benchdnn's), laws, affine (which dim a movement
steps along), formulas (f32 expressions), steps (of decompositions), rescaling (steps on the way to 8 bits as one), heads (of attention in
one axis), normalize (what the norms share), overflow (what f32 gives for numbers beyond it), sums
(of products, some not finite), conv_padding (zeros that convolutions may multiply).
"""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import NoSuchOpKind, did_you_mean
from benchgraph.core.lines import quoted
from benchgraph.ops import (
    batch_norm,
    bias,
    binary,
    bounded_reciprocal,
    cast,
    concat,
    convolution,
    dropout,
    dynamic_quantize,
    gen_index,
    group_norm,
    internal,
    interpolate,
    layer_norm,
    log_softmax,
    matmul,
    movement,
    pool,
    pool_backward,
    power,
    prelu,
    quantised_product,
    quantize,
    reduce,
    rms_norm,
    select,
    softmax,
    softmax_backward,
    structural,
    unary,
    unary_backward,
)
from benchgraph.ops.spec import Attr, Call, Declared, OpSpec, Sample, checks

__all__ = ["INTERNAL", "OPS", "call_of", "check_form", "check_op", "spec", "with_defaults"]

_MODULES = (
    convolution, internal, unary, unary_backward, binary, select, bias, matmul, softmax, softmax_backward, log_softmax, layer_norm,
    rms_norm, group_norm, batch_norm, reduce, pool, pool_backward, interpolate, gen_index, dropout, movement, concat, power, prelu, cast,
    quantize, dynamic_quantize, bounded_reciprocal, quantised_product, structural,
)  # fmt: skip

_ROWS: dict[str, OpSpec] = {row.kind: row for module in _MODULES for row in module.SPECS}
OPS: dict[str, OpSpec] = {kind: row for kind, row in _ROWS.items() if not row.is_internal}
INTERNAL: dict[str, OpSpec] = {kind: row for kind, row in _ROWS.items() if row.is_internal}


def spec(kind: str) -> OpSpec:
    """The row of an op kind. Raises NoSuchOpKind with the nearest kind there is."""
    if kind in _ROWS:
        return _ROWS[kind]
    raise NoSuchOpKind(f"unknown op kind {quoted(kind)}", fix=did_you_mean(kind, OPS))


def attrs_of(kind: str) -> dict[str, Attr]:
    """What a graph may say of an op: oneDNN's attributes, and our own."""
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
    """As far as `check_op` goes without dtypes and shapes: what a row's `infer` and `refit` take for granted. Raises as that does."""
    checks.check_form(_public(kind), attrs, num_inputs, num_outputs)


def _public(kind: str) -> OpSpec:
    row = spec(kind)
    if row.is_internal:
        raise NoSuchOpKind(f"unknown op kind {quoted(kind)}", fix="kinds that begin with '_' are the compiler's own")
    return row


def call_of(kind: str, sample: Sample) -> Call:
    """One of a row's samples as a Call, shapes inferred and output dtypes settled."""
    return checks.call_of(spec(kind), sample)
