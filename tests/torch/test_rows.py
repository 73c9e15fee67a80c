"""The table of ATen ops: every row against eager, and the nodes left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from benchgraph.torch.draft import Draft  # noqa: E402
from benchgraph.torch.rows import ROWS  # noqa: E402
from benchgraph.torch.views import LAYOUT_OPS  # noqa: E402
from tests.torch.samples import BF16, IMAGE, SAMPLES, A, Q, aten, program, t  # noqa: E402


def test_every_row_has_a_sample() -> None:
    assert {op for op, _, _ in SAMPLES} == set(ROWS)


@pytest.mark.parametrize(("op", "function", "args"), SAMPLES, ids=[f"{s[0]}-{i}" for i, s in enumerate(SAMPLES)])
@torch.no_grad()
def test_a_row_computes_the_same_as_eager(op: Any, function: Callable[..., Any], args: Sequence[Any]) -> None:
    made = program(function, args)
    assert not made.summary.fallbacks
    assert made.summary.offloaded
    (got,), want = made(list(args)), function(*args)
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    tolerance = 2.0**-7 if BF16 in (got.dtype, args[0].dtype) else 1e-5
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * want.abs().max().item())


@pytest.mark.parametrize("dims", [0, 1], ids=["all", "some"])
@torch.no_grad()
def test_movements_between_offloaded_ops_stay_inside(dims: int) -> None:
    def function(x: Any) -> Any:
        y = torch.relu(x).unsqueeze(1).permute(2, 1, 0).squeeze(dims or 1).transpose(0, 1)
        return torch.tanh(y.reshape(2, -1).t().detach())

    x = t(6, 4)
    made = program(function, [x])
    assert made.summary.partitions[0][0] == "relu"
    assert len(made.summary.partitions) == 1
    torch.testing.assert_close(made([x])[0], function(x))
    assert aten.permute.default in LAYOUT_OPS


LEFT: list[tuple[str, Callable[..., Any], Sequence[Any], str]] = [
    ("training results", lambda x: aten.native_layer_norm(x, [5], None, None, 1e-5)[1], [A], "its result 1 is read"),
    ("where maxima stood", lambda x: aten.max_pool2d_with_indices(x, [2, 2])[1], [IMAGE], "its result 1 is read"),
    ("f64", lambda x: aten.relu(x), [A.double()], "no tensor of a dtype that the library knows"),
    ("s64", lambda x: aten.add.Tensor(x, 1), [torch.arange(4)], "no floats"),
    ("bf16 with f16", lambda x, y: x + y, [A.to(BF16), A.half()], "operands of bf16 and f16"),
    ("a divisor", lambda x: aten.avg_pool2d(x, [2, 2], [2, 2], [0, 0], False, True, 3), [IMAGE], "a divisor of 3"),
    ("no batch", lambda x: aten.avg_pool2d(x, [2, 2]), [IMAGE[0]], "without a batch axis"),
    ("windows of several sizes", lambda x: aten._adaptive_avg_pool2d(x, [3, 2]), [t(2, 4, 8, 8)], "windows of several sizes: (3, 2)"),
    ("windows without a batch", lambda x: aten._adaptive_avg_pool2d(x, [2, 2]), [t(4, 8, 8)], "without a batch axis"),
    ("scaled elu", lambda x: aten.elu(x, 1.0, 2.0), [A], "scales 2.0 and 1"),
    ("an early threshold", lambda x: aten.softplus(x, 1.0, 5.0), [A], "a threshold of 5.0"),
    ("a wider sum", lambda x: aten.sum.dim_IntList(x, [0], dtype=torch.float32), [A.to(BF16)], "a reduction of bf16 in"),
]


@pytest.mark.parametrize(("function", "args", "reason"), [row[1:] for row in LEFT], ids=[row[0] for row in LEFT])
@torch.no_grad()
def test_ops_that_no_row_expresses_are_left_to_pytorch(function: Callable[..., Any], args: Sequence[Any], reason: str) -> None:
    made = program(function, args)
    (found,) = made.summary.fallbacks.values()
    assert reason in found
    assert not made.summary.offloaded
    torch.manual_seed(0)
    got = made(list(args))[0]
    torch.manual_seed(0)
    torch.testing.assert_close(got, function(*args))


@torch.no_grad()
def test_attention_with_dropout_is_refused_by_pytorch_not_computed_without() -> None:
    made = program(lambda q: aten._scaled_dot_product_flash_attention_for_cpu(q, q, q, 0.5)[0], [Q])
    assert list(made.summary.fallbacks.values()) == ["dropout of 0.5"]
    with pytest.raises(RuntimeError, match="dropout"):
        made([Q])


def test_random_ops_depend_on_each_other_in_the_order_in_which_they_stand() -> None:
    module = make_fx(lambda x: (torch.bernoulli(x), torch.cumsum(x, 0), torch.rand_like(x)), tracing_mode="fake")(t(4, positive=True))
    draft = Draft(module, ROWS, frozenset(), {})
    first, plain, second = (next(op for op in draft.ops if draft.owner.get(op.id) is n) for n in list(module.graph.nodes)[1:4])
    made = {o.id for o in first.outputs}
    assert any(i.id in made for i in second.inputs)
    assert not any(i.id in made for i in plain.inputs)
