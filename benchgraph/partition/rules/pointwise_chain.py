"""pointwise_chain: connected ops without an anchor op.

(pointwise | row | layout op | convert)  ─►  [pointwise | row | layout op | convert]*
"""

from __future__ import annotations

from benchgraph.ops.spec import Role
from benchgraph.partition.rules.rule import Rule, role_in

RULE = Rule(
    name="pointwise_chain",
    starts=role_in(Role.pointwise, Role.row, Role.layout_op),
    joins=role_in(Role.pointwise, Role.row, Role.layout_op),
    samples={
        "normalised": """
            %2: f32[4,8] = Add#0(%0: f32[4,8], %1: f32[4,8])
            %3: f32[4,1] = ReduceSum#1(%2) {axes=[-1], keep_dims=true}
            %4: f32[4,8] = Divide#2(%2, %3)
            %5: f32[4,8] = SoftMax#3(%4) {axis=-1}
        """,
        "shuffle": """
            %1: f32[2,3,2,4] = StaticReshape#0(%0: f32[2,6,4]) {shape=[2,3,2,4], special_zero=false}
            %2: f32[2,2,3,4] = StaticTranspose#1(%1) {order=[0,2,1,3]}
            %3: f32[2,6,4] = StaticReshape#2(%2) {shape=[2,6,4], special_zero=false}
        """,
        "requantized": """
            %1: f32[4,8] = Dequantize#0(%0: u8[4,8]) {qtype="per_tensor", scales=[0.5], zps=[1]}
            %2: f32[4,8] = Reorder#1(%1)
            %3: s8[4,8] = Quantize#2(%2) {qtype="per_tensor", scales=[0.25], zps=[0]}
        """,
        "concatenated": """
            %2: f32[4,8] = Dequantize#0(%0: u8[4,8]) {qtype="per_tensor", scales=[0.5], zps=[1]}
            %3: f32[4,3] = Dequantize#1(%1: u8[4,3]) {qtype="per_tensor", scales=[0.5], zps=[1]}
            %4: f32[4,11] = Concat#2(%2, %3) {axis=1}
            %5: u8[4,11] = Quantize#3(%4) {qtype="per_tensor", scales=[0.5], zps=[1]}
        """,
    },
    near_misses={
        "the anchor takes its operand along": """
            %2: f32[8,8] = ReLU#0(%0: f32[8,8])
            %3: f32[8,8] = MatMul#1(%2, %1: f32[8,8])
        """,
        "sharing an input is not data flow": """
            %1: f32[8,8] = ReLU#0(%0: f32[8,8])
            %2: f32[8,8] = Exp#1(%0)
        """,
    },
)
