"""torch.compile(model, backend="benchgraph"): right results, what is offloaded, whose memory is used, and what becomes of changes."""

from __future__ import annotations

import copy
import ctypes
import gc
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.cli import main  # noqa: E402
from benchgraph.core.tensor import LayoutType  # noqa: E402
from benchgraph.graph import load  # noqa: E402
from benchgraph.library.compiled_partition import CompiledPartition  # noqa: E402
from benchgraph.library.engine import Engine  # noqa: E402
from benchgraph.library.tensor import Tensor  # noqa: E402
from benchgraph.runtime.constants import Constants, constant_tensors  # noqa: E402
from benchgraph.tir.ir import Func  # noqa: E402
from benchgraph.torch import recorded, weights_changed  # noqa: E402
from benchgraph.torch.constants import WeightEpoch  # noqa: E402
from benchgraph.torch.models import example, make  # noqa: E402

nn = torch.nn
EPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8}
# ops offloaded, partitions
OFFLOADED = {"mlp": (5, 1), "encoder": (12, 1), "cnn": (10, 1)}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What Dynamo keeps of other tests' models would count against the limit of recompilations."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="benchgraph", options=options)


def agree(got: Any, want: Any, k: float = 64) -> None:
    """Within k roundings of the largest value."""
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    far = (got.double() - want.double()).abs().max().item()
    assert far <= k * EPS[want.dtype] * want.double().abs().max().item()


# ---- three models ----------------------------------------------------------------------------------------------------


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", ["mlp", "encoder", "cnn"])
@torch.no_grad()
def test_a_model_agrees_with_eager_and_is_offloaded_completely(name: str, dtype: Any) -> None:
    model, x = make(name, 1, dtype), example(name, 1, 3, dtype)
    with recorded() as graphs:
        got = compiled(model)(x)
    want = model(x)
    agree(got, want, 4 if dtype is torch.bfloat16 else 64)
    exact = copy.deepcopy(model).double()(x.double())
    ours, theirs = ((y.double() - exact).abs().max().item() for y in (got, want))
    assert ours <= 2 * theirs + EPS[dtype] * exact.abs().max().item()
    (graph,) = graphs
    assert (len(graph.offloaded), graph.total, len(graph.partitions), graph.fallbacks) == (OFFLOADED[name][0], *OFFLOADED[name], {})
    assert str(graph).startswith(f"{graph.total} of {graph.total} ops offloaded, in 1 partitions")


@torch.no_grad()
def test_the_encoder_layer_agrees_in_training_form_and_with_norms_first() -> None:
    """Without the fast path it takes its packed projection apart: views of what the first partition makes."""
    x = example("encoder", 1, 2, torch.float32)
    first = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu").eval()
    agree(compiled(first)(x), first(x))
    slow = first.train()
    with recorded() as graphs:
        got = compiled(slow)(x)
    agree(got, slow(x))
    assert len(graphs[0].partitions) == 2
    assert not graphs[0].fallbacks


