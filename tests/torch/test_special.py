"""Numbers that are none, or not finite, through torch.compile: what PyTorch makes of them, whatever the library's own rows say.

Every row of the table of ATen ops meets NaN, infinities, both zeros and ties, among ordinary numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.cli import main  # noqa: E402
from benchgraph.graph import load  # noqa: E402
from benchgraph.library.engine import Engine  # noqa: E402
from benchgraph.lower.flash_attention import FlashAttentionNest  # noqa: E402
from benchgraph.machine.target import current  # noqa: E402
from benchgraph.schedule import choose  # noqa: E402
from benchgraph.schedule.space import row_tiling  # noqa: E402
from tests.support.table import by_row  # noqa: E402
from tests.torch import samples  # noqa: E402
from tests.torch.samples import BF16, SAMPLES, A, Sample, program, t  # noqa: E402

aten = torch.ops.aten
F16 = torch.float16
functional = torch.nn.functional
NUMBERS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 2.5, -0.5, 3.0, -3.0, 6.0)  # halves are ties of Round; +-3 and 6 kinks

# Weights that are not finite meet padding in one algorithm and not in another, statistics are combined before or after: of these rows only
# the data are special.
DATA_ALONE = {aten.convolution.default, aten._native_batch_norm_legit_no_training.default}
# Of a transposed convolution with strides the library makes a convolution with some weights of 0, which a NaN of a neighbour does not heed.
LEFT_OUT = [s for s in SAMPLES if s[0] is aten.convolution.default and s[2][1].shape == (4, 3, 3, 3)]
# Where eager does not agree with itself, elements that the library makes otherwise. Of both infinities GELU is NaN in f32, and of inf it is
# inf in f64: the library gives the limits. A query whose scores are all NaN gets zeros from the kernel, NaN from PyTorch's math backend.
EXCUSED: dict[Any, Callable[[Any, Any], Any]] = {
    aten.gelu.default: lambda got, want: want.isnan() & (got.isinf() | (got == 0)),
    aten._scaled_dot_product_flash_attention_for_cpu.default: lambda got, want: got.isnan() & (want == 0),
}
# Which zero is the larger one depends on the number of elements in eager.
ANY_ZERO = {aten.maximum.default, aten.minimum.default, aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default}
ANY_ZERO |= {aten.amax.default, aten.amin.default}
# What picks its result or passes it on: in f32 and, by turns, bf16 and f16; sums and products of bf16 are tested with plain numbers.
PICKS = ANY_ZERO | {
    aten.relu.default, aten.hardtanh.default, aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.abs.default,
    aten.round.default, aten.neg.default, aten.where.self, aten.ge.Tensor, aten.le.Scalar, aten.leaky_relu.default, aten.elu.default,
    aten.hardswish.default, aten.hardsigmoid.default, aten.sqrt.default, aten.div.Tensor, aten._softmax.default,
    aten._log_softmax.default, aten.cat.default, aten.clone.default,
}  # fmt: skip
MORE: list[Sample] = [
    (aten.relu.default, aten.relu, [t(2, 3, 37)]),  # whole vectors and a tail
    (aten.hardtanh.default, lambda a: aten.hardtanh(a, 0.0, 6.0), [t(5, 33)]),
    (aten.clamp.default, lambda a: aten.clamp(a, 1.0, -1.0), [A]),  # the upper bound counts
    (aten.clamp.default, lambda a: aten.clamp(a, -math.inf, math.inf), [A]),
    (aten.clamp.default, lambda a: aten.clamp(a, min=-0.25), [t(4, 40)]),
    (aten.maximum.default, aten.maximum, [t(3, 1), t(2, 3, 40)]),
    (aten.minimum.default, aten.minimum, [t(2, 3, 40), t(40)]),
    (aten.maximum.default, aten.maximum, [A, t()]),
    (aten.relu.default, lambda a, b, c: aten.relu(aten.addmm(c, a, b)), [t(6, 20), t(20, 33), t(33)]),  # behind a product
    (aten.clamp.default, lambda a, b: aten.clamp(a @ b, -1.0, 2.0), [t(6, 20), t(20, 33)]),
    (aten.maximum.default, lambda a, b, c: aten.maximum(a @ b, c), [t(6, 20), t(20, 33), t(33)]),
    (aten.amax.default, lambda a: aten.amax(a, [0, 2]), [t(3, 4, 35)]),
    (aten.amin.default, lambda a: aten.amin(a, [1]), [t(3, 40, 17)]),
    (aten.amax.default, lambda a: aten.amax(a), [t(70)]),
    (aten._to_copy.default, lambda a: aten._to_copy(a, dtype=F16), [A]),
    (aten._to_copy.default, lambda a: aten._to_copy(a, dtype=torch.float32), [A.to(F16)]),
    (aten.pow.Tensor_Scalar, lambda a: aten.pow.Tensor_Scalar(a, -1.5), [A]),
    (aten.pow.Tensor_Scalar, lambda a: aten.pow.Tensor_Scalar(a, 3), [A]),
    (aten.pow.Tensor_Scalar, lambda a: aten.pow.Tensor_Scalar(a, -0.5), [A]),
    *((aten.pow.Tensor_Scalar, lambda a, e=e: aten.pow.Tensor_Scalar(a, e), [A.to(d)]) for e in (0.5, -0.5) for d in (F16, BF16)),
    (aten.max_pool2d_with_indices.default, lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])[0], [t(1, 19, 12, 20)]),
]


def special(a: Any, seed: int) -> Any:
    """The tensor with a third of its elements out of NUMBERS, so that plain ones stand among them; others as they are."""
    if not isinstance(a, torch.Tensor) or not a.is_floating_point():
        return a
    made, draw = a.clone().flatten(), torch.Generator().manual_seed(seed)
    places = torch.randperm(made.numel(), generator=draw)[: max(1, made.numel() // 3)]
    made[places] = torch.tensor(NUMBERS)[torch.randint(0, len(NUMBERS), (len(places),), generator=draw)].to(a.dtype)
    return made.view(a.shape)


def same(got: Any, want: Any, *, any_zero: bool, excused: Callable[[Any, Any], Any] | None = None) -> None:
    """NaN, infinities and zeros as they are, other numbers to a few roundings of 1 or of the largest."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if excused is not None:
        held = ~excused(got, want)
        got, want = got[held], want[held]
    far = {torch.float32: 1e-5, BF16: 2.0**-6, F16: 2.0**-9}.get(want.dtype, 0)
    finite = want[want.isfinite()].abs().max().item() if want.isfinite().any() else 0.0
    torch.testing.assert_close(got, want, rtol=far, atol=far * max(finite, 1.0), equal_nan=True)
    zeros = (got == 0) & (want == 0)
    assert any_zero or torch.equal(torch.signbit(got[zeros]), torch.signbit(want[zeros])), "the sign of a zero"


