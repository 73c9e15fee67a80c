"""post_ops: an anchor op with its bias and elementwise chain, as libraries of primitives fuse them.

    [Dequantize ─► TypeCast]  ─►  MatMul  ─►  [BiasAdd]  ─►  [pointwise]*  ─►  [TypeCast]  ─►  [Quantize]

The strong baseline of the Graph Compiler paper (docs/architecture.md, Baselines are partition policies): softmax, layout ops and the next
anchor are partitions of their own.
"""

from __future__ import annotations

from benchgraph.ops.spec import Role
from benchgraph.partition.rules.rule import Growth, Rule, follows_in_place, role_in, widens_operand

RULE = Rule(
    name="post_ops",
    growth=Growth.line,
    starts=role_in(Role.anchor),
    prepares=widens_operand,
    joins=follows_in_place,
    samples={
        "scaled and masked": """
            %4: f32[2,8,8] = MatMul#0(%0: f32[2,8,16], %1: f32[2,16,8])
            %5: f32[2,8,8] = Divide#1(%4, %2: f32[1])
            %6: f32[2,8,8] = Add#2(%5, %3: f32[2,1,8])
        """,
        "quantized": """
            %3: f32[8,16] = Dequantize#0(%0: u8[8,16]) {qtype="per_tensor", scales=[0.12], zps=[2]}
            %4: bf16[8,16] = TypeCast#1(%3)
            %5: f32[16,32] = Dequantize#2(%1: s8[16,32]) {qtype="per_tensor", scales=[0.12], zps=[0]}
            %6: bf16[16,32] = TypeCast#3(%5)
            %7: bf16[8,32] = MatMul#4(%4, %6)
            %8: bf16[8,32] = BiasAdd#5(%7, %2: bf16[32]) {data_format="NXC"}
            %9: bf16[8,32] = ReLU#6(%8)
            %10: f32[8,32] = TypeCast#7(%9)
            %11: u8[8,32] = Quantize#8(%10) {qtype="per_tensor", scales=[0.12], zps=[2]}
        """,
        "swish": """
            %2: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
            %3: f32[8,8] = Sigmoid#1(%2)
            %4: f32[8,8] = Multiply#2(%2, %3)
        """,
        "dropped": """
            %6: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
            %7: f32[8,8] = Add#1(%6, %2: f32[8])
            %8: f32[8,8] = Dropout#2(%7, %3: s64[] host_scalar, %4: s64[] host_scalar, %5: f32[] host_scalar)
        """,
        "pool": """
            %2: f32[2,4,4,8] = MaxPool#0(%0: f32[2,8,8,8]) {kernel=[2,2], pads_begin=[0,0], pads_end=[0,0], strides=[2,2]}
            %3: f32[2,4,4,8] = Add#1(%2, %1: f32[2,4,4,8])
            %4: f32[2,4,4,8] = ReLU#2(%3)
        """,
    },
    near_misses={
        "a row op needs whole rows of the running value": """
            %2: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
            %3: f32[8,8] = SoftMax#1(%2) {axis=-1}
        """,
        "a primitive with post-ops keeps no intermediate result": """
            graph engine=cpu fpmath=strict outputs=[2,3] {
              %2: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
              %3: f32[8,8] = ReLU#1(%2)
            }
        """,
        "one anchor to a partition": """
            %3: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
            %4: f32[8,8] = MatMul#1(%3, %2: f32[8,8])
        """,
    },
)
