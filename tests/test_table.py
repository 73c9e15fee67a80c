"""What tests with many cases rely on: all of them run, and those that are wrong are named."""

from __future__ import annotations

import pytest

from tests.support.table import all_hold, by_row


def odd(n: int) -> None:
    assert n % 2, f"{n} is even"


def test_every_case_is_tried_and_the_wrong_ones_are_named() -> None:
    seen = []

    def check(n: int) -> None:
        seen.append(n)
        odd(n)

    with pytest.raises(ExceptionGroup, match="2 of 4 cases are wrong: two, four") as wrong:
        all_hold(check, {"one": (1,), "two": (2,), "three": (3,), "four": (4,)})
    assert seen == [1, 2, 3, 4]
    assert [str(e).partition("\n")[0] for e in wrong.value.exceptions] == ["2 is even", "4 is even"]
    assert [e.__notes__ for e in wrong.value.exceptions] == [["case: two"], ["case: four"]]


def test_one_wrong_case_is_raised_as_it_is() -> None:
    with pytest.raises(AssertionError, match="2 is even") as wrong:
        all_hold(odd, {"one": (1,), "two": (2,)})
    assert wrong.value.__notes__ == ["case: two"]


def test_no_case_and_two_of_one_name_prove_nothing() -> None:
    with pytest.raises(AssertionError, match="no case"):
        all_hold(odd, {})
    with pytest.raises(AssertionError, match="two cases are called a"):
        by_row([("x", "a", (1,)), ("x", "a", (3,))])


@by_row([("x", "a", (1,)), ("x", "b", (3,)), ("y", "a", (5,))])
def test_a_table_is_a_test_per_row(n: int) -> None:
    """The name and the docstring are the check's."""
    odd(n)


def test_a_row_fails_with_its_cases() -> None:
    test = by_row([("x", "a", (1,)), ("y", "b", (2,))])(odd)
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    assert list(mark.args[1]) == ["x", "y"]
    test("x")
    with pytest.raises(AssertionError, match="2 is even"):
        test("y")
