"""Inputs that need other data than their consumer's strategy: benchdnn's eight displacement rules and three of our own, by data flow and
properties of rows.

rule.py                  what a rule returns, and how it looks at a graph
compressed_attention.py  keys and values in few bits: small integers
gated.py                 the activation that both products of a gated multilayer perceptron read: tiny and sparse
statistics.py            what softmax kept for its gradient: computed from the scores
bottom_right.py          lengths in a causal mask that is aligned at its end: the lengths of the scores
causal_mask.py           a mask that is added to scores: -inf above the diagonal, and a row of nothing but -inf
implicit_mask.py         a mask that scores are selected by: -inf where they are not
quantised_scores.py      queries and keys behind a Dequantize, where probabilities are quantised: scores several units apart (ours)
quantised.py             operands behind a Dequantize: the integers that the op behind it is tested on
factors.py               operands beside a computed one: numbers that neither blow it up nor make it vanish
scores.py                queries and keys: scores a few units apart (ours)
smaller.py               operands of a Minimum that more is computed with: mostly positive (ours)

The first rule that claims a tensor has it. benchdnn applies them partition by partition; here data flows through the whole graph, and so
do the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchgraph.graph.ir import Graph
from benchgraph.reference.displace import (
    bottom_right,
    causal_mask,
    compressed_attention,
    factors,
    gated,
    implicit_mask,
    quantised,
    quantised_scores,
    scores,
    smaller,
    statistics,
)
from benchgraph.reference.displace.rule import Displaced

Rule = Callable[[Graph], Iterator[Displaced]]
_IN_ORDER = (
    compressed_attention,
    gated,
    statistics,
    bottom_right,
    causal_mask,
    implicit_mask,
    quantised_scores,
    quantised,
    factors,
    scores,
    smaller,
)
RULES: dict[str, Rule] = {module.__name__.rpartition(".")[2]: module.find for module in _IN_ORDER}


def displaced(graph: Graph) -> dict[int, tuple[str, Displaced]]:
    """Tensor id -> (rule, what it decided), for the graph's inputs that a rule claims."""
    found: dict[int, tuple[str, Displaced]] = {}
    inputs = {t.id for t in graph.inputs}
    for name, rule in RULES.items():
        for decision in rule(graph):
            if decision.tensor in inputs:
                found.setdefault(decision.tensor, (name, decision))
    return found
