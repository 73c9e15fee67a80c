"""What a comparison says of a finding of every kind, in every form."""

from __future__ import annotations

import json as standard_json
import math
from dataclasses import replace

import pytest

from benchgraph.analysis.ab.comparison import compare
from benchgraph.analysis.ab.findings import Kind, limits
from benchgraph.analysis.ab.judge import Plan
from benchgraph.core.formats import NOTHING, SAYS_NOTHING
from benchgraph.present.ab import json, markdown, page, table
from benchgraph.present.ab.table import cells
from tests.present.ab.made import CASES, comparison

SLOWER, FASTER, UNTOLD = list(CASES)[1:]


def test_findings_are_told_by_kind_and_the_worst_come_first() -> None:
    found = comparison()
    assert [(f.kind, f.case) for f in found.findings] == [
        (Kind.wrong, "--pool a"),
        (Kind.unsupported, "--pool b"),
        (Kind.fell_to_reference, SLOWER),
        (Kind.slower, SLOWER),
        (Kind.cannot_tell, UNTOLD),
        (Kind.other_implementation, FASTER),
        (Kind.compile_time, SLOWER),
        (Kind.mended, "--pool c"),
        (Kind.faster, FASTER),
        (Kind.same, next(iter(CASES))),
    ]
    assert [f.kind.is_worse for f in found.findings] == [True] * 4 + [False] * 6
    assert found.exit_code == 1
    assert found.undecided == {3}
    assert found.summary == (
        "7 cases, 4 timed: 1 wrong, 1 unsupported, 1 fell to reference implementation, 1 slower, 1 cannot tell, "
        "1 other implementation, 1 compile time, 1 mended, 1 faster, 1 same"
    )


def test_a_terminal_shows_what_changed_and_with_v_the_rest() -> None:
    text = table.render(comparison())
    assert "old = benchgraph:HEAD~1 (0123456789), new = benchgraph:." in text
    assert [name in text for name in CASES] == [False, True, True, True]
    assert all(name in table.render(comparison(), is_verbose=True) for name in CASES)
    assert text.index("Mended:") < text.index("Unsupported:") < text.index("Wrong:\n  --pool a: PASSED -> FAILED (tensor | wrong)")
    assert "--matmul 4x8:8x6: fused: 100 ms -> 300 ms" in text
    assert "--matmul 4x8:8x6: fused: matmul jit:avx2 -> matmul ref:any" in text


def test_markdown_shows_what_changed_and_folds_the_rest() -> None:
    text = markdown.render(comparison())
    shown, _, folded = text.partition("<details>")
    assert "#### Wrong (1)" in shown
    assert "tensor &#124; wrong" in shown
    assert SLOWER in shown
    assert FASTER in shown
    assert "Cannot tell (1)" in folded
    assert "Same (1)" in folded


def test_a_page_escapes_and_draws() -> None:
    text = page.render(comparison())
    assert "&lt;no kernel&gt;" in text
    assert text.count('class="middle"') == 4
    assert text.count("<details open>") == 2


def test_json_has_every_finding_and_no_nan() -> None:
    found = standard_json.loads(json.render(comparison()), parse_constant=lambda name: 1 / 0)
    assert [f["kind"] for f in found["findings"]] == [f.kind.value for f in comparison().findings]
    assert [len(c["times"]) for c in found["cases"]] == [1, 1, 1, 1, 0, 0, 0]
    assert {m["group"] for m in found["means"]} == {"graph", "matmul", "conv", "all"}


def test_a_narrow_terminal_names_every_column_that_it_leaves_out() -> None:
    assert "no room for" not in table.render(comparison())
    assert "no room for old: in a wider terminal, and in --report=markdown:FILE" in table.render(comparison(), 80)
    assert "no room for old, new, 95 % interval: in a wider" in " ".join(table.render(comparison(), 50).split())


def test_a_verdict_of_one_launch_has_its_interval_however_wide_and_a_hint() -> None:
    """The spread between cases is what one launch has for that between launches."""
    c = comparison()
    runs = [replace(run, launches={0: run.launches[0]}) for run in c.runs if run.launches]
    found = compare(runs, c.old, c.new, c.threshold, Plan(1, 1))
    assert any(r.judged.high >= SAYS_NOTHING * r.judged.low for r in found.rows)  # else there is nothing to see
    forms = [table.render(found, is_verbose=True), markdown.render(found), page.render(found)]
    for row in found.rows:
        assert all(limits(row.judged.low, row.judged.high) in text for text in forms)
        assert NOTHING not in limits(row.judged.low, row.judged.high)
    assert all("one launch rarely tells" in text for text in forms)
    assert "one launch" not in "".join(c.notes).replace("from one launch to another", "")


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.95, 1.2), "0.950 .. 1.200"),
        ((1e-7, 3e20), "1.0e-07 .. 3.0e+20"),
        ((0.0, math.inf), "0.0e+00 .. inf"),
        ((math.nan,) * 2, NOTHING),
    ],
)
def test_ends_of_intervals(ends: tuple[float, float], text: str) -> None:
    assert limits(*ends) == text


def test_every_form_says_what_the_ratio_is_beside_the_medians() -> None:
    for text in (table.render(comparison()), markdown.render(comparison()), page.render(comparison())):
        assert "old, new: the median of each version by itself; new / old: the median of the ratios of samples of one round" in text


def test_times_have_their_units() -> None:
    row = comparison().rows[0]
    assert cells(replace(row, old_s=0.72e-6, new_s=1.3e-3))[:2] == ("0.720 us", "1.3000 ms")
