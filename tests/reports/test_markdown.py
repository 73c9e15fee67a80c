"""The Markdown report, read as a reader of GitHub's Markdown reads it (markdown-it, which rich brings)."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.options.plugins import load_report
from benchgraph.present.markup import MOST, OPEN, code, machine, table
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PolicyTiming, Result, ResultSet, Status, Timing
from tests.support.result_sets import LAYERED_RESULTS
from tests.support.written_reports import cells

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9})


def timing(policy: str, *ms: float) -> PolicyTiming:
    return PolicyTiming(policy, Timing(tuple(t * 1e-3 for t in ms), 1), ())


def timed(index: int, name: str, *timings: PolicyTiming, **more: object) -> CaseResult:
    result = Result(Status.EXECUTED, flops=8_000_000, timings=timings, peak_samples=(16e9,), **more)  # type: ignore[arg-type]
    return CaseResult(index, f"--mode=P --graph --case={name}.json", 1.0, result)


def render(*cases: CaseResult, mode: Mode = Mode.correctness, machine: Machine | None = None) -> str:
    return str(load_report("markdown")(ResultSet(mode, machine, cases, 2.5)))


MIXED = """\
**benchgraph**, mode C: 4 tests, **2 failed** (1 unimplemented), 1 passed, 1 mistrusted, in 2.5 s

#### Failed (2)

| status | case | why |
| :--- | :--- | :--- |
| FAILED | `--graph --case=a.json` | `tensor 5: want 1, got 2` |
| UNIMPLEMENTED | `--graph --case=b.json` | `no such op` |

<details><summary>Mistrusted (1)</summary>

| status | case | why |
| :--- | :--- | :--- |
| MISTRUSTED | `--graph --case=c.json` | `99% zeros` |

</details>

<details><summary>Passed (1)</summary>

- `--graph --case=d.json`

</details>

`Test CPU, 4 cores, 2 threads, avx2, f32 peak 16 GFLOP/s; python 3.11`
"""


def test_a_run_with_failures_whole() -> None:
    results = [Result(Status.FAILED, "tensor 5: want 1, got 2", 1, 2), Result(Status.UNIMPLEMENTED, "no such op")]
    results += [Result(Status.MISTRUSTED, "99% zeros"), Result(Status.PASSED)]
    cases = [CaseResult(i, f"--graph --case={name}.json", 0.5, r) for i, (name, r) in enumerate(zip("abcd", results, strict=True))]
    assert render(*cases, machine=MACHINE) == MIXED


def test_timings_whole() -> None:
    one = timed(0, "a", timing("fused", 0.9, 1.0, 1.5), timing("post_ops", 2.0), warnings=("loud",))
    two = timed(1, "b", timing("fused", 2.0), timing("post_ops", 1.0))
    assert (
        render(one, two, mode=Mode.performance)
        == """\
**benchgraph**, mode P: 2 tests, 2 passed, in 2.5 s

#### Timings (2)

| case | fused ms | fused % of peak | at best | post_ops ms | post_ops ratio |
| :--- | ---: | ---: | ---: | ---: | ---: |
| `--graph --case=a.json` | 1.0000 | 50% | 56% | 2.0000 | 2.00 |
| `--graph --case=b.json` | 2.0000 | 25% | 25% | 1.0000 | 0.50 |
| **geometric mean** |  |  |  |  | **1.00** |

<details><summary>Reasons not to believe a timing (1)</summary>

- `--mode=P --graph --case=a.json`: `loud`

</details>
"""
    )


def test_a_policy_that_a_case_lacks_leaves_its_cells_empty() -> None:
    text = render(
        timed(0, "a", timing("fused", 1.0), timing("post_ops", 3.0)), timed(1, "b", timing("post_ops", 1.0)), mode=Mode.performance
    )
    assert cells(text)[1:] == [["--graph --case=b.json", "", "", "", "1.0000", ""], ["geometric mean", "", "", "", "", "3.00"]]


def test_long_lists_are_folded_and_cut() -> None:
    passed = [CaseResult(i, f"--graph --case={i}.json", 0.0, Result(Status.PASSED)) for i in range(MOST + 7)]
    text = render(*passed)
    assert "… and 7 more, in the JSON report\n\n</details>" in text
    assert f"{MOST - 1}.json" in text
    assert f"{MOST}.json" not in text
    failed = [replace(c, result=Result(Status.FAILED, "x" * 300)) for c in passed]
    assert "#### Failed (20)" in render(*failed[:OPEN])
    assert "<details><summary>Failed (21)</summary>" in render(*failed[: OPEN + 1])
    assert len(render(*failed)) < 65536


def test_integer_peaks_are_said_in_the_unit_of_integers() -> None:
    assert "f32 peak 16 GFLOP/s, int8 peak 64 GOP/s; python" in machine(replace(MACHINE, peak_flops={"f32": 16e9, "int8": 64e9}))


HOSTILE = ["a|b", "a`b", "``", "`", "a\\|b", "\\", "|", "a\\", "<b>&amp;*x*_y_[z](u)", "@you #1 ~~no~~", "a\nb", "\x1b[31mred", "a`|`b*c*"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_taken_for_markup(text: str) -> None:
    assert cells(table(("one", "two"), [(code(text), "x")])) == [[" ".join(text.split()), "x"]]
    failed = CaseResult(0, f"--graph --case={text}", 0.0, Result(Status.FAILED, text))
    assert cells(render(failed)) == [["FAILED", " ".join(failed.repro.split()), " ".join(text.split())]]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_text_stays_in_its_cell(text: str) -> None:
    want = " ".join(text.split())
    assert cells(table(("one", "two"), [(code(text), "x")])) == [[want, "x"]]


def test_where_the_time_goes_is_folded() -> None:
    text = load_report("markdown")(LAYERED_RESULTS)
    (body,) = re.findall(r"<details><summary>Where the time goes</summary>\n\n(.*?)</details>", text, re.DOTALL)
    assert body.startswith("`--graph --case=a.json`\n`fused: 2 layers of 1 partition on fast, together 337.5000 ms;")
    assert cells(body) == [["a.*.fc +1", "2", "337.5000", "100.0%", "112.5000-225.0000", "120", "40", "0.0% bw", "75.0%"]]
