"""The partition rules, one per file; their order in RULES is their priority.

rule.py                what a rule is, and the conditions on ops that rules use
chain.py               an anchor op with all ops connected to it by data flow
pointwise_chain.py     connected ops without an anchor op
post_ops.py            an anchor op with its bias and elementwise chain
row_post_ops.py        a softmax or reduction with its elementwise chain
pointwise_post_ops.py  a chain of elementwise ops on one running value
single.py              one op
"""

from __future__ import annotations

from benchgraph.partition.ir import Policy
from benchgraph.partition.rules import chain, pointwise_chain, pointwise_post_ops, post_ops, row_post_ops, single
from benchgraph.partition.rules.rule import Growth, Rule

__all__ = ["RULES", "Growth", "Rule"]

RULES: dict[Policy, tuple[Rule, ...]] = {
    Policy.fused: (chain.RULE, pointwise_chain.RULE, single.RULE),
    Policy.post_ops: (post_ops.RULE, row_post_ops.RULE, pointwise_post_ops.RULE, single.RULE),
    Policy.one_op_each: (single.RULE,),
}
