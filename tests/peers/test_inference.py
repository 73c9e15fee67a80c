"""Runtimes of whole models behind the library protocol. Those whose extra is not installed are skipped."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.arrays import Array
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unavailable, Unimplemented
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.graph.ir import Op
from benchgraph.graph.model import Model
from benchgraph.importers.onnx.model import read_onnx
from benchgraph.partition.ir import Partition, Policy
from benchgraph.peers.inference import model_runtime
from benchgraph.peers.inference.library import Bound, ModelRuntime
from benchgraph.peers.inference.runtimes import RUNTIMES
from benchgraph.reference import evaluate
from tests.importers.onnx_models import parsed
from tests.peers.models import BATCH, SIZE, classifier, exported

ONNX = [kind for kind, runtime in RUNTIMES.items() if runtime.reads == ".onnx"]


def runtime(kind: str, model: Model | None = None) -> ModelRuntime:
    if find_spec(RUNTIMES[kind].package) is None:
        pytest.skip(f"needs the extra {RUNTIMES[kind].extra}")
    library = model_runtime(kind)
    assert isinstance(library, ModelRuntime)
    return library if model is None else library.for_model(model)


def read(path: Path) -> Model:
    model = read_onnx(path)
    assert model.source == path
    return model


def bound(library: ModelRuntime, model: Model, seed: int = 0) -> tuple[Partition, Bound, dict[int, Array], dict[int, Array]]:
    """The model on random inputs: its partition, what is bound, the inputs and the outputs by id."""
    (partition,) = library.partitions(model.graph, Policy.fused)
    rng = np.random.default_rng(seed)
    inputs = {t.id: np.array(model.data.get(t.id, rng.standard_normal(t.known_shape)), t.dtype.numpy) for t in partition.inputs}
    outputs = {t.id: np.full(t.known_shape, -1 if t.dtype is DType.s32 else np.nan, t.dtype.numpy) for t in partition.outputs}
    return partition, library.compile(partition).bind(list(inputs.values()), list(outputs.values())), inputs, outputs


def error(got: Mapping[int, Array], want: Mapping[int, Array]) -> float:
    """The largest error, relative to the largest value."""
    return max(float(np.abs(got[id] - want[id]).max() / np.abs(want[id]).max()) for id in got)


@pytest.mark.parametrize("kind", ONNX)
def test_it_computes_in_f32_what_the_model_means(kind: str, tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    library = runtime(kind, model)
    partition, run, inputs, outputs = bound(library, model)
    run()
    assert error(outputs, evaluate(partition.graph, inputs)) < 1e-5  # OpenVINO's own choice, bf16, is off by 1e-2
    for array in inputs.values():
        array[...] *= 2  # weights are the file's all the same
    run()
    (x,) = (id for name, id in model.inputs.items() if name == "x")
    assert error(outputs, evaluate(partition.graph, {**inputs, **model.data, x: inputs[x]})) < 1e-5
    assert library.sequence([run]).run(3) > 0
    assert run.compiled.compile_s > 0
    assert run.compiled.implementations
    assert "1" in library.version


def test_products_are_rounded_where_the_case_allows_it(tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    rounded = replace(model, graph=replace(model.graph, fpmath_mode="bf16"))
    library = runtime("openvino", rounded)
    try:
        partition, run, inputs, outputs = bound(library, rounded)
    except Unimplemented as bad:
        pytest.skip(bad.what)  # the processor has no bf16
    run()
    assert 1e-4 < error(outputs, evaluate(partition.graph, inputs)) < 5e-2
    assert "INFERENCE_PRECISION_HINT bf16" in run.compiled.settings


def test_a_precision_that_it_lacks_is_refused(tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    rounded = replace(model, graph=replace(model.graph, fpmath_mode="bf16"))
    library = runtime("onnxruntime", rounded)
    with pytest.raises(Unimplemented, match="ONNX Runtime computes models of f32 in f32 on this processor, and has no option for bf16"):
        bound(library, rounded)


@pytest.mark.parametrize("kind", ONNX)
def test_layers_have_the_ops_that_the_file_names(kind: str, tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    library = runtime(kind, model)
    partition, _, inputs, outputs = bound(library, model)
    profiled = library.profiled([partition], [list(inputs.values())], [list(outputs.values())])
    assert profiled is not None
    for _ in range(20):  # more than one session of ONNX Runtime's profiler has
        spans = profiled.run()
        assert [s.layer for s in spans] == list(range(len(profiled.layers)))
        assert sum(s.seconds for s in spans) > 0
    named = {op.id: op.name for op in model.graph.ops}
    assert {"stem.conv", "head"} <= {named[id] for layer in profiled.layers for id in layer.ops}
    assert all(layer.ops or (layer.name and layer.kind) for layer in profiled.layers)


@pytest.mark.parametrize("kind", ONNX)
def test_open_dims_have_the_sizes_of_the_case(kind: str, tmp_path: Path) -> None:
    path = classifier(tmp_path / "open.onnx", batch="N")
    model = replace(read(classifier(tmp_path / "net.onnx", batch=3)), source=path)
    partition, run, inputs, outputs = bound(runtime(kind, model), model)
    run()
    assert error(outputs, evaluate(partition.graph, inputs)) < 1e-5


def test_a_shape_that_is_not_the_files_is_refused(tmp_path: Path) -> None:
    model = replace(read(classifier(tmp_path / "net.onnx", batch=3)), source=classifier(tmp_path / "other.onnx"))
    with pytest.raises(Unimplemented, match="input 'x' is 2x3x6x6 in the file, and 3x3x6x6 in the case"):
        bound(runtime("onnxruntime", model), model)


ODD_PORTS = {  # inputs, outputs and body of models in ONNX's text form
    "an output that is an input": ("float[2,3] x", "float[2,3] y, float[2,3] z", "y = Relu (x) z = Identity (x)"),
    "an output with the name of an input": ("float[2,3] x, bfloat16[5] b", "float[2,3] y, float[2,3] x, bfloat16[5] b", "y = Relu (x)"),
    "integers that go through": ("int64[5] i, float[2,3] x", "float[2,3] y, int64[5] j", "y = Relu (x) j = Identity (i)"),
    "outputs of one value": ("float[2,3] x", "float[2,3] y, float[2,3] r, float[2,3] z", "r = Relu (x) y = Identity (r) z = Identity (r)"),
    "inputs that nothing reads": ("int64[4] u, float[2,3] x, float16[1] h", "float[2,3] y", "y = Relu (x)"),
    "an input whose size alone is read": ("float[5,7] s, float[2,3] x", "float[2,3] y, int64[2] z", "y = Relu (x) z = Shape (s)"),
}


@pytest.mark.parametrize("kind", ONNX)
@pytest.mark.parametrize("model", ODD_PORTS.values(), ids=list(ODD_PORTS))
def test_ports_are_told_apart(model: tuple[str, str, str], kind: str, tmp_path: Path) -> None:
    proto, file = parsed(*model, opset=17), tmp_path / "net.onnx"
    proto.ir_version = 9
    file.write_bytes(proto.SerializeToString())
    read_model = read(file)
    _, run, inputs, outputs = bound(runtime(kind, read_model), read_model)
    run()
    want = evaluate(read_model.graph, inputs)
    for id, got in outputs.items():
        np.testing.assert_allclose(np.asarray(got, np.float64), want[id], rtol=1e-6)


def test_an_input_that_the_case_lacks_is_named(tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    more = parsed(f"float[{BATCH},3,{SIZE},{SIZE}] x, float[3] mask", f"float[{BATCH},3,{SIZE},{SIZE}] y", "y = Relu (x)", opset=17)
    more.ir_version = 9
    (tmp_path / "more.onnx").write_bytes(more.SerializeToString())
    changed = replace(model, source=tmp_path / "more.onnx")
    with pytest.raises(Unimplemented, match=r"more\.onnx has inputs that the case lacks: mask"):
        bound(runtime("onnxruntime", changed), changed)


UNKNOWN_OP = {"stem_relu": {"op_type": "Frobnicate", "domain": "other"}}


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("onnxruntime", UNKNOWN_OP, r"other:Frobnicate\(-1\) is not a registered function/op"),
        ("onnxruntime", {"opset": 99}, "[Oo]pset 99"),
        ("openvino", UNKNOWN_OP, "FrontEnd API failed with .* No conversion rule found for operations: other.Frobnicate"),
    ],
)
def test_what_it_does_not_take_is_told_in_its_words(kind: str, changes: Any, says: str, tmp_path: Path) -> None:
    model = replace(read(classifier(tmp_path / "net.onnx")), source=classifier(tmp_path / "bad.onnx", **changes))
    with pytest.raises(Unimplemented, match=says) as raised:
        bound(runtime(kind, model), model)
    assert raised.value.where == kind


@pytest.mark.parametrize("kind", ONNX)
def test_what_is_no_model_is_not_for_it(kind: str, tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("ReLU", b.input((4,)))
    graph = b.graph()
    title, reads = RUNTIMES[kind].title, RUNTIMES[kind].reads
    what = f"{title} runs the file of a model, and this case has none that means the same"
    says = f"{kind}: {what}; run a model as it is: --model --case=FILE{reads}"
    for library in (runtime(kind), runtime(kind, Model(graph))):
        with pytest.raises(Unavailable) as raised:
            library.partitions(graph, Policy.fused)
        assert raised.value.line == says
    with pytest.raises(Unavailable, match=rf"reads \{reads}, and there is no net\{reads} beside net\.bin; export the model"):
        runtime(kind, Model(graph, source=tmp_path / "net.bin")).partitions(graph, Policy.fused)
    (tmp_path / f"net{reads}").touch()
    with pytest.raises(Unavailable, match="runs whole models alone"):
        runtime(kind, Model(graph, source=tmp_path / f"net{reads}")).partitions(Graph(graph.ops[:0]), Policy.fused)


def test_a_package_that_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without any packages
    python.chmod(0o755)
    with pytest.raises(InvalidArguments) as raised:
        model_runtime("openvino", str(tmp_path))
    assert raised.value.line == (
        f"openvino in {python}: it cannot be imported: No module named 'openvino'; {python} -m pip install openvino"
    )


def test_a_place_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match=r"--library=openvino:.*: there is no Python interpreter at .*/bin/python; give the"):
        model_runtime("openvino", str(tmp_path))


def test_another_environment_has_a_process_of_its_own(tmp_path: Path) -> None:
    model = read(classifier(tmp_path / "net.onnx"))
    ours = runtime("onnxruntime", model)
    theirs = model_runtime("onnxruntime", sys.executable, "new")
    assert isinstance(theirs, ModelRuntime)
    assert theirs.process.pid != ours.process.pid
    partition, run, inputs, outputs = bound(theirs.for_model(model), model)
    run()
    assert error(outputs, evaluate(partition.graph, inputs)) < 1e-5


# ---- PyTorch ----------------------------------------------------------------------------------------------------------


def program(path: Path) -> tuple[Model, list[Array], list[Array]]:
    """An exported program, its graph in short; its inputs, and what PyTorch makes of them."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    file = exported(path)
    loaded = torch.export.load(file)
    ins = (LogicalTensor(0, DType.f32, (3, 8)), LogicalTensor(1, DType.s32, (2,)), LogicalTensor(2, DType.f32, (4,)))
    outs = (LogicalTensor(3, DType.f32, (3, 4)), LogicalTensor(4, DType.f32, (3, 2)))
    names = loaded.graph_signature
    inputs, outputs = (dict(zip(n, (t.id for t in ts), strict=True)) for n, ts in ((names.user_inputs, ins), (names.user_outputs, outs)))
    rng = np.random.default_rng(0)
    a, ids, scale = rng.standard_normal((3, 8), np.float32), np.array([7, 2], np.int32), rng.standard_normal(4, np.float32)
    want = loaded.module()((torch.from_numpy(a), torch.from_numpy(ids).long()), scale=torch.from_numpy(scale))
    graph = Graph((Op(0, "Wildcard", inputs=ins, outputs=outs),))
    return Model(graph, {}, inputs, outputs, source=file), [a, ids, scale], [want[key].detach().numpy() for key in ("wide", "picked")]


