"""Programs of torch.export as models: read, run, imported; files that are torn, hostile, or of another version."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.cli import main  # noqa: E402
from benchgraph.core.errors import BenchgraphError  # noqa: E402
from benchgraph.fallback import Function  # noqa: E402
from benchgraph.fallback import parse as parse_function  # noqa: E402
from benchgraph.fallback.by_torch import ARGUMENTS, ATEN, OPSET, by_torch  # noqa: E402
from benchgraph.graph.model import Model  # noqa: E402
from benchgraph.harness.bench import Bench  # noqa: E402
from benchgraph.harness.bound import BoundPartition  # noqa: E402
from benchgraph.harness.contenders import contenders_of  # noqa: E402
from benchgraph.harness.inputs import inputs_of  # noqa: E402
from benchgraph.harness.partitioning import partition_graph  # noqa: E402
from benchgraph.importers.model import read_model  # noqa: E402
from benchgraph.importers.sizes import Sizes  # noqa: E402
from benchgraph.options.argv import parse  # noqa: E402
from benchgraph.reference import evaluate  # noqa: E402

nn = torch.nn


class Block(nn.Module):  # type: ignore[name-defined, misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.act(self.norm(self.conv(x)))
        y += 1
        return y


class Network(nn.Module):  # type: ignore[name-defined, misc]
    """In-place ops, a buffer of which a part is read, a computed mask, weights that are read whole, transposed and in part."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Block(8), nn.Linear(8 * 16, 6)
        self.both = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("shift", torch.randn(1, 10))

    def forward(self, x: Any) -> Any:
        features = self.block(x)
        y = self.head(features.flatten(1)) + self.shift[:, :6]
        mask = torch.arange(6) >= 2
        y = torch.where(mask, y, y * self.both[1:3].sum(0))
        return {"logits": y, "features": [features]}


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    model = Network().eval()
    with torch.no_grad():
        model.block.norm.running_mean.uniform_(-0.5, 0.5)
        model.block.norm.running_var.uniform_(0.5, 1.5)
    return model