@pytest.mark.parametrize("masks", ["causal", "padding", "both"])
@torch.no_grad()
def test_the_encoder_layer_with_masks(masks: str) -> None:
    model, x = make("encoder", 1, torch.float32), example("encoder", 1, 3, torch.float32)
    given = {}
    if masks != "padding":
        causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        given["src_mask"] = causal.bool() if masks == "both" else causal  # of one dtype, or PyTorch warns
    if masks != "causal":
        given["src_key_padding_mask"] = torch.arange(x.shape[1]) >= torch.tensor([[16], [9], [1]])
    with recorded() as graphs:
        got = compiled(model)(x, **given)
    agree(got, model(x, **given))
    assert len(graphs[0].offloaded) >= 12
    assert not torch.allclose(got, model(x), atol=1e-2)


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[int], set[int]]]:
    """The addresses that each execution reads and writes."""
    seen = []
    real = CompiledPartition.execute

    def execute(self: CompiledPartition, stream: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        seen.append(tuple({t.array.ctypes.data for t in ts} for ts in (inputs, outputs)))
        real(self, stream, inputs, outputs)

    monkeypatch.setattr(CompiledPartition, "execute", execute)
    return seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@torch.no_grad()
def test_partitions_run_on_the_memory_of_pytorch(dtype: Any, executions: list[tuple[set[int], set[int]]]) -> None:
    model, x = make("mlp", 1, dtype), example("mlp", 1, 3, dtype)
    y = compiled(model)(x)
    (read, written) = executions[0]
    assert read == {x.data_ptr(), *(p.data_ptr() for p in model.parameters())}
    assert written == {y.data_ptr()}


@torch.no_grad()
def test_strided_inputs_are_read_in_place(executions: list[tuple[set[int], set[int]]]) -> None:
    whole = torch.randn(6, 10, 2)
    x, s = whole[1:5, ::2, 1].t(), torch.randn(4).expand(5, 4)

    def model(x: Any, s: Any) -> Any:
        return torch.relu(x[1:] * 2 + s[1:])

    y = compiled(model)(x, s)
    agree(y, model(x, s))
    assert {x[1:].data_ptr(), s[1:].data_ptr()} <= executions[0][0]
    nhwc = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(8, 4, 3).to(memory_format=torch.channels_last)
    got = compiled(conv)(nhwc)
    agree(got, conv(nhwc))
    assert got.is_contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def test_values_read_only_by_partitions_have_the_librarys_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []
    real = CompiledPartition.execute

    def execute(self: CompiledPartition, stream: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        kinds.append(tuple(t.logical.layout_type for t in (inputs[0], outputs[0])))
        real(self, stream, inputs, outputs)

    monkeypatch.setattr(CompiledPartition, "execute", execute)
    model, x = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 64)).eval(), torch.randn(48, 64)
    agree(compiled(model, policy="one_op_each")(x), model(x))
    strided, opaque = LayoutType.strided, LayoutType.opaque
    assert kinds == [(strided, opaque), (opaque, opaque), (opaque, strided)]


@torch.no_grad()
def test_results_are_not_overwritten_by_later_runs_and_inputs_not_at_all() -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run, before = compiled(model), x.clone()
    first = run(x)
    kept = first.clone()
    run(2 * x)
    assert torch.equal(first, kept)
    assert torch.equal(x, before)


@torch.no_grad()
def test_memory_of_a_small_result_is_taken_again_when_nobody_has_it(executions: list[tuple[set[int], set[int]]]) -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run, want = compiled(model), model(x)
    for _ in range(40):
        agree(run(x), want)
    assert len({min(written) for _, written in executions}) <= 4
    held = [run(i * x) for i in range(8)]
    views = [y[1:] for y in held]
    arrays = [y.numpy() for y in held]
    kept = [y.clone() for y in held]
    del held
    for _ in range(8):
        run(100 * x)
    for view, array, y in zip(views, arrays, kept, strict=True):
        assert torch.equal(view, y[1:])
        assert torch.equal(torch.from_numpy(array), y)


@torch.no_grad()
def test_memory_that_another_process_may_read_or_that_is_gone_is_not_taken() -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run, want = compiled(model), model(x)
    shared = run(x).share_memory_()
    storage = shared.untyped_storage()
    view = np.ctypeslib.as_array((ctypes.c_float * want.numel()).from_address(storage.data_ptr()))  # as another process sees it
    del shared
    before, cdata = view.copy(), storage._cdata
    del storage
    for _ in range(4):
        assert run(2 * x).untyped_storage()._cdata != cdata
    assert np.array_equal(view, before)
    for _ in range(4):
        run(x).untyped_storage().resize_(0)
        agree(run(x), want)


# ---- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [None, True, False])
@torch.no_grad()
def test_other_shapes_are_compiled_for(dynamic: bool | None) -> None:
    model = make("mlp", 1, torch.float32)
    run = torch.compile(model, backend="benchgraph", dynamic=dynamic)
    with recorded() as graphs:
        for batch in (3, 5, 3, 8, 5):
            x = example("mlp", 1, batch, torch.float32)
            agree(run(x), model(x))
    assert len(graphs) == (4 if dynamic is None else 3)  # None: 3 as such, then 5, 3 by a graph with an open dim
    assert all(len(g.offloaded) == 5 for g in graphs)


@torch.no_grad()
def test_open_shapes_that_enter_the_arithmetic() -> None:
    def model(x: Any) -> Any:
        return torch.softmax(x.view(x.shape[0] * 2, -1), -1) * x.shape[0]

    run = torch.compile(model, backend="benchgraph", dynamic=True)
    for rows in (3, 4):
        x = torch.randn(rows, 8)
        agree(run(x), model(x))


