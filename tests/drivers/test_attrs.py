"""Scales, zero points and post-ops: read as they are spelt, refused with the entry that is wrong."""

from __future__ import annotations

import pytest

from benchgraph.core.errors import UsageError
from tests.drivers.problems import problem, shared

A = shared("attrs")


@pytest.mark.parametrize(
    "text",
    [
        "sum",
        "sum:1:0:f32",
        "relu",
        "relu:0.1",
        "clip:-1:1",
        "add:f32",
        "add:bf16:per_oc",
        "mul:f32:3:acdb",
        "prelu:per_oc",
        "sum+relu+add:f32",
    ],
)
def test_post_ops_are_read_as_they_are_spelt(text: str) -> None:
    assert str(A.parse_post_ops(text)) == text


@pytest.mark.parametrize("text", ["eltwise:relu:0.1", "relu:0.1", "eltwise_relu:0.1"])
def test_names_may_say_their_class(text: str) -> None:
    assert str(A.parse_post_ops(text)) == "relu:0.1"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("post-ops=rely", "'rely': did you mean 'relu'?"),
        ("post-ops=sum+qqqqqq", "'qqqqqq': no such post-op; there are sum, prelu, relu, add, ..."),
        ("post-ops=add", "'add': the dtype of the second operand is missing, as in add:f32"),
        ("post-ops=add:f33", "'add:f33': 'f33': did you mean 'f32'?"),
        ("post-ops=add:f32:per_occ", "'add:f32:per_occ': 'per_occ': did you mean 'per_oc'?"),
        ("post-ops=relu:steep", "'relu:steep': 'steep': give a number"),
        ("post-ops=relu:1:1:1:1", "'relu:1:1:1:1': 4 arguments; relu takes up to 3"),
        ("post-ops=sum:1:0.5", "'sum:1:0.5': '0.5': give an integer"),
        ("scales=scr:common:1", "'scr:common:1': did you mean 'src'?"),
        ("scales=wei:per_oc:0.5", "'wei:per_oc:0.5': per_oc has many numbers of its own; leave 0.5 out"),
        ("scales=wei:per_oc:f33", "'wei:per_oc:f33': 'f33': did you mean 'f32'?"),
        ("scales=wei:per_oc:f32:1y2", "'wei:per_oc:f32:1y2': '1y2': give numbers joined by x, as in 1x128"),
        ("scales=wei:per_oc:f32:1x2:3", "'wei:per_oc:f32:1x2:3': more than ARG:POLICY:NUMBER:DT:GROUPS is given; leave the rest out"),
        ("post-ops=dw:k3", "'dw:k3': 'k3': give kernel, stride and padding, as in dw:k3s1p1"),
        ("post-ops=dw", "'dw': its kernel, stride and padding are missing, as in dw:k3s1p1"),
        ("dropout=1.5", "give a share of 0 to 1"),
        ("rounding-mode=dst:stochastik", "did you mean 'stochastic'?"),
        ("precomputed-reductions=src:per_tensor:s32", "'src:per_tensor:s32': write ARG:POLICY:DT:GROUPS, as in src:per_tensor:s32:1x64"),
        ("scales=src:common", "'src:common': give a number after 'src:common:'"),
        ("scales=src", "'src': give a policy after 'src:', common or per_oc"),
        ("zero-points=src:common:half", "'src:common:half': give an integer after 'src:common:'"),
    ],
)
def test_what_cannot_be_read_is_refused(option: str, message: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(UsageError) as bad:
        problem("--matmul", f"--attr-{option}", "2x3:3x4")
    assert str(bad.value) == f"--attr-{name}: bad value '{value}'; {message}"


def test_a_mask_that_python_does_not_read_is_refused() -> None:
    with pytest.raises(UsageError, match="--attr-post-ops: bad value"):
        problem("--matmul", f"--attr-post-ops=add:f32:{'9' * 5000}", "2x3:3x4")


@pytest.mark.parametrize(
    ("policy", "shape"),
    [("common", (1, 1, 1)), ("per_oc", (1, 1, 4)), ("per_dim_01", (2, 3, 1)), ("per_tensor", (2, 3, 4)), ("5", (2, 1, 4))],
)
def test_policies_say_which_dims_count(policy: str, shape: tuple[int, ...]) -> None:
    assert A.masked(policy, (2, 3, 4), 2) == shape
