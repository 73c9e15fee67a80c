"""What a comparison says of a finding of every kind, in every form."""

from __future__ import annotations

import json as standard_json

from benchgraph.analysis.ab.findings import Kind
from benchgraph.present.ab import json, markdown, page, table
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