def rows() -> Iterator[tuple[str, str, tuple[object, ...]]]:
    for i, (op, function, args) in enumerate([s for s in (*SAMPLES, *MORE) if not any(s is other for other in LEFT_OUT)]):
        for dtype in (torch.float32, (BF16, F16)[i % 2]) if op in PICKS else (torch.float32,):
            yield str(op), f"{op} {i} {dtype}", (op, function, args, dtype)


@by_row(rows())
@torch.no_grad()
def test_a_row_treats_special_numbers_as_eager_does(op: Any, function: Callable[..., Any], args: Sequence[Any], dtype: Any) -> None:
    floats = [isinstance(a, torch.Tensor) and a.is_floating_point() for a in args]
    plain = [a.to(dtype) if is_float and a.dtype is torch.float32 else a for a, is_float in zip(args, floats, strict=True)]
    made = program(function, plain)
    assert not made.summary.fallbacks
    for seed in range(8):
        given = [special(a, 8 * i + seed) if i == 0 or op not in DATA_ALONE else a for i, a in enumerate(plain)]
        (got,) = made(list(given))
        same(got, function(*given), any_zero=op in ANY_ZERO, excused=EXCUSED.get(op))


def test_every_row_satisfies_them() -> None:
    assert len(LEFT_OUT) == 1
    assert {op for op, _, _ in SAMPLES} == {arguments[0] for _, _, arguments in rows()}


@torch.no_grad()
def test_a_bound_that_is_nan_is_left_to_pytorch() -> None:
    made = program(lambda a: aten.clamp(a, min=math.nan), [A])
    assert list(made.summary.fallbacks.values()) == ["a bound that is NaN"]
    assert made([A])[0].isnan().all()


# ---- queries that attend to nothing ----------------------------------------------------------------------------------


