"""ONNX models as graphs. Without the extra `onnx` all but one of these tests are skipped."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.graph.override import BadOverride
from benchgraph.importers.onnx.draft import Draft, Node, Unmapped
from benchgraph.importers.onnx.idioms import ROTATION
from benchgraph.importers.onnx.model import model_of, read_onnx
from benchgraph.importers.onnx.rows import ROWS
from benchgraph.importers.sizes import Sizes
from benchgraph.reference import evaluate
from tests.importers.onnx_models import parsed
from tests.importers.onnx_nodes import DOC, all_outcomes, page

INT64 = 7  # TensorProto.DataType
PARTS = {"Gather", "Slice"}  # their tests take parts of an input, which no op does


def test_without_the_extra_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BenchgraphError, match=r"needs the package onnx; pip install 'benchgraph\[onnx\]'"):
        read_onnx(Path("model.onnx"))


def built(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], data: dict[str, Any] | None = None, **more: Any) -> Any:
    """A model. inputs: sizes by name, or (sizes, data type)."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    given = [
        h.make_tensor_value_info(n, s[1] if isinstance(s, tuple) else floats, s[0] if isinstance(s, tuple) else s)
        for n, s in inputs.items()
    ]
    made = [h.make_empty_tensor_value_info(n) for n in outputs]
    constants = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (data or {}).items()]
    graph = h.make_graph(nodes, "g", given, made, constants)
    model = h.make_model(graph, **{"opset_imports": [h.make_opsetid("", 18)], **more})
    for own, inferred in zip(model.graph.output, onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output, strict=True):
        found = inferred.type.tensor_type.HasField("shape")
        own.CopyFrom(inferred if found else h.make_tensor_value_info(own.name, floats, ["?"]))  # the checker wants a type
    return model


def node(kind: str, ins: str, outs: str, **attrs: Any) -> Any:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    return onnx.helper.make_node(kind, ins.split(), outs.split(), **attrs)


def network() -> Any:
    """Convolution, pooling, a reshape by computed sizes, and a product; two results, of which one is read as well."""
    rng = np.random.default_rng(0)
    f32 = {"w": (4, 3, 3, 3), "fc": (16, 5), "b": (5,)}
    data = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in f32.items()}
    data |= {"zero": np.array([0]), "rest": np.array([-1])}
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("Shape", "p", "sizes"),
        node("Gather", "sizes zero", "batch"),
        node("Concat", "batch rest", "flat", axis=0),
        node("Reshape", "p flat", "q"),
        node("Gemm", "q fc b", "y"),
    ]
    return built(nodes, {"x": [2, 3, 4, 4]}, ["y", "r"], data)


def test_a_network_agrees_with_onnx() -> None:
    proto = network()
    model = model_of(proto)
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 4)).astype(np.float32)
    from onnx.reference import ReferenceEvaluator

    got = evaluate(model.graph, {**model.data, model.inputs["x"]: x})
    for name, want in zip(("y", "r"), ReferenceEvaluator(proto).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got[model.outputs[name]], want, rtol=1e-4, atol=1e-5)
    assert [op.name for op in model.graph.ops] == ["c", "r", "p", "q", "y", "y", ""], "the model's own"
    assert [op.kind for op in model.graph.ops] == ["Convolution", "ReLU", "MaxPool", "StaticReshape", "MatMul", "Add", "End"]


def test_an_imported_model_runs_with_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    done = CliRunner().invoke(main, ["import", "net.onnx", "-o", "net"])
    assert "net.onnx: 7 ops, 3 constants" in done.stdout, done.output
    Path("net.onnx").unlink()
    done = CliRunner().invoke(main, ["--batch=net/batch"])
    assert "passed:1" in done.stdout, done.output
    assert "--model --case=net/graph.json" in done.stdout


def test_what_nothing_reads_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    monkeypatch.chdir(tmp_path)
    proto = built([node("Relu", "x", "y"), node("Identity", "i", "j")], {"u": ["n"], "x": [4], "i": ([3], INT64)}, ["y", "j"])
    onnx.save(proto, "net.onnx")
    done = CliRunner().invoke(main, ["import", "net.onnx", "-o", "net", "--in-shapes=u:7"])
    assert "  u: left out, since nothing reads it\n" in done.stdout, done.output
    done = CliRunner().invoke(main, ["--batch=net/batch"])
    assert "passed:1" in done.stdout, done.output


