"""Rows of the table of rows.py: quantisation, products of quantised operands.

ONNX rounds before it adds the zero point, Quantize after it: at a tie and with an odd zero point the results are neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.importers.onnx.draft import DATA_TYPES, DTYPES, U8, Draft, Node, Row, Unmapped, shape_of

BYTES = (DType.s8, DType.u8)
FLOAT8 = (DType.f8_e4m3, DType.f8_e5m2)
STEPS = 255.0  # of u8, in DynamicQuantizeLinear


def is_compressed(kind: str, stored: Array | None) -> bool:
    """Whether a node stands for a constant in fewer bits, which stays a Dequantize of it. stored: its input 0, if that is known."""
    if stored is None or kind not in MADE_FOR_EACH or stored.ndim < 2 or stored.dtype not in DTYPES:
        return False
    return DTYPES[stored.dtype].bits <= 8


# ---- QuantizeLinear, DequantizeLinear --------------------------------------------------------------------------------


def _quantize(d: Draft, node: Node) -> LogicalTensor:
    return _quantised(d, node, d.tensor(node, 0), 1, _dtype_of_result(d, node))


def _dtype_of_result(d: Draft, node: Node) -> DType:
    """That of the zero point, else the attribute's, else u8. Raises Unmapped for one that Quantize has not."""
    if node.has(2):
        dtype = d.tensor(node, 2).dtype if node.inputs[2] not in d.known else DTYPES.get(d.array(node, 2).dtype, DType.undef)
    else:
        dtype = DATA_TYPES.get(node.get("output_dtype", 0) or U8, DType.undef)
    if dtype not in BYTES + FLOAT8:
        raise Unmapped("a result in another type than 8 bits, which is all that Quantize makes")
    return dtype


def _quantised(d: Draft, node: Node, x: LogicalTensor, at: int, dtype: DType) -> LogicalTensor:
    """x quantised. at: which input of the node is the scale; the zero point is the next one."""
    x = d.cast(x, DType.f32)
    if node.get("block_size", 0):
        raise Unmapped("blocks of a quantisation, which Quantize has not")
    if d.is_known(node.inputs[at]):
        constants = _constants(d, node, at, shape_of(x))
        if dtype in FLOAT8 and node.get("saturate", 1):
            x = _saturated(d, x, dtype, constants["scales"])
        return d.op("Quantize", x, dtype=dtype, **constants)
    if dtype in FLOAT8:
        raise Unmapped("scales of 8-bit floats that are known at run time alone")
    scales, *zps = (_flat(d, d.tensor(node, i)) for i in (at, at + 1) if node.has(i))
    return d.op("DynamicQuantize", x, d.cast(scales, DType.f32), *zps, dtype=dtype, **_axis(node, shape_of(scales), shape_of(x)))


def _saturated(d: Draft, x: LogicalTensor, dtype: DType, scales: tuple[float, ...]) -> LogicalTensor:
    """x within the range of an 8-bit float, beyond which Quantize gives infinity or NaN."""
    if len(set(scales)) != 1:
        raise Unmapped("8-bit floats that saturate, by several scales")
    least, most = sorted(bound * scales[0] for bound in dtype.range)
    return d.op("Clamp", x, min=least, max=most)


def _constants(d: Draft, node: Node, at: int, shape: Shape) -> dict[str, Any]:
    """The attributes of Quantize and Dequantize, by the inputs `at` (scales) and `at + 1` (zero points)."""
    scales, zps = d.array(node, at), d.array(node, at + 1, np.zeros(0))
    found = {"scales": tuple(np.ravel(scales).astype(np.float32).tolist()), **_axis(node, scales.shape, shape)}
    if zps.astype(np.float32).any():
        found["zps"] = tuple(int(zp) for zp in np.ravel(zps))
    return found


def _axis(node: Node, scales: Shape, shape: Shape) -> dict[str, Any]:
    if scales in ((), (1,)):
        return {"qtype": "per_tensor"}
    if len(scales) != 1:
        raise Unmapped(f"scales of shape {scales} without a block size")
    return {"qtype": "per_channel", "axis": node.get("axis", 1) % max(len(shape), 1)}


def _flat(d: Draft, t: LogicalTensor) -> LogicalTensor:
    """A scalar as a tensor of one element, where ops can reshape it."""
    is_scalar = shape_of(t) == () and t.dtype is DType.f32
    return d.op("StaticReshape", t, shape=(1,), special_zero=False) if is_scalar else t


