"""--data: arrays of the user's in a case's inputs; --save-failures: folders from which a failure can be seen again."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.graph import GraphBuilder, load
from benchgraph.graph.json import save
from benchgraph.graph.model import Model, Use
from benchgraph.harness.buffers import allocate
from benchgraph.harness.user_data import names_of, overwrite
from tests.support.fake_library import Clock, FakeLibrary, fake_bench

SRC, WEI, SHIFT = 0, 1, 3  # ids of inputs


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of a product and a sum in it: graph.json."""
    monkeypatch.chdir(tmp_path)
    b = GraphBuilder()
    src, wei = b.input((2, 3), DType.f32), b.input((3, 4), DType.f32)
    dst = b.op("MatMul", src, wei, name="fc")
    b.op("Add", dst, b.input((2, 4), DType.f32), name="shift")
    save(b.graph(), tmp_path / "graph.json")


def run(*words: str, spoil: bool = False) -> tuple[int, str]:
    library = FakeLibrary(Clock(), spoil=lambda kind, a: a + 1 if spoil and kind == "Add" else a)
    done = CliRunner().invoke(main, [*words, "--graph", "--expected-n-partitions=0", "--case=graph.json"], obj=fake_bench(library))
    return done.exit_code, done.output


def bound(place: str) -> dict[int, np.ndarray]:
    graph = load("graph.json")
    buffers = {t.id: allocate(t) for t in graph.inputs}
    for array in buffers.values():
        array.fill(0)
    overwrite(Model(graph), buffers, place)
    return buffers


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"fc:src": rng.standard_normal((2, 3)).astype(np.float32), "fc:weights": rng.standard_normal((3, 4)).astype(np.float32)}


def test_inputs_have_names_of_two_sorts() -> None:
    assert names_of(Model(load("graph.json"))) == {
        name: (Use(id),) for name, id in {"0": 0, "1": 1, "3": 3, "fc:src": 0, "fc:weights": 1, "shift:src_1": 3}.items()
    }


@pytest.mark.parametrize("form", ["npz", "safetensors", "folder"])
def test_every_form_binds_inputs_and_leaves_the_others(form: str) -> None:
    given = arrays()
    if form == "npz":
        np.savez("data.npz", **given)
    elif form == "safetensors":
        save_file(given, "data.safetensors")
    else:
        Path("data").mkdir()
        for name, array in given.items():
            np.save(f"data/{name}.npy", array)
    got = bound("data" if form == "folder" else f"data.{form}")
    np.testing.assert_array_equal(got[SRC], given["fc:src"])
    np.testing.assert_array_equal(got[WEI], given["fc:weights"])
    assert not got[SHIFT].any()


def test_a_case_runs_on_them_and_repeats() -> None:
    np.savez("data.npz", **{"3": np.full((2, 4), np.inf)})
    code, output = run("--data=data.npz", "--mode=R")
    assert (code, "--data=data.npz" in output) == (0, True)
    np.savez("data.npz", **arrays())
    assert run("--data=data.npz")[0] == 0


def test_narrow_floats_are_read_and_values_are_rounded() -> None:
    b = GraphBuilder()
    b.op("Add", b.input((2,), DType.bf16), b.input((2,), DType.bf16))
    save(b.graph(), "graph.json")
    save_file({"0": np.array([1, 2], ml_dtypes.bfloat16), "1": np.array([1.001, 2], np.float32)}, "data.safetensors")
    got = bound("data.safetensors")
    assert got[0].tolist() == [1, 2]
    assert got[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("4", np.zeros((2, 4)), r"no array is for an input of the graph: '4'; the inputs are '0', '1', '3', 'fc:src'"),
        ("fc:weight", np.zeros((3, 4)), "no array is for an input of the graph: 'fc:weight'; did you mean 'fc:weights'"),
        ("0", np.zeros((3, 2)), r"--data=data.npz: '0': its shape is 3x2, that of tensor 0 2x3; reshape it, or run a case of this shape"),
        ("0", np.array([["a"] * 3] * 2), "it holds <U1, not numbers"),
        ("0", np.full((2, 3), 1e300), r"'0': 1e\+300 is beyond the range of f32; keep values within 3.40282e\+38"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, array: np.ndarray, says: str) -> None:
    np.savez("data.npz", **{name: array})
    with pytest.raises(InvalidArguments, match=says):
        bound("data.npz")


def test_two_arrays_for_one_input_are_refused() -> None:
    np.savez("data.npz", **{"0": np.zeros((2, 3)), "fc:src": np.zeros((2, 3))})
    with pytest.raises(InvalidArguments, match="'0' and 'fc:src' are both for input 0; leave one of them out"):
        bound("data.npz")


def test_integers_are_not_rounded() -> None:
    b = GraphBuilder()
    b.op("Dequantize", b.input((2,), DType.s8), qtype="per_tensor", scales=(1.0,), zps=(0,))
    save(b.graph(), "graph.json")
    np.savez("data.npz", **{"0": np.array([1.5, 2])})
    with pytest.raises(InvalidArguments, match=r"tensor 0 is s8, and 1\.5 is not; give integers from -128 to 127"):
        bound("data.npz")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("gone.npz", None, "cannot be read: No such file or directory"),
        ("torn.npz", b"PK\x03\x04torn", "is not a file of arrays"),
        ("torn.safetensors", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", "is not a file of arrays"),
        ("empty.npz", b"", "is not a file of arrays"),
        ("open.npy", b"\x93NUMPY\x01\x00\x10\x00{'shape': (1, 2  \n", "is not a file of arrays"),
    ],
)
def test_broken_files_are_one_line(file: str, content: bytes | None, says: str) -> None:
    if content is not None:
        Path(file).write_bytes(content)
    code, output = run(f"--data={file}")
    assert code == 1
    assert f"--data={file}: {says}" in output
    assert "Traceback" not in output