def test_functions_of_the_model_are_inlined() -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]
    function = onnx.helper.make_function("own", "Twice", ["a"], ["z"], [node("Add", "a a", "z")], opsets[:1])
    proto = built([node("Twice", "x", "y", domain="own")], {"x": [4]}, ["y"], opset_imports=opsets, functions=[function])
    assert [op.kind for op in model_of(proto).graph.ops] == ["Add"]


def test_a_result_that_is_an_input_is_copied() -> None:
    assert [op.kind for op in model_of(built([node("Identity", "x", "y")], {"x": [4]}, ["y"])).graph.ops] == ["Reorder"]


def branch(number: float) -> Any:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    h, value = onnx.helper, onnx.numpy_helper.from_array(np.full(4, number, np.float32))
    return h.make_graph([h.make_node("Constant", [], ["z"], value=value)], "b", [], [h.make_tensor_value_info("z", 1, [4])])


def refused() -> dict[str, tuple[Any, str]]:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    relu = [node("Relu", "x", "y")]
    return {
        "an old opset": (built(relu, {"x": [4]}, ["y"], opset_imports=[onnx.helper.make_opsetid("", 9)]), "opset 9, where 13 to"),
        "a future opset": (built(relu, {"x": [4]}, ["y"], opset_imports=[onnx.helper.make_opsetid("", 999)]), "install a newer onnx"),
        "a free size": (built(relu, {"x": ["n", 4]}, ["y"]), "input 'x': dims without a number: n; give each one, as in --in-shapes=n:8"),
        "no sizes": (built(relu, {"x": None}, ["y"]), "no valid ONNX model: "),
        "another type": (built(relu, {"x": ([4], onnx.TensorProto.DOUBLE)}, ["y"]), "input 'x': its data type is DOUBLE; export it in f32"),
        "a result of another type": (built([node("Cast", "x", "y", to=11)], {"x": [4]}, ["y"]), "its result 'y' is of type DOUBLE"),
        "a size that depends on the data": (
            built([node("NonZero", "x", "y", name="hits")], {"x": [4]}, ["y"]),
            "node 'hits' (NonZero): no row expresses it, and it cannot be executed by numpy either: "
            "the size of its result 'y' depends on the data; export the model with fixed sizes",
        ),
        "a branch": (
            built(
                [node("If", "c", "y", name="either", then_branch=branch(1.0), else_branch=branch(2.0))],
                {"c": ([], onnx.TensorProto.BOOL)},
                ["y"],
            ),
            "node 'either' (If): no row expresses it, and it cannot be executed by numpy either: "
            "its attribute else_branch is a graph, which only onnx could run; export it with control flow unrolled",
        ),
        "integers of 64 bits": (
            built([node("Add", "x c", "y")], {"x": ([65], onnx.TensorProto.INT64)}, ["y"], {"c": np.full(65, 1 << 40)}),
            "a constant with integers of more than 32 bits; export it with smaller ones",
        ),
        "another domain": (
            built(
                [node("Relu", "x", "y", domain="com.example")],
                {"x": [4]},
                ["y"],
                opset_imports=[onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.example", 1)],
            ),
            "node 'y' (com.example.Relu): no row expresses it, and it cannot be executed by numpy either: "
            "neither numpy here nor onnx's reference computes com.example.Relu; export the model without it",
        ),
        "no such value": (built(relu, {"x": [4]}, ["z"]), "output 'z' is not an output of any node"),
        "shapes that do not fit": (built([node("MatMul", "x y", "z")], {"x": [2, 3], "y": [4, 5]}, ["z"]), "node 'z' (MatMul): "),
        "a constant that cannot be computed": (
            built([node("Reshape", "c s", "r"), *relu], {"x": [4]}, ["y", "r"], {"c": np.ones(3, np.float32), "s": np.array([2])}),
            "node 'r' (Reshape): it cannot be computed beforehand: ",
        ),
    }


def test_what_cannot_be_expressed_is_refused_with_its_place() -> None:
    for name, (proto, message) in refused().items():
        with pytest.raises(BenchgraphError) as caught:
            model_of(proto)
        assert message in caught.value.line, name


def open_model() -> Any:
    """ids and mask of [batch, seq]; a table's rows, scaled by the mask, summed along seq."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    whole = onnx.TensorProto.INT64
    nodes = [
        node("Gather", "table ids", "rows", name="embed"),
        node("Unsqueeze", "mask last", "m", name="widen"),
        node("Cast", "m", "scale", to=1),
        node("Mul", "rows scale", "kept"),
        node("ReduceSum", "kept along", "y", keepdims=0),
    ]
    data = {"table": np.arange(40, dtype=np.float32).reshape(10, 4), "last": np.array([2]), "along": np.array([1])}
    return built(nodes, {"ids": (["batch", "seq"], whole), "mask": (["batch", "seq"], whole)}, ["y"], data)


def test_open_dims_are_bound_by_input_by_dim_and_by_mb() -> None:
    for sizes in (
        Sizes(0, (("ids", (2, 3)),)),
        Sizes(0, (("batch", (2,)), ("seq", (3,)))),
        Sizes(2, (("seq", (3,)),)),
        Sizes(2, (("mask", (2, 3)),)),
    ):
        model = model_of(open_model(), sizes)
        assert [t.shape for t in model.graph.inputs if not t.is_constant] == [(2, 3), (2, 3)], sizes
        assert model.dims == {"batch": 2, "seq": 3}
        assert [t.shape for t in model.graph.outputs] == [(2, 4)]


def test_open_dims_without_a_number_are_refused_with_the_remedy() -> None:
    for sizes, message in (
        (Sizes(), "input 'ids': dims without a number: batch, seq; give each one, as in --in-shapes=batch:8+seq:8"),
        (Sizes(4), "input 'ids': dims without a number: seq; give each one, as in --in-shapes=seq:8"),
        (Sizes(0, (("ids", (2, 3)), ("mask", (2, 4)))), "--in-shapes=mask: its dim seq is 4, and 3 elsewhere; give one size"),
        (Sizes(0, (("sq", (3,)),)), "--in-shapes: the model has no input 'sq', and no open dim of that name; did you mean 'seq'?"),
        (Sizes(0, (("seq", (3, 4)),)), "--in-shapes=seq: 2 numbers for one dim; give one, as in --in-shapes=seq:8"),
        (Sizes(0, (("ids", (3,)),)), "--in-shapes=ids: 1 dims, where the input has 2; "),
    ):
        with pytest.raises(BenchgraphError) as caught:
            model_of(open_model(), sizes)
        assert message in caught.value.line


def test_a_model_with_open_dims_and_nodes_without_rows_runs_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, and imported: the second without onnx."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    monkeypatch.chdir(tmp_path)
    onnx.save(open_model(), "open.onnx")
    done = CliRunner().invoke(main, ["--model", "--mb=2,3", "--in-shapes=seq:5,seq:6", "--case=open.onnx"])
    assert "passed:4" in done.stdout, done.output
    done = CliRunner().invoke(main, ["import", "open.onnx", "-o", "open", "--mb=2", "--in-shapes=seq:5"])
    assert "2 nodes of it numpy executes, between the partitions:\n" in done.stdout, done.output
    assert "  Gather (1): input 1, 'ids', is known at run time alone\n" in done.stdout
    assert "  Unsqueeze (1): StaticReshape: input src has dtype s32\n" in done.stdout
    Path("open.onnx").unlink()
    for module in [name for name in sys.modules if name.partition(".")[0] == "onnx"]:
        monkeypatch.setitem(sys.modules, module, None)
    done = CliRunner().invoke(main, ["--batch=open/batch"])
    assert "passed:1" in done.stdout, done.output
    for words in (["--mb=1,2"], ["--in-shapes=seq:5,seq:6"]):
        done = CliRunner().invoke(main, ["import", "open.onnx", "-o", "open", *words])
        assert "give one: each makes another model" in done.output


def test_wildcards_agree_with_onnx_and_carry_what_is_known() -> None:
    """Results that nothing reads are left out; the bounds of a slice, beyond 32 bits, are part of the text."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    nodes = [
        node("TopK", "x k", "values places", axis=1),
        node("Cast", "places", "reals", to=1),
        node("Slice", "x from to", "tail"),
        node("Einsum", "tail tail", "gram", equation="ij,ik->jk"),
        node("MatMul", "reals gram", "y"),
    ]
    data = {"k": np.array([3]), "from": np.array([1]), "to": np.array([2**63 - 1])}
    proto = built(nodes, {"x": [4, 3]}, ["y"], data)
    model = model_of(proto)
    assert [f.kind for f in model.fallen] == ["TopK", "Slice", "Einsum"]
    wild = [op for op in model.graph.ops if op.kind == "Wildcard"]
    assert [(len(op.inputs), len(op.outputs)) for op in wild] == [(1, 1)] * 3
    assert wild[0].outputs[0].dtype is DType.s32
    assert str(2**63 - 1) in wild[1].attrs.string("computes")
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    (want,) = onnx.reference.ReferenceEvaluator(proto).run(None, {"x": x})
    got = evaluate(model.graph, {**model.data, model.inputs["x"]: x})
    np.testing.assert_allclose(got[model.outputs["y"]], want, rtol=1e-5)


