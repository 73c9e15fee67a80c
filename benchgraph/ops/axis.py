"""The attribute `axis`: one dim of src, counted from the end when negative."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape


def axis_of(attrs: Attrs, rank: int) -> int:
    """The axis as 0 <= axis < rank. Raises InvalidShape."""
    axis = attrs.integer("axis")
    if not -rank <= axis < rank:
        raise InvalidShape(
            f"axis {axis} is out of range for src of rank {rank}", fix=f"use {-rank} to {rank - 1}" if rank else "give src a rank"
        )
    return axis % rank
