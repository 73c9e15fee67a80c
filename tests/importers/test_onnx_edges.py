"""ONNX models at the edges of what is read: inputs and outputs of every kind, constants of every form, and what is refused, and why."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchgraph.core.errors import BenchgraphError, OutOfMemory, ParseError, Unimplemented
from benchgraph.graph.model import Model
from benchgraph.importers.onnx import functions
from benchgraph.importers.onnx.model import model_of, read_onnx
from tests.importers.onnx_models import evaluated, kinds, parsed

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
RNG = np.random.default_rng(0)
RELU = "float[2,3] x", "float[2,3] y", "y = Relu (x)"


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_inputs_that_nothing_reads_may_be_of_any_type() -> None:
    """One that no tensor can be is left out; others keep their sizes, for runtimes that want them."""
    proto = parsed("float[2,3] x, double[4] a, string[2] b, uint64[2] c", *RELU[1:])
    kind = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(1, [2]))
    proto.graph.input.append(onnx.helper.make_value_info("d", kind))
    model = model_of(proto)
    assert list(model.inputs) == ["x", "a", "b", "c"]
    assert [t.known_shape for t in model.unread.values()] == [(4,), (2,), (2,)]
    with pytest.raises(Unimplemented, match="input 'a': its data type is DOUBLE; export it in f32"):
        model_of(parsed("double[4] a", "double[4] y", "y = Relu (a)"))


@pytest.mark.parametrize("indices", [[1, 4], [[0, 1], [1, 1]]])
def test_sparse_constants(indices: Any) -> None:
    """As an initialiser and as the value of a node; places in the flat array, or coordinates."""
    proto = parsed("float[2,3] x", "float[2,3] y", "a = Add (x, c) y = Add (a, e)")
    values, places = onnx.numpy_helper.from_array(np.float32([7, 8]), "c"), onnx.numpy_helper.from_array(np.int64(indices), "i")
    sparse = onnx.helper.make_sparse_tensor(values, places, [2, 3])
    proto.graph.sparse_initializer.append(sparse)
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["e"], sparse_value=sparse))
    x = floats(2, 3)
    np.testing.assert_allclose(evaluated(proto, x=x)[0], x + 2 * np.float64([[0, 7, 0], [0, 8, 0]]), rtol=1e-6)


def test_nothing_random_is_executed() -> None:
    bodies = (
        "r = RandomNormalLike (x) y = Add (x, r)",
        "r = RandomUniform <shape = [2, 3]> () y = Add (x, r)",
        "h = Constant <value_float = 0.5> () t = Constant <value = bool {1}> () y = Dropout (x, h, t)",
    )
    for body in bodies:
        with pytest.raises(Unimplemented, match=r"it draws random numbers, .*; export the model for inference"):
            model_of(parsed(*RELU[:2], body))
    inference = parsed("float[2,3] x", "float[2,3] y, bool[2,3] m", "y, m = Dropout (x)")
    assert evaluated(inference, x=floats(2, 3))[1].all()


@pytest.mark.parametrize(
    "body",
    [
        "s = Constant <value_ints = [100000, 100000, 1000]> () c = ConstantOfShape (s) r = ReduceMax <keepdims = 0> (c) y = Add (x, r)",
        "k = Constant <value_float = 1.0> () s = Constant <value_ints = [1000000000000]> () c = Expand (k, s) y = Mul (x, c)",
        "p = Constant <value_ints = [0, 0, 0, 1000000000000]> () c = Pad (x, p) y = ReduceMax (c)",
        "s = Constant <value_ints = [1000000, 1]> () c = ConstantOfShape (s) m = Gemm <transB = 1> (c, c) y = ReduceMax (m)",
    ],
)
def test_a_small_file_does_not_take_all_memory(body: str) -> None:
    """What is computed beforehand is measured before."""
    with pytest.raises(OutOfMemory, match=r"not enough RAM: [\d.]+ GB are needed for what is computed beforehand"):
        model_of(parsed("float[2,3] x", "float[a,b] y", body))


def test_pools_of_bytes_are_exact() -> None:
    want = ["Dequantize", "MaxPool", "Quantize"]
    proto = parsed("uint8[1,2,5,5] x", "uint8[1,2,a,b] y", "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)")
    x = RNG.integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    around = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    assert kinds(proto) == want
    np.testing.assert_array_equal(evaluated(proto, x=x)[0], np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3)).max((-1, -2)))


@pytest.mark.parametrize(("auto_pad", "begin"), [("NOTSET", 1), ("SAME_UPPER", 0)])
def test_padding_follows_from_the_size_of_a_result(auto_pad: str, begin: int) -> None:
    w = floats(4, 3, 3, 3)
    x = floats(1, 4, 5, 6)
    proto, plain = (
        parsed("float[1,4,5,6] x", "float[1,3,a,b] y", f"y = ConvTranspose <strides = [2, 2], {attrs}> (x, w)", w=w)
        for attrs in (f'output_shape = [10, 12], auto_pad = "{auto_pad}"', f"pads = [{begin}, {begin}, {1 - begin}, {1 - begin}]")
    )
    np.testing.assert_array_equal(evaluated(proto, x=x)[0], evaluated(plain, x=x)[0])


def test_mean_variance_normalisation() -> None:
    x = floats(2, 3, 4, 4)
    proto = parsed("float[2,3,4,4] x", "float[2,3,4,4] y", "y = MeanVarianceNormalization (x)")
    want = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(evaluated(proto, x=x)[0], want, rtol=1e-4, atol=1e-5)


def test_results_that_nothing_reads_need_no_type() -> None:
    """Of an Attention without past keys onnx infers none for the present ones."""
    body = "y, k2, v2, s = Attention <qk_matmul_output_mode = 2> (q, k, v)"
    types = "float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v"
    assert kinds(parsed(types, "float[1,2,3,4] y, float[1,2,3,5] s", body, opset=23)) == ["Wildcard"]


def changed(change: Callable[[Any], object]) -> Any:
    proto = parsed(*RELU)
    change(proto)
    return proto


def _dims(proto: Any, size: int) -> None:
    for v in (proto.graph.input[0], proto.graph.output[0]):
        v.type.tensor_type.shape.dim[0].dim_value = size


BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "of the future": (lambda p: setattr(p, "ir_version", 99), r"it is of version 99 of the form, .* reads \d+; install a newer onnx"),
    "without outputs": (lambda p: p.graph.ClearField("output"), "the model has no outputs; export it again"),
    "of a negative size": (lambda p: _dims(p, -1), "input 'x': its dim 0 is -1; export it with a name for an open dim"),
    "of an unknown type": (
        lambda p: p.graph.initializer.add(name="b", data_type=77, dims=[1], raw_data=b"1234"),
        r"initialiser 'b': its type is UNKNOWN\(77\), which ONNX does not have",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_is_broken_says_where(name: str) -> None:
    change, message = BROKEN[name]
    with pytest.raises(BenchgraphError, match=message):
        model_of(changed(change))


def test_a_deprecated_op_names_the_remedy() -> None:
    body = "y = GroupNormalization <num_groups = 1> (x, s, s)"
    with pytest.raises(ParseError, match="opset 18 has no op 'GroupNormalization'; export it for a newer opset"):
        model_of(parsed(*RELU[:2], body, opset=18, s=floats(1)))


def test_an_op_of_another_domain_has_no_type_that_onnx_knows() -> None:
    proto = parsed(*RELU[:2], "y = com.microsoft.Own (x)")
    with pytest.raises(Unimplemented, match="no row expresses it, and it cannot be executed by numpy either"):
        model_of(proto)


@pytest.mark.parametrize("place", ["function", "sparse"])
def test_external_data_anywhere_stay_in_the_folder(tmp_path: Path, place: str) -> None:
    """In the nodes of functions, and in sparse constants."""
    tensor = onnx.TensorProto(name="v", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    (tmp_path / "secret").write_bytes(b"12345678")
    (tmp_path / "inside").mkdir()
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("local", 1)]
    proto = parsed(*RELU[:2], "y = Relu (x)")
    if place == "function":
        nodes = [onnx.helper.make_node("Constant", [], ["c"], value=tensor), onnx.helper.make_node("Add", ["a", "c"], ["z"])]
        proto.functions.append(onnx.helper.make_function("local", "Own", ["a"], ["z"], nodes, opsets[:1]))
    else:
        places = onnx.numpy_helper.from_array(np.int64([0, 1]), "i")
        proto.graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor, indices=places, dims=[2]))
    file = tmp_path / "inside" / "net.onnx"
    file.write_bytes(proto.SerializeToString())
    with pytest.raises(BenchgraphError, match=r"external data of 'v': '\.\./secret' leads out of the model's folder"):
        read_onnx(file)


def test_names_of_inputs_are_those_of_the_file() -> None:
    model: Model = model_of(parsed("float[2,3] x, float[3] b", "float[2,3] y, float[3] b", "y = Add (x, b)", b=floats(3)))
    assert (list(model.inputs), list(model.outputs)) == (["x"], ["y", "b"])


def test_vectors_that_double_do_not_make_onnx_follow_every_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 2 KB, whose last vector has 2**50 elements."""
    infer = onnx.shape_inference.infer_shapes

    def shapes_alone(model: Any, **how: Any) -> Any:
        assert not (how.get("data_prop") and len(model.graph.node) > 1)
        return infer(model, **how)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", shapes_alone)
    proto = parsed("float[1024] x", "float[1125899906842624] y", "y = Identity (x)")
    nodes = [onnx.helper.make_node("Concat", [name, name], [made], axis=0) for name, made in pairwise(["x", *map(str, range(39)), "y"])]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert model_of(proto).graph.outputs[0].known_shape == (1 << 50,)