# ---- weights ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_weights_are_packed_once_and_again_when_they_change_in_place(inits: list[Func]) -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run = compiled(model)
    for _ in range(3):
        agree(run(x), model(x))
    assert len(inits) == 1
    model[0].weight.mul_(-0.5)
    agree(run(x), model(x))
    agree(run(x), model(x))
    assert len(inits) == 2
    model.load_state_dict({k: v + 0.25 for k, v in model.state_dict().items()})
    agree(run(x), model(x))
    assert len(inits) == 3
    model[2].weight.data = torch.randn_like(model[2].weight)  # other memory
    agree(run(x), model(x))
    assert len(inits) == 4
    model[2].weight = nn.Parameter(torch.randn_like(model[2].weight))  # another tensor
    agree(run(x), model(x))


@pytest.mark.parametrize("megabytes", [0, 64])
@torch.no_grad()
def test_results_of_old_weights_are_not_kept(megabytes: int) -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    before, capacity = alive(), constant_tensors.capacity
    constant_tensors.capacity = megabytes
    try:
        run = compiled(model)
        for _ in range(4):
            model[0].weight.mul_(-0.5)
            agree(run(x), model(x))
            assert alive() == before + 1
    finally:
        constant_tensors.capacity = capacity


def alive() -> int:
    """Sets of constants in the process."""
    gc.collect()
    return sum(type(o) is Constants for o in gc.get_objects())  # isinstance would ask proxies, which warn


@torch.no_grad()
def test_uncounted_writes_are_detected_after_weights_changed() -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run = compiled(model)
    before = run(x)
    model[4].weight.data.mul_(3)
    assert torch.equal(run(x), before)
    weights_changed()
    agree(run(x), model(x))
    model[4].weight.data.mul_(3)
    torch._dynamo.reset()
    variable = compiled(model, constants=False)
    agree(variable(x), model(x))
    model[4].weight.data.mul_(3)
    agree(variable(x), model(x))


@torch.no_grad()
def test_two_modules_behind_one_graph_do_not_share_weights() -> None:
    """Dynamo runs modules of one shape by one graph; new weights may come to lie where freed ones lay."""
    x = example("mlp", 1, 3, torch.float32)

    def call(m: Any, x: Any) -> Any:
        return m(x)

    run = compiled(call)
    memory = np.empty((32, 32), np.float32)
    for seed in range(4):
        memory[:] = np.random.default_rng(seed).random((32, 32), np.float32)
        model = nn.Linear(32, 32, bias=False).eval()
        model.weight = nn.Parameter(torch.from_numpy(memory))
        agree(run(model, x), model(x))
        del model


@torch.no_grad()
def test_two_compiled_models_on_one_set_of_weights_both_see_a_change() -> None:
    """They share machine code; what one has kept of the old weights is not the other's."""
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    both = [compiled(model), compiled(model, name="other")]
    for run in both:
        agree(run(x), model(x))
    model[0].weight.mul_(-0.5)
    for run in both:
        agree(run(x), model(x))


def test_tensors_of_inference_mode_have_no_version_and_are_no_constants() -> None:
    with torch.inference_mode():
        model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
        run = compiled(model)
        agree(run(x), model(x))
        model[0].weight.mul_(2)
        agree(run(x), model(x))


def test_training_offloads_the_forward_pass_and_pytorch_runs_backward(inits: list[Func]) -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    twin = copy.deepcopy(model)
    with recorded() as graphs:
        run = compiled(model)
        for m, f in ((model, run), (twin, twin)):
            optimizer = torch.optim.SGD(m.parameters(), 0.1)
            for _ in range(2):
                optimizer.zero_grad()
                f(x).square().mean().backward()
                optimizer.step()
    assert graphs[0].offloaded
    assert not inits  # weights that change with every step are no constants
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        agree(run(x), twin(x))


# ---- what the library has not ----------------------------------------------------------------------------------------


@torch.no_grad()
def test_an_op_without_a_row_stays_with_pytorch_between_two_partitions() -> None:
    def model(x: Any, w: Any) -> Any:
        y = torch.relu(x @ w)
        values, places = torch.topk(y, 4)
        return torch.tanh(values) + 1, places, y

    x, w = torch.randn(3, 16), torch.randn(16, 16)
    with recorded() as graphs:
        got = compiled(model)(x, w)
    for a, b in zip(got, model(x, w), strict=True):
        torch.testing.assert_close(a, b)
    assert graphs[0].fallbacks == {"topk": "no row for aten.topk.default"}
    assert graphs[0].partitions == (("mm", "relu"), ("tanh", "add"))
    assert "4 of 5 ops offloaded, in 2 partitions; topk: no row" in str(graphs[0])


