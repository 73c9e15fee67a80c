"""What microkernels multiply, and how their weights lie: in groups of elements along k."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.core.dtypes import DType

DTypes: TypeAlias = tuple[DType, DType, DType]  # of src, wei, acc

# What a microkernel multiplies and sums, and how many elements along k one dot product of a lane takes: they fill 32 bits, but for weights
# that are widened as they are loaded.
GROUPS: dict[DTypes, int] = {
    (DType.f32, DType.f32, DType.f32): 1,
    (DType.bf16, DType.bf16, DType.f32): 2,
    (DType.u8, DType.s8, DType.s32): 4,
    (DType.f32, DType.bf16, DType.f32): 1,
    (DType.f32, DType.f16, DType.f32): 1,
}

# Of a wei's dtype that is packed for the microkernel, how many elements along k lie together.
WEI_GROUPS = {DType.f32: 1, DType.bf16: 2, DType.s8: 4}

# What is widened so.
WIDENED = frozenset(wei for src, wei, _ in GROUPS if src is DType.f32 and wei is not src)

# What may become wei of a dtype while it is packed; sums in s32 are only turned, from rows to columns.
PACKED_FROM: dict[DType, frozenset[DType]] = {
    DType.f32: frozenset({DType.f32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2}),
    DType.bf16: frozenset({DType.bf16, DType.f32, DType.f8_e4m3, DType.f8_e5m2}),
    DType.s8: frozenset({DType.s8, DType.u8}),
    DType.s32: frozenset({DType.s32}),
}

# What is turned into another dtype, beside each into itself.
TURNED = {(DType.s8, DType.u8)}
