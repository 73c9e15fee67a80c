"""eltwise, softmax, binary, reduction, reorder: options become the ops they mean, on the shapes of the descriptor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.options.problem import CannotExpress
from benchgraph.reference import evaluate, fill
from tests.drivers.problems import graph, kinds, problem, shapes, shared

A = shared("algs")
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=5).map(tuple)


def spelt(*of: tuple[int, ...]) -> str:
    return ":".join("x".join(map(str, shape)) for shape in of)


# ---- shapes, and the repro line as the inverse of reading -------------------------------------------------------------


def assert_shapes(words: list[str], ins: list[tuple[int, ...]], outs: list[tuple[int, ...]]) -> None:
    found = problem(*words)
    g = found.graph()
    assert ([t.known_shape for t in g.inputs], [t.known_shape for t in g.outputs]) == (ins, outs)
    assert found.repro == " ".join(words)
    assert problem(*found.repro.split()).graph() == g


@given(SHAPES, st.sampled_from(["eltwise", "reorder"]))
def test_one_shape_in_one_out(shape: tuple[int, ...], driver: str) -> None:
    assert_shapes([f"--{driver}", spelt(shape)], [shape], [shape])


@given(SHAPES, st.sampled_from(["FWD_D", "BWD_D"]))
def test_softmax_keeps_the_shape(shape: tuple[int, ...], way: str) -> None:
    count = {"FWD_D": 1, "BWD_D": 2}[way]
    words = ["--softmax", *(["--dir=BWD_D"] if count == 2 else []), "--axis=0", spelt(shape)]
    assert_shapes(words, [shape] * count, [shape])


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["both", "src0", "src1"])), min_size=1, max_size=5))
def test_binary_broadcasts(dims: list[tuple[int, str]]) -> None:
    a, b = (tuple(size if who in ("both", name) else 1 for size, who in dims) for name in ("src0", "src1"))
    assert_shapes(["--binary", spelt(a, b)], [a, b], [np.broadcast_shapes(a, b)])


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=5).filter(lambda dims: any(r for _, r in dims)))
def test_reduction_keeps_the_dims_that_are_reduced_as_1(dims: list[tuple[int, bool]]) -> None:
    src, dst = tuple(size for size, _ in dims), tuple(1 if reduced else size for size, reduced in dims)
    assert_shapes(["--reduction", spelt(src, dst)], [src], [dst])


@pytest.mark.parametrize("driver", ["eltwise", "softmax", "reorder"])
def test_mb_replaces_dim_0(driver: str) -> None:
    assert shapes(f"--{driver}", "--mb=9", "2x3") == ([(9, 3)], [(9, 3)])


def test_mb_replaces_dim_0_of_the_tensors_that_have_it() -> None:
    assert shapes("--binary", "--mb=9", "2x3:1x3") == ([(9, 3), (1, 3)], [(9, 3)])
    assert shapes("--reduction", "--mb=9", "2x3:1x3") == ([(9, 3)], [(1, 3)])


# ---- eltwise ---------------------------------------------------------------------------------------------------------

FORMULAS = {  # oneDNN's definitions, independent of the op table
    "abs": lambda x, a, b: np.abs(x),
    "clip": lambda x, a, b: np.clip(x, a, b),
    "clip_v2": lambda x, a, b: np.clip(x, a, b),
    "elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)),
    "exp": lambda x, a, b: np.exp(x),
    "gelu_tanh": lambda x, a, b: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x))),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "hardswish": lambda x, a, b: x * np.clip(a * x + b, 0, 1),
    "log": lambda x, a, b: np.log(x),
    "logistic": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "mish": lambda x, a, b: x * np.tanh(np.log1p(np.exp(x))),
    "pow": lambda x, a, b: a * x**b,
    "relu": lambda x, a, b: np.where(x > 0, x, a * x),
    "round": lambda x, a, b: np.rint(x),
    "soft_relu": lambda x, a, b: np.log1p(np.exp(a * x)) / a,
    "sqrt": lambda x, a, b: np.sqrt(x),
    "square": lambda x, a, b: x * x,
    "swish": lambda x, a, b: x / (1 + np.exp(-a * x)),
    "tanh": lambda x, a, b: np.tanh(x),
}
NUMBERS = {
    "clip": (-0.5, 0.5),
    "clip_v2": (-0.5, 0.5),
    "elu": (0.5, 0.0),
    "hardsigmoid": (0.25, 0.5),
    "hardswish": (1 / 6, 0.5),
    "pow": (1.0, 2.0),
    "relu": (0.25, 0.0),
    "soft_relu": (2.0, 0.0),
    "swish": (1.0, 0.0),
}
POSITIVE = ("log", "sqrt", "pow")
X = np.array([-7.0, -2.5, -0.6, -0.25, 0.25, 0.3, 0.75, 1.5, 6.0])


def run(words: list[str], *data: np.ndarray) -> np.ndarray:
    g = graph(*words)
    (out,) = g.outputs
    inputs = sorted(g.inputs, key=lambda t: t.id)  # as the driver made them; g.inputs is in order of first use
    return evaluate(g, {t.id: x.astype(np.float32) for t, x in zip(inputs, data, strict=True)})[out.id]


def eltwise(name: str, *options: str) -> list[str]:
    alpha, beta = NUMBERS.get(name.removesuffix("_dst"), (0.0, 0.0))
    return ["--eltwise", f"--alg={name}", f"--alpha={alpha!r}", f"--beta={beta!r}", *options, str(X.size)]


def test_every_algorithm_has_a_formula_here() -> None:
    assert set(FORMULAS) | {"linear", "gelu_erf"} == set(A.ELTWISE)


@pytest.mark.parametrize("name", FORMULAS)
def test_an_algorithm_computes_its_formula(name: str) -> None:
    x = np.abs(X) if name in POSITIVE else X
    assert run(eltwise(name), x) == pytest.approx(FORMULAS[name](x, *NUMBERS.get(name, (0.0, 0.0))), rel=1e-6, abs=1e-6)


GRADIENTS = [name for name in A.ELTWISE_NAMES if name.removesuffix("_dst") not in ("clip", "linear", "pow", "round", "gelu_erf")]


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_the_slope_of_the_formula(name: str) -> None:
    base = name.removesuffix("_dst")
    x = np.abs(X) if base in POSITIVE else X
    numbers = (0.0, 0.0) if base == "relu" else NUMBERS.get(base, (0.0, 0.0))  # there is no gradient of a leaky one
    formula, step = FORMULAS[base], 1e-6
    slope = (formula(x + step, *numbers) - formula(x - step, *numbers)) / (2 * step)
    known = formula(x, *numbers) if name.endswith("_dst") else x
    words = ["--eltwise", "--dir=BWD_D", f"--alg={name}", f"--alpha={numbers[0]!r}", f"--beta={numbers[1]!r}", str(X.size)]
    assert run(words, known, np.full(X.size, 2.0)) == pytest.approx(2 * slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--alg=linear --alpha=2", "no op multiplies by an attribute, as linear would need; use a binary op with a tensor"),
        ("--alg=pow --alpha=2 --beta=2", "pow is alpha * x^beta, and Pow has no alpha; give alpha 1"),
        ("--alg=swish --alpha=2", "swish is x * sigmoid(alpha * x), and Sigmoid has no alpha; give alpha 1"),
        ("--alg=soft_relu", "soft_relu divides by alpha; give an alpha other than 0"),
        ("--alg=hardswish --alpha=1", "HardSwish has alpha 1/6 and beta 1/2 built in; give these, or none"),
        ("--alg=hardswish --alpha=1 --dir=BWD_D", "HardSwishBackward has alpha 1/6 and beta 1/2 built in; give these, or none"),
        ("--alg=elu --alpha=-1", "elu with alpha -1; Elu takes none below 0"),
        ("--alg=clip --alpha=1", "clip from 1 to 0; give alpha <= beta"),
        ("--alg=square --alpha=1", "square takes no alpha, but it is 1; leave alpha out"),
        ("--alg=relu --beta=1", "relu takes no beta, but it is 1; leave beta out"),
        ("--alg=relu --alpha=1 --dir=BWD_D", "the gradient of relu with a slope has no op; use alpha 0"),
        ("--alg=clip --dir=BWD_D", "the gradient of clip has no op; use clip_v2, which differs at beta alone"),
        ("--alg=round --dir=BWD_D", "the gradient of round has no op; use --dir=FWD_D"),
        ("--dir=BWD_D --attr-post-ops=relu", "--attr-post-ops: post-ops after a gradient; leave them out, or use --dir=FWD_D"),
        ("--dt=s32", "no op reads s32 src as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
    ],
)
def test_eltwise_refuses_what_no_op_means(options: str, reason: str) -> None:
    with pytest.raises(CannotExpress) as bad:
        graph("--eltwise", *options.split(), "2x3")
    assert str(bad.value) == f"2x3: {reason}"


# ---- softmax ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "SoftMax"),
        ("--alg=SOFTMAX_INF_AS_ZERO", "SoftMax"),
        ("--alg=softmax_log", "LogSoftmax"),
        ("--dir=BWD_D", "SoftMaxBackward"),
        ("--dir=BWD_D --alg=LOGSOFTMAX", "LogSoftmaxBackward"),
        ("--sdt=bf16 --ddt=f32", "SoftMax"),
        ("--dt=bf16:f16", "TypeCast SoftMax TypeCast"),
        ("--sdt=f32 --ddt=bf16", "SoftMax TypeCast"),
        ("--sdt=bf16 --alg=logsoftmax", "TypeCast LogSoftmax"),
        ("--dt=s8:u8", "Dequantize SoftMax Quantize"),
    ],
)
def test_softmax_options_become_ops(options: str, ops: str) -> None:
    assert kinds("--softmax", *options.split(), "4x8") == ops.split()


@pytest.mark.parametrize("alg", ["softmax", "logsoftmax"])
def test_softmax_sums_up_to_1_along_its_axis(alg: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    y = run(["--softmax", f"--alg={alg}", "--axis=2", "3x4x5"], x)
    assert (y if alg == "softmax" else np.exp(y)).sum(axis=2) == pytest.approx(np.ones((3, 4)), rel=1e-6)


def test_an_axis_that_is_not_there_is_refused() -> None:
    with pytest.raises(BenchgraphError, match=r"4x8: op 0: SoftMax: .*axis 2"):
        graph("--softmax", "--axis=2", "4x8")


# ---- binary ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ops", "dtype"),
    [
        ("--alg=ADD", "Add", "f32"),
        ("--alg=binary_mul --dt=bf16", "Multiply", "bf16"),
        ("--alg=sub --dt=s32", "Subtract", "s32"),
        ("--alg=div --sdt=f32:bf16", "TypeCast Divide", "f32"),
        ("--alg=max --dt=bf16:bf16:f32", "TypeCast TypeCast Maximum", "f32"),
        ("--alg=min --sdt=u8:s8 --ddt=u8", "Dequantize Dequantize Minimum Quantize", "u8"),
        ("--alg=ge --dt=bf16", "GreaterEqual", "boolean"),
        ("--alg=le --dt=s32 --ddt=boolean", "GreaterEqual", "boolean"),
    ],
)
def test_binary_options_become_ops(options: str, ops: str, dtype: str) -> None:
    g = graph("--binary", *options.split(), "4x8:4x1")
    assert sorted(op.kind for op in g.ops) == sorted(ops.split())
    assert g.outputs[0].dtype is DType(dtype)


BINARIES = {
    "add": np.add, "div": np.divide, "ge": np.greater_equal, "le": np.less_equal, "max": np.maximum, "min": np.minimum,
    "mul": np.multiply, "sub": np.subtract,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARIES)
def test_a_binary_algorithm_computes_its_formula(name: str) -> None:
    a, b = np.array([[1.0, 2.0, 3.0], [4.0, -5.0, 2.0]]), np.array([[2.0], [4.0]])
    assert run(["--binary", f"--alg={name}", "2x3:2"], a, b) == pytest.approx(BINARIES[name](a, b), rel=1e-6)


def test_the_condition_of_select_is_like_dst_unless_it_is_given() -> None:
    assert shapes("--binary", "--alg=select", "2x3:1x3")[0] == [(2, 3), (2, 3), (1, 3)]


def test_select_takes_where_the_condition_holds() -> None:
    a, b, c = np.arange(6.0).reshape(2, 3), -np.ones((2, 3)), np.array([[True, False, True]])
    g = graph("--binary", "--alg=select", "2x3:2x3:1x3")
    data = {t.id: x if x.dtype == bool else x.astype(np.float32) for t, x in zip(g.inputs, (c, a, b), strict=True)}
    assert evaluate(g, data)[g.outputs[0].id].tolist() == np.where(c, a, b).tolist()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2x3:4x3", "dim 0 is 2 and 4 in 2x3:4x3; make the sizes equal, or all but one kind of them 1"),
        ("2x3:2x3:2x3", "3 shapes for add, which takes 2; the third one is the condition of select"),
        ("--alg=ne 2x3:2x3", "no op means ne: of the comparisons there is GreaterEqual alone; use ge or le"),
        ("--alg=ge --ddt=u8 2x3:2x3", "no op makes f32 of boolean; give another dtype to the result"),
        ("--alg=ge --attr-post-ops=relu 2x3:2x3", "--attr-post-ops: nothing can go on with booleans; leave it out"),
        ("--alg=mul --dt=s32 2x3:2x3", "no op reads s32 src0 as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
    ],
)
def test_binary_refuses_what_does_not_fit_or_no_op_means(words: str, reason: str) -> None:
    with pytest.raises(BenchgraphError) as bad:
        graph("--binary", *words.split())
    assert str(bad.value) == f"{words.split()[-1]}: {reason}"


# ---- reduction -------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": np.sum,
    "mul": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "norm_lp_sum --p=1": lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    "norm_lp_max --p=2": lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims)),
    "norm_lp_power_p_sum --p=1": lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    "norm_lp_power_p_max --p=2": lambda x, axis, keepdims: (x * x).sum(axis, keepdims=keepdims),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_computes_its_formula(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    got = run(["--reduction", *f"--alg={name}".split(), "2x3x4:1x3x1"], x)
    assert got == pytest.approx(REDUCTIONS[name](x, axis=(0, 2), keepdims=True), rel=1e-5)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2x3:2x2", "dim 1 is 3 in SRC and 2 in DST; give it 3 in DST, or 1 to reduce it"),
        ("2x3:2x3", "2x3:2x3 reduces nothing; write 1 in DST for every dim to reduce"),
        ("2x3:1", "SRC has 2 sizes and DST 1; give DST as many, with 1 for every dim that is reduced"),
        ("--alg=norm_lp_max --p=3 2x3:1x3", "no op means norm_lp_max with p 3 and eps 0; give p 1 or 2 and eps 0"),
        ("--alg=norm_lp_sum --p=2 --eps=1 2x3:1x3", "no op means norm_lp_sum with p 2 and eps 1; give p 1 or 2 and eps 0"),
    ],
)
def test_reduction_refuses_what_does_not_fit_or_no_op_means(words: str, reason: str) -> None:
    with pytest.raises(BenchgraphError) as bad:
        graph("--reduction", *words.split())
    assert str(bad.value) == f"{words.split()[-1]}: {reason}"


# ---- reorder ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("--dtag=axb", "Reorder"),
        ("--ddt=bf16 --dtag=axb", "TypeCast"),
        ("--sdt=bf16 --ddt=f16", "TypeCast TypeCast"),
        ("--ddt=u8", "Quantize"),
        ("--sdt=s8", "Dequantize"),
        ("--dt=s8 --stag=axb", "Dequantize Quantize"),
        ("--dt=s8:bf16", "Dequantize TypeCast"),
        ("--attr-post-ops=relu", "Reorder ReLU"),
    ],
)
def test_reorder_options_become_ops(options: str, ops: str) -> None:
    assert kinds("--reorder", *options.split(), "2x3x4") == ops.split()


@pytest.mark.parametrize("dtypes", ["f32", "f32:bf16", "s8:f32", "f32:s8"])
def test_a_reorder_writes_the_layout_of_dst(dtypes: str) -> None:
    g = graph("--reorder", f"--dt={dtypes}", "--stag=abc", "--dtag=acb", "2x3x4")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(12, 4, 1), (12, 1, 3)]
    data = fill(g, seed=0)
    (out,) = g.outputs
    assert evaluate(g, data)[out.id].shape == (2, 3, 4)


def test_a_shape_that_cannot_be_read_is_a_case_that_fails() -> None:
    with pytest.raises(InvalidArguments, match="2xx3: at character 3: a size is missing; write sizes as in 8x64x56x56"):
        graph("--reorder", "2xx3")
