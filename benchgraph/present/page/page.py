"""Renders the page from views, plots and pictures by templates. The same runs give the same text."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence

from benchgraph.core.formats import counted, ranges
from benchgraph.core.progress import begin_item, report_progress
from benchgraph.present.page.charts import charts
from benchgraph.present.page.templates import templates
from benchgraph.present.page.view import ERRORS, Case, Cut, accuracy, view
from benchgraph.present.show.picture import PARTITIONS, draw
from benchgraph.present.show.repeated_blocks import with_repeats_collapsed
from benchgraph.present.show.svg import svg
from benchgraph.present.time_table import HEADS
from benchgraph.results.result import ResultSet
from benchgraph.results.sketch import Sketch

# Cases. A longer page has their details compressed and needs scripts: with 2,000 cases it opens in two seconds, not ten.
MANY = 300
# CSS pixels. BASE + COLUMN per column, at least NARROW: the page width below which the table of cases is a block per case.
BASE, COLUMN, NARROW = 470, 72, 860


def page(runs: Sequence[tuple[str, ResultSet]], many: int = MANY) -> str:
    """An HTML document about runs and their names, which are '' for a single one. Of a timed run each kind of machine is one."""
    parts = [part for run in runs for part in _parts(*run)]
    views = [view(results, key=f"r{n}", title=name) for n, (name, results) in enumerate(parts)]
    store, is_long = PackedTexts(), sum(len(run.cases) for run in views) > many
    details = dict[str, str | int]()
    begin_item("the page")
    cases = [case for run in views for case in run.cases]
    for number, case in enumerate(cases):
        report_progress("cases", number, len(cases))
        text = _details(case, store)
        details[case.key] = store.add(text) if is_long else text
    report_progress("plots")
    drawn = {run.key: list(charts(run)) for run in views}
    template = templates().get_template("page.html")
    columns = max((sum(len(g.heads) for g in run.groups) for run in views), default=0)
    text = template.render(
        runs=views,
        charts=drawn,
        details=details,
        is_long=is_long,
        packed=store.packed(),
        colours=PARTITIONS,
        cards=max(NARROW, BASE + COLUMN * columns),
    )
    return _dense(text)


def _parts(name: str, results: ResultSet) -> list[tuple[str, ResultSet]]:
    if not results.mode.is_timed or len(kinds := results.by_kind) == 1:
        return [(name, results)]
    return [(": ".join(filter(None, (name, kind.machine.full_name if kind.machine else "an unknown machine"))), kind) for kind in kinds]


def _details(case: Case, store: PackedTexts) -> str:
    pictures = {cut.policy: store.picture(case, cut) for cut in case.cuts}
    template = templates().get_template("details.html")
    return _dense(
        template.render(
            case=case, pictures=pictures, heads=HEADS, error_heads=(*ERRORS, "zeros", "abs allowed"), accuracy=accuracy, ranges=ranges
        )
    )


def _dense(text: str) -> str:
    return re.sub(r"\n\s*\n+", "\n", text)


# ---- compressed texts -------------------------------------------------------------------------------------------------


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