def test_a_row_that_refuses_late_leaves_nothing_behind() -> None:
    def late(d: Draft, node: Node) -> Any:
        d.op("Add", d.named("x"), d.literal(1.0))
        d.named("c")
        raise Unmapped("too late")

    d = Draft()
    d.define("x", d.b.input((4,)))
    d.known["c"] = np.zeros(3, np.float32)
    assert d.attempt(late, Node("Late", ("x",), ("y",), {})) == "too late"
    assert d.b.count == 0
    assert not d.data
    assert not d.is_read("c")


def test_external_data_come_from_the_folder_of_the_model_alone(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    onnx.save(network(), inside / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert len(read_onnx(inside / "net.onnx").data) == 3
    (inside / "weights.bin").rename(outside / "weights.bin")
    (inside / "weights.bin").symlink_to(outside / "weights.bin")
    for change in (None, "../outside/weights.bin", str(outside / "weights.bin"), "absent.bin"):
        proto = onnx.load_model(str(inside / "net.onnx"), load_external_data=False)
        for entry in (e for t in proto.graph.initializer for e in t.external_data if e.key == "location" and change):
            entry.value = change
        (inside / "other.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(BenchgraphError, match=r"other\.onnx: external data of '\w+': ") as caught:
            read_onnx(inside / "other.onnx")
        assert "\n" not in caught.value.line


EXTERNAL = {  # location, offset and length of 24 bytes in the file w.bin; what is said, and the remedy
    "plain": ("w.bin", None, None, ""),
    "with its place": ("w.bin", "0", "24", ""),
    "in a folder": ("sub/w.bin", None, None, ""),
    "a NUL": ("w.bin\0.x", None, None, r"control characters: 'w\.bin\\x00\.x'; do not use it"),
    "a line break": ("w\n.bin", None, None, r"control characters: 'w\\n\.bin'; do not use it"),
    "missing": ("v.bin", None, None, "there is no file 'v.bin' beside the model; copy it there"),
    "absolute": ("/dev/zero", None, None, "'/dev/zero' leads out of the model's folder; put the file beside"),
    "above": ("../w.bin", None, None, "leads out of the model's folder; put the file beside"),
    "a link": ("link.bin", None, None, "'link.bin' is a link, or behind one; put the file itself in its place"),
    "behind a link": ("linked/w.bin", None, None, "'linked/w.bin' is a link, or behind one; put the file itself"),
    "a second name": ("hard.bin", None, None, "'hard.bin' is a hard link: it has another name as well; put a copy"),
    "a folder": ("sub", None, None, "is no file, but a folder or a device; put the file with the weights"),
    "a pipe": ("pipe", None, None, "is no file, but a folder or a device; put the file with the weights"),
    "a long name": ("a" * 5000, None, None, "cannot read 'a+...': File name too long; change its name"),
    "no name": ("", None, None, "no file is named; export it again"),
    "too short": ("w.bin", "8", None, "'w.bin' is too short: 32 bytes are needed, and it has 24; copy the file again"),
    "behind its end": ("w.bin", "400", "24", "'w.bin' is too short: 424 bytes are needed"),
    "before its begin": ("w.bin", "-4", None, "its offset is '-4', and no number of bytes; export it again"),
    "a word": ("w.bin", "abc", None, "its offset is 'abc', and no number of bytes"),
    "a huge length": ("w.bin", "0", "1" + "0" * 30, "its length is '1000000000000000000000000000000', and no number of bytes"),
    "another length": ("w.bin", "0", "12", "its length is 12 bytes, where its shape and type take 24; export it again"),
}


@pytest.mark.parametrize(("location", "offset", "length", "says"), EXTERNAL.values(), ids=list(EXTERNAL))
def test_external_data_are_refused_with_a_remedy_of_their_own(
    location: str, offset: str | None, length: str | None, says: str, tmp_path: Path
) -> None:
    proto = parsed("float[2,3] x", "float[2,3] y", "y = Add (x, w)", w=np.zeros((2, 3), np.float32))
    tensor, data = proto.graph.initializer[0], np.arange(6, dtype=np.float32).tobytes()
    tensor.ClearField("raw_data")
    tensor.data_location = 1  # EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    for file in (tmp_path / "w.bin", inside / "w.bin", inside / "sub/w.bin", tmp_path / "other.bin"):
        file.write_bytes(data)
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    (inside / "linked").symlink_to(tmp_path)
    (inside / "hard.bin").hardlink_to(tmp_path / "other.bin")
    os.mkfifo(inside / "pipe")
    (inside / "net.onnx").write_bytes(proto.SerializeToString())
    if not says:
        assert [a.tolist() for a in read_onnx(inside / "net.onnx").data.values()] == [[[0, 1, 2], [3, 4, 5]]]
        return
    with pytest.raises(BenchgraphError, match=says) as caught:
        read_onnx(inside / "net.onnx")
    assert caught.value.line.startswith(f"{inside / 'net.onnx'}: external data of 'w': ")


CONTRADICTIONS = {
    "an output's shape": ("float[2,5] y", "y = Relu (x)", "output 'y': the file says FLOAT[2,5] of it, and its nodes make FLOAT[2,3]"),
    "an output's rank": ("float[6] y", "y = Relu (x)", "output 'y': the file says FLOAT[6] of it, and its nodes make FLOAT[2,3]"),
    "an output's type": ("int64[2,3] y", "y = Relu (x)", "output 'y': the file says INT64[2,3] of it, and its nodes make FLOAT[2,3]"),
    "a value's shape": (
        "float[2,3] y",
        "r = Relu (x) y = Neg (r)",
        "value 'r': the file says FLOAT[2,N,4] of it, and its nodes make FLOAT",
    ),
}


@pytest.mark.parametrize(("outputs", "body", "says"), CONTRADICTIONS.values(), ids=list(CONTRADICTIONS))
def test_what_the_file_declares_must_be_what_its_nodes_make(outputs: str, body: str, says: str) -> None:
    proto = parsed("float[2,3] x", outputs, body)
    if body.startswith("r"):
        proto.graph.value_info.add().CopyFrom(parsed("float[2,N,4] r", "float y", "y = Relu (r)").graph.input[0])
    with pytest.raises(BenchgraphError, match=re.escape(says) + ".*; export it again, or mend what it declares"):
        model_of(proto)


def test_names_of_open_dims_contradict_nothing() -> None:
    proto = parsed("float[N,3] x", "float[M,3] y", "y = Relu (x)")
    assert model_of(proto, Sizes(in_shapes=(("N", (4,)),))).graph.outputs[0].shape == (4, 3)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        (Sizes(in_shapes=(("x", (2, 4)),)), "--in-shapes, --mb: the model does not take 'x' of 2x4: "),
        (Sizes(in_shapes=(("K", (5,)),)), "--in-shapes, --mb: the model does not take 'x' of 1x5: "),
    ],
)
def test_sizes_that_do_not_fit_are_the_users(sizes: Sizes, says: str) -> None:
    proto = parsed("float[B,K] x", "float[B,7] y", "y = MatMul (x, w)", w=np.zeros((3, 7), np.float32))
    with pytest.raises(BadOverride, match=re.escape(says) + ".*MatMul.*; give the sizes that its weights are made for"):
        model_of(proto, replace(sizes, mb=1))


def test_channels_that_do_not_fit_are_named() -> None:
    """onnx's inference does not look at them."""
    proto = parsed("float[1,3,8,8] x", "float[1,4,6,6] y", "y = Conv (x, w)", w=np.zeros((4, 3, 3, 3), np.float32))
    says = r"--in-shapes, --mb: the model does not take 'x' of 1x5x8x8: node 'y' \(Conv\): "
    with pytest.raises(BadOverride, match=says):
        model_of(proto, Sizes(in_shapes=(("x", (1, 5, 8, 8)),)))


def test_a_dim_of_0_is_a_number() -> None:
    proto = parsed("float[B,3] x", "float[B,3] y", "y = Relu (x)")
    assert model_of(proto, Sizes(in_shapes=(("B", (0,)),))).graph.inputs[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Frobnicate", "node 'f' (Frobnicate): opset 17 has no op 'Frobnicate'; export the model without it"),
        ("Softmx", "node 'f' (Softmx): opset 17 has no op 'Softmx'; did you mean 'Softmax'?"),
        ("Attention", "node 'f' (Attention): opset 17 has no op 'Attention'; export it for a newer opset"),
    ],
)
def test_an_op_that_onnx_lacks_is_named(kind: str, says: str) -> None:
    proto = parsed("float[2,3] x", "float[2,3] y", "y = Relu (x)", opset=17)
    proto.graph.node[0].op_type, proto.graph.node[0].name = kind, "f"
    with pytest.raises(BenchgraphError, match=re.escape(says)):
        model_of(proto)


