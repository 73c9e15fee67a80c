"""Inconsistent graphs are errors with place and remedy; what dumps may omit is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidDataType, InvalidGraph, InvalidGraphOp, InvalidShape
from benchgraph.core.tensor import UNKNOWN_DIM
from benchgraph.graph import loads, read, validate
from benchgraph.ops import check_op
from tests.support.table import all_hold

Fields = dict[str, Any]
TOP = 2**63 - 1


def t(id: int, shape: tuple[int, ...] = (4, 6), **more: object) -> Fields:
    return {"id": id, "dtype": "f32", "shape": list(shape), **more}


def op(id: int, inputs: list[Fields], outputs: list[Fields], kind: str = "ReLU", **attrs: tuple[str, object]) -> Fields:
    typed = {name: {"type": type, "value": value} for name, (type, value) in attrs.items()}
    return {"id": id, "kind": kind, "attrs": typed, "inputs": inputs, "outputs": outputs}


def chain(consumer: Fields, producer: Fields | None = None) -> str:
    """Two ops, and how each describes the tensor between them."""
    return json.dumps({"graph": [op(0, [t(0)], [producer or t(1, stride=[6, 1])]), op(1, [consumer], [t(2)])]})


def refused(text: str, error: type[BenchgraphError], message: str) -> None:
    with pytest.raises(error) as bad:
        validate(loads(text, "f"))
    assert str(bad.value).startswith(f"f: {message}") or str(bad.value).startswith(message)


def test_views_of_a_tensor_that_exclude_each_other_are_refused() -> None:
    here = "op 1: ReLU: tensor 1"
    cases = {
        "no elements": (chain(t(1, (0, 6))), InvalidShape, f"{here} has shape 0x6 here but 4x6 in op 0: ReLU; describe"),
        "a dim of 1": (chain(t(1, (1, 6))), InvalidShape, f"{here} has shape 1x6"),
        "another rank": (chain(t(1, (24,))), InvalidShape, f"{here} has shape 24"),
        "a dim beside an unknown one": (chain(t(1, (UNKNOWN_DIM, 7))), InvalidShape, f"{here} has shape ?x7"),
        "dtype": (chain(t(1, dtype="bf16")), InvalidDataType, f"{here} is bf16 here but f32 in op 0: ReLU"),
        "strides": (chain(t(1, stride=[1, 4])), InvalidGraph, f"{here} has strides 1x4 here but 6x1 in op 0: ReLU"),
        "padding": (chain(t(1, stride=[8, 1])), InvalidGraph, f"{here} has strides 8x1"),
        "layouts": (
            chain(t(1, layout_type="opaque", stride=[5]), t(1, layout_type="opaque", stride=[7])),
            InvalidGraph,
            f"{here} has layout id 5 here but 7",
        ),
        "host scalars": (
            chain(t(1, (), property_type="variable"), t(1, (), property_type="host_scalar")),
            InvalidGraph,
            f"{here} has property variable here but host_scalar",
        ),
        "two consumers": (
            json.dumps({"graph": [op(0, [t(0)], [t(1)]), op(1, [t(0, stride=[1, 4])], [t(2)]), op(2, [t(0, stride=[6, 1])], [t(3)])]}),
            InvalidGraph,
            "op 2: ReLU: tensor 0 has strides 6x1 here but 1x4 in op 1: ReLU",
        ),
    }
    all_hold(refused, cases)


def test_views_of_a_tensor_complete_each_other() -> None:
    def is_legal(text: str) -> None:
        validate(loads(text))

    cases = {
        "an unknown shape": (chain({"id": 1, "dtype": "f32"}),),
        "a shape of unknown rank": (chain(t(1, (UNKNOWN_DIM,), stride=[UNKNOWN_DIM])),),
        "an unknown dim": (chain(t(1, (UNKNOWN_DIM, 6))),),
        "unknown strides": (chain(t(1, stride=[UNKNOWN_DIM, UNKNOWN_DIM])),),
        "layout any": (chain(t(1, layout_type="any")),),
        "layout undef": (chain(t(1, layout_type="undef", stride=[])),),
        "another property": (chain(t(1, property_type="constant"), t(1, property_type="variable")),),
        "a stride of a dim of 1": (chain(t(1, (1, 6), stride=[99, 1]), t(1, (1, 6), stride=[6, 1])).replace("[4, 6]", "[1, 6]"),),
    }
    all_hold(is_legal, cases)


def test_an_operand_may_be_described_as_its_broadcast() -> None:
    """As in one of oneDNN's own inputs; only where the op broadcasts, to the shape that the producer says."""
    wide, narrow, other = t(1, (2, 5, 3, 3)), t(1, (2, 5, 1, 1), stride=[5, 1, 1, 1]), t(3, (2, 5, 3, 3))
    add = [op(0, [t(0, (2, 5, 3, 3))], [wide]), op(1, [narrow, other], [t(2, (2, 5, 3, 3))], "Add")]
    assert validate(loads(json.dumps({"graph": add}))).tensors[2].shape == (2, 5, 3, 3)
    add[1]["attrs"] = {"auto_broadcast": {"type": "string", "value": "none"}}
    refused(json.dumps({"graph": add}), InvalidShape, "op 1: Add: tensor 1 has shape 2x5x1x1 here but 2x5x3x3")


