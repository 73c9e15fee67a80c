"""ONNX models that are not f32 throughout: f16, bf16, quantised to 8 and to 4 bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.importers.onnx.model import model_of
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from tests.importers.onnx_models import by_onnx, evaluated, kinds, parsed

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape: int) -> Any:
    return RNG.integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize(("name", "dtype", "rtol"), [("float16", np.float16, 1e-2), ("bfloat16", ml_dtypes.bfloat16, 8e-2)])
def test_values_keep_their_float_type(name: str, dtype: Any, rtol: float) -> None:
    """Norms take their scales in f32 then, as the library has no f16 there."""
    weights = {"w": floats(8, 16), "g": floats(16), "b": floats(16), "two": np.float32(2)}
    body = f"""c = Cast <to = {10 if dtype is np.float16 else 16}> (x) m = MatMul (c, w) n = LayerNormalization (m, g, b)
        p = Softmax (n) q = Mul (p, two) r = Neg (q) s = Cast <to = 1> (r) y = Sum (s, x2)"""
    proto = parsed("float[4,8] x, float[4,16] x2", "float[4,16] y", body, **{n: w.astype(dtype) for n, w in weights.items()})
    model, given = model_of(proto), {"x": floats(4, 8), "x2": floats(4, 16)}
    wanted = DType.f16 if dtype is np.float16 else DType.bf16
    assert [op.outputs[0].dtype for op in model.graph.ops] == [wanted] * 6 + [DType.f32] * 2
    np.testing.assert_allclose(evaluated(proto, **given)[0], by_onnx(proto, **given)[0], rtol=rtol, atol=rtol)


def test_a_cast_between_the_16_bit_floats_is_by_f32() -> None:
    proto = parsed("float16[4] x", "bfloat16[4] y", "y = Cast <to = 16> (x)")
    assert kinds(proto) == ["TypeCast", "TypeCast"]


QDQ = """
    xq = QuantizeLinear (x, s, zu) xd = DequantizeLinear (xq, s, zu)
    wd = DequantizeLinear <axis = 0> (w, sw, zw) bd = DequantizeLinear (b, sb)
    c = Conv <pads = [1, 1, 1, 1]> (xd, wd, bd) r = Relu (c)
    rq = QuantizeLinear (r, s, zu) rd = DequantizeLinear (rq, s, zu)
    a = Add (rd, xd) aq = QuantizeLinear (a, s, zu) ad = DequantizeLinear (aq, s, zu)
    f = Flatten (ad) fq = QuantizeLinear (f, s, zu) fd = DequantizeLinear (fq, s, zu)
    vd = DequantizeLinear (v, sv) m = Gemm <transB = 1> (fd, vd, h)
    mq = QuantizeLinear (m, sm, zm) y = DequantizeLinear (mq, sm, zm)
