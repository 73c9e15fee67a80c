"""Functions of one input, and their gradients, compiled, at arguments where a formula breaks that is right elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import TensorType
from benchgraph.graph.build import sample_graph
from benchgraph.ops import call_of, spec, with_defaults
from benchgraph.ops.elementwise import power, unary, unary_backward
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import OpSpec, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

EXTREMES = (1e30, -1e30, 3e38, -3e38, 200, -200, 87, -87, 45, -45, 20, -20, 1e-30, -1e-30, 0, np.nan, 3, -3)
FARTHER = 16  # exponents are up to 88 here, in the rows' own data about 5: so much more does their rounding move exp
ROWS = (*unary.SPECS, *unary_backward.SPECS, *power.SPECS)
USES = dict.fromkeys((row.kind, with_defaults(row.kind, s.attrs)) for row in ROWS for s in row.testing.samples)
FORWARD = [(kind, attrs) for kind, attrs in USES if kind in {row.kind for row in unary.SPECS}]
FROM_SRC = [(kind, attrs) for kind, attrs in USES if not attrs.get("use_dst")]


def compiled(row: OpSpec, attrs: Attrs, *ins: Reals) -> Reals:
    """The compiled results of f32 inputs."""
    sample = Sample(tuple(a.shape for a in ins), attrs, why="a test")
    (partition,) = partitions(sample_graph(row, sample), Policy.one_op_each)
    dst = np.zeros(ins[0].shape, np.float32)
    compile_partition(partition).bind([a.astype(np.float32) for a in ins], [dst])()
    return real(dst)


@pytest.mark.parametrize(("kind", "attrs"), FROM_SRC, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(FROM_SRC)])
def test_extreme_arguments_give_the_reference_result(kind: str, attrs: Attrs) -> None:
    row, src = spec(kind), real(np.array(EXTREMES, np.float32))
    ins = (src, np.full(src.shape, 0.5))[: len(row.schema.inputs)]
    call = call_of(kind, Sample(tuple(a.shape for a in ins), attrs, why="a test"))
    with np.errstate(over="ignore"):
        want = real(row.semantics.reference(call, ins)[0].astype(np.float32))
    got = compiled(row, attrs, *ins)
    with np.errstate(invalid="ignore"):
        close = np.abs(got - want) <= FARTHER * row.semantics.threshold(call) * DType.f32.eps * np.abs(want) + 1e-6
    right = close | (got == want) | (np.isnan(got) & np.isnan(want))
    assert right.all(), [(float(x), float(w), float(g)) for x, w, g in zip(src[~right], want[~right], got[~right], strict=True)]


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("kind", "attrs", "src", "want"),
    [
        ("ReLU", Attrs(), (NAN, INF, -INF, 2.0, -2.0), (0.0, INF, 0.0, 2.0, 0.0)),  # oneDNN's
        ("ReLU", Attrs(propagate_nan=False), (NAN, -1.0), (0.0, 0.0)),
        ("ReLU", Attrs(propagate_nan=True), (NAN, INF, -INF, 2.0, -2.0), (NAN, INF, 0.0, 2.0, 0.0)),
        ("Clamp", Attrs(min=0.5, max=INF), (NAN, INF, -INF, 2.0, -2.0), (NAN, INF, 0.5, 2.0, 0.5)),
        ("Clamp", Attrs(min=-INF, max=0.5), (NAN, INF, -INF, 2.0, -2.0), (NAN, 0.5, -INF, 0.5, -2.0)),
        ("Clamp", Attrs(min=-INF, max=INF), (NAN, INF, -INF, 2.0, -2.0), (NAN, INF, -INF, 2.0, -2.0)),
        ("Pow", Attrs(beta=1.5), (NAN, INF, -INF, -4.0), (NAN, INF, INF, NAN)),
        ("Pow", Attrs(beta=-2.5), (NAN, INF, -INF, -4.0), (NAN, 0.0, 0.0, NAN)),
        ("Pow", Attrs(beta=0.3), (NAN, INF, -INF, -4.0), (NAN, INF, INF, NAN)),
        ("Pow", Attrs(beta=-0.3), (NAN, INF, -INF, -4.0), (NAN, 0.0, 0.0, NAN)),
    ],
)
def test_numbers_that_are_not_finite(kind: str, attrs: Attrs, src: tuple[float, ...], want: tuple[float, ...]) -> None:
    """The same in whole vectors, in the elements after them, and in the reference."""
    given, expected = np.resize(src, 40), np.resize(want, 40)
    call = call_of(kind, Sample((given.shape,), attrs, why="a test"))
    np.testing.assert_array_equal(spec(kind).semantics.reference(call, (given,))[0], expected)
    np.testing.assert_array_equal(compiled(spec(kind), attrs, given), expected)


@pytest.mark.parametrize(
    ("kind", "attrs", "exact"),
    [
        ("SigmoidBackward", Attrs(use_dst=False), lambda x: np.exp(x) / (1 + np.exp(x)) ** 2),
        ("TanhBackward", Attrs(use_dst=False), lambda x: np.cosh(x) ** -2),
        ("SoftPlus", Attrs(beta=1.0), lambda x: np.log1p(np.exp(x))),
        ("Mish", Attrs(), lambda x: x * np.exp(x)),
    ],
)
def test_small_results_keep_their_digits(kind: str, attrs: Attrs, exact: Callable[[Reals], Reals]) -> None:
    """For large |x| only e**-|x| remains: 1 - dst, or log(1 + t) as written, would have no digits of it."""
    src = np.linspace(-40, -16, 49)
    ins = (src, np.ones(src.shape))[: len(spec(kind).schema.inputs)]
    assert np.allclose(compiled(spec(kind), attrs, *ins), exact(src), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("kind", "attrs"), FORWARD, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(FORWARD)])
def test_small_arguments_keep_their_digits(kind: str, attrs: Attrs) -> None:
    """e**x - 1 would lose those of x."""
    row, src = spec(kind), real(np.geomspace(1e-6, 0.1, 61, dtype=np.float32))
    src = np.concatenate([src, -src])
    call = call_of(kind, Sample((src.shape,), attrs, why="a test"))
    with np.errstate(invalid="ignore"):
        (want,) = row.semantics.reference(call, (src,))
    assert np.allclose(compiled(row, attrs, src), want, rtol=max(row.semantics.threshold(call), 1) * DType.f32.eps, atol=0, equal_nan=True)


def test_the_normal_distribution_keeps_its_digits_too() -> None:
    src = np.arange(-12, -4, 0.125)
    assert np.allclose(compiled(spec("GELU"), Attrs(), src), src * ndtr(src), rtol=2e-6, atol=0)


def test_gelu_of_an_infinity_is_not_nan() -> None:
    """The tail, 0, times an infinity would be NaN. The sign of 0 is kept."""
    row, src = spec("GELU"), np.array([np.inf, -np.inf, 0.0, -0.0, np.nan])
    got = compiled(row, Attrs(), src)
    np.testing.assert_array_equal(got, [np.inf, 0, 0, 0, np.nan])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(row.semantics.reference(call_of("GELU", Sample((src.shape,))), (src,))[0], got)
    assert list(np.signbit(got[2:4])) == [False, True]


@pytest.mark.parametrize(("beta", "want"), [(2.0, 4.0), (3.0, -8.0), (-1.0, -0.5), (0.0, 1.0), (21.0, -(2.0**21)), (22.0, 2.0**22)])
def test_negative_numbers_have_integer_powers(beta: float, want: float) -> None:
    assert np.allclose(compiled(spec("Pow"), Attrs(beta=beta), np.array([-2.0])), want, rtol=1e-5, atol=0)


@pytest.mark.parametrize("beta", [0.5, -1.5, 0.3])
def test_negative_numbers_have_no_other_powers(beta: float) -> None:
    assert np.isnan(compiled(spec("Pow"), Attrs(beta=beta), np.array([-2.0]))).all()


def test_a_gradient_multiplied_by_0_may_be_infinite() -> None:
    got = compiled(spec("ReLUBackward"), Attrs(use_dst=False), np.array([-1.0, 2.0]), np.array([np.inf, 1.0]))
    assert got.tolist() == [0.0, 1.0]


def test_by_default_the_first_input_of_a_gradient_is_dst() -> None:
    got = compiled(spec("TanhBackward"), Attrs(), np.array([0.5]), np.array([1.0]))
    assert got.tolist() == [0.75]


def test_diff_dst_of_another_shape_is_refused() -> None:
    ins = (TensorType(DType.f32, (2, 3)), TensorType(DType.f32, (3,)))
    with pytest.raises(InvalidShape) as caught:
        spec("AbsBackward").semantics.infer(Attrs(), ins)
    assert str(caught.value) == "diff_dst (3,) differs from the first input (2, 3); give both the shape of the forward op's tensors"
