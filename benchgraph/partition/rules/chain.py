"""chain: all ops connected to an anchor op by data flow.

    [convert | pointwise | layout op]*  ─►  MatMul  ─►  [pointwise | row | layout op | convert | MatMul]*
                                              └─►  values that other partitions read are extra outputs

Attention, MLPs and gated MLPs are one partition each. The compiler decides which ops share a loop nest, so only convexity, a cycle with
another partition, or an unsupported op ends the growth.
"""

from __future__ import annotations

from benchgraph.ops.spec import Role
from benchgraph.partition.rules.rule import Rule, role_in

RULE = Rule(
    name="chain",
    starts=role_in(Role.anchor),
    joins=role_in(Role.anchor, Role.pointwise, Role.row, Role.layout_op),
    samples={
        "attention": """
            %5: f32[2,4,8,8] = MatMul#0(%0: f32[2,4,8,16], %1: f32[2,4,8,16]) {transpose_b=true}
            %6: f32[2,4,8,8] = Divide#1(%5, %2: f32[1])
            %7: f32[2,4,8,8] = Add#2(%6, %3: f32[2,1,1,8])
            %8: f32[2,4,8,8] = SoftMax#3(%7) {axis=-1}
            %9: f32[2,4,8,16] = MatMul#4(%8, %4: f32[2,4,8,16])
            %10: f32[2,8,4,16] = StaticTranspose#5(%9) {order=[0,2,1,3]}
            %11: f32[2,8,4,16] = Reorder#6(%10)
        """,
        "causal attention": """
            %6: f32[2,4,8,8] = MatMul#0(%0: f32[2,4,8,16], %1: f32[2,4,16,8])
            %7: s32[2,4,8,8] = GenIndex#1(%6) {axis=-2}
            %8: s32[2,4,8,8] = Add#2(%7, %2: s32[] host_scalar)
            %9: s32[2,4,8,8] = Subtract#3(%8, %3: s32[] host_scalar)
            %10: s32[2,4,8,8] = GenIndex#4(%6) {axis=-1}
            %11: boolean[2,4,8,8] = GreaterEqual#5(%9, %10)
            %12: f32[2,4,8,8] = Select#6(%11, %6, %4: f32[1])
            %13: f32[2,4,8,8] = SoftMax#7(%12) {axis=-1}
            %14: f32[2,4,8,16] = MatMul#8(%13, %5: f32[2,4,8,16])
        """,
        "attention with dropout": """
            %6: f32[2,4,8,8] = MatMul#0(%0: f32[2,4,8,16], %1: f32[2,4,16,8])
            %7: f32[2,4,8,8] = SoftMax#1(%6) {axis=-1}
            %8: f32[2,4,8,8] = Dropout#2(%7, %2: s64[] host_scalar, %3: s64[] host_scalar, %4: f32[] host_scalar)
            %9: f32[2,4,8,16] = MatMul#3(%8, %5: f32[2,4,8,16])
        """,
        "gated mlp": """
            %4: f32[8,32] = MatMul#0(%0: f32[8,16], %1: f32[16,32])
            %5: f32[8,32] = Sigmoid#1(%4)
            %6: f32[8,32] = Multiply#2(%4, %5)
            %7: f32[8,32] = MatMul#3(%0, %2: f32[16,32])
            %8: f32[8,32] = Multiply#4(%6, %7)
            %9: f32[8,16] = MatMul#5(%8, %3: f32[32,16])
        """,
        "quantized layers": """
            %4: f32[8,16] = Dequantize#0(%0: u8[8,16]) {qtype="per_tensor", scales=[0.12], zps=[2]}
            %5: f32[16,32] = Dequantize#1(%1: s8[16,32]) {qtype="per_tensor", scales=[0.12], zps=[0]}
            %6: f32[8,32] = MatMul#2(%4, %5, %2: f32[32])
            %7: f32[8,32] = ReLU#3(%6)
            %8: u8[8,32] = Quantize#4(%7) {qtype="per_tensor", scales=[0.12], zps=[2]}
            %9: f32[8,32] = Dequantize#5(%8) {qtype="per_tensor", scales=[0.12], zps=[2]}
            %10: f32[32,8] = Dequantize#6(%3: s8[32,8]) {qtype="per_tensor", scales=[0.12], zps=[0]}
            %11: f32[8,8] = MatMul#7(%9, %10)
        """,
        "grouped queries": """
            %3: f32[2,2,2,8,16] = StaticReshape#0(%0: f32[2,4,8,16]) {shape=[2,2,2,8,16], special_zero=false}
            %4: f32[2,2,1,8,16] = StaticReshape#1(%1: f32[2,2,8,16]) {shape=[2,2,1,8,16], special_zero=false}
            %5: f32[2,2,2,8,8] = MatMul#2(%3, %4) {transpose_b=true}
            %6: f32[2,2,2,8,8] = SoftMax#3(%5) {axis=-1}
            %7: f32[2,2,1,8,16] = StaticReshape#4(%2: f32[2,2,8,16]) {shape=[2,2,1,8,16], special_zero=false}
            %8: f32[2,2,2,8,16] = MatMul#5(%6, %7)
            %9: f32[2,4,8,16] = StaticReshape#6(%8) {shape=[2,4,8,16], special_zero=false}
        """,
        "heads side by side": """
            %4: f32[8,16] = MatMul#0(%0: f32[8,8], %1: f32[8,16])
            %5: f32[8,16] = MatMul#1(%0, %2: f32[8,16])
            %6: f32[8,32] = Concat#2(%4, %5) {axis=-1}
            %7: f32[8,8] = MatMul#3(%6, %3: f32[32,8])
        """,
        "four bit weights": """
            %10: f16[16,32] = DynamicDequantize#0(%1: u4[16,32], %2: f16[2,32], %3: u4[2,32]) {qtype="per_group", group_shape=[8,1]}
            %11: f16[8,32] = MatMul#1(%0: f16[8,16], %10)
            %12: f16[8,32] = Sigmoid#2(%11)
            %13: f16[8,32] = Multiply#3(%11, %12)
            %14: f16[32,16] = DynamicDequantize#4(%4: s4[32,16], %5: f16[32,2], %6: s8[32,2]) {qtype="per_group", group_shape=[1,8]}
            %15: f16[8,16] = MatMul#5(%13, %14)
        """,
        "compressed keys and values": """
    %10: f32[2,4,8,16] = DynamicDequantize#0(%1: s4[2,4,8,16], %2: f32[2,4,8,2], %3: s4[2,4,8,2]) {qtype="per_group", group_shape=[1,1,1,8]}
    %11: f32[2,4,8,8] = MatMul#1(%0: f32[2,4,8,16], %10) {transpose_b=true}
    %12: f32[2,4,8,8] = SoftMax#2(%11) {axis=-1}
    %13: f32[2,4,8,16] = DynamicDequantize#3(%4: u4[2,4,8,16], %5: f32[2,4,8,2], %6: u4[2,4,8,2]) {qtype="per_group", group_shape=[1,1,1,8]}
    %14: f32[2,4,8,16] = MatMul#4(%12, %13)
        """,
        "interior value leaves": """
            graph engine=cpu fpmath=strict outputs=[4,5] {
              %3: f32[4,8] = MatMul#0(%0: f32[4,8], %1: f32[8,8])
              %4: f32[4,8] = ReLU#1(%3)
              %5: f32[4,4] = MatMul#2(%4, %2: f32[8,4])
            }
        """,
    },
    near_misses={
        "the Add waits for an op that cannot be computed here, which waits for the MatMul": """
            %2: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
            %3: f32[8,8] = Wildcard#1(%2)
            %4: f32[8,8] = Add#2(%2, %3)
        """,
        "sharing an input is not data flow": """
            %3: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
            %4: f32[8,8] = MatMul#1(%0, %2: f32[8,8])
        """,
        "there is no anchor to start from": """
            %2: f32[8,8] = Add#0(%0: f32[8,8], %1: f32[8,8])
            %3: f32[8,8] = ReLU#1(%2)
        """,
    },
)
