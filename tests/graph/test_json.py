"""oneDNN Graph JSON: every oddity of the format, every error, and the whole corpus there and back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import (
    BenchgraphError,
    InvalidArguments,
    InvalidDataType,
    InvalidGraph,
    InvalidGraphOp,
    NoSuchOpKind,
    ParseError,
    Status,
)
from benchgraph.core.tensor import UNKNOWN_DIM, LayoutType, LogicalTensor, PropertyType
from benchgraph.graph import Graph, dumps, load, loads, read, save
from tests.support.corpus import CORPUS, REFUSED, corpus_files

SHARED = Path(__file__).parents[2].parent / "shared"
FOLDERS = ("paper", "onednn/op", "onednn/pattern", "onednn/complex_fusion")


def tensor(id: int, shape: list[int] | None = None, dtype: str = "f32", **more: object) -> dict[str, Any]:
    shape = [2, 3] if shape is None else shape
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return {"id": id, "dtype": dtype, "shape": shape, "stride": strides, "layout_type": "strided", "property_type": "undef", **more}


def op(kind: str = "ReLU", id: int = 3, attrs: dict[str, Any] | None = None, **more: object) -> dict[str, Any]:
    fields = {"id": id, "name": "n", "kind": kind, "attrs": attrs or {}, "inputs": [tensor(0)], "outputs": [tensor(1)]}
    return {**fields, **more}


def text(*ops: dict[str, Any], **top: object) -> str:
    return json.dumps({"version": "3.1.0", "engine_kind": "cpu", "fpmath_mode": "strict", **top, "graph": list(ops)})


def attr(kind: str, value: object) -> dict[str, object]:
    return {"type": kind, "value": value}


def leaky(value: str) -> str:
    """A LeakyReLU whose alpha is this text."""
    return text(op("LeakyReLU", attrs={"alpha": attr("f32", "@")})).replace('"@"', value)


def first_input(**fields: object) -> LogicalTensor:
    return loads(text(op(inputs=[{**tensor(0), **fields}]))).ops[0].inputs[0]


def round_trips(graph: Graph) -> bool:
    return loads(dumps(graph)) == graph


# ---- the format ------------------------------------------------------------------------------------------------------


def test_every_field_is_read() -> None:
    g = loads(text(op(), fpmath_mode="bf16", fpmath_mode_apply_to_int="true", input_ports=[0, 0], output_ports=[1]))
    assert (g.version, g.engine_kind, g.fpmath_mode, g.fpmath_apply_to_int) == ("3.1.0", "cpu", "bf16", True)
    assert (g.input_ports, g.output_ports) == ((0, 0), (1,))
    assert (g.ops[0].id, g.ops[0].name, g.ops[0].kind) == (3, "n", "ReLU")
    assert g.ops[0].inputs == (LogicalTensor(0, DType.f32, (2, 3), (3, 1)),)
    assert round_trips(g)


def test_optional_keys_may_be_absent() -> None:
    bare = {"id": 0, "kind": "ReLU", "inputs": [{"id": 0, "dtype": "f32"}], "outputs": [{"id": 1, "dtype": "f32"}]}
    g = loads(json.dumps({"graph": [bare]}))
    assert (g.version, g.engine_kind, g.fpmath_mode, g.fpmath_apply_to_int, g.input_ports) == ("", "cpu", "strict", None, None)
    assert g.ops[0].inputs == (LogicalTensor(0, DType.f32, None, None),)
    assert round_trips(g)


def test_an_empty_fpmath_mode_is_the_default() -> None:
    assert loads(text(op(), fpmath_mode="")).fpmath_mode == "strict"


def test_unknown_keys_are_skipped() -> None:
    odd = op(inputs=[tensor(0, note={"deep": [1]})], comment=[{}])
    assert loads(text(odd, deterministic=True)) == loads(text(op()))


@pytest.mark.parametrize("value", [0, 1, True, False])
def test_booleans_are_numbers_or_words_and_written_as_numbers(value: object) -> None:
    mm = op("MatMul", attrs={"transpose_b": attr("bool", value)}, inputs=[tensor(0), tensor(2)])
    g = loads(text(mm))
    assert g.ops[0].attrs["transpose_b"] is bool(value)
    assert f'"transpose_b": {{"type": "bool", "value": {int(bool(value))}}}' in dumps(g)


@pytest.mark.parametrize(
    ("written", "want"), [("inf", math.inf), ("-inf", -math.inf), ("Infinity", math.inf), ("1", 1.0), ("1.67772e+07", 16777200.0)]
)
def test_floats_are_read_as_the_library_prints_them(written: str, want: float) -> None:
    g = loads(leaky(written))
    assert g.ops[0].attrs["alpha"] == want
    assert isinstance(g.ops[0].attrs["alpha"], float)
    assert round_trips(g)


def test_bare_nan_is_read_and_two_readings_are_equal(tmp_path: Path) -> None:
    """Though no op takes it."""
    (tmp_path / "x.json").write_text(leaky("nan"))
    g = read(tmp_path / "x.json")
    assert math.isnan(g.ops[0].attrs.real("alpha"))
    assert '"value": nan' in dumps(g)
    save(g, tmp_path / "y.json")
    assert read(tmp_path / "y.json") == g


def test_bare_words_inside_strings_stay() -> None:
    g = loads(leaky("-inf").replace('"name": "n"', '"name": "a\\"inf nan"'))
    assert g.ops[0].name == 'a"inf nan'
    assert '"value": -inf' in dumps(g)


def test_floats_are_written_without_loss() -> None:
    assert loads(dumps(loads(leaky("0.123456789012345")))).ops[0].attrs["alpha"] == 0.123456789012345


def test_integers_in_a_list_of_floats_become_floats() -> None:
    g = loads(text(op("Dequantize", attrs={"scales": attr("f32[]", [1])}, inputs=[tensor(0, dtype="u8")])))
    assert isinstance(g.ops[0].attrs.reals("scales")[0], float)
    assert '"scales": {"type": "f32[]", "value": [1.0]}' in dumps(g)


def test_an_empty_list_keeps_its_type() -> None:
    g = loads(text(op("ReduceSum", attrs={"axes": attr("s64[]", [])})))
    assert '"axes": {"type": "s64[]", "value": []}' in dumps(g)
    assert round_trips(g)


def test_bookkeeping_attributes_of_partitioned_dumps_are_dropped() -> None:
    attrs = {"partition_id": attr("string", "100002"), "backend": attr("string", "dnnl_backend")}
    assert not loads(text(op(attrs=attrs))).ops[0].attrs


def test_string_escapes_survive() -> None:
    g = loads(text(op(name='tab\t quote" back\\slash\r\nü')))
    assert g.ops[0].name == 'tab\t quote" back\\slash\r\nü'
    assert round_trips(g)


def test_raw_control_characters_in_strings_are_read() -> None:
    assert loads(text(op()).replace('"n"', '"a\tb"')).ops[0].name == "a\tb"


def test_ids_may_be_addresses() -> None:
    g = loads(text(op(id=140736414123456, inputs=[tensor(2**48 - 1)]), input_ports=[2**48 - 1]))
    assert (g.ops[0].id, g.ops[0].inputs[0].id) == (140736414123456, 2**48 - 1)
    assert round_trips(g)


def test_a_scalar_has_no_dims() -> None:
    t = first_input(shape=[], stride=[], property_type="host_scalar")
    assert (t.shape, t.strides, t.property_type) == ((), (), PropertyType.host_scalar)


def test_one_unknown_dim_alone_is_an_unknown_rank() -> None:
    t = first_input(shape=[UNKNOWN_DIM], stride=[UNKNOWN_DIM])
    assert (t.shape, t.strides) == (None, None)


def test_unknown_dims_beside_known_ones_are_kept() -> None:
    t = first_input(shape=[UNKNOWN_DIM, 16], stride=[UNKNOWN_DIM])
    assert (t.shape, t.strides) == ((UNKNOWN_DIM, 16), None)


@pytest.mark.parametrize("stride", [[UNKNOWN_DIM], [1], [UNKNOWN_DIM, 1], []])
def test_strides_that_do_not_fit_are_unknown(stride: list[int]) -> None:
    assert first_input(stride=stride).strides is None


def test_an_opaque_tensor_keeps_its_layout_id() -> None:
    g = loads(text(op(inputs=[tensor(0, stride=[41, 7], layout_type="opaque")])))
    t = g.ops[0].inputs[0]
    assert (t.layout_type, t.layout_id, t.strides) == (LayoutType.opaque, 41, None)
    assert round_trips(g)


@pytest.mark.parametrize("layout", ["undef", "any"])
def test_tensors_without_a_layout_round_trip(layout: str) -> None:
    g = loads(text(op(outputs=[tensor(1, stride=[UNKNOWN_DIM], layout_type=layout)])))
    assert g.ops[0].outputs[0].layout_type is LayoutType(layout)
    assert round_trips(g)


def test_keys_are_written_in_the_librarys_order() -> None:
    g = loads(text(op("SoftMax", attrs={"axis": attr("s64", 1)}), fpmath_mode_apply_to_int="false", input_ports=[0], output_ports=[1]))
    data = json.loads(dumps(g))
    assert list(data) == ["version", "engine_kind", "fpmath_mode", "fpmath_mode_apply_to_int", "input_ports", "output_ports", "graph"]
    assert data["fpmath_mode_apply_to_int"] == "false"
    assert list(data["graph"][0]) == ["id", "name", "kind", "attrs", "inputs", "outputs"]
    assert list(data["graph"][0]["attrs"]["axis"]) == ["type", "value"]
    assert list(data["graph"][0]["inputs"][0]) == ["id", "dtype", "shape", "stride", "layout_type", "property_type"]


def test_save_and_load_a_file(tmp_path: Path) -> None:
    g = loads(text(op()))
    save(g, tmp_path / "g.json")
    assert load(tmp_path / "g.json") == g


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_corpus_loads_and_writes_back_to_the_same_graph(folder: str) -> None:
    """Every dump of oneDNN's own tests."""
    if not (SHARED / "corpus").is_dir():
        pytest.skip("the corpus is not here")
    paths = corpus_files(folder)
    assert paths
    for path in paths:
        graph = load(path)
        assert loads(dumps(graph)) == graph, path.name


