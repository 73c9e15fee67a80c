"""NaN, infinities, numbers near both ends of f32's range: through the rows in which they matter, at every instruction set level.

What is right is the row's reference, rounded to the dtype; compare.py has no other rule for these values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import sample_graph
from benchgraph.graph.ir import Graph
from benchgraph.machine.target import ISAS, Isa, host, missing
from benchgraph.ops import OPS, call_of
from benchgraph.ops.pooling import pool
from benchgraph.ops.spec import Array, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference import compare_output, evaluate, tolerance
from benchgraph.runtime.executable import Executable

NAN, INF = np.nan, np.inf
F32, BF16, F16 = DType.f32, DType.bf16, DType.f16
LEVELS = tuple({isa.lanes: isa for isa in ISAS.values() if not missing(isa) and not isa.has_bf16}.values())  # one of each width


@cache
def graph_of(kind: str, sample: Sample) -> Graph:
    return sample_graph(OPS[kind], sample)


@cache
def compiled(kind: str, sample: Sample, isa: Isa) -> Executable:
    (partition,) = partitions(graph_of(kind, sample), Policy.one_op_each)
    return compile_partition(partition, replace(host(), isa=isa, cores=1))


RIGHT: dict[tuple[str, Sample, tuple[bytes, ...]], dict[int, Array]] = {}  # the same at every level


def wrong(kind: str, sample: Sample, isa: Isa, ins: tuple[Array, ...]) -> list[str]:
    """The results of the compiled row compared with its reference: the first elements that differ, of every output."""
    graph = graph_of(kind, sample)
    held = {t.id: a.astype(t.dtype.numpy) for a, t in zip(ins, graph.inputs, strict=True)}
    outs = {t.id: np.zeros(t.known_shape, t.dtype.numpy) for t in graph.outputs}
    compiled(kind, sample, isa).bind(list(held.values()), list(outs.values()))()
    key = kind, sample, tuple(a.tobytes() for a in held.values())
    wants, rtol = RIGHT.get(key) or RIGHT.setdefault(key, evaluate(graph, held)), tolerance(graph)
    found = (compare_output(graph, held, t, outs[t.id], wants[t.id], rtol) for t in graph.outputs)
    return [f"{kind} of {sample.why}, {isa.name}: {c.errors} of {c.total}: {c.points[0]}" for c in found if not c.ok]


def placed(shape: Shape, axis: int, *values: float) -> Iterator[Array]:
    """Numbers among which each value is once in every row along an axis, at each position in turn; the last row consists of it."""
    plain = np.random.default_rng(1).normal(size=shape)
    for value in values:
        for place in range(shape[axis] + 1):
            data = plain.copy()
            np.moveaxis(data, axis, 0)[place if place < shape[axis] else slice(None)] = value
            yield data


def whole_rows(shape: Shape, axis: int) -> Iterator[Array]:
    """Rows of -inf with a number, NaN or +inf at one position."""
    for value in (0.5, NAN, INF):
        for place in range(shape[axis]):
            data = np.full(shape, -INF)
            np.moveaxis(data, axis, 0)[place] = value
            yield data


def _softmax(shape: Shape, axis: int, dtype: DType = F32, stats: bool = False, **attrs: str) -> tuple[str, Sample, int]:
    outs = (dtype, F32) if stats else (dtype,)
    return "SoftMax", Sample((shape,), Attrs(axis=axis, **attrs), (dtype,), outs, f"{dtype.value} {shape} along {axis} {attrs}"), axis


def _fold(kind: str, shape: Shape, axis: int, dtype: DType = F32) -> tuple[str, Sample, int]:
    return kind, Sample((shape,), Attrs(axes=(axis,)), (dtype,), why=f"{dtype.value} {shape} along {axis}"), axis


ROWS = [
    *(_softmax(shape, axis, mode=mode) for shape, axis in (((7, 5), 1), ((3, 37), 1), ((5, 20), 0)) for mode in ("none", "inf_as_zero")),
    *(_softmax((3, 19), 1, dtype, stats=True, mode="inf_as_zero") for dtype in (F32, BF16, F16)),
    ("LogSoftmax", Sample(((3, 19),), Attrs(axis=-1), why="a tail"), 1),
    *(_fold(kind, shape, axis) for kind in ("ReduceMax", "ReduceMin") for shape, axis in (((3, 5), 1), ((2, 75), 1), ((9, 20), 0))),
    *(_fold("ReduceMax", (3, 19), 1, dtype) for dtype in (BF16, F16)),
]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_rows_with_nan_and_infinities(isa: Isa) -> None:
    """At every position of a row: reduced in vectors, in the remainder, and in the last step."""
    found = [
        line
        for kind, sample, axis in ROWS
        for data in (*placed(sample.shapes[0], axis, NAN, INF, -INF), *whole_rows(sample.shapes[0], axis))
        for line in wrong(kind, sample, isa, (data,))
    ]
    assert not found, found[:5]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_a_long_reduction_in_parts_with_nan_anywhere(isa: Isa) -> None:
    """Several accumulators, and partial results that are combined."""
    shape = (1, 1 << 16)
    row = _fold("ReduceMax", shape, 1)
    data = np.random.default_rng(2).normal(size=shape)
    for place in (0, 17, 40_000, shape[1] - 1):
        one = data.copy()
        one[0, place] = NAN
        assert not wrong(*row[:2], isa, (one,))


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_the_gradient_of_prelu_has_the_slope_where_src_is_nan(isa: Isa) -> None:
    """As the forward op, which multiplies by the slope unless src > 0."""
    sample = Sample(((2, 19), (19,), (2, 19)), Attrs(), why="a slope per channel")
    rng = np.random.default_rng(7)
    src = np.where(rng.random((2, 19)) < 0.3, rng.choice((NAN, INF, -INF, 0.0, 1e-45), (2, 19)), rng.normal(size=(2, 19)))
    assert not wrong("PReLUBackward", sample, isa, (src, rng.uniform(0.5, 1, 19), rng.normal(size=(2, 19))))


def _pool(
    shape: Shape, kernel: Shape, strides: Shape, pads: int, data_format: str, dtype: DType = F32, dilations: Shape = ()
) -> tuple[Sample, Sample]:
    """A MaxPool and its gradient."""
    rank = len(kernel)
    attrs = Attrs(
        kernel=kernel, strides=strides, pads_begin=(pads,) * rank, pads_end=(pads,) * rank, data_format=data_format,
        dilations=dilations or (1,) * rank,
    )  # fmt: skip
    why = f"{dtype.value} {shape} {data_format} kernel {kernel} strides {strides} pads {pads}"
    (dst,) = pool.infer(attrs.updated(rounding_type="floor"), (TensorType(dtype, shape),))
    forward = Sample((shape,), attrs.updated(rounding_type="floor"), (dtype,), why=why)
    return forward, Sample((shape, dst), attrs, (dtype, dtype), why=why)


POOLS = [
    _pool((2, 9, 20, 5), (3, 3), (2, 2), 1, "NXC"),
    _pool((2, 6, 7, 33), (3, 2), (1, 1), 1, "NXC"),
    _pool((4, 10, 9, 14), (3, 3), (1, 1), 1, "NCX"),  # planes laid out with their padding
    _pool((1, 2, 9, 37), (3, 2), (1, 1), 2, "NCX", dilations=(2, 3)),
    _pool((2, 3, 5, 37), (2, 3), (1, 1), 1, "NCX", F16),
]


@pytest.mark.covering(1)
@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
@pytest.mark.parametrize(("forward", "backward"), POOLS, ids=lambda sample: sample.why.replace(" ", ""))
def test_windows_with_nan_and_infinities(forward: Sample, backward: Sample, isa: Isa) -> None:
    """Few and many of them, at random positions; the gradient of a window goes to its first NaN, or first of equals."""
    found, rng = [], np.random.default_rng(3)
    for values, share in (((NAN,), 0.03), ((INF, -INF), 1.0), ((NAN, INF, -INF), 0.03), ((NAN, INF, -INF), 0.4)):
        src = rng.normal(size=forward.shapes[0])
        src = np.where(rng.random(src.shape) < share, rng.choice(values, src.shape), src)
        found += wrong("MaxPool", forward, isa, (src,))
        found += wrong("MaxPoolBackward", backward, isa, (src, rng.normal(size=backward.shapes[1])))
    found += wrong("MaxPoolBackward", backward, isa, (np.full(forward.shapes[0], -INF), rng.normal(size=backward.shapes[1])))
    assert not found, found[:5]


_NORM = {"keep_stats": True, "use_affine": False}
_STATS = (F32,) * 3
_CONV = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1), "data_format": "NXC", "weights_format": "XIO"}
SIZES = (1e-40, 1e-30, 1e-19, 1.0, 1e19, 1e30, 3e38)
NORMS = [
    ("LayerNorm", Sample(((3, 37),), Attrs(_NORM), out_dtypes=_STATS, why="statistics"), ()),
    ("GroupNorm", Sample(((2, 6, 5),), Attrs(_NORM, groups=2, data_format="NCX"), out_dtypes=_STATS, why="two groups"), ()),
    ("RMSNorm", Sample(((3, 37), (37,)), Attrs(begin_norm_axis=-1), why="gamma"), ((37,),)),
    ("BatchNormForwardTraining", Sample(((6, 5), (5,), (5,)), Attrs(epsilon=1e-5), out_dtypes=(F32,) * 5, why="columns"), ((5,), (5,))),
    ("ReduceL2", Sample(((3, 37),), Attrs(axes=(1,)), why="rows"), ()),
    ("ReduceL1", Sample(((3, 37),), Attrs(axes=(1,)), why="rows"), ()),
    ("ReduceMean", Sample(((3, 37),), Attrs(axes=(1,)), why="rows"), ()),
    ("ReduceSum", Sample(((3, 37),), Attrs(axes=(0,)), why="columns"), ()),
]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_norms_of_huge_and_tiny_numbers(isa: Isa) -> None:
    found = []
    for kind, sample, others in NORMS:
        rng = np.random.default_rng(4)
        more = tuple(rng.uniform(0.5, 1.5, shape) for shape in others)
        for size in SIZES:
            for src in (np.full(sample.shapes[0], size), size * rng.uniform(-1, 1, sample.shapes[0])):
                found += wrong(kind, sample, isa, (src, *more))
    assert not found, found[:5]


def test_running_statistics_beside_an_infinite_variance() -> None:
    """Squares of 1e30 are beyond f32. A share of 0 leaves the infinity out; other shares may make it NaN, and nothing else."""
    src = np.outer((1.0, -1.0, 1.0, -1.0), (1e30, 2e30, 3e30)).astype(np.float32)
    for momentum, values in ((0.1, {INF: True, NAN: True, 2.0: False}), (0.9, {NAN: True}), (1.0, {2.0: True, NAN: False, INF: False})):
        sample = Sample(((4, 3), (3,), (3,)), Attrs(epsilon=1e-5, momentum=momentum), out_dtypes=(F32,) * 5, why=f"momentum {momentum}")
        stats = np.full(3, 2.0, np.float32)
        assert not wrong("BatchNormForwardTraining", sample, LEVELS[0], (src, stats, stats))
        graph = graph_of("BatchNormForwardTraining", sample)
        given = {t.id: a for t, a in zip(graph.inputs, (src, stats, stats), strict=True)}
        right, out = evaluate(graph, given), graph.outputs[2]
        for value, ok in values.items():
            got = np.full(3, value, np.float32)
            assert compare_output(graph, given, out, got, right[out.id], tolerance(graph)).ok == ok, (momentum, value)


GRADIENTS = [
    ("SoftMaxBackward", Sample(((4, 17),) * 2, why="rows"), (0,), (1.0, 3e38)),  # a constant gradient leaves what dst's sums lack to 1
    ("LayerNormBackward", OPS["LayerNormBackward"].testing.samples[0], (1, 4), (1e30, 3e38)),
    ("BatchNormTrainingBackward", OPS["BatchNormTrainingBackward"].testing.samples[1], (1, 2), (1e30, 3e38)),
    ("BatchNormTrainingBackward", OPS["BatchNormTrainingBackward"].testing.samples[2], (3,), (1e-40,)),
    ("LayerNorm", Sample(((4, 17), (17,), (17,)), Attrs(keep_stats=False), why="gamma and beta"), (1, 2), (1e30, 3e38)),
    ("MatMul", Sample(((15, 7), (7, 17)), why="every sum is of numbers that large"), (0,), (3e38,)),
]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_cancellation_of_huge_terms(isa: Isa) -> None:
    """Sums that cancel, and steps that are beyond f32 where the result is not."""
    found = []
    for kind, sample, ports, sizes in GRADIENTS:
        call, rng = call_of(kind, sample), np.random.default_rng(9)
        plain = [np.array(OPS[kind].testing.domain(call, port, rng)) for port in range(len(call.ins))]
        for chosen in (*((port,) for port in ports), ports):
            for size in sizes:
                for whole in (True, False):
                    ins = [np.array(a) for a in plain]
                    for port in chosen:
                        ins[port][... if whole else rng.random(ins[port].shape) < 0.2] = size
                    found += wrong(kind, sample, isa, tuple(ins))
    assert not found, found[:5]


POWERS = (0.3, 0.5, -0.5, 1.5, -1.5, 2.0, 3.0, -3.0, 13.0, 21.0, -21.0, 22.0, 100.5, -1e9, 1e30)


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_powers_of_zeros_and_infinities(isa: Isa) -> None:
    src = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1.25, -1.25, 0.5, -0.5, 1e-40, 1e30, -1e30, 3e38, 1e-30, 2.0])
    samples = [("Pow", Sample((src.shape,), Attrs(beta=beta), why=f"beta {beta}")) for beta in POWERS]
    samples += [(kind, Sample((src.shape,), why="specials")) for kind in ("Square", "Sqrt", "Reciprocal")]
    found = [line for kind, sample in samples for line in wrong(kind, sample, isa, (src,))]
    assert not found, found[:5]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_quotients_by_subnormal_and_huge_numbers(isa: Isa) -> None:
    dividends = np.outer((0.0, 1e-40, 1e-3, 1.0, 3e38, INF, NAN), np.linspace(0.5, 1, 40)).reshape(7, 40)
    alone, shared = (Sample(((7, 40), shape), why=f"divisors {shape}") for shape in ((7, 40), (7, 1)))
    for divisor in (1e-45, 1e-40, 2.0**-128, 1e-38, 3.0, 2.0**126, 3.4e38, INF, NAN, 0.0):
        for sample in (alone, shared):
            assert not wrong("Divide", sample, isa, (dividends, np.full(sample.shapes[1], divisor)))


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
def test_padding_is_not_an_element(kind: str, isa: Isa) -> None:
    """A weight, or an element, that is not finite is used where it multiplies an element; zeros of the padding may make others NaN."""
    rng, found = np.random.default_rng(5), []
    wei, order = ((3, 3, 3, 4), "XIO") if kind == "Convolution" else ((3, 3, 4, 3), "XOI")
    for strides in ((1, 1), (2, 2)):
        sample = Sample(((2, 6, 7, 3), wei), Attrs(_CONV, strides=strides, weights_format=order), why=f"strides {strides}")
        for value in (INF, -INF, NAN):
            for port, at in ((0, (1, 2, 1, 1)), (1, (0, 2, 1, 1))):
                ins = [rng.normal(size=shape) for shape in sample.shapes]
                ins[port][at] = value
                found += wrong(kind, sample, isa, tuple(ins))
    assert not found, found[:5]


def test_the_reference_of_a_convolution_multiplies_no_padding() -> None:
    """An infinite weight at a corner of the kernel multiplies no element for the outermost row and column of dst."""
    sample = Sample(((1, 4, 5, 1), (3, 3, 1, 1)), Attrs(_CONV), why="one channel")
    wei = np.ones(sample.shapes[1])
    wei[0, 0] = INF
    (dst,) = OPS["Convolution"].semantics.reference(call_of("Convolution", sample), (np.ones(sample.shapes[0]), wei))
    assert np.isfinite(dst[0, 0]).all()
    assert np.isfinite(dst[0, :, 0]).all()
    assert (dst[0, 1:, 1:] == INF).all()


def test_f32_alternatives_allow_nothing_else() -> None:
    """A norm of rows beyond f32's squares is beta, or right; anything else fails, and so does beta for other rows."""
    sample = Sample(((2, 8),), Attrs(keep_stats=False, use_affine=False), why="no beta")
    graph = sample_graph(OPS["LayerNorm"], sample)
    src = np.random.default_rng(6).normal(size=sample.shapes[0]).astype(np.float32)
    src[0] *= np.float32(1e25)
    (given,), (out,) = graph.inputs, graph.outputs
    right = evaluate(graph, {given.id: src})[out.id]

    def passes(got: Array) -> bool:
        return compare_output(graph, {given.id: src}, out, got.astype(np.float32), right, tolerance(graph)).ok

    assert passes(right)
    assert passes(np.stack([np.zeros(8), right[1]]))
    assert not passes(np.stack([2 * right[0], right[1]]))
    assert not passes(np.stack([np.full(8, INF), right[1]]))
    assert not passes(np.zeros((2, 8)))