@torch.no_grad()
def test_no_partition_goes_around_what_pytorch_runs() -> None:
    """a -> cumsum -> c and a -> c: were a and c one partition, it would need its own result."""

    def model(x: Any) -> Any:
        a = torch.exp(x)
        return a * torch.cumsum(a, 0)

    x = torch.rand(4, 8)
    with recorded() as graphs:
        agree(compiled(model)(x), model(x))
    assert graphs[0].partitions == (("exp",), ("mul",))


@torch.no_grad()
def test_no_partition_reads_a_part_of_its_own_result_from_outside() -> None:
    """There is no op for a slice, so what reads one runs when all of it is there."""

    def model(x: Any) -> Any:
        a = torch.relu(x)
        return a + torch.exp(a[0:1])

    x = torch.randn(4, 8)
    with recorded() as graphs:
        agree(compiled(model)(x), model(x))
    assert graphs[0].partitions == (("relu",), ("exp", "add"))


@torch.no_grad()
def test_results_with_unexpected_strides_are_corrected() -> None:
    @torch.library.custom_op("benchgraph_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return (2 * x).t().contiguous().t()

    twice.register_fake(torch.empty_like)

    def model(x: Any) -> Any:
        y = twice(torch.relu(x))
        return torch.tanh(y), y.view(-1)

    x = torch.randn(4, 8)
    y = 2 * torch.relu(x)
    for a, b in zip(compiled(model)(x), (torch.tanh(y), y.view(-1)), strict=True):
        agree(a, b)


@torch.no_grad()
def test_random_ops_stay_in_order() -> None:
    def model(x: Any) -> Any:
        y = torch.sigmoid(x)
        first = torch.bernoulli(y)
        return first, torch.rand_like(x), torch.tanh(y)  # y and its tanh run together, after what else stands before the tanh

    x = torch.randn(8, 8)
    run = compiled(model)
    torch.manual_seed(1)
    got = run(x)
    torch.manual_seed(1)
    for a, b in zip(got, model(x), strict=True):
        torch.testing.assert_close(a, b)


@torch.no_grad()
def test_dtypes_shapes_and_results_that_are_not_for_the_library() -> None:
    def model(x: Any, n: Any, empty: Any, c: Any) -> Any:
        return x.double() + 1, n * 2 + 1, torch.relu(empty), c.conj() * 2, x, torch.relu(x).argmax()

    x, n, empty, c = torch.randn(2, 3), torch.arange(3), torch.empty(0, 3), torch.randn(2, dtype=torch.complex64)
    with recorded() as graphs:
        got = compiled(model)(x, n, empty, c)
    for a, b in zip(got, model(x, n, empty, c), strict=True):
        torch.testing.assert_close(a, b)
    assert graphs[0].offloaded == ("relu_1",)
    assert graphs[0].fallbacks["relu"].endswith("has no elements")


@torch.no_grad()
def test_in_place_ops_and_views_of_results() -> None:
    def model(x: Any, w: Any) -> Any:
        y = x @ w
        y.relu_()
        x.add_(1)
        return y.view(2, 2, 8).transpose(0, 1), y[1:], torch.cumsum(y.t(), 0)

    w = torch.randn(16, 8)
    x = torch.randn(4, 16)
    twin = x.clone()
    for a, b in zip(compiled(model)(x, w), model(twin, w), strict=True):
        agree(a, b)
    assert torch.equal(x, twin)


@torch.no_grad()
def test_a_graph_of_views_only_runs_nothing(executions: list[Any]) -> None:
    """The view of a product's result, read by an op of PyTorch's and by a second product behind it."""

    def model(x: Any, w: Any) -> Any:
        y = (x @ w).view(2, 2, 16)
        return torch.cumsum(y, 0), y

    x, w = torch.randn(4, 16), torch.randn(16, 16)
    for a, b in zip(compiled(model)(x, w), model(x, w), strict=True):
        agree(a, b)
    assert len(executions) == 1


# ---- threads ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_threads_infer_while_another_changes_the_weights(inits: list[Func]) -> None:
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run = compiled(model)
    old = run(x).clone()
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    new = {k: v * 0.5 for k, v in saved.items()}
    model.load_state_dict(new)
    want = model(x).clone()
    model.load_state_dict(saved)
    run(x)
    before, gate = len(inits), threading.Barrier(9)

    @torch.no_grad()
    def infer(_: int) -> list[Any]:
        gate.wait()
        return [run(x) for _ in range(20)]

    @torch.no_grad()
    def convert() -> None:
        gate.wait()
        model.load_state_dict(new)

    with ThreadPoolExecutor(9) as pool:
        found = [pool.submit(infer, i) for i in range(8)]
        pool.submit(convert).result()
        for f in found:
            f.result()
    agree(run(x), want)
    assert not torch.allclose(old, want)
    # PyTorch writes one parameter after the other, so a run in between may see some of them: an epoch for each at most
    assert len(inits) - before <= len(new)


class _WrittenInBetween(dict[Any, Any]):
    """What a graph's inputs hold, where another thread writes one of them just before it is looked at for the n-th time."""

    def __init__(self, env: Any, written: Any, n: int) -> None:
        super().__init__(env)
        self.written, self.left = written, n

    def __getitem__(self, key: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.written.add_(1)
        return super().__getitem__(key)


@torch.no_grad()
def test_a_weight_that_is_written_while_an_epoch_begins_is_not_missed() -> None:
    class Step:  # of a PartitionStep, what an epoch asks for
        ports, outputs, constants, engine = (), (), ("a",), Engine()

        def compile(self) -> Any:
            return object()

    step: Any = Step()
    a, b = torch.zeros(2), torch.zeros(2)
    looks = 0
    while True:
        looks += 1
        old = WeightEpoch.first("ab", {step: Any}).after({"a": a, "b": b})
        b.add_(1)
        env = _WrittenInBetween({"a": a, "b": b}, a, looks)
        new = old.after(env)
        if env.left > 0:
            break
        assert new.states[step] is not old.states[step] or not new.fits(env)
    assert looks > 6  # the type, the state before and after, of two weights


@torch.no_grad()
def test_eight_threads_that_come_upon_new_weights_pack_them_once(inits: list[Func]) -> None:
    model, x = make("encoder", 1, torch.float32), example("encoder", 1, 2, torch.float32)
    run, gate = compiled(model), threading.Barrier(8)
    run(x)
    model.linear1.weight.mul_(2)
    want, before = model(x), len(inits)

    @torch.no_grad()
    def infer(_: int) -> Any:
        gate.wait()
        return run(x)

    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(infer, range(8)):
            agree(got, want)
    assert len(inits) == before + 1


@torch.no_grad()
def test_another_number_of_threads_is_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = []
    real = CompiledPartition.execute

    def execute(self: CompiledPartition, *args: Any) -> None:
        cores.append(self.engine.target.cores)
        real(self, *args)

    monkeypatch.setattr(CompiledPartition, "execute", execute)
    model, x = make("mlp", 1, torch.float32), example("mlp", 1, 3, torch.float32)
    run, threads = compiled(model), torch.get_num_threads()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(n)
            agree(run(x), model(x))
    finally:
        torch.set_num_threads(threads)
    assert cores == [1, 2, 1]


def test_there_is_one_openmp_library() -> None:
    with torch.no_grad():
        compiled(torch.nn.Linear(4, 4))(torch.ones(1, 4))
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("no /proc here")
    loaded = {line.split()[-1] for line in maps.read_text().splitlines() if re.search(r"lib(g|i)?omp[-.\w]*\.so", line)}
    assert len(loaded) <= 1


# ---- dumps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "encoder", "cnn"])
@torch.no_grad()
def test_dumped_graphs_run_as_cases(name: str, tmp_path: Path) -> None:
    model, x = make(name, 1, torch.float32), example(name, 1, 2, torch.float32)
    compiled(model, dump=str(tmp_path), name=name)(x)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith(f"{name}-")
    graph = load(path)
    assert sum(t.is_constant for t in graph.inputs) >= len(list(model.parameters()))
    done = CliRunner().invoke(main, ["--graph", f"--case={path}"])
    assert done.exit_code == 0, done.output
    assert "0:PASSED" in done.output


@torch.no_grad()
def test_ops_run_by_pytorch_are_not_dumped(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        y = torch.relu(x)
        return torch.tanh(torch.cumsum(y, 0)) + y

    compiled(model, dump=str(tmp_path))(torch.randn(4, 4))
    (path,) = tmp_path.iterdir()
    graph = load(path)
    assert [op.kind for op in graph.ops] == ["ReLU", "Tanh", "Add"]
    assert graph.ops[0].outputs[0].id in {t.id for t in graph.outputs}