def test_a_graph_of_the_corpus_that_the_library_refuses_says_why() -> None:
    if not CORPUS.is_dir():
        pytest.skip("the corpus is not here")
    for name, why in REFUSED.items():
        (path,) = CORPUS.rglob(name)
        with pytest.raises(InvalidGraphOp) as bad:
            load(path)
        assert str(bad.value) == f"{path}: {why}"


# ---- errors ----------------------------------------------------------------------------------------------------------


def message(source: str, error: type[BenchgraphError] = ParseError) -> str:
    """The one line that loading gives."""
    with pytest.raises(BenchgraphError) as bad:
        loads(source, where="f.json")
    assert type(bad.value) is error
    line = str(bad.value)
    assert "\n" not in line
    return line


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments) as bad:
        load(tmp_path / "no.json")
    assert str(bad.value) == f"{tmp_path / 'no.json'}: no such file; give the path of a oneDNN Graph JSON file"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="cannot read the file"):
        load(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    remedy = r"if it is a model, name it \.onnx or \.pt2 and run it with --model$"
    with pytest.raises(InvalidArguments, match=f"not UTF-8 text: byte 0; save it as UTF-8; {remedy}"):
        load(tmp_path / "x.json")


@pytest.mark.parametrize("source", ["", " \n"])
def test_an_empty_file_is_refused(source: str) -> None:
    assert message(source) == "f.json: the file is empty; a graph has at least one op"


def test_bad_json_is_located() -> None:
    assert message('{\n  "graph": [}\n').startswith("f.json: not JSON: line 2, column 13: Expecting value;")


@pytest.mark.parametrize("source", ["--reset --mb=4 --case=mlp.json", "\n# all sizes\n--case=mlp.json\n", "-v1 --graph --case=mlp.json"])
def test_a_batch_file_is_told_by_its_first_word(source: str) -> None:
    assert message(source) == "f.json: not JSON: it looks like a batch file; run it as --batch=FILE instead of as a case"


@pytest.mark.parametrize("source", ["-inf", "-1", "/* */ {}"])
def test_other_text_is_no_batch_file(source: str) -> None:
    assert "batch" not in message(source)


def test_bad_json_after_bare_numbers_is_located_in_the_text_as_it_was() -> None:
    assert "line 1, column 18:" in message('{"a": [inf, inf, }')
    assert "line 1, column 8:" in message('{"a": [}, inf')


def test_a_bare_word_is_bad_json() -> None:
    assert "line 1, column 7:" in message('{"a": infinite}')


def test_the_top_level_is_an_object() -> None:
    assert message("[1]") == 'f.json: the top level is an array; it must be an object with the key "graph"'


def test_a_file_without_ops_is_refused() -> None:
    assert message("{}") == 'f.json: there is no key "graph"; it holds the array of ops'
    assert message('{"graph": []}') == 'f.json: "graph" is empty; a graph has at least one op'
    assert message('{"graph": 7}') == 'f.json: "graph" is 7; it must be an array'


def test_an_op_needs_id_and_kind() -> None:
    assert message(text(op(), {"kind": "ReLU"})) == 'f.json: graph[1]: the op has no "id"; give every op an id of its own'
    assert message(text({"id": 4})) == 'f.json: op 4: the op has no "kind"; name the operation, for example "kind": "MatMul"'
    assert message('{"graph": [3]}') == "f.json: graph[0]: the op is 3; it must be an object"


@pytest.mark.parametrize("id", [-1, "7", 1.5, True])
def test_an_id_is_a_natural_number(id: object) -> None:
    assert '"id" is' in message(text({**op(), "id": id}))


def test_an_unknown_kind_gets_a_suggestion() -> None:
    assert message(text(op("Relu")), NoSuchOpKind) == "f.json: op 3: Relu: unknown op kind 'Relu'; did you mean 'ReLU'?"


def test_gradients_of_the_first_dumps_have_todays_names() -> None:
    graph = loads(text(op("BiasAddBackprop", inputs=[tensor(0, [2, 3, 4, 5])], outputs=[tensor(1, [5])])))
    assert graph.ops[0].kind == "BiasAddBackward"
    assert "unknown op kind 'SomethingBackprop'" in message(text(op("SomethingBackprop")), NoSuchOpKind)


def test_an_unknown_attribute_gets_a_suggestion() -> None:
    mm = op("MatMul", attrs={"transpose_c": attr("bool", 0)}, inputs=[tensor(0), tensor(2)])
    line = message(text(mm), InvalidGraphOp)
    assert line.startswith("f.json: op 3: MatMul: unknown attribute 'transpose_c'; did you mean 'transpose_")


def test_attribute_types_and_values_are_checked() -> None:
    where = "f.json: op 3: SoftMax: attribute 'axis': "
    bad = [
        ("S64", 1, "unknown type 'S64'; did you mean 's64'?"),
        ("s64", 1.5, "the value is 1.5; it must be an integer"),
        ("s64", 2**63, f"the value is {2**63}; it must be between"),
        ("bool", 2, "the value is 2; it must be 0, 1, false or true"),
        ("f32", "x", 'the value is "x"; it must be a number'),
        ("string", 3, "the value is 3; it must be a string"),
        ("s64[]", 3, "the value is 3; it must be an array"),
        ("f32[]", [1, None], "element 1 of the value is null; it must be a number"),
    ]
    for kind, value, want in bad:
        assert message(text(op("SoftMax", attrs={"axis": attr(kind, value)}))).startswith(where + want)
    assert message(text(op("SoftMax", attrs={"axis": {"value": 1}}))).startswith(where + 'there is no "type"; write')
    assert message(text(op("SoftMax", attrs={"axis": 1}))) == where + "it is 1; it must be an object"


def test_a_value_of_another_type_than_the_schemas_is_refused() -> None:
    line = message(text(op("SoftMax", attrs={"axis": attr("string", "1")})), InvalidGraphOp)
    assert line.startswith("f.json: op 3: SoftMax: attribute 'axis' is '1'")


def test_unknown_words_of_a_tensor_get_a_suggestion() -> None:
    where = "f.json: op 3: ReLU: inputs[0]: "
    assert message(text(op(inputs=[tensor(0, dtype="fp32")]))) == where + "unknown dtype 'fp32'; did you mean 'f32'?"
    assert message(text(op(inputs=[tensor(0, dtype="double")]))).startswith(where + "unknown dtype 'double'; use one of undef, f32,")
    assert message(text(op(inputs=[tensor(0, layout_type="Strided")]))) == where + "unknown layout_type 'Strided'; did you mean 'strided'?"
    assert message(text(op(inputs=[tensor(0, property_type="const")]))) == where + "unknown property_type 'const'; did you mean 'constant'?"


def test_a_tensor_needs_id_and_dtype() -> None:
    assert message(text(op(inputs=[{"dtype": "f32"}]))).startswith('f.json: op 3: ReLU: inputs[0]: the tensor has no "id";')
    assert message(text(op(outputs=[tensor(1), {"id": 4}]))).startswith('f.json: op 3: ReLU: outputs[1]: the tensor has no "dtype";')


def test_impossible_shapes_are_refused() -> None:
    assert "the shape has a dim of -1;" in message(text(op(inputs=[tensor(0, shape=[2, -1])])))
    assert "the shape has 13 dims; oneDNN allows 12" in message(text(op(inputs=[tensor(0, shape=[1] * 13)])))
    assert 'element 1 of "shape" is "x"; it must be an integer' in message(text(op(inputs=[{**tensor(0), "shape": [2, "x"]}])))


def test_unknown_words_at_the_top_get_a_suggestion() -> None:
    assert message(text(op(), fpmath_mode="bf166")) == "f.json: unknown fpmath_mode 'bf166'; did you mean 'bf16'?"
    assert message(text(op(), engine_kind="tpu")).startswith("f.json: unknown engine_kind 'tpu'; ")
    assert message(text(op(), fpmath_mode_apply_to_int="yes")).startswith("f.json: unknown fpmath_mode_apply_to_int 'yes'; use one of true")


def test_graph_errors_name_file_and_op() -> None:
    twice = text(op(), op(id=4))
    assert message(twice, InvalidGraph) == "f.json: op 4: ReLU: ops 3 and 4 both produce tensor 1; give each output its own tensor id"
    loop = text(op(id=1, inputs=[tensor(5)]), op(id=2, inputs=[tensor(1)], outputs=[tensor(5)]))
    assert message(loop, InvalidGraph).startswith("f.json: op 1: ReLU: the ops form a cycle")
    same = text(op(), op(inputs=[tensor(1)], outputs=[tensor(5)]))
    assert message(same, InvalidGraphOp) == "f.json: op 3: ReLU: op id 3 is used twice; give every op its own id"


def test_one_tensor_with_two_dtypes_is_refused() -> None:
    two = text(op(), op(id=4, inputs=[tensor(1, dtype="bf16")], outputs=[tensor(5, dtype="bf16")]))
    line = message(two, InvalidDataType)
    assert line == "f.json: op 4: ReLU: tensor 1 is bf16 here but f32 in op 3: ReLU; describe a tensor with the same dtype at every use"


def test_a_dtype_the_row_forbids_is_refused() -> None:
    line = message(text(op(inputs=[tensor(0, dtype="u8")], outputs=[tensor(1, dtype="u8")])), InvalidDataType)
    assert line.startswith("f.json: op 3: ReLU: input src has dtype u8; use f32")


def test_statuses_are_onednns() -> None:
    with pytest.raises(BenchgraphError) as bad:
        loads(text(op("Relu")))
    assert bad.value.status is Status.invalid_graph_op
