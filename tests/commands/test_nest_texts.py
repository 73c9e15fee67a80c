"""Equal texts of nests have equal spaces, so that a row of a tuning file that one case has found is legal in every other."""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchgraph.candidates import candidates
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions

WAYS = ("plain", "softmax", "first_softmax", "other_rank", "relu_before", "transposed", "two", "two_softmax")


def graph(way: str, *, constant: bool) -> Graph:
    """A product of 24 rows, 64 terms and 96 columns."""
    b = GraphBuilder()
    x = b.input((1, 24, 64) if way == "other_rank" else (24, 64))
    transposed = way == "transposed"
    shape = (96, 64) if transposed else (64, 96)
    w = b.constant(shape) if constant else b.input(shape)
    x = b.op("ReLU", x) if way == "relu_before" else b.op("SoftMax", x, axis=1) if way == "first_softmax" else x
    y = b.op("MatMul", x, w, transpose_b=transposed)
    if way.startswith("two"):
        y = b.op("MatMul", b.op("SoftMax", y, axis=1) if way == "two_softmax" else b.op("ReLU", y), b.constant((96, 64)))
    b.op("SoftMax", y, axis=1) if way == "softmax" else b.op("ReLU", y)
    return b.graph()


@pytest.mark.parametrize("policy", [Policy.fused, Policy.post_ops])
def test_equal_texts_have_equal_spaces(policy: Policy) -> None:
    spaces = defaultdict[str, set[frozenset[str]]](set)
    for way in WAYS:
        for constant in (False, True):
            for p in partitions(graph(way, constant=constant), policy):
                for each in candidates(p):
                    spaces[each.nest].add(frozenset(forced.schedule for forced in each.legal))
    assert len([text for text in spaces if ":" in text.split()[0]]) > 5
    assert {text: len(found) for text, found in spaces.items() if len(found) > 1} == {}
