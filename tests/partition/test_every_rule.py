from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from benchgraph.graph.check import validate
from benchgraph.graph.text import parse_graph
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.partition.rules import RULES, Rule
from benchgraph.partition.rules import __path__ as rule_folder

CASES = [pytest.param(policy, rule, id=f"{policy.value}-{rule.name}") for policy, rules in RULES.items() for rule in rules]
# what is left to `single` differs by policy: under `fused`, only ops that may join nothing
SAMPLES = [
    pytest.param(p, r, s, id=f"{p.value}-{r.name}-{name}")
    for p, rules in RULES.items()
    for r in rules
    for name, s in r.samples.items()
    if (p.value, r.name) != ("fused", "single")
]
MISSES = [
    pytest.param(p, r, text, why, id=f"{p.value}-{r.name}-{n}")
    for p, rules in RULES.items()
    for r in rules
    for n, (why, text) in enumerate(r.near_misses.items())
]


def kinds(text: str, policy: Policy) -> list[str]:
    """The kinds of the partitions of a graph. Raises the errors of `validate`."""
    full = text if text.strip().startswith("graph") else f"graph engine=cpu fpmath=strict {{{text}}}"
    return [p.kind for p in partitions(validate(parse_graph(full)), policy)]


@pytest.mark.parametrize(("policy", "rule", "text"), SAMPLES)
def test_a_sample_is_exactly_one_partition_of_its_rule(policy: Policy, rule: Rule, text: str) -> None:
    assert kinds(text, policy) == [rule.name]


@pytest.mark.parametrize(("policy", "rule", "text", "why"), MISSES)
def test_a_near_miss_is_not_one_partition_of_its_rule(policy: Policy, rule: Rule, text: str, why: str) -> None:
    assert kinds(text, policy) != [rule.name], why


@pytest.mark.parametrize(("policy", "rule"), CASES)
def test_a_rule_is_named_after_its_file_and_drawn_in_its_docstring(policy: Policy, rule: Rule) -> None:
    module = importlib.import_module(f"benchgraph.partition.rules.{rule.name}")
    assert module.RULE is rule
    assert (module.__doc__ or "").startswith(f"{rule.name}: ")
    assert rule.samples


def test_every_rule_file_is_used() -> None:
    stems = {path.stem for path in Path(rule_folder[0]).glob("*.py")} - {"__init__", "rule"}
    assert stems == {rule.name for rules in RULES.values() for rule in rules}


@pytest.mark.parametrize("policy", Policy)
def test_the_last_rule_takes_all_ops_left(policy: Policy) -> None:
    assert RULES[policy][-1].name == "single"