def test_a_cancelling_sum_may_differ_by_few_eps_of_its_terms() -> None:
    sample = Sample(((4, 17),) * 2, why="a constant gradient")
    graph, row = sample_graph(OPS["SoftMaxBackward"], sample), OPS["SoftMaxBackward"]
    dst = np.array(row.testing.domain(call_of(row.kind, sample), 1, np.random.default_rng(10)), np.float32)
    given = {t.id: a for t, a in zip(graph.inputs, (np.ones((4, 17), np.float32), dst), strict=True)}
    (out,) = graph.outputs
    right = evaluate(graph, given)[out.id]
    for eps, ok in ((0, True), (2, True), (-2, True), (30, False), (-30, False)):
        got = (dst * eps * F32.eps).astype(np.float32)
        assert compare_output(graph, given, out, got, right, tolerance(graph)).ok == ok, eps


def test_layout_ops_keep_subnormal_numbers_of_bf16() -> None:
    """Arithmetic may make them 0, data movement may not: the instructions that convert to bf16 do."""
    data = np.array([[1e-40, 1.0, 2e-38]], BF16.numpy)
    flushed = np.array([[0.0, 1.0, 2e-38]], BF16.numpy)
    samples = {
        "ReLU": Sample((data.shape,), dtypes=(BF16,), why="computes"),
        "Maximum": Sample((data.shape,) * 2, dtypes=(BF16,) * 2, why="picks one"),
        "StaticTranspose": Sample((data.shape,), Attrs(order=(1, 0)), (BF16,), why="moves"),
    }
    for kind, sample in samples.items():
        graph = sample_graph(OPS[kind], sample)
        given = {t.id: data for t in graph.inputs}
        (out,) = graph.outputs
        right = evaluate(graph, given)[out.id]
        lost = np.array(flushed)
        lost[0, 2] = 0.0
        for got, ok in ((data, True), (flushed, kind != "StaticTranspose"), (lost, False)):
            got = got.reshape(out.known_shape)
            assert compare_output(graph, given, out, got, right, tolerance(graph)).ok == ok, (kind, got)