def padded(width: int, *left: int) -> Any:
    """[batch, 1, 1, width]: the keys of entries that begin with so many of padding. True is what is attended to."""
    return (torch.arange(width) >= torch.tensor(left)[:, None])[:, None, None]


def added(seen: Any, dtype: Any) -> Any:
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, -math.inf)


CAUSAL = torch.ones(8, 8, dtype=torch.bool).tril()
MASKS: dict[str, Any] = {
    "left-padded": padded(8, 3, 0) & CAUSAL,
    "the same for all queries, one entry hidden": padded(8, 8, 2),
    "an entry, a query and a head": padded(8, 8, 1).expand(2, 4, 8, 8) & CAUSAL & torch.tensor([1, 1, 0, 1]).bool()[:, None, None],
    "of two dims": CAUSAL.tril(-1),
    "everything": torch.zeros(8, 8, dtype=torch.bool),
    "nothing": torch.ones(2, 1, 8, 8, dtype=torch.bool),
}


def qkv(dtype: Any, queries: int = 8, keys: int = 8) -> list[Any]:
    torch.manual_seed(queries + keys)
    return [torch.randn(2, 4, n, 16).to(dtype) for n in (queries, keys, keys)]


def attend(q: Any, k: Any, v: Any, mask: Any, **how: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **how)


def as_in_eager(got: Any, want: Any, hidden: Any) -> None:
    """Close, and zeros where nothing is attended to."""
    far = {torch.float32: 1e-5, BF16: 2.0**-6, F16: 2.0**-9}[want.dtype]
    torch.testing.assert_close(got, want, rtol=far, atol=far)
    assert not got[hidden.expand(got.shape[:-1])].any()


@by_row(
    ("attention", f"{name}, {dtype}", (MASKS[name], dtype)) for i, name in enumerate(MASKS) for dtype in (torch.float32, (BF16, F16)[i % 2])
)
@torch.no_grad()
def test_a_query_that_attends_to_nothing_gets_zeros(mask: Any, dtype: Any) -> None:
    """By a boolean mask and by one that is added, whichever way the library goes through the scores."""
    hidden = ~mask.any(-1)
    for given in (mask, added(mask, dtype)):
        args = [*qkv(dtype), given]
        made, want = program(attend, args), attend(*args)
        assert any("attention" in node for node in made.summary.offloaded)
        as_in_eager(made(list(args))[0], want, hidden)


