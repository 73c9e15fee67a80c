"""Several nodes that exporters write for one op; rows of the domain com.microsoft."""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from benchgraph.importers.onnx.model import model_of
from tests.importers.onnx_models import by_onnx, evaluated, kinds, parsed

X = np.random.default_rng(0).standard_normal((2, 3, 4, 8)).astype(np.float32)
GELUS = {
    "x * (1 + erf) * 0.5": "d = Div (x, r2) e = Erf (d) a = Add (e, one) m = Mul (x, a) y = Mul (m, half)",
    "(x * 0.5) * (1 + erf)": "d = Mul (x, r05) e = Erf (d) a = Add (one, e) h = Mul (half, x) y = Mul (h, a)",
    "x * (0.5 * (1 + erf))": "d = Mul (r05, x) e = Erf (d) a = Add (e, one) h = Mul (a, half) y = Mul (x, h)",
}
NO_GELUS = {
    "another scale": "d = Mul (x, half) e = Erf (d) a = Add (e, one) m = Mul (x, a) y = Mul (m, half)",
    "another factor": "d = Div (x, r2) e = Erf (d) a = Add (e, one) m = Mul (x, a) y = Mul (m, r05)",
    "its sum is a result": "d = Div (x, r2) e = Erf (d) y = Add (e, one) m = Mul (x, y) z = Mul (m, half)",
}
NUMBERS = {"r2": np.float32(sqrt(2)), "r05": np.float32(sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5)}


@pytest.mark.parametrize("name", GELUS)
def test_gelu_of_an_error_function(name: str) -> None:
    proto = parsed("float[2,3,4,8] x", "float[2,3,4,8] y", GELUS[name], **NUMBERS)
    assert kinds(proto) == ["GELU"]
    np.testing.assert_allclose(evaluated(proto, x=X)[0], by_onnx(proto, x=X)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NO_GELUS)
def test_what_is_nearly_a_gelu_is_none(name: str) -> None:
    outputs = "float[2,3,4,8] y" + (", float[2,3,4,8] z" if "z =" in NO_GELUS[name] else "")
    assert "GELU" not in expressed(parsed("float[2,3,4,8] x", outputs, NO_GELUS[name], **NUMBERS))


def expressed(proto: Any) -> str:
    """The kinds of the graph's ops, or the reason for there being no graph."""
    from benchgraph.core.errors import BenchgraphError

    try:
        return " ".join(kinds(proto))
    except BenchgraphError as bad:
        return bad.line


ROPE = """c = Mul (x, cos) front = Slice (x, b0, b4, last) back = Slice (x, b4, end, last) n = Neg (back)
    turned = Concat <axis = -1> (n, front) s = Mul (turned, sin) y = Add (c, s)"""
BOUNDS = {"b0": np.array([0]), "b4": np.array([4]), "end": np.array([2**62]), "last": np.array([3])}


def test_rotary_embeddings_are_products_with_matrices() -> None:
    angles = np.random.default_rng(1).uniform(0, 6, (1, 1, 4, 8)).astype(np.float32)
    proto = parsed("float[2,3,4,8] x", "float[2,3,4,8] y", ROPE, cos=np.cos(angles), sin=np.sin(angles), **BOUNDS)
    assert kinds(proto) == ["StaticReshape", "Multiply", "ReduceSum", "StaticReshape"]
    np.testing.assert_allclose(evaluated(proto, x=X)[0], by_onnx(proto, x=X)[0], rtol=1e-4, atol=1e-6)


def test_a_rotation_of_other_parts_than_halves_is_none() -> None:
    bounds = BOUNDS | {"b4": np.array([2])}
    proto = parsed("float[2,3,4,8] x", "float[2,3,4,8] y", ROPE, cos=np.ones((1, 8), np.float32), sin=np.ones((1, 8), np.float32), **bounds)
    assert "ReduceSum" not in expressed(proto)


def test_nodes_that_no_result_needs_are_left_out() -> None:
    proto = parsed("float[4] x", "float[4] y", "y = Relu (x) unread = Erf (y)")
    assert kinds(proto) == ["ReLU"]


@pytest.mark.parametrize("shape", [[-1, 8], [0, -1], [4, 8]])
def test_a_reshape_to_the_same_shape_is_nothing(shape: list[int]) -> None:
    """Tokens are integers, which StaticReshape does not take."""
    proto = parsed(
        "int64[4,8] x", "float[4,8,2] y", "r = Reshape (x, s) y = Gather (t, r)", s=np.array(shape), t=np.ones((9, 2), np.float32)
    )
    assert kinds(proto) == ["Wildcard"]


def test_what_onnx_cannot_compute_beforehand_numpy_does() -> None:
    """onnx's reference computes GatherElements by np.choose, which takes 32 choices."""
    table, at = np.arange(100, dtype=np.float32).reshape(1, 100), np.array([[7, 99, 3]])
    proto = parsed("float[1,3] x", "float[1,3] y", "g = GatherElements <axis = 1> (t, i) y = Add (x, g)", t=table, i=at)
    np.testing.assert_array_equal(evaluated(proto, x=np.ones((1, 3), np.float32))[0], [[8, 100, 4]])


