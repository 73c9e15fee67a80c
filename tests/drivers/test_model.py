"""The driver --model with our own files: JSON, and data with names beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError
from benchgraph.graph import GraphBuilder
from benchgraph.graph.model import Model, Use
from benchgraph.harness.contenders import library_of
from benchgraph.harness.inputs import inputs_of
from benchgraph.importers.model import read_model
from benchgraph.importers.model_files import read_model_files, write_model
from benchgraph.options.argv import parse
from tests.support.fake_library import Clock, FakeLibrary, fake_bench


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Two layers with weights in f32, bf16 and s4, in net.json."""
    monkeypatch.chdir(tmp_path)
    rng, b = np.random.default_rng(0), GraphBuilder()
    x, w, scale = b.input((4, 8)), b.constant((8, 16)), b.constant((16, 6), DType.bf16)
    hidden = b.op("ReLU", b.op("MatMul", x, w, name="first"), name="first.act")
    narrow = b.op("TypeCast", hidden, dtype=DType.bf16)
    y = b.op("MatMul", narrow, scale, name="second")
    quantised = b.constant((6, 5), DType.s4)
    steps = b.constant((5,))
    weights = b.op("DynamicDequantize", quantised, steps, qtype="per_channel", axis=1, dtype=DType.f32)
    z = b.op("MatMul", b.op("TypeCast", y, dtype=DType.f32), weights, name="third")
    data = {
        w.id: rng.standard_normal((8, 16)).astype(np.float32),
        scale.id: rng.standard_normal((16, 6)).astype(DType.bf16.numpy),
        quantised.id: rng.integers(-8, 8, (6, 5)).astype(np.int8),
        steps.id: np.full(5, 0.25, np.float32),
    }
    uses = {"first.w": (Use(w.id),), "part": (Use(scale.id, (20, 6), ((16, 6), (6, 1), 24)),)}
    made = Model(b.graph(), data, {"x": x.id}, {"z": z.id}, uses)
    write_model(made, Path("net.json"))
    return made


def run(*words: str) -> str:
    return CliRunner().invoke(main, [*words, "--model", "--case=net.json"]).output


def test_files_round_trip(model: Model) -> None:
    read = read_model(Path("net.json"))
    assert read.graph.ops == model.graph.ops
    assert (read.inputs, read.outputs, read.parameters) == (model.inputs, model.outputs, model.parameters)
    for id, array in model.data.items():
        assert read.data[id].dtype == array.dtype
        np.testing.assert_array_equal(read.data[id].astype(np.float64), array.astype(np.float64))


def test_it_runs_in_every_mode() -> None:
    for mode, status in (("L", "listed"), ("I", "passed"), ("R", "passed"), ("C", "passed"), ("B", "passed")):
        assert f"{status}:1" in run(f"--mode={mode}"), mode
    assert "--mode=R --model --case=net.json" in run("--mode=R")


def test_the_seed_changes_inputs_and_no_weights() -> None:
    problems = parse(["--seed=0,7", "--model", "--case=net.json"]).problems
    first, second = (inputs_of(p, p.graph()) for p in problems)
    assert [id for id in first if (first[id] != second[id]).any()] == [0]


def test_sizes_and_dtypes_are_overridden() -> None:
    output = CliRunner().invoke(main, ["--model", "--mb=9", "--tensor-property=1:variable", "--case=net.json"]).output
    assert "0:PASSED" in output
    assert "__REPRO: --model --mb=9 --tensor-property=1:variable --case=net.json" in output
    output = CliRunner().invoke(main, ["--model", "--in-shapes=x:4x9", "--case=net.json"]).output
    assert "UNTESTED" in output
    assert "--in-shapes: op 0: MatMul" in output
    output = CliRunner().invoke(main, ["--model", "--in-shapes=xx:4x8", "--case=net.json"]).output
    assert output.startswith("0:UNTESTED_FAILED (net.json: --in-shapes: the model has no input 'xx'; did you mean 'x'?)")
    output = CliRunner().invoke(main, ["--model", "--in-shapes=input:4x8", "--case=net.json"]).output
    assert "; the inputs are x)" in output
    Path("net.safetensors").unlink()  # and with it the names
    output = CliRunner().invoke(main, ["--model", "--in-shapes=input:4x8", "--case=net.json"]).output
    assert "; the inputs are 0, 1, " in output


