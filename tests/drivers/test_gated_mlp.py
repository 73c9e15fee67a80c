"""gated_mlp: three products and a gate, with weights of any data type."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds, problem, shapes


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--dt=f16:u4:u4:u4:f16 --wtag=ba --attr-scales=wei:per_dim_01:f16:4x1+wei_up:per_dim_1:f16",
        "--stag=abc --wtag=cab --dtag=abc --activation=gelu_tanh --mb=9",
    ],
)
def test_the_repro_line_makes_the_problem_again(options: str) -> None:
    assert_round_trip("--gated_mlp", *options.split(), "5x8x12")


def test_the_driver_may_be_spelt_with_a_hyphen() -> None:
    assert problem("--gated-mlp", "5x8x12").repro == "--gated_mlp 5x8x12"
    spelt = [CliRunner().invoke(main, [f"--{name}", "--help"]) for name in ("gated-mlp", "gated_mlp")]
    assert spelt[0].exit_code == 0
    assert spelt[0].output == spelt[1].output


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "MatMul Sigmoid Multiply MatMul Multiply MatMul"),
        ("--activation=gelu_erf", "MatMul GELU MatMul Multiply MatMul"),
        ("--dt=bf16:bf16:bf16:bf16:f32 --activation=gelu_tanh", "MatMul GELU MatMul Multiply MatMul"),
        ("--dt=f32:u4:s8:f32:f32 --activation=gelu_erf", "DynamicDequantize Dequantize MatMul GELU MatMul Multiply MatMul"),
        ("--attr-post-ops=add:f32:per_oc", "MatMul Sigmoid Multiply MatMul Multiply MatMul Add"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--gated_mlp", *options.split(), "5x8x12")) == sorted(ops.split())


def test_shapes_follow_from_rows_and_two_sizes() -> None:
    assert shapes("--gated_mlp", "5x8x12") == ([(5, 8), (8, 12), (8, 12), (12, 8)], [(5, 8)])
    wide = [(5, 1, 8), (1, 8, 12), (1, 8, 12), (1, 12, 8)]
    assert shapes("--gated_mlp", "--stag=abc", "--wtag=cab", "5x8x12") == (wide, [(5, 1, 8)])


@pytest.mark.parametrize(
    ("name", "activation"),
    [
        ("swish", lambda x: x / (1 + np.exp(-x))),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_the_formula(name: str, activation: np.ufunc) -> None:
    rng = np.random.default_rng(0)
    x, gate, up, down = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 8), (8, 12), (8, 12), (12, 8)))
    (dst,) = evaluated(["--gated_mlp", f"--activation={name}", "5x8x12"], x, gate, up, down)
    assert dst == pytest.approx((activation(x @ gate) * (x @ up)) @ down, rel=1e-4, abs=1e-4)


def test_each_matrix_has_its_scales() -> None:
    words = ["--dt=f32:u4:u4:u4:f32", "--attr-scales=wei:per_dim_01:f32:4x1+wei_up:per_dim_1+wei_down:common:0.5"]
    g = graph("--gated_mlp", *words, "5x8x12")
    read = sorted((op for op in g.ops if op.kind == "DynamicDequantize"), key=lambda op: op.id)
    assert [op.attrs.get("qtype") for op in read] == ["per_group", "per_channel", "per_tensor"]
    assert [op.inputs[1].known_shape for op in read] == [(2, 12), (12,), (1,)]
    assert all(t.is_constant for op in read for t in op.inputs)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("5x8", "2 sizes; give the rows, the model's size and the hidden one, as in 32x256x512"),
        ("5x0x12", "a matrix without elements; give sizes of 1 or more"),
        ("--wtag=BA16a64b 5x8x12", "--wtag=BA16a64b: a blocked layout: oneDNN Graph's tensors have strides alone; use a plain tag"),
        ("--dt=s32 5x8x12", "no op reads s32 src as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--gated_mlp", *words.split())