"""


def quantised_block() -> Any:
    """Convolution, bias and ReLU; a residual; a product. s8 weights by channel and as a whole."""
    weights = {"w": bytes_of(8, 8, 3, 3), "sw": np.linspace(0.005, 0.01, 8, dtype=np.float32), "zw": np.zeros(8, np.int8)}
    weights |= {"b": RNG.integers(-99, 99, 8).astype(np.int32), "sb": np.float32(0.005), "v": bytes_of(5, 32), "sv": np.float32(0.02)}
    weights |= {"h": floats(5), "s": np.float32(0.05), "zu": np.uint8(120), "sm": np.float32(0.2), "zm": np.int8(3)}
    return parsed("float[1,8,2,2] x", "float[1,5] y", QDQ, **weights)


def test_quantised_weights_stay_constants_of_8_bits() -> None:
    proto, x = quantised_block(), floats(1, 8, 2, 2)
    model = model_of(proto)
    constants = {t.dtype for t in model.graph.inputs if t.is_constant and len(t.known_shape) > 1}
    assert constants == {DType.s8}
    assert sorted(model.data) == sorted(t.id for t in model.graph.inputs if t.is_constant), "no data that nothing reads"
    np.testing.assert_allclose(evaluated(proto, x=x)[0], by_onnx(proto, x=x)[0], atol=0.2 * 1.001)  # a step of the last Quantize


def test_the_partitioner_makes_8_bit_partitions_of_it() -> None:
    """Whole under `fused`; under `post_ops` every product has its Dequantize and Quantize."""
    graph = model_of(quantised_block()).graph
    assert len(partitions(graph, Policy.fused)) == 1
    parts = [sorted(op.kind for op in part.ops) for part in partitions(graph, Policy.post_ops)]
    assert ["Convolution", "Dequantize", "Dequantize", "Quantize", "ReLU"] in parts, parts
    assert ["Add", "Dequantize", "Quantize"] in parts, "the residual, which has a Dequantize of its own"
    assert ["Add", "Dequantize", "Dequantize", "MatMul", "Quantize"] in parts, parts


def test_scales_that_are_known_at_run_time_alone() -> None:
    """What dynamic quantisation writes: integer products of activations by a scale of their own."""
    body = """xq, sx, zx = DynamicQuantizeLinear (x) m = MatMulInteger (xq, w, zx, zw) f = Cast <to = 1> (m)
        s = Mul (sx, sw) y = Mul (f, s)"""
    proto = parsed("float[4,32] x", "float[4,8] y", body, w=bytes_of(32, 8), zw=np.int8(2), sw=np.float32(0.1))
    x = floats(4, 32)
    assert DType.s32 not in {t.dtype for op in model_of(proto).graph.ops for t in op.outputs}, "sums are cast at once"
    np.testing.assert_allclose(evaluated(proto, x=x)[0], by_onnx(proto, x=x)[0], rtol=1e-4, atol=4)


def test_integer_sums_that_are_a_result_are_s32() -> None:
    proto = parsed("uint8[2,4] x", "int32[2,3] y", "y = MatMulInteger (x, w)", w=bytes_of(4, 3))
    (out,) = (t for t in model_of(proto).graph.outputs)
    assert out.dtype is DType.s32


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("scale", [np.float32, np.float16])
def test_blocks_of_4_bit_weights(dtype: Any, scale: Any) -> None:
    low = 0 if dtype is ml_dtypes.uint4 else -8
    constants = {"w": RNG.integers(low, low + 16, (32, 6)).astype(dtype), "s": np.abs(floats(4, 6)).astype(scale)}
    constants["z"] = RNG.integers(low, low + 16, (4, 6)).astype(dtype)
    name = np.dtype(scale).name.removesuffix("32")
    proto = parsed(
        f"{name}[3,32] x", f"{name}[3,6] y", "d = DequantizeLinear <axis = 0, block_size = 8> (w, s, z) y = MatMul (x, d)", **constants
    )
    model, x = model_of(proto), floats(3, 32).astype(scale)
    assert [op.kind for op in model.graph.ops] == ["DynamicDequantize", "MatMul"]
    assert model.graph.ops[0].attrs.integers("group_shape") == (8, 1)
    assert model.graph.ops[0].inputs[0].dtype is (DType.u4 if dtype is ml_dtypes.uint4 else DType.s4)
    np.testing.assert_allclose(evaluated(proto, x=x)[0], by_onnx(proto, x=x)[0], rtol=2e-2 if scale is np.float16 else 1e-4, atol=1e-2)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zps", [False, True])
@pytest.mark.parametrize("k", [48, 40])
def test_matmul_n_bits(bits: int, has_zps: bool, k: int) -> None:
    """The first of those that share a byte is its low bits; three blocks leave a part of a byte of zero points; the last may be short."""
    n, block, blocks = 5, 16, 3
    q, scales = RNG.integers(0, 1 << bits, (n, blocks * block)), np.abs(floats(n, blocks))
    zps = RNG.integers(0, 1 << bits, (n, blocks)) if has_zps else np.full((n, blocks), 1 << bits - 1)
    wei = ((q - np.repeat(zps, block, axis=1)) * np.repeat(scales, block, axis=1))[:, :k]
    constants = {"w": packed(q, bits).reshape(n, blocks, -1), "s": scales.reshape(-1), "b": floats(n)}
    constants |= {"z": packed(zps, bits).reshape(-1)} if has_zps else {}
    attrs = f"K = {k}, N = {n}, bits = {bits}, block_size = {block}"
    body = f"y = com.microsoft.MatMulNBits <{attrs}> (x, w, s, {'z' if has_zps else ''}, , b)"
    proto, x = parsed(f"float[2,3,{k}] x", f"float[2,3,{n}] y", body, **constants), floats(2, 3, k)
    assert kinds(proto) == ["DynamicDequantize", *(["Concat"] if k % block else []), "MatMul"]
    np.testing.assert_allclose(evaluated(proto, x=x)[0], x @ wei.T + constants["b"], rtol=1e-5, atol=1e-4)


def packed(values: Any, bits: int) -> Any:
    """Rows of bytes."""
    each = 8 // bits
    whole = np.pad(values, [(0, 0), (0, -values.shape[1] % each)]).astype(np.uint8).reshape(len(values), -1, each)
    return np.bitwise_or.reduce(whole << np.arange(0, 8, bits, dtype=np.uint8), axis=-1)


REFUSED = {
    "q = QuantizeLinear <output_dtype = 22> (x, t) y = DequantizeLinear (q, t)": "a result in another type than 8 bits",
    "y = com.microsoft.MatMulNBits <K = 4, N = 2, block_size = 3> (x, w, s)": "its attributes do not fit its operands: cannot",
    "y = com.microsoft.MatMulNBits <K = 4, N = 2, bits = 3, block_size = 4> (x, w, s)": "weights of 3 bits",
    "y = com.microsoft.MatMulNBits <K = 4, N = 2, block_size = 4> (x, w, s, , w)": "an order of its own of the rows",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_quantisation_has_no_op_for_is_refused(body: str) -> None:
    proto = parsed("float[4,4] x", "float[4,4] y", body, s=np.ones((2, 4), np.float32), t=np.float32(1), w=np.zeros((2, 1, 2), np.uint8))
    with pytest.raises(BenchgraphError, match=REFUSED[body]):
        model_of(proto)


def test_what_quantize_has_not_is_left_to_numpy() -> None:
    proto = parsed("float[4,4] x", "uint8[4,4] y", "y = QuantizeLinear <axis = 0, block_size = 2> (x, s)", s=np.ones((2, 4), np.float32))
    assert [f.why for f in model_of(proto).fallen] == ["blocks of a quantisation, which Quantize has not"]


def test_nodes_that_numpy_executes_between_those_of_a_shared_dequantize() -> None:
    """The refused row has appended nothing, not even the Dequantize that it would have had for itself."""
    body = "d = DequantizeLinear (x, s) a = Relu (d) b = Slice (d, zero, one) c = Neg (d) y = Sum (a, b, c)"
    constants = {"s": np.float32(0.5), "zero": np.array([0]), "one": np.array([1])}
    proto, x = parsed("uint8[2,4] x", "float[2,4] y", body, **constants), RNG.integers(0, 256, (2, 4)).astype(np.uint8)
    assert sorted(kinds(proto)) == ["Add", "Add", "Dequantize", "Dequantize", "Dequantize", "Multiply", "ReLU", "Wildcard"]
    np.testing.assert_array_equal(evaluated(proto, x=x)[0], by_onnx(proto, x=x)[0])
