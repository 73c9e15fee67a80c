"""Where the time of a case goes: a table of repeated blocks, and one of every layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchgraph.present.layer_table import HEADS, MEANINGS, LayerCells, heading, layer_rows, left_out
from benchgraph.results.layers import LayerProfile
from benchgraph.results.result import Result

SHARE = HEADS.index("% time")
SCOPES = r"([./])"  # ends a scope in the name of an op
TEXTS = frozenset(map(HEADS.index, ("part", "implementation")))  # columns of texts, not of numbers


@dataclass(frozen=True)
class Column:
    head: str
    means: str
    is_number: bool


@dataclass(frozen=True)
class LayerLine:
    """A row of a table. others: the ops that are computed with the one it is named by, without the scope that both are in; of several
    layers their kinds. cells: one per column. share: of the time."""

    name: str
    others: str
    cells: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Layers:
    """One policy's. columns: behind the first. folded: repeated blocks as one, what takes longest first; each: in order of execution,
    empty where that is no more."""

    heading: str
    columns: tuple[Column, ...]
    folded: tuple[LayerLine, ...]
    each: tuple[LayerLine, ...]


def layer_views(r: Result) -> Iterator[Layers]:
    for t in r.timings:
        if t.layers is None:
            continue
        folded, each = (layer_rows(r, t.layers, is_folded=is_folded) for is_folded in (True, False))
        kept = [i for i in range(1, len(HEADS)) if i not in left_out(folded) and i != SHARE]
        columns = tuple(Column(HEADS[i], MEANINGS[i], i not in TEXTS) for i in kept)
        lines, single_lines = (tuple(_line(t.layers, row, kept) for row in rows) for rows in (folded, each))
        yield Layers(heading(t, t.layers), columns, lines, single_lines if len(each) > len(folded) else ())


def _line(profile: LayerProfile, cells: LayerCells, kept: list[int]) -> LayerLine:
    row = cells.row
    assert row is not None
    others = row.first.kinds[1:] if row.count > 1 else _inner(row.name, row.first.names)
    share = sum(profile.share(layer) for layer in row.layers)
    return LayerLine(row.name, ", ".join(others), tuple(cells.cells[i] for i in kept), share)


def _inner(name: str, others: Sequence[str]) -> list[str]:
    """The other names, each without the scopes that it shares with the first."""
    scope = re.split(SCOPES, name)
    found = []
    for other in others:
        parts = re.split(SCOPES, other)
        shared = next((n for n, (a, b) in enumerate(zip(scope, parts, strict=False)) if a != b), min(len(scope), len(parts)))
        found.append("".join(parts[shared - shared % 2 :]) or other)
    return found
