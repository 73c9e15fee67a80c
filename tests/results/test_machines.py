"""Results of several machines: each knows its own, and times of different kinds are never put together."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.errors import ParseError
from benchgraph.options.plugins import load_report, shown
from benchgraph.results.growing_report import GrowingReport
from benchgraph.results.json_report import parse, render
from benchgraph.results.machine import as_one, kinds, united
from benchgraph.results.result import CaseResult, ResultSet
from tests.support.result_sets import CASES, MACHINE, RESULTS

MILAN_1, MILAN_2, GENOA = (
    replace(MACHINE, cpu="AMD EPYC", host=host, identity={"cpuid": f"AuthenticAMD 25-{model}-1"})
    for host, model in (("a", 1), ("b", 1), ("c", 17))
)
TIMED = replace(CASES[0], result=replace(CASES[0].result, graph=None))


def timed(*machines: object) -> ResultSet:
    """A timed case on each machine, None for that of the run, which is MILAN_1."""
    cases = tuple(replace(TIMED, index=n, repro=f"--mode=P --graph --case={n}.json", machine=m) for n, m in enumerate(machines))
    return replace(RESULTS, machine=MILAN_1, cases=cases)


THREE = timed(None, GENOA, MILAN_2)


def indices(results: ResultSet) -> list[int]:
    return [c.index for c in results.cases]


# ---- the document ----------------------------------------------------------------------------------------------------


def test_each_result_names_its_machine_in_a_table() -> None:
    document = json.loads(render(THREE))
    assert [case.get("machine") for case in document["cases"]] == [None, GENOA.key, MILAN_2.key]
    assert {key: m["host"] for key, m in document["machines"].items()} == {GENOA.key: "c", MILAN_2.key: "b"}
    assert (document["machine"]["host"], document["schema_version"]) == ("a", 5)
    assert parse(render(THREE)) == THREE


def test_a_document_of_one_machine_is_as_it_was() -> None:
    document = json.loads(render(timed(None, None)))
    assert (document["schema_version"], "machines" in document, "machine" in document["cases"][0]) == (4, False, False)


def test_a_machine_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ParseError, match=r"^case 1 .*it is not as benchgraph writes one"):
        parse(render(THREE).replace(f'"machines": {{"{GENOA.key}"', '"machines": {"x"'))


def test_values_of_the_table_are_checked() -> None:
    with pytest.raises(ParseError, match=rf"^{GENOA.key}: cores is 'many'"):
        parse(render(timed(None, GENOA)).replace('"cores": 4', '"cores": "many"').replace('"cores": "many"', '"cores": 4', 1))


def test_a_growing_report_takes_machines_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    stream = GrowingReport(file, replace(THREE, cases=(), elapsed_s=0.0))
    for n, case in enumerate(THREE.cases, 1):
        stream.add(case, float(n))
        assert file.read_text() == render(replace(THREE, cases=THREE.cases[:n], elapsed_s=float(n)))
    stream.close()


def test_a_growing_report_that_cannot_take_a_machine_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.json"
    stream = GrowingReport(file, replace(THREE, cases=()))
    stream.add(THREE.cases[0], 1.0)
    before = file.read_text()

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("benchgraph.results.growing_report.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        stream.add(THREE.cases[1], 2.0)
    assert file.read_text() == before
    stream.close()


def test_a_result_that_names_the_machine_of_the_run_names_none(tmp_path: Path) -> None:
    assert timed(MILAN_1, GENOA) == timed(None, GENOA)
    stream = GrowingReport(tmp_path / "out.json", timed())
    stream.add(replace(TIMED, machine=replace(MILAN_1, peak_flops={"f32": 1.0})), 1.0)
    stream.close()
    assert "machines" not in json.loads((tmp_path / "out.json").read_text())


# ---- kinds -----------------------------------------------------------------------------------------------------------


def test_hosts_of_one_kind_are_together_and_others_apart() -> None:
    assert kinds(THREE.machines) == [(MILAN_1, MILAN_2), (GENOA,)]
    milan, genoa = THREE.by_kind
    assert (indices(milan), indices(genoa)) == ([0, 2], [1])
    assert milan.machine == as_one([MILAN_1, MILAN_2])
    assert milan.machine.host == "a + b"
    assert [milan.machine_of(c) for c in milan.cases] == [MILAN_1, MILAN_2]


def test_a_run_of_one_machine_is_its_only_part() -> None:
    whole = timed(None, None)
    assert whole.by_kind == (whole,)
    assert whole.machines == (MILAN_1,)


def test_the_machine_of_the_run_counts_only_if_a_case_ran_there() -> None:
    assert timed(GENOA).machines == (GENOA,)
    assert timed().machines == (MILAN_1,)


def test_cases_of_an_unknown_machine_are_apart() -> None:
    unknown = replace(timed(None, GENOA), machine=None)
    assert [(part.machine, indices(part)) for part in unknown.by_kind] == [(GENOA, [1]), (None, [0])]


def test_a_machine_measured_twice_has_its_best_rates() -> None:
    again = replace(GENOA, peak_flops={"f32": 17e9}, memory_bandwidth=1e9)
    assert united([GENOA, again, MILAN_1]) == {
        GENOA.key: replace(GENOA, peak_flops={"f32": 17e9}),
        MILAN_1.key: MILAN_1,
    }


# ---- reports ---------------------------------------------------------------------------------------------------------


def two_policies(c: CaseResult, factor: float) -> CaseResult:
    """The second policy takes that many times as long as the first."""
    first, second = c.result.timings
    slow = replace(second, timing=replace(first.timing, samples_s=tuple(factor * s for s in first.timing.samples_s)))
    return replace(c, result=replace(c.result, timings=(first, slow)))


# Two cases on each kind: the means of either kind are 2 and 8, of all together they would be 4.
MEANS = timed(None, GENOA, MILAN_2, GENOA)
MEANS = replace(MEANS, cases=tuple(two_policies(c, 8.0 if c.machine is GENOA else 2.0) for c in MEANS.cases))


def test_the_console_has_means_of_each_kind() -> None:
    text = shown("console", MEANS, is_verbose=False)
    assert [line.rpartition(" ")[2] for line in text.splitlines() if "geometric means" in line] == ["2.00", "8.00"]
    assert [line for line in text.splitlines() if line.startswith("on ")] == [
        "on a + b: AMD EPYC (AuthenticAMD 25-1-1)",
        "on c: AMD EPYC (AuthenticAMD 25-17-1)",
    ]


def test_markdown_has_a_section_for_each_kind() -> None:
    text = load_report("markdown")(MEANS)
    assert "#### Timings on `AMD EPYC (AuthenticAMD 25-1-1)` (2)\n" in text
    assert "#### Timings on `AMD EPYC (AuthenticAMD 25-17-1)` (2)\n" in text
    assert ("**2.00**" in text, "**8.00**" in text, "**4.00**" in text) == (True, True, False)
    assert "\n\n`a + b: AMD EPYC" in text


def test_csv_says_where_each_row_is_from() -> None:
    rows = list(csv.DictReader(io.StringIO(load_report("csv")(THREE))))
    assert [(row["index"], row["host"], row["machine"]) for row in rows[::2]] == [
        ("0", "a", "AMD EPYC (AuthenticAMD 25-1-1)"),
        ("1", "c", "AMD EPYC (AuthenticAMD 25-17-1)"),
        ("2", "b", "AMD EPYC (AuthenticAMD 25-1-1)"),
    ]


def test_junit_has_a_suite_for_each_host() -> None:
    suites = ET.fromstring(load_report("junit")(THREE)).findall("testsuite")
    assert [(s.get("name"), s.get("hostname"), s.get("tests")) for s in suites] == [("graph", host, "1") for host in "acb"]
    cpuids = [s.find("properties/property[@name='machine.cpuid']") for s in suites]
    assert [p.get("value") for p in cpuids if p is not None] == [f"AuthenticAMD 25-{n}-1" for n in (1, 17, 1)]


def test_a_page_has_a_run_for_each_kind() -> None:
    text = load_report("html")(THREE)
    assert "AMD EPYC (AuthenticAMD 25-1-1): mode P" in text
    assert "AMD EPYC (AuthenticAMD 25-17-1): mode P" in text
