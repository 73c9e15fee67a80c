"""Compressed texts of the page, mainly the partitioned graph of every case, of which thousands are nearly equal."""

from __future__ import annotations

import base64
import json
import zlib

from benchgraph.core.formats import counted
from benchgraph.present.page.view import Case, Cut
from benchgraph.present.show.picture import draw
from benchgraph.present.show.repeated_blocks import with_repeats_collapsed
from benchgraph.present.show.svg import svg
from benchgraph.results.sketch import Sketch


class PackedTexts:
    """Numbered texts that the page has compressed: pictures, and on a long page the details of cases. Equal texts are stored once."""

    def __init__(self) -> None:
        self._numbers = dict[str, int]()
        self._pictures = dict[tuple[object, ...], int]()

    def add(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def picture(self, case: Case, cut: Cut) -> int | None:
        """The number of a case's picture under one policy; None if the result has no graph."""
        graph = case.result.graph
        if graph is None:
            return None
        parts = tuple(", ".join([*([kind] if kind else []), counted(len(ops), "op")]) for kind, ops in zip(cut.kinds, cut.ops, strict=True))
        key = (graph.ops, *graph.tensors.items(), cut.ops, parts, cut.policy)
        if key not in self._pictures:
            self._pictures[key] = self.add(_drawn(graph, cut.ops, parts, cut.policy))
        return self._pictures[key]

    def packed(self) -> str:
        """Base64 of deflated JSON: a list of texts. '' for none."""
        if not self._numbers:
            return ""
        return base64.b64encode(zlib.compress(json.dumps(list(self._numbers)).encode(), 9)).decode()


def _drawn(graph: Sketch, ops: tuple[tuple[int, ...], ...], parts: tuple[str, ...], policy: str) -> str:
    left = tuple(op.id for op in graph.ops if not any(op.id in part for part in ops))  # End, which is never executed
    more = ((left,), ("not executed",)) if left else ((), ())
    return svg(with_repeats_collapsed(draw(graph, (*ops, *more[0]), (*parts, *more[1]), "", policy)))
