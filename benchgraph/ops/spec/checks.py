"""A row's schema applied: defaults, the checks that oneDNN makes when an op is added to a graph, and samples as calls.

The order of the checks is oneDNN's: number of inputs, input dtypes, number of outputs, output dtypes, attributes, then the row's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from benchgraph.core.attrs import Attrs, AttrValue
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, InvalidGraphOp, Unimplemented, did_you_mean
from benchgraph.core.formats import counted
from benchgraph.core.printable import quoted
from benchgraph.core.tensor import TensorType
from benchgraph.ops.ranges import F32_FIX, OF_TYPE, Range, as_f32, overflows
from benchgraph.ops.spec import Attr, Call, Declared, OpSpec, Port, Sample, port_of


def fill_defaults(row: OpSpec, attrs: Attrs) -> Attrs:
    """`attrs` with the default of every attribute that is absent and has one, and f32 attributes rounded to f32.

    The same object when nothing changes.
    """
    absent = {name: a.default for name, a in row.schema.attrs.items() if a.default is not None and name not in attrs}
    full = Attrs(absent, **attrs) if absent else attrs
    rounded = {name: as_f32(v) for name, a in row.schema.attrs.items() if a.type == "f32" and isinstance(v := full.get(name), float)}
    return full if all(full[name] == v for name, v in rounded.items()) else full.updated(**rounded)


def check(row: OpSpec, attrs: Attrs, ins: tuple[Declared, ...], out_dtypes: tuple[DType, ...]) -> None:
    """Verify an op against its row. Raises InvalidDataType, Unimplemented or InvalidGraphOp naming the port or attribute.

    `where` is the caller's.
    """
    given, attrs = attrs, fill_defaults(row, attrs)
    bound: dict[str, tuple[str, DType]] = {}
    _check_count(row.schema.inputs, row.schema.num_inputs, row.schema.variadic_inputs, len(ins), "input")
    _check_dtypes(row, row.schema.inputs, tuple(dtype for dtype, _ in ins), "input", bound)
    _check_count(row.schema.outputs, row.schema.num_outputs, row.schema.variadic_outputs, len(out_dtypes), "output")
    _check_dtypes(row, row.schema.outputs, out_dtypes, "output", bound)
    _check_attrs(row.schema.attrs | row.schema.extensions, given)
    if ins and (shape := ins[0][1]) is not None:
        _check_lengths(row.schema.attrs, given, {"dim": len(shape), "spatial dim": len(shape) - 2})
    if row.schema.check is None:
        return
    message = row.schema.check(attrs, ins, out_dtypes)
    if message:
        what, _, fix = message.partition("; ")
        raise InvalidGraphOp(what, fix=fix)


def check_form(row: OpSpec, attrs: Attrs, num_inputs: int, num_outputs: int) -> None:
    """Verify the numbers of inputs and outputs, and that the row's attributes are present with legal types and numbers.

    Unknown attributes and choices are not checked. Raises InvalidGraphOp.
    """
    _check_count(row.schema.inputs, row.schema.num_inputs, row.schema.variadic_inputs, num_inputs, "input")
    _check_count(row.schema.outputs, row.schema.num_outputs, row.schema.variadic_outputs, num_outputs, "output")
    _check_values(row.schema.attrs, attrs)


def call_of(row: OpSpec, sample: Sample) -> Call:
    """A sample as a Call.

    Output dtypes: the sample's; else what the inputs bind the port's type variable to; else f32 or the first dtype allowed.
    The number of outputs is that of out_dtypes, or the least the row allows.
    """
    attrs = fill_defaults(row, sample.attrs)
    dtypes = sample.dtypes or (DType.f32,) * len(sample.shapes)
    ins = tuple(TensorType(dtype, shape) for dtype, shape in zip(dtypes, sample.shapes, strict=True))
    bound = {port_of(row.schema.inputs, i).type: dtype for i, dtype in reversed(list(enumerate(dtypes)))}
    least = row.schema.variadic_outputs[0] if row.schema.variadic_outputs else min(row.schema.num_outputs, default=None)
    outs = sample.out_dtypes or tuple(_out_dtype(row, port, bound) for port in row.schema.outputs[:least])
    shapes = row.semantics.infer(attrs, ins)
    return Call(row.kind, attrs, ins, tuple(TensorType(dtype, shape) for dtype, shape in zip(outs, shapes, strict=False)))


def _out_dtype(row: OpSpec, port: Port, bound: Mapping[str, DType]) -> DType:
    allowed = row.schema.types.get(port.type) or (DType.f32,)
    return bound.get(port.type) or (DType.f32 if DType.f32 in allowed else allowed[0])


def _check_count(ports: tuple[Port, ...], counts: tuple[int, ...], limits: tuple[int, int] | None, got: int, side: str) -> None:
    if limits is not None:
        least, most = limits
        if least <= got <= most:
            return
        raise InvalidGraphOp(f"has {got} {side}s", fix=f"give it {least} to {most}")
    legal = counts or (len(ports),)
    if got in legal:
        return
    wanted = " or ".join(str(n) for n in legal)
    names = ", ".join(p.name for p in ports[: max(legal)])
    plural = "" if got == 1 else "s"
    raise InvalidGraphOp(f"has {got} {side}{plural}", fix=f"give it {wanted}: {names}" if names else f"it takes {wanted}")


def _check_dtypes(row: OpSpec, ports: tuple[Port, ...], dtypes: tuple[DType, ...], side: str, bound: dict[str, tuple[str, DType]]) -> None:
    """Bind type variables to the first dtype, inputs before outputs; every later port must have the same.

    Tensors of one variadic port that differ are legal in oneDNN's schema, but nothing implements them.
    """
    for index, dtype in enumerate(dtypes):
        port = port_of(ports, index)
        label = f"{side} {port.name if len(dtypes) <= len(ports) else index}"
        allowed = row.schema.types.get(port.type)
        if not allowed:
            continue
        if dtype not in allowed:
            raise InvalidDataType(f"{side} {port.name} has dtype {dtype.value}", fix=f"use {' or '.join(d.value for d in allowed)}")
        first, want = bound.setdefault(port.type, (label, dtype))
        if dtype is not want:
            what = f"{label} has dtype {dtype.value} where {first} has {want.value}"
            if index >= len(ports):
                raise Unimplemented(what, fix=f"give all {side}s one dtype, with casts in front if need be")
            raise InvalidDataType(what, fix="give both the same dtype, with a cast in front if need be")


def _check_attrs(schema: Mapping[str, Attr], attrs: Attrs) -> None:
    _check_values(schema, attrs)
    for name in attrs:
        if name not in schema:
            known = f"its attributes are {', '.join(schema)}" if schema else "it has no attributes"
            raise InvalidGraphOp(f"unknown attribute {quoted(name)}", fix=did_you_mean(name, schema) or known)
        if (choices := schema[name].choices) and attrs[name] not in choices:
            near = did_you_mean(str(attrs[name]), choices) or f"choose {' or '.join(choices)}"
            raise InvalidGraphOp(f"attribute '{name}' is {quoted(attrs[name])}", fix=near)


def _check_values(schema: Mapping[str, Attr], attrs: Attrs) -> None:
    for name, attr in schema.items():
        if name not in attrs:
            if attr.required:
                raise InvalidGraphOp(f"attribute '{name}' is missing", fix=f"give it a value of type {attr.type}")
            continue
        value = attrs[name]
        if not has_type(value, attr.type):
            raise InvalidGraphOp(f"attribute '{name}' is {quoted(value)}", fix=f"give it a value of type {attr.type}")
        if allowed := attr.range or OF_TYPE.get(attr.type.removesuffix("[]")):
            _check_range(name, value, allowed, is_real=attr.type.startswith("f32"))


def _check_lengths(schema: Mapping[str, Attr], attrs: Attrs, counts: Mapping[str, int]) -> None:
    for name, attr in schema.items():
        if not attr.per or (value := attrs.get(name, attr.default)) == attr.default:
            continue
        length, count = len(cast(tuple[object, ...], value)), counts[attr.per]
        if length != count and (length or attr.required):
            what = f"attribute '{name}' is {quoted(value)}, where there {'is' if count == 1 else 'are'} {counted(count, attr.per)}"
            raise InvalidGraphOp(what, fix=f"give it one number per {attr.per}")


def _check_range(name: str, value: AttrValue, allowed: Range, *, is_real: bool) -> None:
    """Reals are checked as f32 numbers, and finite ones must be finite in f32."""
    for number in cast(tuple[float, ...], value if isinstance(value, tuple) else (value,)):
        too_large = is_real and overflows(number)
        if too_large or not allowed.holds(as_f32(number) if is_real else number):
            raise InvalidGraphOp(f"attribute '{name}' is {quoted(value)}", fix=F32_FIX if too_large else allowed.fix(number))


def has_type(value: AttrValue, type: str) -> bool:
    """Whether a value has oneDNN's attribute type. An integer is a legal float."""
    if type.endswith("[]"):
        return isinstance(value, tuple) and all(has_type(v, type[:-2]) for v in value)
    if type == "bool" or isinstance(value, bool):
        return type == "bool" and isinstance(value, bool)
    return isinstance(value, int if type == "s64" else int | float if type == "f32" else str)
