"""sum: sources of any data types and weights become a chain of Add."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--sdt=f32:f32:bf16",
        "--sdt=s8:u8 --ddt=f32 --stag=axb:abx --dtag=axb",
        "--sdt=f32:s8:u8 --scales=0.25:3:2",
        "--scales=0.5 --mb=7 --attr-post-ops=relu",
    ],
)
def test_the_repro_line_makes_the_problem_again(options: str) -> None:
    assert_round_trip("--sum", *options.split(), "2x3x4")


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "Add"),
        ("--sdt=f32:f32:f32:f32", "Add Add Add"),
        ("--scales=2", "Multiply Multiply Add"),
        ("--scales=1:2", "Multiply Add"),
        ("--sdt=s8:f32 --scales=2:1", "Dequantize Add"),
        ("--sdt=bf16:f32 --ddt=bf16", "TypeCast Add TypeCast"),
        ("--sdt=bf16:bf16", "TypeCast TypeCast Add"),
        ("--dt=bf16", "Add"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--sum", *options.split(), "2x3x4")) == sorted(ops.split())


def test_the_sources_are_summed_each_times_its_weight() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-8, 8, (2, 3)).astype(np.float32) for _ in range(3))
    (dst,) = evaluated(["--sum", "--sdt=f32:s8:f32", "--scales=3:0.25:1", "2x3"], a, b, c, np.array([3.0]))
    assert dst == pytest.approx(3 * a + 0.25 * b + c)


def test_the_weight_of_a_quantised_source_is_its_scale() -> None:
    g = graph("--sum", "--sdt=s8:u8", "--ddt=s8", "--scales=0.25:2", "2x3")
    assert [(op.kind, op.attrs.reals("scales")) for op in g.ops if op.kind != "Add"] == [
        *(("Dequantize", (0.25,)), ("Dequantize", (2.0,))),
        ("Quantize", (1.0,)),
    ]
    assert g.outputs[0].dtype is DType.s8


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--sdt=f32 2x3", "--sdt=f32: one source; give the data types of two or more, joined by ':'"),
        ("--scales=1:2:3 2x3", "--scales=1:2:3: 3 values for 2 sources; give one for all sources, or 2 joined by ':'"),
        ("--sdt=f32:s32 2x3", "no op reads s32 msrc1 as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
        ("--ddt=s32 2x3", "no op makes s32 of f32; give another dtype to the result"),
        (
            "--sdt=s8:s8 --scales=2 --attr-scales=msrc1:common:3 2x3",
            "--scales, --attr-scales: source 1 has a weight and a scale of its own; leave one of them out",
        ),
        ("--dtag=nChw8c 2x8x3x3", "--dtag=nChw8c: a blocked layout: oneDNN Graph's tensors have strides alone; use a plain tag"),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--sum", *words.split())
