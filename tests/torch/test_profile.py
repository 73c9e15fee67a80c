"""Where the time of a compiled model goes: whose the layers are, what they are called, and that nothing else changes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.core.layers import CALLER  # noqa: E402
from benchgraph.framework.torch import layer_table, profiled, recorded  # noqa: E402
from benchgraph.torch.profile import Profile  # noqa: E402


class Model(torch.nn.Module):
    """Two alike blocks, an op that PyTorch runs, and a last one."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(2))
        self.head = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x) + x
        return self.head(torch.topk(x, 8).values)


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Of five calls, of which each result is checked."""
    model = Model().eval()
    fast = torch.compile(model, backend="benchgraph", options={"policy": "post_ops"})
    with torch.no_grad(), profiled() as found:
        for n in range(5):
            x = torch.randn(16, 64, generator=torch.Generator().manual_seed(n))
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        fast(x)  # outside: not in the profile
    return found


def test_calls_are_profiled_by_turns(profile: Profile) -> None:
    (graph,) = profile.graphs
    assert (len(graph.executions), len(graph.whole_s)) == (3, 2)
    assert all(len(layer.samples_s) == 2 for layer in graph.layer_profile.layers)  # without the first


def test_every_op_of_the_library_is_in_one_layer(profile: Profile) -> None:
    (graph,) = profile.graphs
    assert sorted(op for layer in graph.layers for op in layer.ops) == sorted(op.id for op in graph.graph.ops)
    for spans in graph.executions:
        assert {s.layer for s in spans if s.thread == CALLER} == set(range(len(graph.layers)))


def test_layers_are_called_by_their_modules(profile: Profile) -> None:
    layers = profile.graphs[0].layer_profile.layers
    assert [(layer.name, layer.implementation.split(":")[0]) for layer in layers] == [
        ("blocks.0.0.addmm", "jit"),
        ("blocks.1.0.addmm", "jit"),
        ("topk", "pytorch"),
        ("head.addmm", "jit"),
    ]
    assert layers[0].names == ("blocks.0.1.relu", "add")
    assert [layer.partition for layer in layers] == [0, 1, 2, 3]


def test_the_table_has_alike_blocks_once(profile: Profile) -> None:
    text = layer_table(profile)
    assert "blocks.*.0.addmm +2" in text
    assert "4 layers of 4 partitions" in text
    assert "topk" in text


def test_the_first_call_may_be_inside_of_the_block() -> None:
    model = torch.nn.Linear(8, 8).eval()
    with torch.no_grad(), recorded(), profiled() as found:
        torch.compile(model, backend="benchgraph")(torch.ones(2, 8))
    assert "1 layer of 1 partition" in layer_table(found)
    assert "otherwise" not in layer_table(found)