@pytest.mark.parametrize("kind", ["torch", "inductor"])
def test_an_exported_program_runs(kind: str, tmp_path: Path) -> None:
    if kind == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    model, inputs, want = program(tmp_path / "net.pt2")
    library = runtime(kind, model)
    (partition,) = library.partitions(model.graph, Policy.fused)
    got = [np.full(t.known_shape, np.nan, np.float32) for t in partition.outputs]
    compiled = library.compile(partition)
    run = compiled.bind(inputs, got)
    run()
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert library.sequence([run]).run(3) > 0
    assert library.profiled([partition], [inputs], [got]) is None
    assert [i.name for i in compiled.implementations] == ["inductor" if kind == "inductor" else "eager"]


def test_a_program_beside_the_file_stands_for_it(tmp_path: Path) -> None:
    """Its ports have other names, and the same order."""
    model, inputs, want = program(tmp_path / "net.pt2")
    named = replace(model, inputs={"x": 0, "tokens": 1, "factor": 2}, outputs={"y": 3, "z": 4}, source=tmp_path / "net.onnx")
    library = runtime("torch", named)
    (partition,) = library.partitions(named.graph, Policy.fused)
    got = [np.full(t.known_shape, np.nan, np.float32) for t in partition.outputs]
    library.compile(partition).bind(inputs, got)()
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5, atol=1e-6)
    fewer = replace(named, inputs={"x": 0, "tokens": 1})
    with pytest.raises(Unimplemented, match=r"net\.pt2 has the ports pair_0, pair_1, scale, where the case has x, tokens"):
        runtime("torch", fewer).compile(partition)


