"""Scales, zero points and post-ops: read as they are spelt, refused with the entry that is wrong."""

from __future__ import annotations

import pytest

from benchgraph.harness.argv import UsageError
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
        ("scales=src:per_oc", "'src:per_oc': per_oc is for wei, without a number"),
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


@pytest.mark.parametrize(
    ("policy", "shape"),
    [("common", (1, 1, 1)), ("per_oc", (1, 1, 4)), ("per_dim_01", (2, 3, 1)), ("per_tensor", (2, 3, 4)), ("5", (2, 1, 4))],
)
def test_policies_say_which_dims_count(policy: str, shape: tuple[int, ...]) -> None:
    assert A.masked(policy, (2, 3, 4), 2) == shape
