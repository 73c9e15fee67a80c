"""The check of commit subjects that pre-commit runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("subject", Path(__file__).parents[1] / ".ci" / "subject.py")
assert SPEC is not None
assert SPEC.loader is not None
subject = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(subject)


@pytest.mark.parametrize(
    "good", ["gir: fold constants of one element", "docs: describe histories", "tests: move builders (NFC)", "Revert x"]
)
def test_a_good_subject_passes(good: str) -> None:
    assert subject.fault(good) == ""


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("fold constants", "must begin with one package"),
        ("gir, tir: fold constants", "must begin with one package"),
        ("kitchen: fold constants", "must begin with one package"),
        ("gir: fold constants.", "without a full stop"),
        ("gir: added a pass", "write the imperative: 'add', not 'added'"),
        ("gir: " + "x" * 68, "73 characters, 72 at most"),
    ],
)
def test_a_bad_subject_is_refused_with_the_remedy(bad: str, said: str) -> None:
    assert said in subject.fault(bad)
