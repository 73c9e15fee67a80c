"""Deep networks through torch.compile: whole, right, and drafted in a time that grows with their depth."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from benchgraph.core.tensor import LayoutType, LogicalTensor, dense_strides  # noqa: E402
from benchgraph.library.engine import Engine  # noqa: E402
from benchgraph.library.partition import Partition  # noqa: E402
from benchgraph.partition.ir import Policy  # noqa: E402
from benchgraph.torch import recorded  # noqa: E402
from benchgraph.torch.program import Program, build  # noqa: E402
from tests.framework.networks import residual  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What Dynamo keeps of other tests' models would count against the limit of recompilations."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("is_bottleneck", [False, True])
@torch.no_grad()
def test_a_residual_network_is_one_partition_and_agrees_with_eager(is_bottleneck: bool) -> None:
    torch.manual_seed(0)
    model, x = residual((1, 1), is_bottleneck=is_bottleneck, width=8, classes=10), torch.randn(2, 3, 32, 32)
    with recorded() as graphs:
        run = torch.compile(model, backend="benchgraph")
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(graphs[0].partitions) == 1
    assert not graphs[0].fallbacks
    x[0, 1, 5, 7] = math.nan
    want = model(x)
    assert want[0].isnan().all()
    assert not want[1].isnan().any()
    torch.testing.assert_close(run(x), want, rtol=1e-4, atol=1e-5, equal_nan=True)


class Uncompiled:
    """What a partition would give when it is compiled: its results as they were declared, dense where that was left open."""

    def __init__(self, outs: Sequence[LogicalTensor]) -> None:
        self._outs = {t.id: t for t in outs}

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        t = self._outs[id]
        return replace(t, layout_type=LayoutType.strided, strides=t.strides or dense_strides(t.known_shape))


def calls_of(work: Callable[[], object]) -> int:
    """How many calls of Python functions it takes."""
    count = 0

    def seen(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


Traced = tuple[Callable[..., Any], list[Any]]


def convolutions(blocks: int) -> Traced:
    """With weights, which are constants."""
    model = residual((blocks,), is_bottleneck=False, width=4, classes=4)
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def run(x: Any, *weights: Any) -> Any:
        return (torch.func.functional_call(model, dict(zip(held, weights, strict=True)), x),)

    return run, [torch.randn(1, 3, 16, 16), *held.values()]


def views(layers: int) -> Traced:
    """Movements between offloaded ops, and views that others make and read."""

    def run(x: Any) -> Any:
        for _ in range(layers):
            x = torch.relu(x @ x).view(2, 4, 8).transpose(0, 1).reshape(8, 8) + torch.cumsum(x, 0).t()
        return (x,)

    return run, [torch.randn(8, 8)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", [Policy.fused, Policy.one_op_each])
@pytest.mark.parametrize("made", [convolutions, views])
@torch.no_grad()
def test_the_bridges_share_of_compiling_grows_with_the_network(
    made: Callable[[int], Traced], policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "compile", lambda self, ins, outs, engine: Uncompiled(outs))
    engine, counts = Engine(), list[int]()
    for depth in (4, 8, 16):
        function, args = made(depth)
        module, names = make_fx(function, tracing_mode="fake")(*args), [f"x{i}" for i in range(len(args))]
        programs = list[Program]()
        weights = frozenset(range(1, len(args)))
        counts.append(calls_of(partial(build_into, programs, module, weights, engine, policy, names)))
        assert len(programs[0].summary.offloaded) >= depth
    few, more, most = counts
    assert most - more <= 2.2 * (more - few)


def build_into(programs: list[Program], *args: Any) -> None:
    programs.append(build(*args))
