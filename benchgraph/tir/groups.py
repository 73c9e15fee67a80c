"""Dtypes that microkernels multiply, and how many elements along k their weights have in a group (VNNI layouts)."""

from __future__ import annotations

from typing import TypeAlias

from benchgraph.core.dtypes import DType

DTypes: TypeAlias = tuple[DType, DType, DType]  # of src, wei, acc

WIDENED = DType.bf16, DType.f16  # dtypes of wei that are converted to f32 when loaded, for src of f32

BYTES = DType.u8, DType.s8, DType.s32
SHORTS = DType.s16, DType.s16, DType.s32  # with values of bytes: the sum of two products fits s32

# (src, wei, acc) of a microkernel -> elements along k of one lane's dot product: 32 bits, except for weights converted when loaded.
GROUPS: dict[DTypes, int] = {
    (DType.f32, DType.f32, DType.f32): 1,
    (DType.bf16, DType.bf16, DType.f32): 2,
    BYTES: 4,
    SHORTS: 2,
    **{(DType.f32, wei, DType.f32): 1 for wei in WIDENED},
}


def is_widened(src: DType, wei: DType) -> bool:
    """Whether a microkernel of these dtypes converts wei to f32 when loading it, from an unpacked layout."""
    return src is DType.f32 and wei in WIDENED


# Dtype of packed wei -> elements along k in a group.
WEI_GROUPS = {wei: group for (src, wei, _), group in GROUPS.items() if not is_widened(src, wei)}

# Dtype of packed wei -> dtypes that it can be packed from; s32 sums are only transposed.
PACKED_FROM: dict[DType, frozenset[DType]] = {
    DType.f32: frozenset({DType.f32, DType.bf16, DType.f16, DType.f8_e4m3, DType.f8_e5m2}),
    DType.bf16: frozenset({DType.bf16, DType.f32, DType.f8_e4m3, DType.f8_e5m2}),
    DType.s8: frozenset({DType.s8, DType.u8}),
    DType.s16: frozenset({DType.s16, DType.s8, DType.u8}),
    DType.s32: frozenset({DType.s32}),
}

SIDE_BY_SIDE = 8  # rows of row-major weights that are read together. docs/measurements/on-the-fly-packing.md, Rows read together

# (src, dst) of transpositions that convert.
TRANSPOSED_TO = {(DType.s8, DType.u8)}