def test_data_bind_by_the_models_names() -> None:
    save_file(
        {"x": np.ones((4, 8), np.float32), "first.w": np.zeros((8, 16), np.float32), "part": np.ones((20, 6), np.float32)}, "d.safetensors"
    )
    output = run("-v1", "--data=d.safetensors")
    assert "100% zeros" in output
    save_file({"part": np.ones((19, 6), np.float32)}, "d.safetensors")
    assert "'part': its shape is 19x6, that of the weight 20x6; reshape it" in run("--data=d.safetensors")


def test_a_wrong_result_fails_and_is_localised_by_name() -> None:
    def spoiled(kind: str, array: np.ndarray) -> np.ndarray:
        return array * 1.001 if kind == "ReLU" else array

    def bench() -> object:
        return fake_bench(FakeLibrary(Clock(), spoil=spoiled))

    done = CliRunner().invoke(main, ["--model", "--case=net.json"], obj=bench())
    assert "failed:1" in done.output
    done = CliRunner().invoke(main, ["localise", "--json", "--model", "--case=net.json"], obj=bench())
    assert json.loads(done.stdout)[0]["op"] == {"id": 1, "kind": "ReLU", "name": "first.act"}


def test_a_library_that_runs_the_file_gets_it_unless_the_case_is_another_model() -> None:
    class Runtime(FakeLibrary):
        sources: ClassVar[list[Path | None]] = []

        def for_model(self, model: Model) -> Runtime:
            self.sources.append(model.source)
            return self

    save_file({"x": np.ones((4, 8), np.float32)}, "input.safetensors")
    save_file({"first.w": np.ones((8, 16), np.float32)}, "weight.safetensors")
    file = Path("net.json")
    words = (["--model"], ["--data=input.safetensors", "--model"], ["--data=weight.safetensors", "--model"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchgraph.importers.model.read_model_files", lambda path: replace(read_model_files(path), source=path))
        for given in words:
            (problem,) = parse([*given, f"--case={file.absolute()}"]).problems
            library_of(problem, problem.graph(), fake_bench(Runtime(Clock())), "benchgraph")
    assert Runtime.sources == [file.absolute(), file.absolute(), None]


def test_data_that_change_are_read_again() -> None:
    before = run()
    data = Path("net.safetensors").read_bytes()
    Path("net.safetensors").write_bytes(data[: len(data) // 2])
    assert "passed:1" in before
    assert "invalid_arguments:1" in run()


def test_localise_takes_a_model() -> None:
    done = CliRunner().invoke(main, ["localise", "--model", "--case=net.json"])
    assert "7 ops right, alone and in their partitions" in done.output, done.output


def test_a_model_larger_than_memory_is_skipped_with_its_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.core.free_memory.free_bytes", lambda: 1000)
    output = run()
    assert "skipped:1" in output
    assert "kB are needed to read it, 1 kB are free; use a machine with more memory" in output


BROKEN = {
    "torn": (lambda data: data[: len(data) // 2], "is not a file of arrays"),
    "another array": (lambda data: data.replace(b'"1":', b'"0":', 1).replace(b'"0":', b'"9":', 1), "is for no input of the graph"),
    "names of nothing": (lambda data: data.replace(b'{\\"x\\": 0}', b'{\\"x\\":[]}', 1), "inputs does not map names to tensors"),
    "a view beyond its weight": (lambda data: data.replace(b", 24]]]", b", 25]]]", 1), "puts 'part' into no tensor of the graph"),
    "names that are no JSON": (lambda data: data.replace(b'{\\"x\\": 0}', b'{\\"x\\"; 0}', 1), "its text inputs is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_data_are_refused_with_their_place(name: str) -> None:
    change, message = BROKEN[name]
    file = Path("net.safetensors")
    before = file.read_bytes()
    file.write_bytes(change(before))
    assert file.read_bytes() != before
    with pytest.raises(BenchgraphError) as caught:
        read_model(Path("net.json"))
    assert message in caught.value.line
    assert caught.value.line.startswith("net.safetensors: ")


def test_a_file_of_no_known_kind_is_refused() -> None:
    Path("model.pth").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(
        BenchgraphError, match=r"model.pth: no model that can be read; name a file of one of these kinds: .json, .onnx, .pt2"
    ):
        read_model(Path("model.pth"))


def test_a_graph_without_data_is_filled() -> None:
    Path("net.safetensors").unlink()
    assert json.loads(Path("net.json").read_text())
    assert "passed:1" in run()