@pytest.mark.parametrize("dtype", [torch.float32, BF16, F16])
@torch.no_grad()
def test_so_it_does_where_the_scores_are_gone_through_in_one_pass(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some columns at a time, of which the first are hidden, or all."""
    monkeypatch.setattr(samples, "ENGINE", Engine(target=replace(current(), l2_bytes=24 << 10, cores=2)))
    monkeypatch.setattr(choose, "row_tilings", lambda nest: iter([row_tiling(nest, nest.first.m, 64 if nest.is_flash else 0)]))
    steps = list[int]()
    monkeypatch.setattr(FlashAttentionNest, "__init__", recording(FlashAttentionNest.__init__, steps))
    q, k, v = qkv(dtype, 40, 300)
    mask = padded(300, 300, 150) & (torch.arange(40) != 5)[:, None]
    args = [q, k, v, added(mask, dtype)]
    made = program(attend, args)
    assert steps
    as_in_eager(made(list(args))[0], attend(*args), ~mask.any(-1))
    args[-1][0, 0, 7, 290] = math.nan
    same(made(list(args))[0], attend(*args), any_zero=True)


def recording(init: Callable[..., None], steps: list[int]) -> Callable[..., None]:
    def recorded(nest: FlashAttentionNest, *args: Any) -> None:
        init(nest, *args)
        steps.append(nest.step)

    return recorded


OTHERWISE: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    "more queries than keys, causal": (lambda q, k, v, m: attend(q, k, v, None, is_causal=True), (9, 5)),
    "fewer queries than keys, causal": (lambda q, k, v, m: attend(q, k, v, None, is_causal=True), (5, 9)),
    "without heads": (lambda q, k, v, m: attend(q[:, 0], k[:, 0], v[:, 0], m[:, 0]), (8, 8)),
    "heads that share keys": (lambda q, k, v, m: attend(q, k[:, :2], v[:, :2], m, enable_gqa=True), (8, 8)),
    "another scale": (lambda q, k, v, m: attend(q, k, v, m, scale=0.7), (8, 8)),
    "by _safe_softmax": (lambda q, k, v, m: aten._scaled_dot_product_attention_math(q, k, v, m)[0], (8, 8)),
}


@by_row(("attention", name, how) for name, how in OTHERWISE.items())
@torch.no_grad()
def test_in_all_forms_of_attention(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    args = [*qkv(torch.float32, *shape), MASKS["left-padded"]]
    torch.testing.assert_close(program(function, args)(list(args))[0], function(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_gradients_of_a_query_that_attends_to_nothing(dtype: Any) -> None:
    torch._dynamo.reset()
    found = []
    for run in (torch.compile(attend, backend="benchgraph"), attend):
        given = [a.requires_grad_() for a in qkv(dtype)]
        made = run(*given, MASKS["left-padded"])
        made.sum().backward()
        found.append([made.detach(), *(a.grad for a in given)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want)


@torch.no_grad()
def test_an_encoder_layer_in_eval_mode_makes_nan_of_them_as_in_eager() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), t(2, 8, 32)
    hidden = ~padded(8, 8, 3)[:, 0, 0]
    want = model(x, src_key_padding_mask=hidden)
    assert want[0].isnan().all()
    got = torch.compile(model, backend="benchgraph")(x, src_key_padding_mask=hidden)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)


# ---- gradients -------------------------------------------------------------------------------------------------------

Forward = Callable[..., Any]
GRADIENTS: dict[str, Forward] = {
    "relu": torch.relu,
    "relu6": functional.relu6,
    "leaky relu": lambda x: functional.leaky_relu(x, 0.25),
    "hardtanh": functional.hardtanh,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "clamp": lambda x: x.clamp(-0.5, 2.5),
    "clamp from below": lambda x: x.clamp(min=0.5),
    "clamp from above": lambda x: x.clamp(max=0.5),
    "clamp by tensors": lambda x: x.clamp(x.roll(1), x.roll(2)),
    "maximum": lambda x: torch.maximum(x, x.roll(1, -1)),
    "minimum": lambda x: torch.minimum(x, x.roll(1, -1)),
    "largest of rows": lambda x: x.amax(-1),
    "largest and where": lambda x: x.max(-1).values,
    "least of all": lambda x: x.amin(),
    "pools": lambda x: functional.max_pool2d(x[None, None], 2),
    "rows of windows": lambda x: functional.max_pool1d(x[None], 3, 1, 1),
    "adaptive pool": lambda x: functional.adaptive_max_pool2d(x[None, None], 2),
    "softmax": lambda x: x.softmax(-1),
    "relu, squared, then a pool": lambda x: functional.max_pool2d(torch.relu(x)[None, None] ** 2, 2) + 1,
}


@pytest.fixture(scope="module", autouse=True)
def fresh() -> Iterator[None]:
    """What Dynamo keeps of other tests' models would count against the limit of recompilations."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@by_row(("gradients", name, (function,)) for name, function in GRADIENTS.items())
def test_gradients_are_those_of_eager(function: Forward) -> None:
    """The library runs forward, and what it makes of NaN is what PyTorch's backward graph reads."""
    x = special(t(6, 9), 3)
    torch._dynamo.reset()
    found = []
    for run in (torch.compile(function, backend="benchgraph"), function):
        given = x.clone().requires_grad_()
        made = run(given)
        made.backward(torch.linspace(1, 2, made.numel()).view(made.shape))
        found.append((made.detach(), given.grad))
    for got, want in zip(*found, strict=True):
        same(got, want, any_zero=True)


# ---- dumps -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_dump_marks_constants_and_runs_as_a_case(tmp_path: Path) -> None:
    def model(x: Any, y: Any) -> Any:
        return torch.maximum(torch.relu(x @ y).clamp(min=0.5), y.clamp(max=0.25))

    torch._dynamo.reset()
    torch.compile(model, backend="benchgraph", options={"dump": str(tmp_path)})(t(4, 4), t(4, 4))
    (path,) = tmp_path.iterdir()
    attrs = {op.kind: op.attrs for op in load(path).ops}
    assert attrs["ReLU"]["propagate_nan"] is True
    assert attrs["Maximum"]["propagate_nan"] is True
    for more in ((), ("--op-attrs=1:propagate_nan:undef",)):
        done = CliRunner().invoke(main, ["--graph", *more, f"--case={path}"])
        assert done.exit_code == 0, done.output
        assert "0:PASSED" in done.output
