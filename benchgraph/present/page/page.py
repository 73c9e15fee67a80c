"""Renders the page from views, plots and pictures by templates. The same runs give the same text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchgraph.core.formats import ranges
from benchgraph.core.printable import printable
from benchgraph.core.progress import begin_item, report_progress
from benchgraph.present.page.charts import charts
from benchgraph.present.page.packed_texts import PackedTexts
from benchgraph.present.page.view import ERRORS, Case, accuracy, view
from benchgraph.present.show.colours import PARTITIONS
from benchgraph.present.time_table import HEADS
from benchgraph.results.result import ResultSet

# Cases. A longer page has their details compressed and needs scripts: with 2,000 cases it opens in two seconds, not ten.
MANY = 300
# CSS pixels. BASE + COLUMN per column, at least NARROW: the page width below which the table of cases is a block per case.
BASE, COLUMN, NARROW = 470, 72, 860


def page(runs: Sequence[tuple[str, ResultSet]], many: int = MANY) -> str:
    """An HTML document about runs and their names, which are '' for a single one."""
    views = [view(results, key=f"r{n}", title=name) for n, (name, results) in enumerate(runs)]
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
    template = _templates().get_template("page.html")
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


def _details(case: Case, store: PackedTexts) -> str:
    pictures = {cut.policy: store.picture(case, cut) for cut in case.cuts}
    template = _templates().get_template("details.html")
    return _dense(
        template.render(
            case=case, pictures=pictures, heads=HEADS, error_heads=(*ERRORS, "zeros", "abs allowed"), accuracy=accuracy, ranges=ranges
        )
    )


def _dense(text: str) -> str:
    return re.sub(r"\n\s*\n+", "\n", text)


def _shown(value: Any) -> Any:
    """Applied to every expression of the templates."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _templates() -> Environment:
    loader = PackageLoader("benchgraph.present.page", ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.globals["file"] = lambda name: loader.get_source(environment, name)[0]
    return environment