def test_a_model_that_fits_no_memory_is_skipped_with_the_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its weights are read."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    onnx.save(network(), tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    with (tmp_path / "weights.bin").open("r+b") as file:
        file.truncate(3 << 40)  # sparse
    done = CliRunner().invoke(main, ["--model", f"--case={tmp_path / 'net.onnx'}"])
    assert "SKIPPED" in done.stdout, done.output
    assert "not enough RAM: 6597 GB are needed to read it, " in done.stdout
    monkeypatch.setattr("benchgraph.core.free_memory.free_bytes", lambda: 1 << 50)
    monkeypatch.setattr(onnx, "load_external_data_for_model", lambda proto, folder: pytest.fail("it is read"))
    with pytest.raises(BaseException, match="it is read"):
        read_onnx(tmp_path / "net.onnx")


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    whole = network().SerializeToString()
    (tmp_path / "torn.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise.onnx").write_bytes(bytes(range(256)))
    outside = network()
    onnx.external_data_helper.set_external_data(outside.graph.initializer[0], location="../secret")
    outside.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "outside.onnx").write_bytes(outside.SerializeToString())
    for name, message in (
        ("torn", "no ONNX model"),
        ("noise", "no ONNX model"),
        ("outside", "leads out of the model's folder"),
        ("absent", "cannot read it"),
    ):
        with pytest.raises(BenchgraphError, match=message) as caught:
            read_onnx(tmp_path / f"{name}.onnx")
        assert caught.value.where.startswith(str(tmp_path / f"{name}.onnx"))


