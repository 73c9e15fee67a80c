"""Attention in one pass over the scores: against the reference, and against the form with full rows of scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph as ApiGraph
from benchgraph.lower import flash_attention
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.runtime.executable import Executable
from benchgraph.tir.build import f32, seq
from tests.support.graph_ir import nests, scheduled
from tests.support.partitions import partition_of
from tests.support.score_blocks import in_score_blocks
from tests.support.table import all_hold
from tests.support.tensor_ir import tir

BF16, F32, S32, S64 = DType.bf16, DType.f32, DType.s32, DType.s64
Inputs = dict[int, np.ndarray]


def here() -> Target:
    """This machine, with an L2 that holds all rows of scores."""
    return replace(current(), l2_bytes=1 << 30, cores=2)


def step_of(partition: Partition, target: Target) -> int:
    return max(n.score_columns for n in nests(scheduled(partition, target)))


def run(partition: Partition, target: Target, data: Inputs) -> Inputs:
    return execute(partition, compile_partition(partition, target), data)


def execute(partition: Partition, executable: Executable, data: Inputs) -> Inputs:
    outs = [np.full(t.known_shape, 7, t.dtype.numpy) for t in partition.outputs]
    bound = executable.bind([data[t.id] for t in partition.inputs], outs)
    bound()
    return {t.id: out for t, out in zip(partition.outputs, outs, strict=True)}


def random(graph: ApiGraph, seed: int = 1) -> Inputs:
    rng = np.random.default_rng(seed)
    found: Inputs = {}
    for t in graph.inputs:
        numbers = rng.normal(size=t.known_shape) if t.dtype.is_float else rng.integers(0, 9, t.known_shape)
        if t.known_shape == (1,):
            numbers = np.full((1,), 4.0)  # what scores are divided by, or capped at
        found[t.id] = np.asarray(numbers).astype(t.dtype.numpy)
    return found


def assert_forms_agree(graph: ApiGraph, data: Inputs | None = None, target: Target | None = None, *, are_right: bool = True) -> Inputs:
    """Check that both forms compute the reference and nearly the same numbers; return flash attention's results."""
    return assert_they_agree(graph, both_forms(graph, target), data or random(graph), are_right=are_right)


def both_forms(graph: ApiGraph, target: Target | None = None) -> tuple[Executable, Executable]:
    """The partition as flash attention, and with full rows of scores."""
    partition, target = partition_of(graph), target or here()
    forms = in_score_blocks(partition, target), in_score_blocks(partition, target, columns=0)
    assert [step_of(form, target) for form in forms] == [64, 0]
    online, rows = (compile_partition(form, target) for form in forms)
    return online, rows


def assert_they_agree(graph: ApiGraph, forms: tuple[Executable, Executable], data: Inputs, *, are_right: bool = True) -> Inputs:
    partition = partition_of(graph)
    online, rows = (execute(partition, form, data) for form in forms)
    want = evaluate(graph, {id: array.astype(np.float64) if graph.tensors[id].dtype.is_float else array for id, array in data.items()})
    for t in partition.outputs:
        for got in (online, rows) if are_right else ():
            assert compare(got[t.id], want[t.id], t.dtype, tolerance(graph)).ok
        a, b = (x[t.id].astype(np.float64) for x in (online, rows))
        np.testing.assert_allclose(a, b, rtol=2 * t.dtype.eps, atol=(2 * t.dtype.eps + 1e-5) * np.sqrt(np.mean(b**2)))
    return online


# ---- forms of attention ----------------------------------------------------------------------------------------------


def attention(
    b: GraphBuilder,
    mask: Callable[[GraphBuilder, LogicalTensor], LogicalTensor] = lambda b, s: s,
    *,
    q: tuple[int, ...] = (2, 3, 37, 16),
    keys: int = 331,
    heads: int | None = None,
    dtype: DType = F32,
    mode: str = "inf_as_zero",
    stats: bool = False,
) -> None:
    kv = (*q[:1], heads or q[1], *q[2:-2], keys, q[-1])
    s = mask(b, b.op("MatMul", b.input(q, dtype), b.input(kv, dtype), transpose_b=True, dtype=F32))
    if stats:
        p, _ = b.outs("SoftMax", s, dtypes=(dtype, F32), axis=-1, mode=mode)
    else:
        p = b.op("SoftMax", s, dtype=dtype, axis=-1, mode=mode)
    b.op("MatMul", p, b.input(kv, dtype))


