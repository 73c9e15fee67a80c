"""Descriptors that are shapes: what is printed is read again, and what cannot be read is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drivers.problems import shared

S = shared("shapes")
NAMES = st.text(st.sampled_from("abcnxyz0129_:-."), max_size=12).map(lambda s: s.strip('"'))
PROBLEMS = st.builds(S.Shapes, st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=12).map(tuple), min_size=1).map(tuple), NAMES)


@given(PROBLEMS)
def test_what_is_printed_is_read_again(problem: object) -> None:
    assert S.parse_shapes(str(problem), 1, 10**6, "2x3") == problem


def test_more_tensors_than_one_are_refused_where_one_is_needed() -> None:
    with pytest.raises(ValueError, match=r"^2 tensors are given where 1 is needed, as in 8x64$"):
        S.parse_shapes("2x3:3x2", 1, 1, "8x64")


@pytest.mark.parametrize("text", ["2x3:3x4n1st", "2x3:3x4_n1st", '2x3:3x4n"1st"', '2x3:3x4_n"1st"'])
def test_names_may_be_quoted_and_set_off(text: str) -> None:
    assert S.parse_shapes(text, 2, 2, "2x3:3x4") == S.Shapes(((2, 3), (3, 4)), "1st")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 1: a size is missing; write sizes as in 2x3:3x4"),
        ("2x3", "1 tensor is given where 2 to 3 are needed; join them by ':', as in 2x3:3x4"),
        ("2:3:4:5", "4 tensors are given where 2 to 3 are needed; join them by ':', as in 2x3:3x4"),
        ("2x3:3y4", "at character 6: 'y' is no digit; join sizes by 'x' and tensors by ':', as in 2x3:3x4"),
        ("2x-3:3x4", "at character 3: '-' is no digit; join sizes by 'x' and tensors by ':', as in 2x3:3x4"),
        ("2xx3:3x4", "at character 3: a size is missing; write sizes as in 2x3:3x4"),
        ("2x3::3x4", "at character 5: a size is missing; write sizes as in 2x3:3x4"),
        ("2x3:3x", "at character 7: a size is missing; write sizes as in 2x3:3x4"),
        ("2x3:3x4_n", "at character 9: the name after 'n' is empty; write 2x3:3x4_nNAME, or leave the n out"),
        ("2x3:" + "x".join("1" * 13), "at character 5: 13 sizes; oneDNN allows 12"),
        ("2x٣:3x4", "at character 3: '٣' is no digit; join sizes by 'x' and tensors by ':', as in 2x3:3x4"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, message: str) -> None:
    with pytest.raises(ValueError) as bad:
        S.parse_shapes(text, 2, 3, "2x3:3x4")
    assert str(bad.value) == message


def test_the_batch_is_replaced_where_it_is() -> None:
    both, one = S.Shapes(((2, 3), (2, 4))), S.Shapes(((2, 3), (1, 3)))
    assert str(both.with_mb(7)) == "7x3:7x4"
    assert str(one.with_mb(7)) == "7x3:1x3"
    assert both.with_mb(0) is both
