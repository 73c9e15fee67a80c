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
from benchgraph.core.target import ISAS, Isa, host, missing
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import sample_graph
from benchgraph.ops import OPS, call_of, pool
from benchgraph.ops.spec import Array, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.compare import compare
from benchgraph.runtime.executable import Executable

NAN, INF = np.nan, np.inf
F32, BF16, F16 = DType.f32, DType.bf16, DType.f16
LEVELS = tuple({isa.lanes: isa for isa in ISAS.values() if not missing(isa) and not isa.has_bf16}.values())  # one of each width


@cache
def compiled(kind: str, sample: Sample, isa: Isa) -> Executable:
    (partition,) = partitions(sample_graph(OPS[kind], sample), Policy.one_op_each)
    return compile_partition(partition, replace(host(), isa=isa, cores=1))


def wrong(kind: str, sample: Sample, isa: Isa, ins: tuple[Array, ...]) -> list[str]:
    """What the compiled row makes of these inputs, held to its reference: the first points that differ, of every output."""
    call = call_of(kind, sample)
    held = [a.astype(t.dtype.numpy) for a, t in zip(ins, call.ins, strict=True)]
    outs = [np.zeros(t.shape, t.dtype.numpy) for t in call.outs]
    compiled(kind, sample, isa).bind(held, outs)()
    with np.errstate(all="ignore"):
        wants = OPS[kind].reference(
            call, tuple(a.astype(np.float64) if t.dtype.is_float else a for a, t in zip(held, call.ins, strict=True))
        )
    rtol = OPS[kind].threshold(call) * F32.eps
    found = (compare(got, want, t.dtype, rtol) for got, want, t in zip(outs, wants, call.outs, strict=True))
    return [f"{kind} of {sample.why}, {isa.name}: {c.errors} of {c.total}: {c.points[0]}" for c in found if not c.ok]


def placed(shape: Shape, axis: int, *values: float) -> Iterator[Array]:
    """Numbers among which each value stands once in every row along an axis, at each place in turn; all of the row is it at last."""
    plain = np.random.default_rng(1).normal(size=shape)
    for value in values:
        for place in range(shape[axis] + 1):
            data = plain.copy()
            np.moveaxis(data, axis, 0)[place if place < shape[axis] else slice(None)] = value
            yield data


def whole_rows(shape: Shape, axis: int) -> Iterator[Array]:
    """Rows that are -inf but for one place, where a number, NaN or +inf stands."""
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
    """At every place of a row: what is folded in vectors, what is left of them, and what is folded last."""
    found = [
        line
        for kind, sample, axis in ROWS
        for data in (*placed(sample.shapes[0], axis, NAN, INF, -INF), *whole_rows(sample.shapes[0], axis))
        for line in wrong(kind, sample, isa, (data,))
    ]
    assert not found, found[:5]


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_a_long_fold_in_parts_with_nan_anywhere(isa: Isa) -> None:
    """Several accumulators, and parts of the one row that are put together behind them."""
    shape = (1, 1 << 16)
    row = _fold("ReduceMax", shape, 1)
    data = np.random.default_rng(2).normal(size=shape)
    for place in (0, 17, 40_000, shape[1] - 1):
        one = data.copy()
        one[0, place] = NAN
        assert not wrong(*row[:2], isa, (one,))


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


@pytest.mark.parametrize("isa", LEVELS, ids=lambda isa: isa.name)
def test_windows_with_nan_and_infinities(isa: Isa) -> None:
    """Few and many of them, at random places; the gradient of a window goes to its first NaN, or first of equals."""
    found = []
    for forward, backward in POOLS:
        rng = np.random.default_rng(3)
        for values in ((NAN,), (INF, -INF), (NAN, INF, -INF)):
            for share in (0.03, 0.4, 1.0):
                src = rng.normal(size=forward.shapes[0])
                src = np.where(rng.random(src.shape) < share, rng.choice(values, src.shape), src)
                found += wrong("MaxPool", forward, isa, (src,))
                found += wrong("MaxPoolBackward", backward, isa, (src, rng.normal(size=backward.shapes[1])))
        found += wrong("MaxPoolBackward", backward, isa, (np.full(forward.shapes[0], -INF), rng.normal(size=backward.shapes[1])))
    assert not found, found[:5]