def test_subnormal_numbers_of_bf16_at_the_widest_level() -> None:
    """Where the processor converts to bf16, and multiplies it, by instructions of its own."""
    tiny = np.array([1e-40, -1e-40, 1e-45, 0.0, 1.0, INF, 2e-38, -3.0, NAN])
    pairs = np.stack([np.repeat(tiny, 9), np.tile(tiny, 9)])
    alone, both = Sample((pairs[0].shape,), dtypes=(BF16,), why="bf16"), Sample((pairs[0].shape,) * 2, dtypes=(BF16,) * 2, why="bf16")
    found = [line for kind in ("ReLU", "Abs") for line in wrong(kind, alone, host().isa, (pairs[0],))]
    found += [line for kind in ("Maximum", "Minimum", "Multiply") for line in wrong(kind, both, host().isa, tuple(pairs))]
    found += wrong("TypeCast", Sample((pairs[0].shape,), out_dtypes=(BF16,), why="from f32"), host().isa, (pairs[0],))
    product = Sample(((9, 32), (32, 9)), dtypes=(BF16, BF16), why="a product in bf16")
    src, wei = np.ones((9, 32)), np.ones((32, 9))
    src[:, 0], wei[0] = tiny, tiny[::-1]
    found += wrong("MatMul", product, host().isa, (src, wei))
    assert not found, found[:5]


