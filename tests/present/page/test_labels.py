"""Names of cases in plots: short, and no two alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.present.page.charts import charts
from benchgraph.present.page.labels import apart, ending, labels
from benchgraph.present.page.view import Case, view
from tests.present.page.runs import TIMED


def cases(*lines: str) -> tuple[Case, ...]:
    run = replace(TIMED, cases=tuple(replace(TIMED.cases[0], index=i, repro=line) for i, line in enumerate(lines)))
    return view(run).cases


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        (("--graph --case=mlp.json",), ["mlp.json"]),
        (("--graph --mb=2 --case=mlp.json", "--graph --mb=10 --case=mlp.json"), ["mb=2 mlp.json", "mb=10 mlp.json"]),
        (("--graph --case=mlp.json", "--graph --dt=bf16 --case=mlp.json"), ["mlp.json", "dt=bf16 mlp.json"]),
        (("--threads=1 --graph --case=a.json", "--threads=1 --matmul 4x8:8x4"), ["graph a.json", "matmul 4x8:8x4"]),
        (("--graph --case=a/mlp.json", "--graph --case=b/mlp.json"), ["a/mlp.json", "b/mlp.json"]),
        (("--graph --case=mlp.json", "--graph --case=mlp.json"), ["#0 mlp.json", "#1 mlp.json"]),
        (
            ("--graph --in-shapes=0:32x13+4:77 --case=mlp.json", "--graph --in-shapes=0:64x13+4:77 --case=mlp.json"),
            ["…0:32x13+4:77 mlp.json", "…0:64x13+4:77 mlp.json"],
        ),
        (
            ("--graph --in-shapes=0:32x1355555555555+4:77 --case=mlp.json", "--graph --in-shapes=0:64x1355555555555+4:77 --case=mlp.json"),
            ["#0 …5555555555+4:77 mlp.json", "#1 …5555555555+4:77 mlp.json"],
        ),
        (("--graph --case='my graph.json'", "--graph --mb=2 --case='my graph.json'"), ["my graph.json", "mb=2 my graph.json"]),
    ],
)
def test_a_case_is_named_by_its_distinguishing_words(lines: tuple[str, ...], want: list[str]) -> None:
    found = labels(cases(*lines), 28)
    assert list(found.values()) == want


@pytest.mark.parametrize("length", [8, 20, 34])
def test_no_two_labels_are_alike(length: int) -> None:
    lines = [f"--graph --mb={mb} --in-shapes=0:{size}x1234567890123456789 --case=mlp.json" for mb in (1, 2) for size in (3, 4)]
    found = list(labels(cases(*lines, lines[0]), length).values())
    assert len(set(found)) == 5
    assert max(map(len, found)) <= length


@pytest.mark.parametrize(
    ("name", "length", "want"),
    [
        ("mlp.json", 8, "mlp.json"),
        ("eltwise alg=abs 2x7x33", 16, "…alg=abs 2x7x33"),
        ("eltwise alg=abs 2x7x33", 14, "…abs 2x7x33"),
        ("eltwise alg=abs 2x7x33", 8, "…2x7x33"),
        ("eltwise alg=abs 2x7x33", 4, "…x33"),
        ("benchgraph:fused:no-coarse", 17, "…:fused:no-coarse"),
    ],
)
def test_labels_are_cut_between_words_and_after_option_names(name: str, length: int, want: str) -> None:
    assert ending(name, length) == want


def test_policies_with_one_ending_have_numbers() -> None:
    assert apart(["benchgraph:fused:no-coarse", "onednn:fused:no-coarse"], range(2), 16) == ["#0 …ed:no-coarse", "#1 …ed:no-coarse"]


def test_plots_name_cases_so() -> None:
    lines = [f"--mode=P --graph --mb={mb} --case=mlp.json" for mb in (1, 2)]
    run = view(replace(TIMED, cases=tuple(replace(c, repro=line) for c, line in zip(TIMED.cases, lines, strict=False))))
    for chart in charts(run):
        if chart.name != "roofline":
            for svg in (chart.wide, chart.narrow):
                assert "mb=1 mlp.json" in svg
                assert "mb=2 mlp.json" in svg
