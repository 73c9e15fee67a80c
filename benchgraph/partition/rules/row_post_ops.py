"""row_post_ops: a softmax or reduction with its elementwise chain.

SoftMax | Reduce  ─►  [pointwise]*  ─►  [TypeCast]  ─►  [Quantize]
"""

from __future__ import annotations

from benchgraph.ops.spec import Role
from benchgraph.partition.rules.rule import Growth, Rule, follows_in_place, role_in

RULE = Rule(
    name="row_post_ops",
    growth=Growth.line,
    starts=role_in(Role.row),
    joins=follows_in_place,
    samples={
        "quantized softmax": """
            %1: bf16[4,8] = SoftMax#0(%0: bf16[4,8]) {axis=-1}
            %2: f32[4,8] = TypeCast#1(%1)
            %3: u8[4,8] = Quantize#2(%2) {qtype="per_tensor", scales=[0.12], zps=[0]}
        """,
    },
    near_misses={
        "nothing but casts of an anchor's operands joins from above": """
            %2: f32[4,8] = Add#0(%0: f32[4,8], %1: f32[4,8])
            %3: f32[4,8] = SoftMax#1(%2) {axis=-1}
        """,
    },
)