def test_ports_are_tensors_of_the_graph() -> None:
    one = [op(0, [t(0)], [t(1)])]
    message = "{} has tensor {}, which no op has; name tensors of the graph, such as {}"
    for key, known in (("input_ports", 0), ("output_ports", 1)):
        refused(json.dumps({"graph": one, key: [999]}), InvalidGraph, message.format(key, 999, known))
        refused(json.dumps({"graph": one, key: [-1]}), BenchgraphError, f'element 0 of "{key}" is -1; it must be between 0')
        refused(json.dumps({"graph": one, key: ["0"]}), BenchgraphError, f'element 0 of "{key}" is "0"; it must be an integer')
    refused(json.dumps({"graph": one, "input_ports": [1]}), InvalidGraph, "input_ports has tensor 1, which op 0 produces")
    assert loads(json.dumps({"graph": one, "input_ports": [0, 0], "output_ports": [1]})).input_ports == (0, 0)


def test_an_output_port_of_an_op_that_was_taken_out_is_ignored() -> None:
    gap = [op(0, [t(0)], [t(1)]), op(2, [t(1)], [t(2)])]
    assert [out.id for out in loads(json.dumps({"graph": gap, "output_ports": [5]})).outputs] == [2]
    refused(json.dumps({"graph": gap, "input_ports": [5]}), InvalidGraph, "input_ports has tensor 5, which no op has; name tensors")


def test_strides_that_no_memory_has_are_refused() -> None:
    def alone(out: Fields, source: Fields | None = None) -> str:
        return json.dumps({"graph": [op(0, [source or t(0)], [out])]})

    far = "is larger than any memory; make its dims or strides smaller"
    inner = [op(0, [t(0)], [t(1, stride=[0, 1])]), op(1, [t(1)], [t(2)])]
    cases = {
        "backwards": (alone(t(1), t(0, stride=[6, -3])), BenchgraphError, "op 0: ReLU: inputs[0]: the strides are (6, -3); a stride is 0"),
        "backwards, written": (alone(t(1, stride=[-6, 1])), BenchgraphError, "op 0: ReLU: outputs[0]: the strides are (-6, 1)"),
        "overlap": (
            alone(t(1, stride=[1, 1])),
            BenchgraphError,
            "op 0: ReLU: elements of output 1 overlap: shape (4, 6) with strides (1, 1);",
        ),
        "overlap inside": (json.dumps({"graph": inner}), BenchgraphError, "op 0: ReLU: elements of output 1 overlap"),
        "far": (alone(t(1), t(0, stride=[2**61, 1])), BenchgraphError, "op 0: ReLU: tensor 0 of shape (4, 6) with strides"),
        "far, of a dim of 1": (
            alone(t(1, (1, 6)), t(0, (1, 6), stride=[2**62, 1])),
            BenchgraphError,
            f"op 0: ReLU: tensor 0 of shape (1, 6) with strides ({2**62}, 1) {far}",
        ),
        "many elements": (alone(t(1, (2**40, 2**40)), t(0, (2**40, 2**40))), BenchgraphError, "op 0: ReLU: tensor 0 of shape (10995116277"),
        "none, of many": (alone(t(1, (0, TOP, 3)), t(0, (0, TOP, 3))), BenchgraphError, "op 0: ReLU: tensor 0 of shape (0, 9223372"),
    }
    all_hold(refused, cases)
    validate(loads(alone(t(1), t(0, stride=[0, 1]))))  # an input may be broadcast


def out_of_range(kind: str, ins: int, name: str, value: object, message: str, *, dtype: DType = DType.f32, **more: object) -> None:
    attrs = Attrs({**more, name: value})
    with pytest.raises(InvalidGraphOp) as bad:
        check_op(kind, attrs, ((dtype, (1, 8, 8, 4)),) * ins, (DType.u8 if kind == "Quantize" else DType.f32,))
    assert str(bad.value).startswith(f"attribute '{name}' is ")
    assert message in str(bad.value)