@pytest.fixture(scope="module")
def saved(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network with an open batch of 1 to 8, exported with 2."""
    file = tmp_path_factory.mktemp("pt2") / "net.pt2"
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(network, (torch.randn(2, 3, 4, 4),), dynamic_shapes={"x": {0: batch}})
    torch.export.save(program, file)
    return file


@pytest.fixture(scope="module")
def model(saved: Path) -> Model:
    return read_model(saved)


def wanted(network: Any, x: Any) -> dict[str, Any]:
    with torch.no_grad():
        made = network(torch.as_tensor(x))
    return {"logits": made["logits"].numpy(), "features.0": made["features"][0].numpy()}


def test_a_program_agrees_with_eager(network: Any, saved: Path, model: Model) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)
    got = evaluate(model.graph, {**model.data, model.inputs["x"]: x})
    for name, want in wanted(network, x).items():
        np.testing.assert_allclose(got[model.outputs[name]], want, rtol=1e-4, atol=1e-5)
    assert model.source == saved
    assert {"Convolution", "BatchNormInference", "ReLU", "MatMul"} <= {op.kind for op in model.graph.ops}
    names = [op.name for op in model.graph.ops]
    assert [name for name in names if name.startswith("block.")] == ["block.conv", "block.norm", "block.act", "block.add"]
    assert "head" in names


def test_a_product_reads_the_parameter_itself(model: Model) -> None:
    (product,) = (op for op in model.graph.ops if op.kind == "MatMul")
    assert product.attrs["transpose_b"]
    assert model.parameters["head.weight"][0].tensor == product.inputs[1].id
    assert product.inputs[1].known_shape == (6, 128)


def test_open_dims_are_bound(network: Any, saved: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)
    model = read_model(saved, Sizes(mb=5))
    assert model.batch == 5
    got = evaluate(model.graph, {**model.data, model.inputs["x"]: x})
    np.testing.assert_allclose(got[model.outputs["logits"]], wanted(network, x)["logits"], rtol=1e-4, atol=1e-5)
    assert read_model(saved, Sizes(in_shapes=(("x", (5, 3, 4, 4)),))).graph == model.graph


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Sizes(mb=9), "input 'x', dim 0: s77 is 9; give it a number from 1 to 8"),
        (Sizes(in_shapes=(("x", (2, 3, 4, 5)),)), "input 'x', dim 3: it is fixed at 4, and 5 is asked for; export the model with dynamic"),
        (Sizes(in_shapes=(("x", (2, 3, 4)),)), "--in-shapes=x: 3 dims, where the input has 4"),
        (Sizes(in_shapes=(("y", (2, 3, 4, 4)),)), "--in-shapes: the model has no input 'y'"),
    ],
)
def test_other_sizes_are_refused(saved: Path, sizes: Sizes, message: str) -> None:
    with pytest.raises(BenchgraphError) as caught:
        read_model(saved, sizes)
    line = caught.value.line
    assert line.startswith(f"{saved}: ")
    assert message.replace("s77", "") in line.replace("s77", "")


def run(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return done.output


def test_an_imported_program_gives_the_same_bits_without_torch(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "net.pt2: " in run("import", str(saved), "-o", "net")
    direct, replayed = (results(*words) for words in ([f"--case={saved}"], ["--case=net/graph.json"]))
    assert direct.keys() == replayed.keys()
    for id, array in direct.items():
        np.testing.assert_array_equal(array.view(np.uint8), replayed[id].view(np.uint8))
    assert "passed:1" in run("--batch=net/batch")


def results(*words: str) -> dict[int, Any]:
    """The outputs of a case of the driver --model, by our library under its first policy."""
    (problem,) = parse(["--model", *words]).problems
    graph = problem.graph()
    (contender, *_) = contenders_of(problem, graph, Bench())
    live = inputs_of(problem, graph)
    for partition in partition_graph(problem, graph, contender.library, contender.spec):
        bound = BoundPartition(partition, contender.library.compile(partition), live)
        bound.execute()
        live |= bound.outputs
    return {t.id: live[t.id] for t in graph.outputs}


def test_weights_have_their_names(network: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another file replace the model's, parts of them too; the ones that are computed with beforehand are not used."""
    monkeypatch.chdir(tmp_path)
    state = {name: array.numpy() for name, array in network.state_dict().items() if array.dtype == torch.float32}
    save_file({**state, "both": state["both"] + 1}, "weights.safetensors")
    run("import", str(saved), "-o", "net")
    before = results("--case=net/graph.json")
    for case in (str(saved), "net/graph.json"):
        changed = results("--data=weights.safetensors", f"--case={case}")
        assert any((changed[id] != before[id]).any() for id in before)
    save_file(state, "weights.safetensors")
    same = results("--data=weights.safetensors", "--case=net/graph.json")
    assert all((same[id] == before[id]).all() for id in before)
    save_file({"both": np.zeros((4, 5), np.float32)}, "weights.safetensors")
    assert "'both': its shape is 4x5, that of the weight 4x6" in run("--data=weights.safetensors", "--model", f"--case={saved}")


# ---- ops without a row -------------------------------------------------------------------------------------------------


class Attention(nn.Module):  # type: ignore[name-defined, misc]
    """Indices, a product whose result is split, and functions that only PyTorch has."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.qkv, self.norm = nn.Embedding(20, 8), nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, ids: Any) -> Any:
        x = self.norm(self.emb(ids))
        q, k, v = (part.view(*ids.shape, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k[:, :1].expand(-1, 2, -1, -1), v, is_causal=True)
        best, place = torch.topk(torch.erfinv(y.tanh()), 2)
        return best + y[..., 1:3], place, y.select(2, -1)


def test_ops_without_a_row_are_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By numpy under their names in ONNX, else by PyTorch; in the imported graph as well."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net, ids = Attention().eval(), torch.randint(0, 20, (2, 5))
    torch.export.save(torch.export.export(net, (ids,)), "net.pt2")
    model = read_model(Path("net.pt2"))
    with torch.no_grad():
        want = net(ids)
    got = evaluate(model.graph, {**model.data, model.inputs["ids"]: ids.numpy()})
    for id, each in zip(model.outputs.values(), want, strict=True):
        np.testing.assert_allclose(got[id], each.numpy(), rtol=1e-4, atol=1e-5)
    functions = [parse_function(str(op.attrs["computes"])).label for op in model.graph.ops if op.kind == "Wildcard"]
    heads = ["Slice", "Slice", "Slice", "Expand", "Slice"]  # of queries; of keys, and the first head's; of values
    assert functions == ["Gather", *heads, "aten.erfinv.default", "aten.topk.default", "Slice", "Slice"]
    assert model.fallen[0].kind == "aten.embedding.default"
    run("import", "net.pt2", "-o", "net")
    direct, replayed = results("--case=net.pt2"), results("--case=net/graph.json")
    for id, array in direct.items():
        np.testing.assert_array_equal(array.view(np.uint8), replayed[id].view(np.uint8))
    output = run("-v1", "--batch=net/batch")
    assert "passed:1" in output
    assert "aten.topk.default (1), by torch" in output


class Positions(nn.Module):  # type: ignore[name-defined, misc]
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pos", torch.randn(2, 4))

    def forward(self, x: Any) -> Any:
        return (x + self.pos).sum(0)


class Sums(nn.Module):  # type: ignore[name-defined, misc]
    def forward(self, x: Any) -> Any:
        return torch.cumsum(x, 0)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        (Positions(), "--mb: the file fixes its sizes, and the model does not follow at others: its data 'pos' are of 2x4, where 4x4 are"),
        (Sums(), "--mb: op 0: Wildcard: the file fixes its sizes, and the model does not follow at others: the shape of output"),
    ],
    ids=["data", "shapes"],
)
def test_a_program_of_fixed_sizes_says_how_to_open_them(network: Any, says: str, tmp_path: Path) -> None:
    file = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(network.eval(), (torch.randn(2, 4),)), str(file))
    done = CliRunner().invoke(main, ["--model", "--mb=4", f"--case={file}"])
    assert "UNTESTED_FAILED" in done.stdout
    assert says in done.stdout
    assert (
        "; export it with an open dim, as by torch.export.export(model, inputs, dynamic_shapes={'x': {0: torch.export.Dim(" in done.stdout
    )


class Indices(nn.Module):  # type: ignore[name-defined, misc]
    def forward(self, x: Any, i: Any) -> Any:
        return x.gather(0, i[:, None].expand(-1, x.shape[1]))


class Grouped(nn.Module):  # type: ignore[name-defined, misc]
    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        attention = nn.functional.scaled_dot_product_attention
        return attention(q, k, v, attn_mask=mask, enable_gqa=True), attention(q, q, q, dropout_p=0.0, is_causal=True)


@pytest.mark.parametrize("is_grouped", [False, True])
def test_views_of_integers_and_groups_of_heads(tmp_path: Path, is_grouped: bool) -> None:
    """Queries in groups that share a head of keys; what no layout op moves, numpy does."""
    if is_grouped:
        shapes = (2, 8, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4), (2, 1, 5, 6)
        module, inputs = Grouped(), tuple(torch.randn(*shape) for shape in shapes)
    else:
        module, inputs = Indices(), (torch.randn(5, 4), torch.tensor([1, 3, 0]))
    torch.export.save(torch.export.export(module, inputs), tmp_path / "net.pt2")
    model = read_model(tmp_path / "net.pt2")
    given = {
        id: x.numpy().astype(np.int32) if x.dtype == torch.int64 else x.numpy() for id, x in zip(model.inputs.values(), inputs, strict=True)
    }
    got, want = evaluate(model.graph, {**model.data, **given}), module(*inputs)
    for id, expected in zip(model.outputs.values(), want if is_grouped else (want,), strict=True):
        np.testing.assert_allclose(got[id], expected.numpy(), rtol=1e-4, atol=1e-5)
    assert not (is_grouped and model.fallen), "rows express all of it"


def test_a_size_that_depends_on_the_data_is_refused(tmp_path: Path) -> None:
    class Found(nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return x.nonzero()

    torch.export.save(torch.export.export(Found(), (torch.randn(4),)), tmp_path / "net.pt2")
    with pytest.raises(BenchgraphError, match="the size of its result depends on the data; export the model without it"):
        read_model(tmp_path / "net.pt2")


def test_a_random_op_is_refused(tmp_path: Path) -> None:
    program = torch.export.export(nn.Dropout(0.5).train(), (torch.randn(4),))
    torch.export.save(program, tmp_path / "random.pt2")
    with pytest.raises(BenchgraphError, match="it draws random numbers; export the model in eval mode"):
        read_model(tmp_path / "random.pt2")


def test_functions_of_torch_only_compute() -> None:
    x = np.ones(3, np.float32)
    for kind in ("from_file.default", "add_.Tensor", "bernoulli.default", "no_such.default", "relu.no_such"):
        with pytest.raises(BenchgraphError, match=rf"has no such function as aten.{kind}"):
            by_torch(Function(kind, OPSET, {ARGUMENTS: '{"self": "%0"}'}, (0,), (True,), ATEN), [x])


# ---- bad files -------------------------------------------------------------------------------------------------------


def rewritten(file: Path, target: Path, change: Callable[[str, bytes], bytes | None], more: dict[str, bytes] | None = None) -> Path:
    """The archive with each file changed, those left out for which None is given, and more files."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info))
            if data is not None:
                new.writestr(info.filename, data)
        for name, data in (more or {}).items():
            new.writestr(name, data)
    return target


def in_model(change: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    """Changes the program's JSON."""

    def changed(name: str, data: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return data
        model = json.loads(data)
        change(model)
        return json.dumps(model).encode()

    return changed


class Bomb:
    """A pickle that runs code."""

    def __reduce__(self) -> Any:
        return print, ("executed",)


def _pickled_weight(name: str, data: bytes) -> bytes:
    if not name.endswith("model_weights_config.json"):
        return data
    config = json.loads(data)
    config["config"]["head.weight"]["use_pickle"] = True
    return json.dumps(config).encode()


def _far_weight(name: str, data: bytes) -> bytes:
    return data.replace(b'"path_name": "weight_0"', b'"path_name": "../../../etc/passwd"')


def _expression(text: str) -> Callable[[str, bytes], bytes]:
    def change(model: Any) -> None:
        graph = model["graph_module"]["graph"]
        size = graph["tensor_values"]["x"]["sizes"][0]
        size["as_expr"]["expr_str"] = text

    return in_model(change)


def _same(name: str, data: bytes) -> bytes:
    return data


def _set(key: str, value: Any) -> Callable[[str, bytes], bytes]:
    return in_model(lambda model: model.__setitem__(key, value))


HOSTILE: dict[str, tuple[Callable[[str, bytes], bytes | None], dict[str, bytes], str]] = {
    "a path outside": (_same, {"net/../../evil": b""}, "a file in it lies outside of it: 'net/../../evil'"),
    "an absolute path": (_same, {"/etc/evil": b""}, "lies outside of it"),
    "another folder": (_same, {"other/archive_format": b""}, "several folders"),
    "compiled code": (_same, {"net/data/aotinductor/model/a.so": b"\x7fELF"}, "it holds compiled code"),
    "pickled weights": (_same, {"net/data/weights/model.pt": pickle.dumps(Bomb())}, "it holds pickled objects"),
    "a pickled weight": (_pickled_weight, {}, "'head.weight' is a pickled object, which runs code"),
    "a weight elsewhere": (_far_weight, {}, "is a pickled object"),
    "a pickled example": (
        lambda name, data: pickle.dumps(Bomb()) if name.endswith("model.pt") else data, {}, "its example inputs are pickled objects"
    ),
    "a size that runs code": (_expression("__import__('os').system('x')"), {}, "a size is \"__import__('os').system('x')\", which may do"),
    "a size that takes for ever": (_expression("Integer(9)**9**9**9"), {}, "which may do more than compute one"),
    "a function of Python": (
        in_model(lambda model: model["graph_module"]["graph"]["nodes"][0].__setitem__("target", "torch.hub.load")), {}, "'torch.hub.load'"
    ),
    "an op that reads files": (
        in_model(lambda model: model["graph_module"]["graph"]["nodes"][0].__setitem__("target", "torch.ops.aten.from_file.default")),
        {},
        "it calls 'torch.ops.aten.from_file.default'",
    ),
    "code in a condition": (_set("guards_code", ["__import__('os')"]), {}, "a condition is"),
    "the future": (
        in_model(lambda model: model.update(schema_version={"major": 99, "minor": 0}, torch_version="9.1")),
        {},
        "it is of version 99.0 of the form, by PyTorch '9.1', and",
    ),
    "no description": (lambda name, data: None if name.endswith("model.json") else data, {}, "it has no models/model.json"),
    "a description of another form": (_set("schema_version", "8"), {}, "its description is not of the known form"),
    "no JSON": (lambda name, data: b"{" if name.endswith("models/model.json") else data, {}, "is not JSON"),
    "a program of another form": (_set("graph_module", {}), {}, "no exported program: "),
}  # fmt: skip


def test_hostile_files_are_refused_before_torch_reads_them(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, (change, more, message) in HOSTILE.items():
        file = rewritten(saved, tmp_path / "hostile.pt2", change, more)
        with pytest.raises(BenchgraphError) as caught:
            read_model(file)
        assert message in caught.value.line, (name, caught.value.line)
        assert caught.value.line.startswith(f"{file}: "), name
        assert caught.value.fix, name
    assert "executed" not in capsys.readouterr().out


def test_an_archive_that_is_only_rewritten_is_read(saved: Path, model: Model, tmp_path: Path) -> None:
    """So that the refusals above have the cause that they name."""
    assert read_model(rewritten(saved, tmp_path / "same.pt2", _same)).graph == model.graph


def test_torn_files_are_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(b"data/weights/weight_0") + 300] ^= 1
    files = {"half": whole[: len(whole) // 2], "empty": b"", "noise": bytes(range(256)) * 9, "damaged": bytes(damaged)}
    compressed = io.BytesIO()
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data/weights/weight_0", bytes(1 << 20))
    for name, data in (files | {"compressed": compressed.getvalue()}).items():
        file = tmp_path / f"{name}.pt2"
        file.write_bytes(data)
        with pytest.raises(BenchgraphError, match=rf"{name}.pt2: (no archive|a file in it is)"):
            read_model(file)
    with pytest.raises(BenchgraphError, match=r"absent.pt2: cannot read it: No such file"):
        read_model(tmp_path / "absent.pt2")
