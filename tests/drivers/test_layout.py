"""Tags say in which order the dims lie in memory."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import dense_strides
from benchgraph.options.problem import CannotExpress
from tests.drivers.problems import shared

L = shared("layout")
SHAPE = (2, 3, 5, 7)


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=lambda order: "".join("abcd"[i] for i in order))
def test_a_tag_lays_the_dims_out_outermost_first(order: tuple[int, ...]) -> None:
    tag = "".join("abcd"[i] for i in order)
    stored = np.zeros([SHAPE[i] for i in order], np.int8).transpose(np.argsort(order))
    assert L.strides_of(L.check_tag(tag), SHAPE, "--stag") == stored.strides


@pytest.mark.parametrize(
    ("tag", "same"),
    [
        ("nchw", "abcd"),
        ("nhwc", "acdb"),
        ("oihw", "abcd"),
        ("hwio", "cdba"),
        ("abx", "abcd"),
        ("axb", "acdb"),
        ("xba", "cdba"),
        ("aby", "abdc"),
    ],
)
def test_tags_have_other_names(tag: str, same: str) -> None:
    assert L.strides_of(L.check_tag(tag), SHAPE, "") == L.strides_of(same, SHAPE, "")


@pytest.mark.parametrize(("tag", "shape"), [("goihw", (4, 1, 2, 3, 3)), ("ncdhw", (2, 3, 4, 5, 6)), ("ncw", (2, 3, 4)), ("nc", (2, 3))])
def test_named_tags_are_for_their_rank(tag: str, shape: tuple[int, ...]) -> None:
    assert L.strides_of(L.check_tag(tag), shape, "") == dense_strides(shape)


@pytest.mark.parametrize("rank", range(1, 7))
def test_meta_tags_and_any_fit_every_rank(rank: int) -> None:
    shape = tuple(range(2, 2 + rank))
    for tag in ("any", "undef", "abx"):
        assert L.strides_of(tag, shape, "") == dense_strides(shape)
    assert L.strides_of("axb", shape, "")[:2] == (prod(shape[1:]), 1)[:rank]
    assert L.strides_of("xba", shape, "")[:2] == (1, shape[0])[:rank]


def test_sizes_of_0_count_as_1() -> None:
    assert L.strides_of("ba", (3, 0), "") == (1, 3)


@pytest.mark.parametrize("tag", ["", "abab", "abz", "qrs", "bcd", "axby", "anhw"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="give a tag such as abcd"):
        L.check_tag(tag)


def test_a_tag_of_another_rank_is_refused() -> None:
    with pytest.raises(InvalidArguments) as bad:
        L.strides_of("abc", SHAPE, "--stag")
    assert str(bad.value) == "--stag=abc: a tag of 3 dims for a tensor of 4, 2x3x5x7; name 4 dims, or use abx or axb, which fit every rank"


def test_blocked_layouts_cannot_be_said() -> None:
    with pytest.raises(CannotExpress, match="--stag=aBcd16b: a blocked layout: oneDNN Graph's tensors have strides alone"):
        L.strides_of(L.check_tag("aBcd16b"), SHAPE, "--stag")
