"""Which workers a run may use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.errors import UsageError
from benchgraph.fleet.selection import mismatch, picks, refusal_of_code, refusal_of_where
from benchgraph.options.argv import parse
from tests.support.fake_fleet import answer, facts


def asked(text: str) -> tuple[tuple[str, str], ...]:
    return parse([f"--where={text}", "--mode=L", "--graph", "--case=op/relu.json"]).globals.where


@pytest.mark.parametrize(
    ("text", "is_picked"),
    [
        ("isa=avx512_core_bf16", True),
        ("isa=avx2", True),
        ("isa=avx512_core_amx", False),
        ("isa=avx2_vnni", False),
        ("cpu=epyc", True),
        ("cpu=Xeon", False),
        ("cores=4", True),
        ("cores=5", False),
        ("memory=8", True),
        ("memory=9", False),
        ("host=a", True),
        ("host=b", False),
        ("numpy=2.1", True),
        ("numpy=2.1.3", True),
        ("numpy=2", True),
        ("numpy=2.10", False),
        ("onednn=3.2", False),
        ("isa=avx2,cpu=EPYC,cores=2", True),
        ("isa=avx2,cpu=Xeon", False),
    ],
)
def test_where_picks_by_what_workers_advertise(text: str, is_picked: bool) -> None:
    assert picks(asked(text), facts("a")) is is_picked


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("isa=sse", "the levels are avx512_core_amx,"),
        ("isa=avx3", "did you mean 'avx2'?"),
        ("epyc", "give NAME=VALUE"),
        ("cores=many", "give a whole number: cores=8"),
        ("cpu=", "give NAME=VALUE"),
    ],
)
def test_what_where_does_not_take(text: str, fix: str) -> None:
    with pytest.raises(UsageError) as refused:
        asked(text)
    assert fix in refused.value.line


def test_where_nobody_is_so_the_error_lists_who_there_is() -> None:
    bad = refusal_of_where((("cpu", "Xeon"),), [facts("a"), facts("b", cores=8), facts("a")])
    assert bad.line == (
        "--where=cpu=Xeon: no worker is so; there are: "
        "[host=a cpu='AMD EPYC 9354' isa=avx512_core_bf16 cores=4 memory=8 numpy=2.1.3], "
        "[host=b cpu='AMD EPYC 9354' isa=avx512_core_bf16 cores=8 memory=8 numpy=2.1.3]; ask for one of these"
    )


def test_workers_of_the_same_code_match() -> None:
    assert mismatch(answer(facts("a"))) == ""


def test_other_code_is_refused_with_the_remedy() -> None:
    protocol = mismatch(answer(replace(facts("a"), protocol=0)))
    version = mismatch(answer(replace(facts("a"), version="0.0.1")))
    code = mismatch(answer(replace(facts("a"), source="0123")))
    assert protocol.startswith("the protocol is 0 there, ")
    assert version.startswith("benchgraph is 0.0.1 there, ")
    assert code.startswith("its source is 0123 there, ")
    line = refusal_of_code([("tcp://a:1", version)]).line
    assert line.startswith("--cluster: other code on workers: tcp://a:1: benchgraph is 0.0.1 there")
    assert "install this benchgraph (" in line


def test_an_answer_of_a_later_version_can_be_read_as_far_as_that() -> None:
    assert mismatch({"protocol": 99, "something": "new"}).startswith("the protocol is 99 there")
