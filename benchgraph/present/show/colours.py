"""Colours readable on light and dark backgrounds: light boxes with dark text, mid-grey lines and labels."""

from __future__ import annotations

LINE = "#808890"  # about 4:1 against white and against black
INK = "#111111"
PARTITIONS = ("#a6cee3", "#fdd49e", "#b8e0b0", "#e0c3ec", "#f7b6b2", "#f3eca0", "#b3e2da", "#d9d2c5")


def colour(partition: int) -> str:
    """The colour of a partition's boxes; repeats after eight, where the number in the label distinguishes them."""
    return PARTITIONS[partition % len(PARTITIONS)]
