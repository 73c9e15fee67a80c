"""Norms on difficult data: large means, large numbers, constant rows; invariances; and illegal graphs."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidGraphOp, InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.graph.build import sample_graph
from benchgraph.ops import call_of, check_op, spec, with_defaults
from benchgraph.ops.spec import Array, Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

f32, bf16, f16 = DType.f32, DType.bf16, DType.f16
BARE = Attrs(use_affine=False, keep_stats=False)


def compiled(kind: str, sample: Sample, *ins: Array) -> tuple[Array, ...]:
    call = call_of(kind, sample)
    (partition,) = partitions(sample_graph(spec(kind), sample), Policy.one_op_each)
    outs = [np.full(t.shape, np.nan, t.dtype.numpy) for t in call.outs]
    stored = [np.ascontiguousarray(a).astype(t.dtype.numpy) for a, t in zip(ins, call.ins, strict=True)]
    compile_partition(partition).bind(stored, outs)()
    return tuple(out.astype(np.float64) for out in outs)


def noise(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_a_large_mean_leaves_the_variance_alone() -> None:
    """E[x^2] - E[x]^2 in f32 would be off by about 1 here."""
    src = (4096 + noise(5, 200)).astype(np.float32)
    dst, mean, variance = compiled("LayerNorm", Sample((src.shape,), Attrs(use_affine=False), out_dtypes=(f32,) * 3), src)
    exact = src.astype(np.float64)
    assert np.allclose(variance, exact.var(axis=1), rtol=1e-3)
    assert np.allclose(mean, exact.mean(axis=1), rtol=1e-6)
    assert np.allclose(dst.std(axis=1), 1, rtol=1e-3)


def test_a_large_mean_in_batch_statistics() -> None:
    src = (4096 + noise(8, 3, 5, 5)).astype(np.float32)
    zeros = np.zeros(3)
    sample = Sample((src.shape, (3,), (3,)), Attrs(epsilon=1e-5, data_format="NCX"), out_dtypes=(f32,) * 5)
    *_, variance = compiled("BatchNormForwardTraining", sample, src, zeros, zeros)
    assert np.allclose(variance, src.astype(np.float64).var(axis=(0, 2, 3)), rtol=1e-3)


def test_f16_squares_do_not_overflow() -> None:
    """600 squared is beyond f16, and so is the sum of 1000 numbers of that size."""
    src = np.round(600 * noise(2, 1000))
    (norm,) = compiled("ReduceL2", Sample((src.shape,), Attrs(axes=(1,)), (f16,)), src)
    assert np.allclose(norm, np.sqrt((src.astype(np.float16).astype(np.float64) ** 2).sum(axis=1)), rtol=1e-3)
    (dst,) = compiled("RMSNorm", Sample((src.shape,), Attrs(), (f16,)), src)
    assert np.allclose(np.sqrt((dst**2).mean(axis=1)), 1, rtol=1e-3)


def test_a_bf16_row_is_summed_in_f32() -> None:
    """A bf16 sum of ones would stop at 256."""
    dst, mean, variance = compiled(
        "LayerNorm", Sample(((1, 3000),), Attrs(use_affine=False), (bf16,), (bf16, f32, f32)), np.ones((1, 3000))
    )
    assert mean == 1
    assert variance == 0
    assert not dst.any()


def test_a_norm_of_a_constant_row_is_beta() -> None:
    beta = noise(7)
    (dst,) = compiled("LayerNorm", Sample(((2, 7), (7,), (7,)), Attrs(keep_stats=False)), np.full((2, 7), 0.5), np.ones(7), beta)
    assert np.allclose(dst, beta.astype(np.float32))


def test_large_inputs_of_logsoftmax_do_not_overflow() -> None:
    (dst,) = compiled("LogSoftmax", Sample(((2, 4),)), np.array([[1e4] * 4, [-1e4, 0, 0, 0]]))
    assert np.allclose(dst[0], -np.log(4))
    assert np.allclose(dst[1], [-1e4 - np.log(3), *[-np.log(3)] * 3])


# ---- invariance ------------------------------------------------------------------------------------------------------


def test_layer_norm_is_invariant_to_scale_and_shift_of_rows() -> None:
    src = noise(3, 40)
    sample = Sample((src.shape,), BARE.updated(epsilon=0.0))
    (one,), (other,) = (compiled("LayerNorm", sample, a) for a in (src, 3 * src + np.arange(3)[:, None]))
    assert np.allclose(one, other, atol=1e-5)


def test_rms_norm_is_invariant_to_scale_only() -> None:
    src = noise(3, 40)
    sample = Sample((src.shape,), Attrs(epsilon=0.0))
    one, scaled, shifted = (compiled("RMSNorm", sample, a)[0] for a in (src, 5 * src, src + 1))
    assert np.allclose(one, scaled, atol=1e-5)
    assert not np.allclose(one, shifted, atol=1e-2)


def test_both_data_formats_are_one_op_on_moved_data() -> None:
    src, gamma, beta = noise(2, 6, 3, 5), noise(6, seed=2), noise(6, seed=3)
    last = np.moveaxis(src, 1, -1)
    ncx, nxc = (Attrs(groups=2, keep_stats=False, data_format=f) for f in ("NCX", "NXC"))
    (a,) = compiled("GroupNorm", Sample((src.shape, (6,), (6,)), ncx), src, gamma, beta)
    (b,) = compiled("GroupNorm", Sample((last.shape, (6,), (6,)), nxc), last, gamma, beta)
    assert np.allclose(np.moveaxis(a, 1, -1), b, atol=1e-5)


def test_groups_are_layers_and_instances() -> None:
    """One group normalises an image as LayerNorm does; as many groups as channels a plane each."""
    src = noise(2, 4, 9)
    (one,) = compiled("GroupNorm", Sample((src.shape,), BARE.updated(groups=1, data_format="NCX")), src)
    (all_,) = compiled("GroupNorm", Sample((src.shape,), BARE.updated(groups=4, data_format="NCX")), src)
    for got, first in ((one, 1), (all_, 2)):
        (want,) = compiled("LayerNorm", Sample((src.shape,), BARE.updated(begin_norm_axis=first)), src)
        assert np.allclose(got, want, atol=1e-6)


def test_inference_with_the_batchs_statistics_is_training() -> None:
    src, gamma, beta = noise(4, 3, 5), noise(3, seed=2), noise(3, seed=3)
    attrs = Attrs(epsilon=0.1, data_format="NCX")
    shapes = (src.shape, *((3,),) * 4)
    train = Sample(shapes, attrs.updated(momentum=0.0), out_dtypes=(f32,) * 5)
    dst, running_mean, running_variance, mean, variance = compiled(
        "BatchNormForwardTraining", train, src, np.ones(3), np.ones(3), gamma, beta
    )
    (again,) = compiled("BatchNormInference", Sample(shapes, attrs), src, gamma, beta, mean, variance)
    assert np.allclose(dst, again, atol=1e-5)
    assert np.array_equal(running_mean, mean), "no momentum: nothing of the old ones stays"
    assert np.array_equal(running_variance, variance)


@pytest.mark.parametrize(("momentum", "size"), [(1.0, 1000), (1 - 2.0**-10, 1000), (2.0**-10, 0.001)])
def test_statistics_of_another_size_do_not_cancel_bits_of_the_running_ones(momentum: float, size: float) -> None:
    """A large share of the gap from the larger number would lose the smaller one's bits below the larger one's last bit."""
    src, mean, variance = size * noise(64, 3), np.array([0.01, -0.02, 0.03], np.float32), np.array([0.98, 1.5, 0.125], np.float32)
    sample = Sample((src.shape, (3,), (3,)), Attrs(epsilon=0.1, momentum=momentum), out_dtypes=(f32,) * 5)
    _, *running, batch_mean, batch_variance = compiled("BatchNormForwardTraining", sample, src, mean, variance)
    for old, got, batch in zip((mean, variance), running, (batch_mean, batch_variance), strict=True):
        kept, taken = momentum * old.astype(np.float64), (1 - momentum) * batch
        assert np.all(np.abs(got - (kept + taken)) <= 2 * f32.eps * (np.abs(kept) + np.abs(taken)))


def test_two_reductions_agree_on_one_element() -> None:
    src = noise(5, 1)
    for kind in ("ReduceL1", "ReduceL2"):
        (dst,) = compiled(kind, Sample((src.shape,), Attrs(axes=(1,))), src)
        assert np.allclose(dst, np.abs(src[:, 0]))


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ins", "outs", "attrs", "message"),
    [
        (
            "LayerNorm",
            (f32,) * 3,
            (f32,),
            {},
            "keep_stats is true, but the outputs mean and variance are missing; add them, or set keep_stats to false",
        ),
        (
            "LayerNorm",
            (f32,),
            (f32,) * 3,
            {},
            "use_affine is true, but inputs are missing: gamma, beta; add them, or set use_affine to false",
        ),
        (
            "GroupNorm",
            (f32,) * 3,
            (f32,),
            {"groups": 1, "use_affine": False, "keep_stats": False},
            "use_affine is false, but there are inputs gamma, beta; set use_affine to true, or remove them",
        ),
        (
            "LayerNorm",
            (f32, bf16, bf16),
            (f32, bf16, bf16),
            {},
            "gamma, beta and statistics have dtype bf16 while src has f32; use f32",
        ),
        (
            "LayerNormBackward",
            (f32,) * 5,
            (f32,),
            {},
            "use_affine is true, but the outputs diff_gamma and diff_beta are missing; add them, or set use_affine to false",
        ),
        (
            "LayerNormBackward",
            (f32,) * 4,
            (f32,) * 3,
            {"use_affine": False},
            "use_affine is false, but there are outputs diff_gamma and diff_beta; set use_affine to true, or remove them",
        ),
        ("RMSNorm", (bf16, f16), (bf16,), {}, "gamma has dtype f16 while src has bf16; use f32 or bf16"),
        (
            "BatchNormInference",
            (f16, bf16, bf16, bf16, bf16),
            (f16,),
            {"epsilon": 0.1},
            "gamma, beta, mean and variance have dtype bf16 while src has f16; use f32",
        ),
        ("BatchNormInference", (f32,) * 5, (f32,), {}, "attribute 'epsilon' is missing; give it a value of type f32"),
        ("GroupNorm", (f32,), (f32,), {}, "attribute 'groups' is missing; give it a value of type s64"),
    ],
)
def test_a_wrong_norm_is_refused(
    kind: str, ins: tuple[DType, ...], outs: tuple[DType, ...], attrs: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidGraphOp) as caught:
        check_op(kind, Attrs(attrs), tuple((t, None) for t in ins), outs)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "message"),
    [
        ("LayerNorm", ((4, 8),), {"begin_norm_axis": 2}, "begin_norm_axis 2 is out of range for src of rank 2; use -2 to 1"),
        (
            "LayerNorm",
            ((4, 8), (4,), (8,)),
            {},
            "gamma (4,) does not broadcast to the normalised dims (8,); each dim of gamma, counted from the right, must be 1 or equal",
        ),
        (
            "LayerNormBackward",
            ((4, 8), (4, 8), (8,), (4,)),
            {},
            "mean has shape (8,), which does not fit src (4, 8) normalised from axis 1 on; give mean the shape (4,)",
        ),
        (
            "GroupNorm",
            ((2, 6, 3),),
            {"groups": 4, "data_format": "NCX"},
            "the 6 channels of src (2, 6, 3) do not make 4 groups; let groups divide the channels",
        ),
        (
            "GroupNorm",
            ((2, 6), (5,), (6,)),
            {"groups": 2},
            "gamma has shape (5,), while src (2, 6) has 6 channels; give gamma the shape (6,)",
        ),
        (
            "BatchNormInference",
            ((2, 6, 3), (3,), (3,), (3,), (6,)),
            {"epsilon": 0.1},
            "variance has shape (6,), while src (2, 6, 3) has 3 channels; give variance the shape (3,)",
        ),
        (
            "BatchNormInference",
            ((6,), (6,), (6,), (6,), (6,)),
            {"epsilon": 0.1},
            "src (6,) has rank 1; batch normalisation takes rank 2 or more: batch and channel",
        ),
        (
            "BatchNormTrainingBackward",
            ((2, 6), (2, 5), (6,), (6,)),
            {"epsilon": 0.1},
            "diff_dst has shape (2, 5), unlike src; give diff_dst the shape (2, 6)",
        ),
        ("SoftMaxBackward", ((2, 6), (2, 5)), {}, "dst has shape (2, 5), unlike diff_dst; give dst the shape (2, 6)"),
        ("LogSoftmax", ((2, 6),), {"axis": 2}, "axis 2 is out of range for src of rank 2; use -2 to 1"),
    ],
)
def test_wrong_shapes_are_refused(kind: str, shapes: tuple[Shape, ...], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        spec(kind).semantics.infer(with_defaults(kind, Attrs(attrs)), tuple(TensorType(f32, s) for s in shapes))
    assert str(caught.value) == message
