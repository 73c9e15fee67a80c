"""Functions of Wildcards: their text, and what numpy makes of them against onnx's own node tests."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchgraph import fallback
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidArguments, InvalidShape, ParseError, Unavailable, Unimplemented
from benchgraph.core.tensor import TensorType
from benchgraph.fallback import Function, Literal, by_onnx
from tests.support.table import all_hold

NUMPY = {"float32": DType.f32, "int64": DType.s32, "int32": DType.s32, "bool": DType.boolean, "uint8": DType.u8, "int8": DType.s8}


OF_OTHER_TYPES = {"Cast", "Einsum", "GlobalLpPool"}  # kinds without node tests, or whose have types that no graph has; tested here


def f32(*shape: int) -> TensorType:
    return TensorType(DType.f32, shape)


def test_a_function_is_its_text() -> None:
    slices = Literal.of(np.array([0, 2**63 - 1]))
    f = Function("Slice", 18, {"a": 1, "b": 0.5, "c": "x", "d": (1, 2), "e": (0.5, float("inf"))}, (0, slices, None), (True, False), "own")
    assert fallback.parse(f.text) == f
    assert f.text.count("\n") == 0


def test_small_arrays_alone_are_part_of_a_text() -> None:
    assert Literal.of(np.zeros(64))
    assert not Literal.of(np.zeros(65))
    assert Literal.of(np.zeros(3, np.float16)) is None
    literal = Literal.of(np.zeros((2, 3), np.int32))
    assert literal is not None
    assert literal.array.dtype == np.int64
    assert literal.array.shape == (2, 3)


def refuses(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        fallback.parse(text)
    assert caught.value.where == "attribute computes"
    assert caught.value.fix == "import the model again"


def test_texts_that_are_no_functions_are_refused() -> None:
    good = Function("Relu", 18, {}, (0,)).text
    all_hold(
        refuses,
        {
            "torn": (good[:-5], "it is no JSON"),
            "deep": ("[" * 100_000, "it is no JSON"),
            "a list": ("[]", "it is no object"),
            "no kind": (good.replace('"kind"', '"sort"'), '"kind" is missing'),
            "a negative input": (good.replace("[0]", "[-1]"), '"inputs" has something else'),
            "a true input": (good.replace("[0]", "[true]"), '"inputs" has something else'),
            "a number as output": (good.replace("[true]", "[1]"), '"outputs" has something else'),
            "an attribute of lists": (good.replace("{}", '{"a": [[1]]}'), "a value in it is neither"),
            "an array without a shape": (good.replace("[0]", '[{"dtype": "int64", "values": [1]}]'), "a part is missing"),
            "an array of another size": (good.replace("[0]", '[{"dtype": "int64", "shape": [2], "values": [1]}]'), "not as many values"),
            "an array of objects": (good.replace("[0]", '[{"dtype": "object", "shape": [1], "values": [1]}]'), "another dtype"),
            "an array of words": (good.replace("[0]", '[{"dtype": "int64", "shape": [1], "values": ["x"]}]'), "of a wrong type"),
        },
    )


def node_tests() -> Iterator[tuple[Any, Function, tuple[Any, ...], tuple[Any, ...]]]:
    """onnx's tests of one node whose kind has a row here, with types that graphs have: the case, the function, operands, results."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    from onnx.backend.test.case.node import collect_testcases

    from benchgraph.importers.onnx.wildcards import attributes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        node, opset = case.model.graph.node[0], case.model.opset_import[0].version
        if len(case.model.graph.node) != 1 or node.op_type not in fallback.ROWS or node.domain:
            continue
        for given, made in case.data_sets:
            if onnx.defs.get_schema(node.op_type).since_version > max(opset, 13):  # attributes that are inputs today
                continue
            arrays = {v.name: np.asarray(x) for v, x in zip(case.model.graph.input, given, strict=True)}
            if any(x.dtype.name not in NUMPY for x in (*arrays.values(), *map(np.asarray, made))):
                continue
            read = list(dict.fromkeys(filter(None, node.input)))
            inputs = tuple(read.index(name) if name else None for name in node.input)
            f = Function(node.op_type, opset, attributes(node, onnx), inputs, tuple(map(bool, node.output)))
            operands = tuple(arrays[name].astype(NUMPY[arrays[name].dtype.name].numpy) for name in read)
            yield case, f, operands, tuple(map(np.asarray, made))


def test_every_row_agrees_with_the_node_tests_of_onnx() -> None:
    """And onnx's reference, in float64, with what numpy makes in f32: it is what judges the rows."""
    seen, wrong = dict[str, int](), list[str]()
    for case, f, operands, wanted in node_tests():
        seen[f.kind] = seen.get(f.kind, 0) + 1
        types = [TensorType(NUMPY[w.dtype.name], w.shape) for w in wanted]
        assert fallback.parse(f.text) == f
        for run in (fallback.execute, fallback.reference):
            try:
                for got, want in zip(run(f, operands, types), wanted, strict=True):
                    np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)
            except (AssertionError, BenchgraphError) as bad:
                wrong.append(f"{case.name}, {run.__name__}: {bad}")
    assert not wrong, "\n".join(wrong)
    assert set(fallback.ROWS) - set(seen) == OF_OTHER_TYPES, "a row without a test"
    assert sum(seen.values()) > 400