def test_a_program_that_cannot_be_trusted_is_not_loaded(tmp_path: Path) -> None:
    model, _, _ = program(tmp_path / "net.pt2")
    with zipfile.ZipFile(tmp_path / "net.pt2", "a") as archive:
        archive.writestr("net/data/aotinductor/model/run.so", b"")
    library = runtime("torch", replace(model, source=tmp_path / "net.onnx"))
    (partition,) = library.partitions(model.graph, Policy.fused)
    with pytest.raises(BenchgraphError, match=r"net\.pt2: it holds compiled code"):
        library.compile(partition)


def test_ports_of_a_program_are_told_apart(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Odd(torch.nn.Module):  # type: ignore[misc]
        def forward(self, unread: Any, x: Any, i: Any, times: int = 3) -> Any:
            r = x.relu()
            return {"same": r, "again": r, "in": x, "none": None, "times": times, "i": i, "twice": r * 2}

    arguments = (torch.zeros(3), torch.randn(2, 8), torch.arange(4))
    torch.export.save(torch.export.export(Odd().eval(), arguments), str(tmp_path / "odd.pt2"))
    done = CliRunner().invoke(main, ["--library=benchgraph,torch", "--model", f"--case={tmp_path / 'odd.pt2'}"])
    assert "libraries compared in 1 cases: 1 agree" in done.output, done.output


# ---- the command line -------------------------------------------------------------------------------------------------


def test_a_model_is_compared_and_measured_with_them(tmp_path: Path) -> None:
    for kind in ONNX:
        runtime(kind)
    file, report = classifier(tmp_path / "net.onnx"), tmp_path / "out.json"
    libraries = f"--library=benchgraph,{','.join(ONNX)}"
    done = CliRunner().invoke(main, [libraries, "--model", f"--case={file}"])
    assert done.exit_code == 0, done.output
    assert "libraries compared in 1 cases: 1 agree" in done.output
    words = ["--mode=P", "--policy=fused", "--fix-times-per-prb=2", "--threads=1", f"--report=json:{report}", "--model", f"--case={file}"]
    done = CliRunner().invoke(main, [libraries, *words])
    assert done.exit_code == 0, done.output
    results = json.loads(report.read_text())
    assert {kind: results["machine"]["versions"][kind].split()[0] for kind in ONNX} == {
        "onnxruntime": version("onnxruntime"),
        "openvino": import_module("openvino").get_version(),
    }
    (case,) = results["cases"]
    assert list(case["timings"]) == ["benchgraph:fused", *ONNX]
    assert {"onnxruntime: threads 1, graph optimisations all, idle threads spin"} < set(case["notes"])
