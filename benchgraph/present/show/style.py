"""Colours that read on light and on dark ground: boxes are light with dark text, lines and what stands on the ground are mid-grey."""

from __future__ import annotations

LINE = "#808890"  # about 4:1 against white and against black
INK = "#111111"
PARTITIONS = ("#a6cee3", "#fdd49e", "#b8e0b0", "#e0c3ec", "#f7b6b2", "#f3eca0", "#b3e2da", "#d9d2c5")


def colour(partition: int) -> str:
    """Of a partition's boxes; they come again after eight, and the number in the label tells them apart."""
    return PARTITIONS[partition % len(PARTITIONS)]
