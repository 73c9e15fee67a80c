"""The partition rules, one per file; their order in RULES is their priority."""

from __future__ import annotations

from benchgraph.partition.ir import Policy
from benchgraph.partition.rules import chain, pointwise_chain, pointwise_post_ops, post_ops, row_post_ops, single
from benchgraph.partition.rules.rule import Growth, NearMiss, Rule

__all__ = ["RULES", "Growth", "NearMiss", "Rule"]

RULES: dict[Policy, tuple[Rule, ...]] = {
    Policy.fused: (chain.RULE, pointwise_chain.RULE, single.RULE),
    Policy.post_ops: (post_ops.RULE, row_post_ops.RULE, pointwise_post_ops.RULE, single.RULE),
    Policy.one_op_each: (single.RULE,),
}