def test_sums_in_integers_are_0_for_nan() -> None:
    values = np.array([NAN, INF, -INF, 3e38, 0.5, 1.5, -7.0])
    sample = Sample((values.shape,) * 2, out_dtypes=(DType.s32,), why="into s32")
    found = [
        line
        for kind in ("Add", "Subtract")
        for other in (0.0, NAN, INF)
        for line in wrong(kind, sample, LEVELS[0], (values, np.full(values.shape, other)))
    ]
    assert not found, found[:5]


SPRINKLED = ["ConvTranspose", "Interpolate", "InterpolateBackward", "ReduceProd"]
SPRINKLED += ["GELUBackward", "MishBackward", "SigmoidBackward", "SqrtBackward"]


@pytest.mark.parametrize("kind", SPRINKLED)
def test_few_special_values_among_others(kind: str) -> None:
    """In one operand and in all; with the first samples of the row, at the widest level."""
    row, found = OPS[kind], []
    for sample in [
        s for s in row.testing.samples if not any(0 in shape for shape in s.shapes) and not {BF16, F16, DType.s32} & {*s.dtypes}
    ][:3]:
        call = call_of(kind, sample)
        for values in ((NAN,), (INF, -INF), (0.0, -0.0, 1e-40, 1e-30), (1e19, -1e30), (3e38,)):
            for ports in (range(len(call.ins)), (0,)):
                rng = np.random.default_rng(8)
                ins = [np.array(row.testing.domain(call, port, rng)) for port in range(len(call.ins))]
                for port in ports:
                    places = rng.choice(ins[port].size, min(3, ins[port].size), replace=False)
                    ins[port].reshape(-1)[places] = rng.choice(values, places.size)
                found += wrong(kind, sample, LEVELS[0], tuple(ins))
    assert not found, found[:5]


def test_a_convolution_may_differ_only_at_padding() -> None:
    """NaN at the padding, for an infinite weight at a corner, is accepted; NaN inside is wrong."""
    sample = Sample(((1, 5, 5, 1), (3, 3, 1, 1)), Attrs(_CONV), why="one channel")
    graph = sample_graph(OPS["Convolution"], sample)
    wei = np.ones(sample.shapes[1], np.float32)
    wei[0, 0] = INF
    given = {t.id: a for t, a in zip(graph.inputs, (np.ones(sample.shapes[0], np.float32), wei), strict=True)}
    (out,) = graph.outputs
    right = evaluate(graph, given)[out.id]
    assert np.isfinite(right[0, 0, 2, 0]), "no padding is multiplied"
    for at, ok in (((0, 0, 2, 0), True), ((0, 3, 0, 0), True), ((0, 2, 2, 0), False), ((0, 4, 4, 0), False)):
        got = right.astype(np.float32)
        got[at] = NAN
        assert compare_output(graph, given, out, got, right, tolerance(graph)).ok == ok, at