def built(*args: object, **options: object) -> ApiGraph:
    b = GraphBuilder()
    attention(b, *args, **options)
    return b.graph()


def scaled(b: GraphBuilder, s: LogicalTensor) -> LogicalTensor:
    return b.op("Add", b.op("Divide", s, b.input((1,))), b.input((s.known_shape[0], *(1,) * (s.ndims - 2), s.known_shape[-1])))


def causal(b: GraphBuilder, s: LogicalTensor) -> LogicalTensor:
    rows = b.op("Add", b.op("GenIndex", s, axis=-2), b.input((), S32))
    return b.op("Select", b.op("GreaterEqual", rows, b.op("GenIndex", s, axis=-1)), s, b.input((1,)))


def capped(b: GraphBuilder, s: LogicalTensor) -> LogicalTensor:
    return b.op("Multiply", b.op("Tanh", b.op("Divide", s, b.input((1,)))), b.input((1,)))


@pytest.mark.covering(1)
@pytest.mark.parametrize("mask", [scaled, causal, capped])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_both_forms_compute_the_reference(mask: Callable[..., LogicalTensor], dtype: DType) -> None:
    assert_forms_agree(built(mask, dtype=dtype))


@pytest.mark.parametrize("mask", [scaled, causal])
def test_both_forms_compute_the_reference_with_bf16_products(mask: Callable[..., LogicalTensor]) -> None:
    assert_forms_agree(built(mask, dtype=BF16), target=replace(here(), emulated=frozenset({BF16})))


@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
def test_both_softmax_modes(mode: str) -> None:
    assert_forms_agree(built(scaled, mode=mode))


@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_with_nan_or_infinity_is_nan(mode: str, value: float) -> None:
    """In the first columns of scores, which initialise the running maximum, or in the last."""
    graph = built(scaled, mode=mode, stats=True)
    forms, data = both_forms(graph), random(graph)
    mask = next(t for t in graph.inputs if t.known_shape == (2, 1, 1, 331))
    for column in (0, 70, 330):
        data[mask.id] = np.zeros(mask.known_shape, np.float32)
        data[mask.id][1, ..., column] = value
        for form in forms:
            got = execute(partition_of(graph), form, data)
            assert all(np.isfinite(got[t.id][0]).all() and np.isnan(got[t.id][1]).all() for t in graph.outputs)


@pytest.mark.parametrize("dtype", [F32, BF16, DType.f16])
def test_statistics_are_an_output(dtype: DType) -> None:
    assert_forms_agree(built(scaled, dtype=dtype, stats=True))


def test_heads_share_keys_and_values() -> None:
    assert_forms_agree(built(scaled, q=(2, 2, 3, 37, 16), keys=331))


@pytest.mark.covering(1)
@pytest.mark.parametrize("keys", [64 * 5, 64 * 5 + 1, 997])
@pytest.mark.parametrize("rows", [2, 32, 33])
def test_ragged_columns_and_rows(keys: int, rows: int) -> None:
    assert_forms_agree(built(q=(2, 3, rows, 16), keys=keys))


def test_dropout_between_softmax_and_values() -> None:
    b = GraphBuilder()
    s = b.op("MatMul", b.input((2, 3, 37, 16)), b.input((2, 3, 16, 331)))
    p = b.op("Dropout", b.op("SoftMax", s, axis=-1, mode="inf_as_zero"), b.input((), S64), b.input((), S64), b.input(()))
    b.op("MatMul", p, b.input((2, 3, 331, 16)))
    graph = b.graph()
    data = random(graph)
    data[next(t.id for t in graph.inputs if t.dtype is F32 and t.ndims == 0)][...] = 0.25
    assert_forms_agree(graph, data)


def test_strided_result_is_summed_in_a_temporary() -> None:
    b = GraphBuilder()
    s = b.op("MatMul", b.input((2, 3, 37, 16)), b.input((2, 3, 16, 331)))
    o = b.op("MatMul", b.op("SoftMax", s, axis=-1), b.input((2, 3, 331, 16)))
    b.op("StaticTranspose", o, order=[0, 1, 3, 2])
    assert_forms_agree(b.graph())


