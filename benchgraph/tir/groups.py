"""What microkernels multiply, and how their weights lie: in groups of elements along k."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.core.dtypes import DType

DTypes: TypeAlias = tuple[DType, DType, DType]  # of src, wei, acc

WIDENED = DType.bf16, DType.f16  # wei that becomes f32 as it is loaded, for src of f32

BYTES = DType.u8, DType.s8, DType.s32
WORDS = DType.s16, DType.s16, DType.s32  # that hold bytes: two neighbours' products never leave s32

# What a microkernel multiplies and sums, and how many elements along k one dot product of a lane takes: they fill 32 bits, but for weights
# that are widened as they are loaded.
GROUPS: dict[DTypes, int] = {
    (DType.f32, DType.f32, DType.f32): 1,
    (DType.bf16, DType.bf16, DType.f32): 2,
    BYTES: 4,
    WORDS: 2,
    **{(DType.f32, wei, DType.f32): 1 for wei in WIDENED},
}


def is_widened(src: DType, wei: DType) -> bool:
    """Whether a microkernel that multiplies these makes f32 of wei as it loads it, as it lies."""
    return src is DType.f32 and wei in WIDENED


# Of a wei's dtype that is packed for the microkernel, how many elements along k lie together.
WEI_GROUPS = {wei: group for (src, wei, _), group in GROUPS.items() if not is_widened(src, wei)}

# What may become wei of a dtype while it is packed; sums in s32 are only turned, from rows to columns.
PACKED_FROM: dict[DType, frozenset[DType]] = {
    DType.f32: frozenset({DType.f32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2}),
    DType.bf16: frozenset({DType.bf16, DType.f32, DType.f8_e4m3, DType.f8_e5m2}),
    DType.s8: frozenset({DType.s8, DType.u8}),
    DType.s16: frozenset({DType.s16, DType.s8, DType.u8}),
    DType.s32: frozenset({DType.s32}),
}

SIDE_BY_SIDE = 8  # rows of row-major weights that are read together. docs/measurements/on-the-fly-packing.md, Rows read together

# What is turned into another dtype, beside each into itself.
TRANSPOSED_TO = {(DType.s8, DType.u8)}