def test_casts_and_einsum_agree_with_onnx() -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    x = np.array([[-1.5, 0.0, 2.75], [300.0, -7.0, 1.0]], np.float32)
    numbers = {DType.f32: 1, DType.u8: 2, DType.s8: 3, DType.s32: 7, DType.boolean: 9}
    operands = [x, x.astype(np.int32), x != 0]
    for operand in operands:
        for to, number in numbers.items():
            if to is DType.f32 or to is DType.s32 or operand.dtype == np.bool_:
                f, types = Function("Cast", 18, {"to": number}, (0,)), [TensorType(to, x.shape)]
                (got,), (want,) = (run(f, (operand,), types) for run in (fallback.execute, fallback.reference))
                assert fallback.is_judged(f, types)
                assert got.dtype == to.numpy
                assert (got == want).all()
    f, types = Function("Einsum", 18, {"equation": "ab, cb -> ac"}, (0, 0)), [f32(2, 2)]
    (got,), (want,) = (run(f, (x,), types) for run in (fallback.execute, fallback.reference))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert want.dtype == np.float64


def test_integers_are_computed_in_64_bits_and_must_fit_into_32() -> None:
    f, big = Function("Mul", 18, {}, (0, 0)), np.array([1 << 20], np.int32)
    with pytest.raises(InvalidArguments, match="Mul makes 1099511627776, which s32 does not hold"):
        fallback.execute(f, (big,), [TensorType(DType.s32, (1,))])
    (made,) = fallback.execute(f, (big >> 10,), [TensorType(DType.s32, (1,))])
    assert made.dtype == np.int32
    assert made == 1 << 20


def test_operands_that_it_does_not_take_are_refused_with_the_reason() -> None:
    x, f = np.zeros((3, 4), np.float32), Function("Gather", 18, {}, (0, 1))
    for run in (fallback.execute, fallback.reference):
        with pytest.raises(InvalidArguments, match="Gather does not take its operands: "):
            run(f, (x, np.array([3], np.int32)), [f32(1, 4)])
        with pytest.raises(InvalidShape, match="Gather makes 2x4, and the tensor is 1x4; import the model with"):
            run(f, (x, np.array([0, 2], np.int32)), [f32(1, 4)])


def test_narrow_floats_are_computed_in_f32() -> None:
    x = np.array([1.0, 2.0**-7], DType.bf16.numpy)
    f = Function("CumSum", 18, {}, (0, Literal.of(np.array(0))))
    (made,) = fallback.execute(f, (x,), [TensorType(DType.bf16, (2,))])
    assert made.dtype == DType.bf16.numpy
    assert made[1] == x[0] + x[1]


def test_without_onnx_rows_run_and_judge_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("onnx", "onnx.reference", "onnx.helper"):
        monkeypatch.setitem(sys.modules, module, None)
    by_onnx.evaluator.cache_clear()
    x, f = np.array([[-1.0, 2.0]], np.float32), Function("Erf", 18, {}, (0,))
    for run in (fallback.execute, fallback.reference):
        np.testing.assert_allclose(run(f, (x,), [f32(1, 2)])[0], [[-0.84270079, 0.99532227]], rtol=1e-6)
    assert not fallback.is_judged(f, [f32(1, 2)])
    with pytest.raises(Unavailable, match=r"no function here for Hardmax, .* is not installed; pip install 'benchgraph\[onnx\]'"):
        fallback.execute(Function("Hardmax", 18, {}, (0,)), (x,), [f32(1, 2)])


def test_what_has_no_row_is_computed_by_onnx() -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    x = np.array([[-1.0, 2.0]], np.float32)
    assert fallback.execute(Function("Hardmax", 18, {}, (0,)), (x,), [f32(1, 2)])[0].tolist() == [[0, 1]]
    with pytest.raises(Unimplemented, match=r"neither numpy here nor onnx's reference computes com\.example\.Own; export"):
        fallback.execute(Function("Own", 1, {}, (0,), domain="com.example"), (x,), [f32(1, 2)])


def test_flops_are_counted_where_they_are_known() -> None:
    def holds(f: Function, ins: list[TensorType], outs: list[TensorType], want: int | None) -> None:
        assert fallback.flops(f, ins, outs) == want

    bhqd, bhkd, bhqk = f32(2, 3, 4, 5), f32(2, 3, 7, 5), f32(2, 3, 4, 7)
    all_hold(
        holds,
        {
            "a move": (Function("Transpose", 18, {}, (0,)), [bhqd], [bhqd], 0),
            "an element": (Function("Erf", 18, {}, (0,)), [bhqd], [bhqd], 120),
            "einsum": (
                Function("Einsum", 18, {"equation": "bhqd, bhkd -> bhqk"}, (0, 1)),
                [bhqd, bhkd],
                [bhqk],
                2 * 6 * 4 * 7 * 5,
            ),
            "dots": (
                Function("Einsum", 18, {"equation": "...qd,...kd->...qk"}, (0, 1)),
                [bhqd, bhkd],
                [bhqk],
                2 * 6 * 4 * 7 * 5,
            ),
            "a product": (Function("MatMul", 18, {}, (0, 1)), [f32(4, 5), f32(5, 7)], [f32(4, 7)], 2 * 4 * 5 * 7),
            "no row": (Function("Hardmax", 18, {}, (0,)), [bhqd], [bhqd], None),
        },
    )