def test_attributes_are_held_to_the_range_of_their_row() -> None:
    inf, nan, most = float("inf"), float("nan"), "give it numbers that f32 has, from -3.40282347e+38 to 3.40282347e+38"
    window: Fields = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 2)}
    finite, steps = "give it finite numbers", "give it sizes of 1 or more"

    def holds(kind: str, name: str, value: object, message: str, more: Fields) -> None:
        ins = 2 if kind.startswith("Conv") or kind in ("InterpolateBackward", "SoftPlusBackward") else 1
        out_of_range(kind, ins, name, value, message, **{"dtype": DType.s8 if kind == "Dequantize" else DType.f32, **more})

    conv: Fields = {k: v for k, v in window.items() if k != "kernel"} | {"dilations": (1, 1)}
    rows = [
        *[("Pow", "beta", value, finite, {}) for value in (inf, nan)],
        *[("Pow", "beta", value, most, {}) for value in (1e39, 10**400, -(10**5000))],
        *[("Quantize", "scales", (value,), finite, {}) for value in (0.0, inf, nan, 1e-60)],
        ("Quantize", "scales", (1e39,), most, {}),
        *[("Dequantize", "scales", (value,), finite, {}) for value in (0.0, -inf)],
        *[("Quantize", "zps", (z,), "give it numbers that u8 has, from 0 to 255", {"scales": (0.5,)}) for z in (-1, 256)],
        *[("Dequantize", "zps", (z,), "give it numbers of 8 bits, from -128 to 255", {"scales": (0.5,)}) for z in (-129, 256)],
        *[("MaxPool", name, (0, 2), steps, window) for name in ("kernel", "strides", "dilations")],
        *[("MaxPool", name, (1, 2**31), steps, window) for name in ("kernel", "strides", "dilations")],
        *[("MaxPool", name, (0, -1), "give it sizes of 0 or more", window) for name in ("pads_begin", "pads_end")],
        ("Convolution", "groups", 0, steps, conv),
        ("ConvolutionBackwardData", "dst_shape", (1, -8, 8, 4), "give it dims of 0 or more", conv),
        ("ConvolutionBackwardData", "output_padding", (-1, 0), "give it dims of 0 or more", conv),
        ("ConvolutionBackwardWeights", "weights_shape", (-1,) * 4, "give it dims of 0 or more", conv),
        ("AvgPoolBackward", "src_shape", (1, 8, 8, -4), "give it dims of 0 or more", {**window, "exclude_pad": True}),
        *[
            ("ConvolutionBackwardData", "dst_shape", shape, "there are 4 dims; give it one number per dim", conv)
            for shape in ((8,), (8,) * 5)
        ],
        ("ConvolutionBackwardData", "output_padding", (1,) * 3, "where there are 2 spatial dims; give it one number per spatial dim", conv),
        ("ConvolutionBackwardWeights", "weights_shape", (3, 3, 8), "where there are 4 dims", conv),
        ("AvgPoolBackward", "src_shape", (1, 8, 8), "where there are 4 dims", {**window, "exclude_pad": True}),
        ("Interpolate", "sizes", (4,), "where there are 2 spatial dims", {"mode": "nearest"}),
        ("InterpolateBackward", "scales", (1.0,) * 3, "where there are 2 spatial dims", {"mode": "nearest"}),
        ("Interpolate", "sizes", (-4, 4), "give it dims of 0 or more", {"mode": "nearest"}),
        *[("Interpolate", "scales", (1.0, s), "give it finite numbers above 0", {"mode": "nearest"}) for s in (0.0, -1.0, nan)],
        ("SoftPlus", "beta", 0.0, "finite numbers other than 0", {}),
        ("Clamp", "min", nan, "give it numbers, of which NaN is none", {"max": 1.0}),
        *[(kind, "alpha", nan, "give it numbers, of which NaN is none", {"beta": 1.0}) for kind in ("Elu", "LeakyReLU", "HardSigmoid")],
        *[(kind, "beta", nan, "give it numbers, of which NaN is none", {"alpha": 1.0}) for kind in ("HardSigmoid", "SoftPlusBackward")],
        ("SoftMax", "axis", 2**63, "give it integers of 64 bits", {}),
        ("LayerNorm", "epsilon", -1.0, "give it finite numbers of 0 or more", {"use_affine": False, "keep_stats": False}),
    ]
    all_hold(holds, {f"{kind} {name} {i}": (kind, name, *rest) for i, (kind, name, *rest) in enumerate(rows)})


def test_attributes_that_contradict_each_other_are_refused() -> None:
    inf = float("inf")

    def illegal(kind: str, attrs: Fields, message: str) -> None:
        with pytest.raises(InvalidGraphOp) as bad:
            check_op(kind, Attrs(attrs), ((DType.f32, (4,)),) * (1 + kind.endswith("Backward")), (DType.f32,))
        assert str(bad.value) == message

    wrong = "attribute 'min' is {}, and 'max' {}; give a min of at most max"
    cases = {
        f"{kind} {least}": (kind, {"min": least, "max": most}, wrong.format(least, most))
        for kind in ("Clamp", "ClampBackward")
        for least, most in ((2.0, 1.0), (inf, 0.0), (0.0, -inf))
    }
    elu = "attribute 'alpha' is -1.5, with which dst does not tell src; give it 0 or more, or set use_dst to false"
    all_hold(illegal, cases | {"elu": ("EluBackward", {"alpha": -1.5}, elu)})
    f32 = (DType.f32, (4,))
    for limit in (-inf, 0.0, inf):
        check_op("Clamp", Attrs(min=limit, max=limit), (f32,), (DType.f32,))
    check_op("EluBackward", Attrs(alpha=-1.5, use_dst=False), (f32, f32), (DType.f32,))


def test_contradictions_are_refused_before_overrides_could_hide_them(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(chain(t(1, (0, 6))))
    with pytest.raises(InvalidShape, match="tensor 1 has shape 0x6 here but 4x6"):
        read(tmp_path / "x.json")
