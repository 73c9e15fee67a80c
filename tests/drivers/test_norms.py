"""bnorm, lnorm, gnorm: descriptors with an epsilon, flags and directions as ops, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import UsageError
from benchgraph.reference import evaluate
from tests.drivers.problems import graph, kinds, problem, shapes, shared

N = shared("norm")
EPS = 1 / 16


@given(
    st.lists(st.integers(1, 6), max_size=3).map(tuple),
    st.sampled_from([EPS, 0.0, 1.23456789e-5, 0.001, 0.1, 2.0, 1.5e10]),
    st.integers(0, 4),
    st.sampled_from(["", "net:bn_n2"]),
)
def test_what_is_printed_is_read_again(spatial: tuple[int, ...], eps: float, g: int, name: str) -> None:
    shape = N.NormShape(3, 12 if g in (0, 4) else 2 * g, spatial, eps, g, name)
    assert (N.parse_group if g else N.parse_batch)(str(shape)) == shape


@pytest.mark.parametrize(
    ("driver", "text", "full"),
    [
        ("bnorm", "mb96_ic64_ih112iw112", "mb96_ic64ih112iw112"),
        ("bnorm", "ic64ih112", "mb2_ic64ih112iw112"),
        ("bnorm", "ic64", "mb2_ic64"),
        ("bnorm", 'mb7ic8iw3eps0.001n"a:b"', 'mb7_ic8iw3_eps0.001_n"a:b"'),
        ("bnorm", "ic8eps1e-5iw3", "mb2_ic8iw3_eps1e-05"),
        ("gnorm", 'g5ic5iw10_n"gnorm_test_shape"', 'g5_mb2_ic5iw10_n"gnorm_test_shape"'),
        ("gnorm", "g2mb3ic4id5eps.5", "g2_mb3_ic4id5ih5iw5_eps0.5"),
        ("lnorm", "8x32x1024_nbert", '8x32x1024_n"bert"'),
    ],
)
def test_sizes_that_are_left_out_follow_from_the_others(driver: str, text: str, full: str) -> None:
    assert str(problem(f"--{driver}", text).knobs.case) == full


@pytest.mark.parametrize(
    ("driver", "text", "reason"),
    [
        ("bnorm", "ih8", "ic is missing; write icN, the number of channels"),
        ("bnorm", "ic3eps", "at character 4: eps has no number; write epsN"),
        ("bnorm", "ic3eps1eps2", "at character 8: eps is given twice; leave one out"),
        ("bnorm", "ic3g2", "at character 4: no size is called 'g'; there are mb, ic, id, ih, iw and eps"),
        ("gnorm", "ic4ih8", "g is missing; write gN, the number of groups"),
        ("gnorm", "g3ic4ih8", "g3 does not divide ic4; give a number of groups that does"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(driver: str, text: str, reason: str) -> None:
    assert reason in str(problem(f"--{driver}", text).unusable)


def test_flags_are_written_in_one_order_and_older_ones_read() -> None:
    assert problem("--bnorm", "--flags=RHGC", "ic3").repro == "--bnorm --flags=GCHR mb2_ic3"
    assert problem("--bnorm", "--flags=SR", "ic3") == problem("--bnorm", "--flags=CHR", "ic3")
    for driver, flag, known in (("bnorm", "M", "G, C, H, R, A"), ("lnorm", "R", "G, C, H, M"), ("gnorm", "M", "G, C, H")):
        with pytest.raises(UsageError, match=f"'{flag}' is no flag; there are {known}"):
            problem(f"--{driver}", f"--flags={flag}", "ic3")


TRAINED, INFERRED, BACKWARD = "BatchNormForwardTraining", "BatchNormInference", "BatchNormTrainingBackward"


@pytest.mark.parametrize(
    ("words", "ops", "count"),
    [
        ("--bnorm", TRAINED, 5),
        ("--bnorm --dir=FWD_I --flags=C", f"{TRAINED} Multiply", 5),
        ("--bnorm --flags=H", f"{TRAINED} Add", 5),
        ("--bnorm --flags=GCH", INFERRED, 1),
        ("--bnorm --flags=CHR", f"{TRAINED} ReLU", 5),
        ("--bnorm --flags=CHA", f"{TRAINED} Add ReLU", 5),
        ("--bnorm --dir=FWD_I --flags=GCH --dt=s8", f"Dequantize {INFERRED} Quantize", 1),
        ("--bnorm --dir=BWD_D --flags=CH", BACKWARD, 1),
        ("--bnorm --dir=BWD_DW", BACKWARD, 1),
        ("--bnorm --dir=BWD_DW --flags=C", BACKWARD, 3),
        ("--bnorm --dir=BWD_DW --flags=H", f"ReduceSum {BACKWARD}", 2),
        ("--bnorm --dir=BWD_DW --flags=CHR", f"ReLUBackward {BACKWARD}", 3),
        ("--bnorm --dir=BWD_D --flags=A", f"ReLUBackward End {BACKWARD}", 2),
        ("--lnorm --flags=CH", "LayerNorm", 3),
        ("--lnorm --dir=FWD_I --flags=CH", "LayerNorm", 1),
        ("--lnorm --dir=FWD_I --flags=C", "LayerNorm Multiply", 1),
        ("--lnorm --flags=H --ss-dt=bf16", "TypeCast LayerNorm Add", 3),
        ("--lnorm --flags=CM", "RMSNorm", 1),
        ("--lnorm --flags=CHM", "RMSNorm Add", 1),
        ("--lnorm --dt=f32:bf16 --dir=FWD_I", "LayerNorm TypeCast", 1),
        ("--lnorm --dir=BWD_D --flags=CH", "Multiply LayerNormBackward", 1),
        ("--lnorm --dir=BWD_DW --flags=CH", "LayerNormBackward", 3),
        ("--lnorm --dir=BWD_DW --flags=H", "LayerNormBackward ReduceSum", 2),
        ("--gnorm --flags=CH", "GroupNorm", 3),
        ("--gnorm --flags=C --dir=FWD_I", "GroupNorm Multiply", 1),
        ("--gnorm --flags=C --dir=FWD_I --attr-post-ops=relu", "GroupNorm Multiply ReLU", 1),
        ("--gnorm --flags=H --dir=FWD_I --attr-post-ops=relu", "GroupNorm Add ReLU", 1),
        ("--lnorm --flags=C --dir=FWD_I --attr-post-ops=relu", "LayerNorm Multiply ReLU", 1),
        ("--lnorm --flags=HM --dir=FWD_I --attr-post-ops=relu", "RMSNorm Add ReLU", 1),
        ("--bnorm --flags=C --attr-post-ops=relu", f"{TRAINED} Multiply ReLU", 5),
        ("--gnorm --dt=bf16 --flags=H --dir=FWD_I", "GroupNorm TypeCast Add TypeCast", 1),
    ],
)
def test_options_become_ops_with_as_many_results(words: str, ops: str, count: int) -> None:
    case = {"--bnorm": "ic4ih3", "--lnorm": "3x4", "--gnorm": "g2ic4ih3"}[words.split()[0]]
    assert sorted(kinds(*words.split(), case)) == sorted(ops.split())
    assert len(graph(*words.split(), case).outputs) == count


def test_every_tensor_has_its_layout_and_dtype() -> None:
    g = graph("--lnorm", "--dt=bf16:f32", "--tag=bax", "--stat-tag=ba", "2x3x4")
    assert [(t.dtype, t.strides) for t in g.inputs] == [(DType.bf16, (4, 8, 1))]
    assert [(t.dtype, t.strides) for t in g.outputs] == [(DType.f32, strides) for strides in ((4, 8, 1), (1, 2), (1, 2))]
    g = graph("--gnorm", "--tag=axb:abx", "--dir=FWD_I", "g2ic4iw3")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(12, 1, 4), (12, 3, 1)]
    g = graph("--bnorm", "--dir=FWD_I", "--flags=GCH", "--strides=16x4x1:", "ic4iw3")
    assert [t.strides for t in (g.inputs[0], *g.outputs)] == [(16, 4, 1), (12, 3, 1)]
    assert shapes("--bnorm", "--mb=7", "ic4iw3")[0] == [(7, 4, 3), (4,), (4,)]


# ---- what they compute -----------------------------------------------------------------------------------------------


def first_result(words: list[str], *data: np.ndarray) -> np.ndarray:
    g = graph(*words)
    inputs = sorted(g.inputs, key=lambda t: t.id)  # as the driver made them
    first = min(g.outputs, key=lambda t: t.id) if len(g.ops) == 1 else g.order[-1].outputs[0]
    return evaluate(g, {t.id: x.astype(np.float32).reshape(t.known_shape) for t, x in zip(inputs, data, strict=True)})[first.id]


def normalised(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPS)


RNG = np.random.default_rng(0)
X, SCALE, SHIFT, MEAN = RNG.normal(size=(3, 4, 5)), RNG.uniform(0.5, 2, 4), RNG.normal(size=4), RNG.normal(size=4)
VARIANCE = RNG.uniform(0.5, 2, 4)


def beside(v: np.ndarray) -> np.ndarray:
    return v.reshape(4, 1)


@pytest.mark.parametrize(
    ("flags", "data", "wanted"),
    [
        ("", (X, MEAN, VARIANCE), normalised(X, (0, 2))),
        ("C", (X, MEAN, VARIANCE, SCALE), normalised(X, (0, 2)) * beside(SCALE)),
        ("H", (X, MEAN, VARIANCE, SHIFT), normalised(X, (0, 2)) + beside(SHIFT)),
        ("CHR", (X, MEAN, VARIANCE, SCALE, SHIFT), np.maximum(normalised(X, (0, 2)) * beside(SCALE) + beside(SHIFT), 0)),
        ("A", (X, MEAN, VARIANCE, -X), np.maximum(normalised(X, (0, 2)) - X, 0)),
        (
            "GCH",
            (X, SCALE, SHIFT, MEAN, VARIANCE),
            (X - beside(MEAN)) / np.sqrt(beside(VARIANCE) + EPS) * beside(SCALE) + beside(SHIFT),
        ),
    ],
    ids=["none", "C", "H", "CHR", "A", "GCH"],
)
def test_bnorm_computes_what_its_flags_say(flags: str, data: tuple[np.ndarray, ...], wanted: np.ndarray) -> None:
    assert first_result(["--bnorm", f"--flags={flags}", "mb3ic4iw5"], *data) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


ROWS = X.transpose(0, 2, 1)  # (3, 5, 4), whose last dim has the sizes of scale and shift


@pytest.mark.parametrize(
    ("flags", "data", "wanted"),
    [
        ("", (ROWS,), normalised(ROWS, (2,))),
        ("C", (ROWS, SCALE), normalised(ROWS, (2,)) * SCALE),
        ("CH", (ROWS, SCALE, SHIFT), normalised(ROWS, (2,)) * SCALE + SHIFT),
        ("CHM", (ROWS, SCALE, SHIFT), ROWS / np.sqrt((ROWS**2).mean(2, keepdims=True) + EPS) * SCALE + SHIFT),
    ],
    ids=["none", "C", "CH", "CHM"],
)
def test_lnorm_computes_what_its_flags_say(flags: str, data: tuple[np.ndarray, ...], wanted: np.ndarray) -> None:
    assert first_result(["--lnorm", "--dir=FWD_I", f"--flags={flags}", "3x5x4"], *data) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("flags", ["", "C", "H", "CH"])
def test_gnorm_computes_what_its_flags_say(flags: str) -> None:
    wanted = normalised(X.reshape(3, 2, 10), (2,)).reshape(X.shape)
    wanted = wanted * (beside(SCALE) if "C" in flags else 1) + (beside(SHIFT) if "H" in flags else 0)
    data = [v for flag, v in (("C", SCALE), ("H", SHIFT)) if flag in flags]
    assert first_result(["--gnorm", "--dir=FWD_I", f"--flags={flags}", "g2mb3ic4iw5"], X, *data) == pytest.approx(
        wanted, rel=1e-4, abs=1e-5
    )


@pytest.mark.parametrize("way", ["BWD_D", "BWD_DW"])
@pytest.mark.parametrize("driver", ["bnorm", "lnorm"])
def test_a_gradient_is_the_slope_of_the_forward_direction(driver: str, way: str) -> None:
    x, axes = (X, (0, 2)) if driver == "bnorm" else (ROWS, (2,))
    scale = beside(SCALE) if driver == "bnorm" else SCALE
    g, move, step = RNG.normal(size=x.shape), RNG.normal(size=x.shape), 1e-5
    slope = ((normalised(x + step * move, axes) - normalised(x - step * move, axes)) / (2 * step) * scale * g).sum()
    case = "mb3ic4iw5" if driver == "bnorm" else "3x5x4"
    diff = first_result([f"--{driver}", f"--dir={way}", "--flags=CH", case], x, g, x.mean(axes), x.var(axes), SCALE)
    assert (diff * move).sum() == pytest.approx(slope, rel=1e-3)


def test_the_gradient_of_a_fused_relu_passes_where_its_result_is_above_0() -> None:
    """dst stands for the workspace; the sum of diff_dst where it is above 0 is the gradient of the shift."""
    g = graph("--bnorm", "--dir=BWD_DW", "--flags=CHR", "mb3ic4iw5")
    x, diff_dst, dst, *stats = sorted(g.inputs, key=lambda t: t.id)
    data = {x.id: X, diff_dst.id: X[::-1], dst.id: X, **dict(zip((t.id for t in stats), (MEAN, VARIANCE, SCALE), strict=True))}
    values = evaluate(g, {id: v.astype(np.float32) for id, v in data.items()})
    diff_shift = values[max(t.id for t in g.outputs)]
    assert diff_shift == pytest.approx((X[::-1] * (X > 0)).sum(axis=(0, 2)), rel=1e-5)