def test_objects_are_never_unpickled() -> None:
    np.savez("data.npz", allow_pickle=True, **{"0": np.array([{}, 1], object)})
    with pytest.raises(InvalidArguments, match="holds Python objects, or no arrays at all"):
        bound("data.npz")


def test_a_failure_is_saved_and_seen_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = run("--save-failures=failed", "--seed=3", spoil=True)
    (folder,) = Path("failed").resolve().iterdir()
    assert code == 1
    assert {p.name for p in folder.iterdir()} == {"graph.json", "inputs.npz", "repro.txt", "outputs.npz", "expected.npz"}
    with np.load(folder / "outputs.npz") as got, np.load(folder / "expected.npz") as want:
        np.testing.assert_allclose(got["4"], want["4"] + 1)
    line, replay = (folder / "repro.txt").read_text().splitlines()
    assert "--seed=3" in line
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the folder has all that its last line needs
    Path("line").write_text(replay.replace("graph.json", str(folder / "graph.json")))
    for library, want in ((FakeLibrary(Clock()), 0), (FakeLibrary(Clock(), spoil=lambda kind, a: a + 1), 1)):
        assert CliRunner().invoke(main, ["--batch=line"], obj=fake_bench(library)).exit_code == want
    monkeypatch.chdir(folder)
    assert CliRunner().invoke(main, replay.split(), obj=fake_bench(FakeLibrary(Clock()))).exit_code == 0


def test_a_wrong_partition_is_saved_with_what_it_received() -> None:
    run("--save-failures=failed", "--policy=one_op_each", spoil=True)
    (folder,) = Path("failed").iterdir()
    assert [op.kind for op in load(folder / "partition.json").ops] == ["Add"]
    with np.load(folder / "received.npz") as received, np.load(folder / "outputs.npz") as got:
        np.testing.assert_allclose(got["4"], received["2"] + received["3"] + 1, rtol=1e-6)


def test_right_cases_are_not_saved_and_crashes_are() -> None:
    run("--save-failures=failed")
    assert not any(Path("failed").iterdir())
    bench = fake_bench(FakeLibrary(Clock(), fails=KeyError("bug")))
    CliRunner().invoke(main, ["--save-failures=failed", "--graph", "--case=graph.json"], obj=bench)
    (folder,) = Path("failed").iterdir()
    assert load(folder / "graph.json").ops == load("graph.json").ops


def test_a_false_shape_in_a_header_takes_no_memory() -> None:
    Path("data").mkdir()
    np.save("data/0.npy", np.zeros((2, 3), np.float32))
    content, false = bytearray(Path("data/0.npy").read_bytes()), b"(999999, 999999), }"
    begin = content.index(b"(2, 3)")
    content[begin : begin + len(false)] = false  # spaces follow
    Path("data/0.npy").write_bytes(content)
    with pytest.raises(InvalidArguments, match=r"--data=data: 0\.npy: is not a file of arrays"):
        bound("data")


def test_results_of_nan_alone_prove_nothing() -> None:
    np.savez("data.npz", **{"0": np.full((2, 3), np.nan, np.float32)})
    assert "0:MISTRUSTED (fused: partition 0 (fake): tensor 4: 100% NaN prove little" in run("--data=data.npz")[1]


def test_a_folder_that_cannot_be_written_is_refused_before_a_case_runs() -> None:
    Path("file").touch()
    code, output = run("--save-failures=file")
    assert (code, "--save-failures=file" in output) == (2, True)