def _dequantize(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    given = d.tensor(node, 1).dtype if not d.is_known(node.inputs[1]) else DTYPES.get(d.array(node, 1).dtype, DType.undef)
    dtype = DATA_TYPES.get(node.get("output_dtype", 0), DType.undef) if node.get("output_dtype", 0) else given
    if dtype is DType.undef:
        raise Unmapped("a result in another type than f32, f16 and bf16")
    if x.dtype not in BYTES + FLOAT8 or node.get("block_size", 0) or not d.is_known(node.inputs[1]):
        return d.cast(_dynamically_dequantised(d, node, x, 1), dtype)
    return d.cast(d.op("Dequantize", x, dtype=DType.f32, **_constants(d, node, 1, shape_of(x))), dtype)


def _dynamically_dequantised(d: Draft, node: Node, x: LogicalTensor, at: int) -> LogicalTensor:
    """x dequantised by scales and zero points that are tensors, in blocks if the node has them, else by tensor or channel."""
    scales = d.tensor(node, at)
    if x.dtype is DType.s32:
        return d.op("Multiply", d.op("Add", x, d.literal(0.0), dtype=DType.f32), scales, dtype=scales.dtype)
    zps = [d.tensor(node, at + 1)] if node.has(at + 1) and not _is_zero(d, node, at + 1) else []
    if size := node.get("block_size", 0):
        group = tuple(size if axis == node.get("axis", 1) % len(shape_of(x)) else 1 for axis in range(len(shape_of(x))))
        return d.op("DynamicDequantize", x, scales, *zps, qtype="per_group", group_shape=group)
    ins = (_flat(d, scales), *zps)
    return d.op("DynamicDequantize", x, *ins, **_axis(node, shape_of(scales), shape_of(x)))


def _is_zero(d: Draft, node: Node, i: int) -> bool:
    return d.is_known(node.inputs[i]) and not d.array(node, i).astype(np.float32).any()


def _dynamic_quantize(d: Draft, node: Node) -> LogicalTensor:
    """Scale and zero point by the least and the largest element, and 0; they are the other results."""
    x = d.tensor(node, 0)
    axes, zero = tuple(range(len(shape_of(x)))), d.literal(0.0)
    most = d.op("Maximum", d.op("ReduceMax", x, axes=axes, keep_dims=False), zero)
    least = d.op("Minimum", d.op("ReduceMin", x, axes=axes, keep_dims=False), zero)
    scale = d.op("Divide", d.op("Subtract", most, least), d.literal(STEPS))
    zp = d.op("Quantize", d.op("Divide", d.op("Subtract", zero, least), scale), dtype=DType.u8, scales=(1.0,), qtype="per_tensor")
    for name, t in zip(node.outputs[1:], (scale, zp), strict=False):
        d.define(name, t)
    return d.op("DynamicQuantize", x, scale, zp, dtype=DType.u8, qtype="per_tensor")


# ---- products --------------------------------------------------------------------------------------------------------


def _integer_operand(d: Draft, node: Node, i: int, zp: int) -> LogicalTensor:
    """Input i less its zero point, as floats."""
    x = d.tensor(node, i)
    if node.has(zp) and not d.is_known(node.inputs[zp]):
        return d.op("DynamicDequantize", x, d.literal(np.ones(1, np.float32)), d.tensor(node, zp), qtype="per_tensor")
    zps = d.array(node, zp, np.zeros((), np.uint8))
    if zps.size != 1:
        raise Unmapped("a zero point for each row or column")
    found = {"zps": (int(zps.reshape(())),)} if zps.any() else {}
    return d.op("Dequantize", x, dtype=DType.f32, qtype="per_tensor", scales=(1.0,), **found)


def _in_s32(d: Draft, node: Node, sums: LogicalTensor) -> LogicalTensor:
    """Sums that are floats; as s32 unless all readers make floats of them (`only_cast`), which is exact up to 2**24."""
    if set(d.readers[node.outputs[0]]) == {"Cast"}:
        return sums
    return d.op("Add", sums, d.literal(0.0), dtype=DType.s32)


def _matmul_integer(d: Draft, node: Node) -> LogicalTensor:
    return _in_s32(d, node, d.op("MatMul", _integer_operand(d, node, 0, 2), _integer_operand(d, node, 1, 3)))


def convolution_of_integers(convolution: Row) -> Row:
    """convolution: the row of Conv, which finds the operands as values of their own."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        ins = [_integer_operand(d, node, 0, 2), _integer_operand(d, node, 1, 3)]
        return _in_s32(d, node, convolution(d, _with_operands(d, node, ins)))

    return row


def _with_operands(d: Draft, node: Node, ins: list[LogicalTensor]) -> Node:
    """The node with these operands in the place of its own."""
    names = [f"{node.outputs[0]}:{t.id}" for t in ins]
    for name, t in zip(names, ins, strict=True):
        d.define(name, t)
    return Node(node.kind, tuple(names), node.outputs, node.attrs, node.name)


def _quantised_operand(d: Draft, node: Node, i: int, axis: int = 1) -> LogicalTensor:
    """Input i dequantised by the inputs i + 1 and i + 2."""
    own = Node(node.kind, node.inputs[i : i + 3], node.outputs, {"axis": axis}, node.name)
    return d.cast(_dequantize(d, own), DType.f32)


def _qlinear_matmul(d: Draft, node: Node) -> LogicalTensor:
    """a, b and the result, each followed by its scale and zero point."""
    product = d.op("MatMul", _quantised_operand(d, node, 0), _quantised_operand(d, node, 3, len(shape_of(d.tensor(node, 3))) - 1))
    return _requantised(d, node, product, 6)


def _requantised(d: Draft, node: Node, x: LogicalTensor, at: int) -> LogicalTensor:
    """A result quantised by the inputs `at` and `at + 1`."""
    own = Node(node.kind, (node.outputs[0], *node.inputs[at : at + 2]), node.outputs, {}, node.name)
    return _quantised(d, own, x, 1, _dtype_of_result(d, own))


def qlinear_convolution(convolution: Row) -> Row:
    """x, w and the result, each followed by its scale and zero point; a bias in units of both scales."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        ins = [_quantised_operand(d, node, 0), _quantised_operand(d, node, 3, 0)]
        if node.has(8):
            bias, *steps = (d.array(node, j).astype(np.float32) for j in (8, 1, 4))
            ins.append(d.literal(np.asarray(bias * steps[0] * steps[1], np.float32)))
        return _requantised(d, node, convolution(d, _with_operands(d, node, ins)), 6)

    return row


def qlinear_binary(kind: str) -> Row:
    """Microsoft's: two operands and the result, each followed by its scale and zero point."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        return _requantised(d, node, d.op(kind, _quantised_operand(d, node, 0), _quantised_operand(d, node, 3)), 6)

    return row


def _matmul_n_bits(d: Draft, node: Node) -> LogicalTensor:
    """Microsoft's product by weights in blocks along k: bytes (N, blocks, bits * block / 8), low bits first, and a scale for each block.

    Without zero points they are in the middle of the range: the weights become signed ones. Where the last block is longer than what is
    left of k, zeros follow the operand.
    """
    x, scales = d.tensor(node, 0), d.array(node, 2)
    k, n, bits, size = node.get("K"), node.get("N"), node.get("bits", 4), node.get("block_size")
    if bits not in _BY_BITS or node.has(4):
        raise Unmapped("an order of its own of the rows" if node.has(4) else f"weights of {bits} bits")
    blocks = -(-k // size)
    signed, unsigned = _BY_BITS[bits]
    wei, zps = _unpacked(d.array(node, 1), n, bits), list[LogicalTensor]()
    if not node.has(3):
        weights = d.literal((wei.T.astype(np.int16) - (1 << bits - 1)).astype(np.int8), signed)
    elif d.array(node, 3).dtype != np.uint8:
        raise Unmapped("zero points that are no integers")
    else:
        weights = d.literal(np.ascontiguousarray(wei.T), unsigned)
        zps = [d.literal(np.ascontiguousarray(_unpacked(d.array(node, 3), n, bits)[:, :blocks].T), unsigned)]
    steps = d.literal(np.ascontiguousarray(scales.reshape(n, blocks).T))
    floats = d.op("DynamicDequantize", weights, steps, *zps, qtype="per_group", group_shape=(size, 1))
    if lack := blocks * size - k:
        x = d.op("Concat", x, d.literal(np.zeros((*shape_of(x)[:-1], lack)), x.dtype), axis=-1)
    return d.op("MatMul", x, d.cast(floats, x.dtype), *([d.tensor(node, 5)] if node.has(5) else []))


def _unpacked(bytes_: Array, rows: int, bits: int) -> Array:
    """Rows of integers of as many bits."""
    flat = bytes_.astype(np.uint8).reshape(rows, -1, 1)
    return (flat >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).astype(np.uint8).reshape(rows, -1)


_BY_BITS = {2: (DType.s4, DType.u4), 4: (DType.s4, DType.u4), 8: (DType.s8, DType.u8)}
MADE_FOR_EACH: dict[str, Row] = {"DequantizeLinear": _dequantize}  # reader: libraries fuse it with the product that alone reads it

QUANTISED_ROWS: dict[str, Row] = {
    **MADE_FOR_EACH,
    "QuantizeLinear": _quantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "com.microsoft.QLinearAdd": qlinear_binary("Add"),
    "com.microsoft.QLinearMul": qlinear_binary("Multiply"),
    "com.microsoft.MatMulNBits": _matmul_n_bits,
}
