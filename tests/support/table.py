"""Many small cases in one test: pytest takes a few milliseconds per test, more than most of these cases do.

Every case is tried, whatever became of those before it, and the failure names each that is wrong, with its traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

Check = Callable[..., None]


def all_hold(check: Callable[..., object], cases: Mapping[str, tuple[object, ...]]) -> None:
    """check(*arguments) for every case, by name. Raises what it raised, with a note of the case, or a group of these.

    No case at all is a mistake too.
    """
    assert cases, "no case"
    wrong = []
    for name, arguments in cases.items():
        try:
            check(*arguments)
        except Exception as error:
            error.add_note(f"case: {name}")
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} of {len(cases)} cases are wrong: {', '.join(e.__notes__[-1][6:] for e in wrong)}", wrong)


def by_row(cases: Iterable[tuple[str, str, tuple[object, ...]]]) -> Callable[[Check], Check]:
    """Decorator: the test of a case becomes one per row, of all its cases. cases: (row, case, arguments) each."""
    rows: dict[str, dict[str, tuple[object, ...]]] = {}
    for row, case, arguments in cases:
        of_row = rows.setdefault(row, {})
        assert case not in of_row, f"two cases are called {case}"
        of_row[case] = arguments

    def decorate(check: Check) -> Check:
        @pytest.mark.parametrize("row", rows)
        def test(row: str) -> None:
            all_hold(check, rows[row])

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate
