"""A selection of the combinations of a test's parameters.

`@pytest.mark.covering(2)` above several `parametrize` keeps so many combinations that every two values of different parameters are
together in one of them; covering(1), that every value is in one. `--exhaustive` keeps all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest

Values = tuple[tuple[int, str], ...]  # the ids of the values of a case, each with the number of its `parametrize`


def covering(cases: Sequence[Values], strength: int) -> list[Values]:
    """The cases that are chosen, one after the other: the one with the most new tuples of values, then with the least used values."""
    tuples = {case: set(combinations(case, min(strength, len(case)))) for case in cases}
    missing, uses, chosen = set[Values]().union(*tuples.values()), Counter[tuple[int, str]](), list[Values]()
    while missing:
        best = max(cases, key=lambda case: (len(tuples[case] & missing), -sum(uses[value] for value in case)))
        chosen.append(best)
        missing -= tuples[best]
        uses.update(best)
    return chosen


def left_out_combinations(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The items of tests that are marked `covering` whose combinations are not chosen."""
    tests: dict[tuple[int, str], dict[Values, pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and (marker := item.get_closest_marker("covering")) is not None:
            test = tests.setdefault((*marker.args, item.nodeid.partition("[")[0]), {})
            test[tuple(enumerate(item.callspec._idlist))] = item
    left_out = set[pytest.Item]()
    for (strength, _), test in tests.items():
        chosen = covering(list(test), strength)
        left_out |= {item for case, item in test.items() if case not in chosen}
    return left_out
