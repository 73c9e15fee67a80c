"""single: one op.

op
"""

from __future__ import annotations

from benchgraph.partition.rules.rule import Rule

RULE = Rule(
    name="single",
    starts=lambda op: True,
    joins=lambda op: False,
    samples={
        "one": """
            %1: f32[4,8] = StaticReshape#0(%0: f32[4,8]) {shape=[4,8], special_zero=false}
        """,
    },
)
