"""pointwise_post_ops: a chain of elementwise ops on one running value.

pointwise  ─►  [pointwise]*
"""

from __future__ import annotations

from benchgraph.ops.spec import Role
from benchgraph.partition.rules.rule import Growth, Rule, follows_in_place, role_in

RULE = Rule(
    name="pointwise_post_ops",
    growth=Growth.line,
    starts=role_in(Role.pointwise),
    joins=follows_in_place,
    samples={
        "chain": """
            %3: f32[4,8] = Subtract#0(%0: f32[4,8], %1: f32[4,8])
            %4: f32[4,8] = ReLU#1(%3)
            %5: f32[4,8] = Multiply#2(%4, %2: f32[1,8])
        """,
    },
    near_misses={
        "there is one running value; the other branch is an operand from outside": """
            %2: f32[4,8] = ReLU#0(%0: f32[4,8])
            %3: f32[4,8] = Exp#1(%1: f32[4,8])
            %4: f32[4,8] = Add#2(%2, %3)
        """,
    },
)