def normed(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


G, B = np.linspace(0.5, 2, 8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)
ERF = np.vectorize(erf)
MICROSOFT = {
    "y = com.microsoft.Gelu (x)": lambda x: 0.5 * x * (1 + ERF(x / sqrt(2))),
    "y = com.microsoft.BiasGelu (x, b)": lambda x: 0.5 * (x + B) * (1 + ERF((x + B) / sqrt(2))),
    "y = com.microsoft.FastGelu (x)": lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "y = com.microsoft.QuickGelu <alpha = 1.5> (x)": lambda x: x / (1 + np.exp(-1.5 * x)),
    "y = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (x, w)": lambda x: 0.5 * x @ np.diag(G).T,
    "y = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, x, g, b)": lambda x: normed(2 * x) * G + B,
    "y = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, x, g, b, b)": lambda x: normed(2 * x + B) * G + B,
    "n, , , y = com.microsoft.SkipSimplifiedLayerNormalization (x, x, g)": lambda x: 2 * x,
    "y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.0> (x, x, g)": (
        lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True)) * G
    ),
}


@pytest.mark.parametrize("body", MICROSOFT)
def test_ops_of_microsofts(body: str) -> None:
    proto = parsed("float[2,3,4,8] x", "float[2,3,4,8] y", body, g=G, b=B, w=np.diag(G))
    np.testing.assert_allclose(evaluated(proto, x=X)[0], MICROSOFT[body](X.astype(np.float64)), rtol=1e-5, atol=1e-5)


def test_quantised_sums_of_microsofts() -> None:
    body = "y = com.microsoft.QLinearAdd (x, sa, za, w, sb, zb, sy, zy)"
    w = np.arange(4, dtype=np.uint8)
    scales = {"sa": np.float32(0.5), "sb": np.float32(0.25), "sy": np.float32(0.5)}
    proto = parsed("uint8[4] x", "uint8[4] y", body, w=w, za=np.uint8(2), zb=np.uint8(0), zy=np.uint8(10), **scales)
    x = np.array([2, 4, 6, 255], np.uint8)
    want = np.clip(np.rint(((x - 2.0) * 0.5 + w * 0.25) / 0.5 + 10), 0, 255)
    np.testing.assert_array_equal(evaluated(proto, x=x)[0], want)


W = np.random.default_rng(2).standard_normal((8, 12)).astype(np.float32)
B3 = np.linspace(-1, 1, 12, dtype=np.float32)
PARTS = {
    "columns": "m = MatMul (x, w) a = Add (m, b) q, k, v = Split <axis = -1, num_outputs = 3> (a) p = Mul (q, k) y = Add (p, v)",
    "heads": """m = MatMul (x, w) r = Reshape (m, apart) t = Transpose <perm = [3, 0, 1, 2, 4]> (r)
        q = Gather (t, i0) v = Gather (t, i2) k = Slice (t, s1, s2, axis0) s = Squeeze (k, axis0) p = Mul (q, s) y = Add (p, v)""",
}
NO_PARTS = {
    "the whole is read too": ("2,3,4,4", "q, k, v = Split <axis = -1, num_outputs = 3> (m) s = ReduceSum (m, last) y = Add (q, s)"),
    "of rows": ("2,2,4,12", "q, k = Split <axis = 1, num_outputs = 2> (m) y = Add (q, k)"),
    "of what no product makes": ("2,3,4,2", "q, k, v = Split <axis = -1> (x, two_two_four) y = Add (q, k)"),
    "of axes that have been merged": (
        "3,48",
        "r = Reshape (m, merged) q, k = Split <axis = 0, num_outputs = 2> (r) y = Add (q, k)",
    ),
}
SIZES = {
    "apart": np.array([2, 3, 4, 3, 4]),
    "merged": np.array([6, 48]),
    "two_two_four": np.array([2, 2, 4]),
    "i0": np.array(0),
    "i2": np.array(2),
    "s1": np.array([1]),
    "s2": np.array([2]),
    "axis0": np.array([0]),
    "last": np.array([-1]),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_product_are_products_by_parts_of_weights(name: str) -> None:
    proto = parsed("float[2,3,4,8] x", "float[2,3,4,4] y", PARTS[name], w=W, b=B3, **SIZES)
    assert kinds(proto).count("MatMul") == 3
    assert "Wildcard" not in kinds(proto)
    np.testing.assert_allclose(evaluated(proto, x=X)[0], by_onnx(proto, x=X)[0], rtol=1e-4, atol=1e-6)
    uses = model_of(proto).parameters["w"]
    assert [use.view for use in uses] == [((8, 4), (12, 1), 4 * i) for i in ((0, 1, 2) if name == "columns" else (0, 2, 1))]


@pytest.mark.parametrize("name", NO_PARTS)
def test_parts_that_need_the_rest_are_taken_by_numpy(name: str) -> None:
    shape, body = NO_PARTS[name]
    proto = parsed("float[2,3,4,8] x", f"float[{shape}] y", f"m = MatMul (x, w) {body}", w=W, **SIZES)
    assert "Wildcard" in kinds(proto)
    np.testing.assert_allclose(evaluated(proto, x=X)[0], by_onnx(proto, x=X)[0], rtol=1e-4, atol=1e-6)