# ---- masks -----------------------------------------------------------------------------------------------------------


def masked(b: GraphBuilder, s: LogicalTensor) -> LogicalTensor:
    return b.op("Add", s, b.input((1, 1, *s.known_shape[-2:])))


def with_mask(hidden: np.ndarray, **options: object) -> tuple[ApiGraph, Inputs]:
    """A mask of -inf where `hidden` is true."""
    graph = built(masked, q=(2, 3, *hidden.shape[:1], 16), keys=hidden.shape[1], **options)
    data = random(graph)
    (mask,) = (t.id for t in graph.inputs if t.known_shape == (1, 1, *hidden.shape))
    data[mask][...] = np.where(hidden, -np.inf, 0.0)
    return graph, data


def test_masked_first_columns_do_not_matter() -> None:
    """The running maximum is the lowest number while all columns are masked, and nothing is divided by it."""
    cases = {f"{n} columns hidden": with_mask(np.broadcast_to(np.arange(331) < n, (37, 331))) for n in (0, 1, 64, 330)}
    ((graph, _), *_) = cases.values()
    forms = both_forms(graph)
    all_hold(lambda _, data: assert_they_agree(graph, forms, data), cases)


def test_randomly_masked_columns() -> None:
    hidden = np.random.default_rng(3).random((37, 331)) < 0.9
    hidden[:, -1] = False
    assert_forms_agree(*with_mask(hidden))


def test_fully_masked_rows_and_their_statistics_are_zero() -> None:
    hidden = np.zeros((37, 331), bool)
    hidden[5:9] = True
    graph, data = with_mask(hidden, stats=True)
    for out in assert_forms_agree(graph, data).values():
        assert np.all(out[:, :, 5:9] == 0)
        assert np.all(out[:, :, :5] != 0)


def test_fully_masked_rows_are_nan_in_plain_mode() -> None:
    hidden = np.zeros((37, 331), bool)
    hidden[5:9] = True
    graph, data = with_mask(hidden, mode="none", stats=True)
    partition = partition_of(graph)
    for form in (in_score_blocks(partition, here()), in_score_blocks(partition, here(), columns=0)):
        for out in run(form, here(), data).values():
            assert np.array_equal(np.isnan(out).any(axis=(0, 1, 3)), hidden.all(axis=1))


def test_scores_of_very_different_sizes() -> None:
    """Sums of earlier columns vanish as the maximum grows, and nothing overflows. f32 has such scores to 1e-4 only, in both forms."""
    graph = built(masked, q=(2, 3, 37, 16), keys=331)
    data = random(graph)
    (mask,) = (t.id for t in graph.inputs if t.known_shape == (1, 1, 37, 331))
    data[mask][...] = 3000 * np.sin(np.arange(37 * 331).reshape(37, 331) / 50)
    assert_forms_agree(graph, data, are_right=False)


# ---- when --------------------------------------------------------------------------------------------------------------


def test_rows_that_fit_are_kept_in_full() -> None:
    graph = built(scaled)
    assert step_of(partition_of(graph), replace(here(), l2_bytes=1 << 20)) == 0


@pytest.mark.parametrize("seq", [8192, 65536])
def test_temporaries_do_not_grow_with_the_square_of_the_sequence(seq: int) -> None:
    partition = partition_of(built(q=(2, 3, seq, 64), keys=seq))
    target = replace(current(), l2_bytes=1 << 20, cores=2)
    assert 0 < step_of(partition, target) < 1024
    main = tir(partition, target=target)
    assert main.shared_bytes == 0
    assert main.thread_bytes <= 64 * seq * 4 + target.l2_bytes  # the packed keys of an entry, and tiles


def test_scores_that_are_outputs_are_kept_in_full() -> None:
    b = GraphBuilder()
    s = b.op("MatMul", b.input((2, 3, 37, 16)), b.input((2, 3, 16, 331)))
    p = b.op("SoftMax", s, axis=-1)
    b.end(p)
    b.op("MatMul", p, b.input((2, 3, 331, 16)))
    assert step_of(partition_of(b.graph()), replace(here(), l2_bytes=24 << 10)) == 0