def test_indices_have_the_axis_that_they_are_of() -> None:
    data, indices = (7, 9), (3,)
    assert fallback.index_limit(Function("Gather", 18, {"axis": 1}, (0, 1)), 1, [data, indices]) == 9
    assert fallback.index_limit(Function("Gather", 18, {"axis": -2}, (0, 1)), 1, [data, indices]) == 7
    assert fallback.index_limit(Function("Gather", 18, {}, (0, 1)), 0, [data, indices]) is None
    assert fallback.index_limit(Function("Gather", 18, {}, (Literal.of(np.zeros(5)), 0)), 0, [indices]) == 5
    assert fallback.index_limit(Function("Cast", 18, {"to": 1}, (0,)), 0, [indices]) is None


def test_recurrent_networks_end_where_their_sequences_do() -> None:
    """A sequence that is shorter is as if it were alone: zeros follow its steps, and the last state is that of its last one."""
    rng = np.random.default_rng(0)
    lengths = (5, 3)

    def holds(kind: str, gates: int, states: int, direction: str) -> None:
        d = 2 if direction == "bidirectional" else 1
        x, w, r, b = (rng.standard_normal(s).astype(np.float32) for s in ((5, 2, 3), (d, gates * 4, 3), (d, gates * 4, 4), (d, gates * 8)))
        attrs = {"hidden_size": 4, "direction": direction}
        f = Function(kind, 14, attrs, (0, 1, 2, 3, 4), (True,) * (states + 1))
        types = [f32(5, d, 2, 4), *[f32(d, 2, 4)] * states]
        whole = fallback.execute(f, (x, w, r, b, np.int32(lengths)), types)
        assert not fallback.is_judged(f, types)
        for i, n in enumerate(lengths):
            alone = Function(kind, 14, attrs, (0, 1, 2, 3), (True,) * (states + 1))
            (every, *lasts), own = whole, [f32(n, d, 1, 4), *[f32(d, 1, 4)] * states]
            for got, want in zip(
                (every[:n, :, i : i + 1], *(s[:, i : i + 1] for s in lasts)),
                fallback.execute(alone, (x[:n, i : i + 1], w, r, b), own),
                strict=True,
            ):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            assert not every[n:, :, i].any()

    directions = ("forward", "reverse", "bidirectional")
    all_hold(
        holds, {f"{kind} {way}": (kind, n, s, way) for kind, n, s in (("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)) for way in directions}
    )


def test_activations_of_recurrent_networks_take_their_numbers_in_order() -> None:
    """And what goes into them is bounded by clip."""
    x, w, r = np.float32([[[3.0]]]), np.ones((2, 1, 1), np.float32), np.ones((2, 1, 1), np.float32)
    attrs = {"hidden_size": 1, "direction": "bidirectional", "activations": ("Affine", "LeakyRelu"), "activation_alpha": (2.0, 0.5),
             "activation_beta": (1.0,), "clip": 2.0}  # fmt: skip
    f = Function("RNN", 14, attrs, (0, 1, 2), (True,))
    assert fallback.execute(f, (x, w, r), [f32(1, 2, 1, 1)])[0].ravel().tolist() == [5, 2]
    assert fallback.execute(f, (-x, w, r), [f32(1, 2, 1, 1)])[0].ravel().tolist() == [-3, -1]


def test_norms_of_rows_and_channels() -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)
    for p, want in ((1, [[3 / 7, -4 / 7], [0, 0]]), (2, [[0.6, -0.8], [0, 0]])):
        f = Function("LpNormalization", 22, {"p": p}, (0,))
        for run in (fallback.execute, fallback.reference):
            np.testing.assert_allclose(run(f, (x,), [f32(2, 2)])[0], want, rtol=1e-6)
    f = Function("GlobalLpPool", 22, {}, (0,))
    np.testing.assert_allclose(fallback.execute(f, (x[None],), [f32(1, 2, 1)])[0].ravel(), [5, 0], rtol=1e-6)


def test_where_onnx_fails_the_row_judges_itself() -> None:
    """As at a padding below 0, which takes elements away."""
    x, f = np.arange(8, dtype=np.float32).reshape(2, 4), Function("Pad", 21, {}, (0, Literal.of(np.array([0, -1, 0, 1]))))
    for run in (fallback.execute, fallback.reference):
        assert run(f, (x,), [f32(2, 4)])[0].tolist() == [[1, 2, 3, 0], [5, 6, 7, 0]]