def test_names_that_are_no_text_and_types_that_are_none_are_refused(tmp_path: Path) -> None:
    proto = parsed("float[2,3] x", "float[2,3] y", "named = Relu (x) y = Neg (named)")
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString().replace(b"Relu", b"Re\xffu"))
    with pytest.raises(BenchgraphError, match=r"no ONNX model: its op_type b'Re\\xffu' is no text; export it again"):
        read_onnx(tmp_path / "net.onnx")
    proto.graph.output[0].type.tensor_type.elem_type = 77
    with pytest.raises(BenchgraphError, match=r"output 'y': the file says UNKNOWN\(77\)\[2,3\] of it, and its nodes make FLOAT"):
        model_of(proto)


def test_every_row_agrees_with_the_node_tests_of_onnx() -> None:
    """The page in the docs has what onnx 1.23 makes of it; a new release may add tests, and none may be wrong."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    found = all_outcomes()
    assert [(o.name, o.wrong) for o in found if o.wrong] == []
    others = {kind for kind in ROWS if "." in kind} | {ROTATION}  # of which onnx knows nothing
    assert {o.kind for o in found if not o.refused} == set(ROWS) - others - PARTS
    if onnx.__version__.startswith("1.23."):
        assert page(found) == DOC.read_text()


def test_an_empty_file_is_said(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(InvalidArguments, match=r"empty\.onnx: the file is empty; export the model again"):
        read_onnx(tmp_path / "empty.onnx")
