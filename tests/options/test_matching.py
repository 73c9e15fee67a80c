"""Regular expressions that backtrack without end are an error of one line."""

from __future__ import annotations

import signal
import threading

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.errors import InvalidArguments
from benchgraph.options import matching
from benchgraph.options.matching import matches

ENDLESS = "(a+)+$"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "LIMIT_S", 0.05)


def test_the_power_and_size_of_the_test() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    assert matches("m.p", "--case=mlp.json")
    assert not matches("^m", "--case=mlp.json")
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_an_endless_expression_is_given_up() -> None:
    with pytest.raises(InvalidArguments, match=r"the regular expression '\(a\+\)\+\$' takes more than 0.05 s for one case; leave out"):
        matches(ENDLESS, "a" * 60 + "!")
    assert matches("a", "a")


def test_another_thread_matches_without_a_limit() -> None:
    found = list[bool]()
    thread = threading.Thread(target=lambda: found.append(matches("b", "abc")))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.parametrize("words", [[f"--match={ENDLESS}", "--graph", f"--case={'a' * 60}!.json"]])
def test_a_command_line_is_refused_in_one_line(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert done.output.startswith("benchgraph: --match: the regular expression '(a+)+$' takes more than 0.05 s for one case; ")