def test_weights_that_do_not_rescale_keep_full_rows() -> None:
    b = GraphBuilder()
    s = b.op("MatMul", b.input((2, 3, 37, 16)), b.input((2, 3, 16, 331)))
    b.op("MatMul", b.op("Round", b.op("SoftMax", s, axis=-1)), b.input((2, 3, 331, 16)))
    assert step_of(partition_of(b.graph()), replace(here(), l2_bytes=24 << 10)) == 0


# ---- columns that are left out -----------------------------------------------------------------------------------------


def lower_triangle(b: GraphBuilder, s: LogicalTensor, *, inverted: bool = False) -> LogicalTensor:
    """Shifted to the bottom right by s32 scalars, as oneDNN's graphs have it."""
    rows = b.op("Subtract", b.op("Add", b.op("GenIndex", s, axis=-2), b.input((), S32)), b.input((), S32))
    columns = b.op("GenIndex", s, axis=-1)
    if inverted:
        return b.op("Select", b.op("GreaterEqual", columns, rows), b.input((1,)), s)
    return b.op("Select", b.op("GreaterEqual", rows, columns), s, b.input((1,)))


def triangular(shift: tuple[int, int], hiding: float, *, inverted: bool = False, dtype: DType = F32) -> tuple[ApiGraph, Inputs]:
    graph = built(lambda b, s: lower_triangle(b, s, inverted=inverted), q=(2, 3, 150, 16), keys=331, dtype=dtype)
    data = random(graph)
    first, second = (t.id for t in graph.inputs if t.dtype is S32)
    (number,) = (t.id for t in graph.inputs if t.known_shape == (1,))
    data[first][...], data[second][...], data[number][...] = *shift, hiding
    return graph, data


SHIFTS = {"top left": (0, 0), "bottom right": (331, 150), "nothing to see": (0, 400)}


@pytest.mark.parametrize("inverted", [False, True])
def test_causal_mask_must_be_minus_infinity(inverted: bool) -> None:
    """Any other number in place of masked scores is a score: it is not known at compile time."""
    cases = {
        f"{name}, {hiding}": triangular(shift, hiding, inverted=inverted)
        for name, shift in SHIFTS.items()
        for hiding in (-np.inf, -1e4, 3.0)
    }
    ((graph, _), *_) = cases.values()
    forms = both_forms(graph)
    all_hold(lambda _, data: assert_they_agree(graph, forms, data), cases)


def test_masked_columns_are_not_read() -> None:
    """Keys and values that are masked for all queries can be anything."""
    graph, data = triangular((0, 0), -np.inf)
    partition = in_score_blocks(partition_of(graph), here())
    (want,) = run(partition, here(), data).values()
    step = step_of(partition, here())
    first = -(-150 // step) * step
    spoilt = {
        id: np.where(np.arange(331)[:, None] >= first, np.nan, a).astype(a.dtype) if a.shape == (2, 3, 331, 16) else a
        for id, a in data.items()
    }
    (got,) = run(partition, here(), spoilt).values()
    assert np.array_equal(got, want)


def test_data_dependent_mask_skips_nothing() -> None:
    """A condition that does not follow from rows and columns."""
    graph = built(lambda b, s: b.op("Select", b.input((1, 1, *s.known_shape[-2:]), DType.boolean), s, b.input((1,))))
    assert_forms_agree(graph)


# ---- broken once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["sums do not shrink", "results do not shrink", "columns are hidden too early"])
def test_fault_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nest = flash_attention.FlashAttentionNest
    update_acc = nest._update_acc
    if fault == "sums do not shrink":
        monkeypatch.setattr(flash_attention, "unary", lambda op, a: f32(1.0))
    elif fault == "results do not shrink":
        monkeypatch.setattr(nest, "_update_acc", lambda self, value: update_acc(self, value) if value is not None else seq())
    else:
        monkeypatch.setattr(flash_attention, "sub", lambda a, b: flash_attention.ZERO)
    with pytest.raises(AssertionError):
        assert_forms_agree(*triangular((0, 0), -np.inf))