def test_long_vectors_are_not_followed_when_one_node_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a node that is computed beforehand: there is memory for them long after onnx takes minutes."""
    infer, followed = onnx.shape_inference.infer_shapes, list[bool]()

    def watched(model: Any, **how: Any) -> Any:
        followed.append(how.get("data_prop", False) and len(model.graph.node) == 1)
        return infer(model, **how)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    body = "v = Concat <axis = 0> (c, c) r = ReduceSum <keepdims = 0> (v) y = Add (x, r)"
    for length, is_followed in ((1 << 11, True), (1 << 20, False)):
        followed.clear()
        model_of(parsed("float[2,3] x", "float[2,3] y", body, c=np.zeros(length, np.float32)))
        assert any(followed) == is_followed


def with_functions(body: str, *made: str) -> Any:
    """made: of the domain local, as in `F (a) => (b) { b = Relu (a) }`."""
    opsets = 'opset_import: ["" : 21, "local" : 1]'
    local = " ".join(f'<domain: "local", {opsets}> {text}' for text in made)
    return onnx.parser.parse_model(f"<ir_version: 10, {opsets}> g (float[2,3] x) => (float[2,3] y) {{ {body} }} {local}")


def twice(levels: int) -> Any:
    """Functions of which each calls the next one twice."""
    made = [f"F{i} (a) => (b) {{ t = local.F{i + 1} (a) b = local.F{i + 1} (t) }}" for i in range(levels)]
    return with_functions("y = local.F0 (x)", *made, f"F{levels} (a) => (b) {{ b = Relu (a) }}")


def branches(levels: int) -> Any:
    """Functions that give a graph to the next one, which holds the one that they were given twice."""
    if_given = "s = Constant <value = bool {1}> () r = If (s) <then_branch : graph = @body, else_branch : graph = @body>"
    graph = f"q () => (r) {{ {if_given} }}"
    made = [f"F{i} <body> (a) => (b) {{ b = local.F{i + 1} <body = {graph}> (a) }}" for i in range(levels)]
    last = f"F{levels} <body> (a) => (r) {{ {if_given} }}"
    return with_functions("y = local.F0 <body = q () => (float[2,3] z) { z = Relu (x) }> (x)", *made, last)


def nodes_at_any_depth(graph: Any) -> int:
    inner = (g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for g in [a.g])
    return len(graph.node) + sum(map(nodes_at_any_depth, inner))


@pytest.mark.parametrize("models", [twice, branches])
def test_functions_are_counted_as_onnx_inlines_them(monkeypatch: pytest.MonkeyPatch, models: Callable[[int], Any]) -> None:
    model = models(5)
    made = nodes_at_any_depth(functions.inlined(model, onnx).graph)
    monkeypatch.setattr(functions, "MOST_NODES", made)
    functions.check_functions(model)
    monkeypatch.setattr(functions, "MOST_NODES", made - 1)
    with pytest.raises(Unimplemented, match=f"has more than {made - 1} nodes"):
        functions.check_functions(model)


@pytest.mark.parametrize("made", [twice, branches])
def test_functions_that_double_are_refused_before_they_are_inlined(monkeypatch: pytest.MonkeyPatch, made: Callable[[int], Any]) -> None:
    """A file of a few KB that would become 2**40 nodes."""
    monkeypatch.setattr(onnx.inliner, "inline_local_functions", lambda _: pytest.fail("it was inlined"))
    message = r"node 'y' \(F0\): it calls local functions: .* the model has more than 1,000,000 nodes; export it without local functions"
    with pytest.raises(Unimplemented, match=message):
        model_of(made(40))


def test_constants_in_functions_are_counted_by_size() -> None:
    """Few nodes, each with much data."""
    proto = twice(12)
    node = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.zeros(1 << 18, np.float32)))
    proto.functions[-1].node.append(node)
    with pytest.raises(Unimplemented, match=r"the model has more than 2,147,483,647 bytes"):
        model_of(proto)


def test_functions_that_call_themselves_are_named() -> None:
    ring = [f"F{i} (a) => (b) {{ b = local.F{(i + 1) % 3} (a) }}" for i in range(3)]
    cycles = "|".join(f"'{' -> '.join(f'F{(i + j) % 3}' for j in range(4))}'" for i in range(3))
    with pytest.raises(ParseError, match=rf"function 'F\d': it calls itself: ({cycles}); export it without the recursion"):
        model_of(with_functions("y = local.F0 (x)", *ring))
    branch = "q () => (r) { r = local.F (a) }"
    inner = f"F (a) => (b) {{ s = Constant <value = bool {{1}}> () b = If (s) <then_branch = {branch}, else_branch = {branch}> }}"
    with pytest.raises(ParseError, match="function 'F': it calls itself: 'F -> F'"):
        model_of(with_functions("y = local.F (x)", inner))


def test_functions_are_executed() -> None:
    x = floats(2, 3)
    np.testing.assert_array_equal(evaluated(twice(2), x=x)[0], np.maximum(x, 0))
    assert kinds(twice(2)) == ["ReLU"] * 4


def test_attributes_that_calls_leave_out_are_those_of_the_function() -> None:
    """At each level, and only where no call gives another."""
    inner = "G <alpha : float = 0.25> (a) => (b) { b = LeakyRelu <alpha : float = @alpha> (a) }"
    outer = "F <alpha : float = 0.5> (a) => (c) { b = local.G <alpha : float = @alpha> (a) c = local.G (b) }"
    x = floats(2, 3)
    for call, slope in (("F (x)", 0.5 * 0.25), ("F <alpha = 2.0> (x)", 2 * 0.25), ("G (x)", 0.25)):
        proto = with_functions(f"y = local.{call}", inner, outer)
        written = proto.SerializeToString()
        np.testing.assert_allclose(evaluated(proto, x=x)[0], np.where(x < 0, slope * x, x), rtol=1e-6)
        assert proto.SerializeToString() == written


def test_defaults_of_functions_that_are_refused() -> None:
    proto = with_functions(" ".join(f"y{i} = local.F (x)" for i in range(1 << 12)) + " y = Relu (x)", "F (a) => (b) { b = Relu (a) }")
    data = onnx.numpy_helper.from_array(np.zeros(1 << 18, np.float32))
    proto.functions[0].attribute_proto.append(onnx.helper.make_attribute("data", data))
    with pytest.raises(
        Unimplemented, match=r"with what its local functions have by default in every call .* more than 2,147,483,647 bytes"
    ):
        model_of(proto)
    proto.functions[0].attribute_proto.append(branches(0).graph.node[0].attribute[0])
    with pytest.raises(Unimplemented, match="function 'F': its attribute 'body' is a graph by default, which is not read; give the graph"):
        model_of(proto)
