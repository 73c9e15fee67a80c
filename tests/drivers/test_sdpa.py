"""sdpa: attention and its gradients, against numpy; heads that share keys, masks, scales and layouts."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import PropertyType
from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds, problem, shapes

CASE = "2x3x5x8:2x3x8x7:2x3x7x4"
SHARED = "2x6x5x8:2x2x8x7:2x2x7x4"


@pytest.mark.parametrize("case", [CASE, SHARED, "5x8:8x7:7x4", '1x1x1x1:1x1x1x1:1x1x1x1_n"one"'])
@pytest.mark.parametrize(
    "options",
    [
        "",
        "--dir=FWD_D --dt=bf16 --mask=causal_bottom_right",
        "--dir=BWD_D --dt=f16:f16:f16:f32 --scale=div",
        "--qtag=axb --vtag=axb --dtag=axb --mdt=bf16 --mask=buffer_1d",
    ],
)
def test_the_repro_line_makes_the_problem_again(options: str, case: str) -> None:
    assert_round_trip("--sdpa", *options.split(), case)


def test_names_of_older_batch_files() -> None:
    words = ["--sdpa", "--mask_type=causal:top_left", "--scale_type=library", "--kv_head_number=2", SHARED]
    assert problem(*words).repro == f"--sdpa --mask=causal_top_left --kv-head-number=2 {SHARED}"


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "MatMul Multiply SoftMax MatMul"),
        ("--scale=div", "MatMul Divide SoftMax MatMul"),
        ("--mask=buffer", "MatMul Multiply Add SoftMax MatMul"),
        ("--mask=causal_top_left", "MatMul Multiply GenIndex GenIndex GreaterEqual Select SoftMax MatMul"),
        ("--mask=causal_bottom_right", "MatMul Multiply GenIndex Add Subtract GenIndex GreaterEqual Select SoftMax MatMul"),
        ("--dt=bf16:bf16:bf16:f16", "MatMul Multiply SoftMax MatMul TypeCast"),
        ("--dt=f16:s8:s8:f16", "TypeCast Dequantize MatMul Multiply SoftMax Dequantize MatMul TypeCast"),
        ("--attr-post-ops=relu", "MatMul Multiply SoftMax MatMul ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--sdpa", *options.split(), CASE)) == sorted(ops.split())


def test_scores_are_f32_and_probabilities_like_the_values() -> None:
    g = graph("--sdpa", "--dt=bf16", "--dir=FWD_D", CASE)
    assert {op.kind: [t.dtype for t in op.outputs] for op in g.order} == {
        "MatMul": [DType.bf16],
        "Multiply": [DType.f32],
        "SoftMax": [DType.bf16, DType.f32],
    }
    assert [t.known_shape for t in g.outputs] == [(2, 3, 5, 1), (2, 3, 5, 4)]


@pytest.mark.parametrize(("mask", "shape"), [("buffer", (2, 2, 3, 5, 7)), ("buffer_2d", (1, 1, 1, 5, 7)), ("buffer_1d", (1, 1, 1, 1, 7))])
def test_heads_that_share_keys_are_two_dims_of_the_same_memory(mask: str, shape: tuple[int, ...]) -> None:
    g = graph("--sdpa", f"--mask={mask}", "--qtag=acbd", "--dtag=acbd", SHARED)
    q, k, scale, added, v = sorted(g.inputs, key=lambda t: t.id)
    assert [t.known_shape for t in (q, k, scale, added, v)] == [(2, 2, 3, 5, 8), (2, 2, 1, 8, 7), (1,), shape, (2, 2, 1, 7, 4)]
    assert (q.strides, k.strides, g.outputs[0].strides) == ((240, 24, 8, 48, 1), (112, 56, 56, 7, 1), (120, 12, 4, 24, 1))
    assert g.outputs[0].known_shape == (2, 2, 3, 5, 4)


def softmax(scores: np.ndarray) -> np.ndarray:
    """0 for a row of -inf."""
    with np.errstate(invalid="ignore", divide="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return np.nan_to_num(e / e.sum(-1, keepdims=True))


def causal(queries: int, keys: int, corner: str) -> np.ndarray:
    row, column = np.arange(queries)[:, None], np.arange(keys)
    last = row if corner == "top_left" else row + keys - queries
    return np.where(column <= last, 0.0, -np.inf)


def heads(x: np.ndarray, of: int) -> np.ndarray:
    """Keys or values repeated for each head of queries."""
    return np.repeat(x, of // x.shape[1], axis=1)


@pytest.mark.parametrize("corner", ["top_left", "bottom_right"])
@pytest.mark.parametrize("case", [CASE, "1x4x7x8:1x2x8x5:1x2x5x4"])
def test_the_formula_under_a_causal_mask(case: str, corner: str) -> None:
    """7 queries of 5 keys: at the bottom right, the first two see none."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=tuple(map(int, shape.split("x")))) for shape in case.split(":"))
    keys, queries = k.shape[-1], q.shape[-2]
    words = ["--sdpa", f"--mask=causal_{corner}", "--scale=mul", case]
    data = iter([q, k, np.array([0.5]), *([np.array(keys), np.array(queries)] if corner == "bottom_right" else []), np.array([-np.inf]), v])
    tensors = sorted(graph(*words).inputs, key=lambda t: t.id)
    assert [t.property_type for t in tensors].count(PropertyType.host_scalar) == (2 if corner == "bottom_right" else 0)
    (dst,) = evaluated(words, *(x.reshape(t.known_shape) for t, x in zip(tensors, data, strict=True)))
    p = softmax(q @ heads(k, q.shape[1]) * 0.5 + causal(queries, keys, corner))
    assert dst.reshape(*q.shape[:-1], -1) == pytest.approx(p @ heads(v, q.shape[1]), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("scale", ["mul", "div"])
@pytest.mark.parametrize("case", [CASE, SHARED])
def test_gradients_are_those_of_differences(case: str, scale: str) -> None:
    """A step of an element of q, k or v changes sum(dst * diff_dst) by the element of its gradient times the step."""
    rng = np.random.default_rng(0)
    args = [rng.normal(size=tuple(map(int, shape.split("x")))).astype(np.float32).astype(np.float64) for shape in case.split(":")]
    factor, number = (0.5, 0.5) if scale == "mul" else (0.5, 2.0)

    def forward(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = q @ heads(k, q.shape[1]) * factor
        return scores, softmax(scores) @ heads(v, q.shape[1])

    scores, dst = forward(*args)
    d = rng.normal(size=dst.shape)
    statistics = np.log(np.exp(scores).sum(-1, keepdims=True))
    words = ["--sdpa", "--dir=BWD_D", f"--scale={scale}", case]
    tensors = sorted(graph(*words).inputs, key=lambda t: t.id)
    data = (*args, dst, d, np.array([number]), statistics)
    assert [prod(t.known_shape) for t in tensors] == [x.size for x in data], "q, k, v, dst, diff_dst, scale, statistics"
    gradients = evaluated(words, *(x.reshape(t.known_shape) for t, x in zip(tensors, data, strict=True)))
    by_size = {g.size: g for g in gradients}
    for i, arg in enumerate(args):
        at = tuple(size - 1 for size in arg.shape)
        step = np.zeros_like(arg)
        step[at] = 1e-5
        ends = [forward(*args[:i], arg + sign * step, *args[i + 1 :])[1] for sign in (1, -1)]
        slope = ((ends[0] - ends[1]) * d).sum() / 2e-5
        assert by_size[arg.size].reshape(arg.shape)[at] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_gradients_have_the_shapes_of_their_arguments() -> None:
    ins, outs = shapes("--sdpa", "--dir=BWD_D", SHARED)
    assert sorted(outs) == sorted([(2, 2, 3, 5, 8), (2, 2, 1, 8, 7), (2, 2, 1, 7, 4)])
    assert (2, 2, 3, 5, 1) in ins


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2x5x8:2x7x8:2x7x4", "queries 2x5x8 have heads of 8, and keys 2x7x8 of 7; give keys as heads x keys"),
        ("2x5x8:2x8x7:2x6x4", "7 keys in 2x8x7 and 6 values in 2x6x4; make them equal"),
        ("2x5x8:2x8x7:1x7x4", "keys 2x8x7 and values 1x7x4 differ in batch or heads; make them equal"),
        (
            "3x5x8:2x8x7:2x7x4",
            "queries 3x5x8 and keys 2x8x7: batch or heads do not fit; give both one batch, and queries a multiple of the heads of keys",
        ),
        (
            "2x5x8:8x7:7x4",
            "the tensors have different numbers of sizes, or one; give each the same, 2 or more, as in 1x8x4x16:1x8x16x4:1x8x4x16",
        ),
        (
            "--kv_head_number=3 4x5x8:2x8x7:2x7x4",
            "--kv-head-number=3 and keys 2x8x7; give keys and values as many heads, or leave the option out",
        ),
        ("--mask=buffer --mdt=u8 5x8:8x7:7x4", "--mdt=u8: no op adds a mask of u8; use f32, bf16 or f16"),
        ("--dir=BWD_W 5x8:8x7:7x4", "--dir=BWD_W: no op goes this way; use FWD_I or FWD_D or BWD_D"),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--sdpa", *words.split())
