"""Displacement: inputs that need other data than their consumer's strategy. benchdnn's eight rules and three of our own, by data flow and
properties of rows.

rule.py                  the result of a rule, and helpers to traverse a graph
compressed_attention.py  keys and values in few bits: small integers
gated.py                 the activation read by both products of a gated MLP: tiny and sparse
statistics.py            softmax's statistics for its gradient: computed from the scores
bottom_right.py          lengths in a causal mask aligned at its end: those of the scores
causal_mask.py           a mask added to scores: -inf above the diagonal, and a row of only -inf
implicit_mask.py         a mask that selects scores: -inf elsewhere
quantised_scores.py      queries and keys before a Dequantize, with quantised probabilities: scores several units apart (ours)
quantised.py             operands before a Dequantize: integer test data of the op after it
factors.py               factors of computed values: of moderate size
scores.py                queries and keys: scores a few units apart (ours)
smaller.py               operands of a Minimum whose result is used further: mostly positive (ours)

The first rule that claims a tensor applies. benchdnn applies them to each partition; here they follow the data flow of the whole graph.
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
    compressed_attention, gated, statistics, bottom_right, causal_mask, implicit_mask, quantised_scores, quantised, factors, scores,
    smaller,
)  # fmt: skip
RULES: dict[str, Rule] = {module.__name__.rpartition(".")[2]: module.find for module in _IN_ORDER}


def displaced(graph: Graph) -> dict[int, tuple[str, Displaced]]:
    """Tensor id -> (rule, its decision), for the graph's inputs that a rule claims."""
    decisions: dict[int, tuple[str, Displaced]] = {}
    inputs = {t.id for t in graph.inputs}
    for name, rule in RULES.items():
        for decision in rule(graph):
            if decision.tensor in inputs:
                decisions.setdefault(decision.tensor, (name, decision))
    return decisions
