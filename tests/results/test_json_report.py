"""The JSON report: written reports are read back, also when cut off."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchgraph.core.errors import ParseError
from benchgraph.results import json_report
from benchgraph.results.growing_report import GrowingReport
from benchgraph.results.json_report import parse, render, source, write_whole
from benchgraph.results.machine import Machine
from benchgraph.results.result import ResultSet, Shard
from tests.support.result_sets import CASES, LAYERED_RESULTS, MACHINE, MEASURED, RESULTS


@pytest.mark.parametrize(
    "results",
    [RESULTS, LAYERED_RESULTS, replace(RESULTS, cases=()), replace(RESULTS, machine=None)],
    ids=["all", "layers", "none", "nowhere"],
)
def test_written_reports_are_read_back(results: ResultSet) -> None:
    assert parse(render(results)) == results


def test_a_machine_without_peaks_is_read_back() -> None:
    plain = replace(RESULTS, machine=Machine("c", 1, "avx2", {}))
    assert parse(render(plain)) == plain


def test_what_other_code_ran_stays_its_own() -> None:
    assert parse(render(RESULTS)).source == source()
    assert parse(render(replace(RESULTS, source="0123"))).source == "0123"


def test_a_machine_of_an_early_version_has_no_identity() -> None:
    known = replace(RESULTS, machine=replace(MACHINE, identity={"cpuid": "AuthenticAMD 25-17-1", "kernel": "Linux 6.1"}))
    assert parse(render(known)) == known
    document = json.loads(render(known))
    del document["machine"]["identity"]
    assert parse(json.dumps(document)) == RESULTS


def test_a_shard_is_read_back() -> None:
    shard = replace(RESULTS, shard=Shard(2, 3, 8, "d1ge5t"))
    assert parse(render(shard)) == shard


@pytest.mark.parametrize("part", [0, 4])
def test_a_shard_that_cannot_be_is_refused(part: int) -> None:
    document = json.loads(render(replace(RESULTS, shard=Shard(2, 3, 8, "d1ge5t"))))
    document["shard"]["part"] = part
    with pytest.raises(ParseError, match=r"^shard: part .*; measure anew with --report=json:FILE"):
        parse(json.dumps(document))


def test_a_case_is_a_line() -> None:
    lines = render(RESULTS).splitlines()
    assert [json.loads(line.removesuffix(","))["index"] for line in lines[1:-1]] == [0, 1, 2]


def test_every_cut_leaves_the_cases_before_it() -> None:
    text = render(RESULTS)
    ends = [text.index(line) + len(line.removesuffix(",")) for line in text.splitlines()[1:-1]]
    for at in range(len(text.splitlines()[0]), len(text)):
        whole = sum(end <= at for end in ends)
        assert parse(text[:at]).cases == CASES[:whole], text[:at][-20:]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "{}", '{"schema_version": 3}', render(RESULTS)[:30], '{"graph": []}', render(RESULTS).replace('"P"', '"Q"')],
)
def test_other_files_than_reports_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"not a JSON report of benchgraph; give a file that --report=json:FILE wrote"):
        parse(text)


def test_another_schema_is_named() -> None:
    with pytest.raises(ParseError, match=r"schema version 1; this benchgraph reads versions 2, 3, 4, 5"):
        parse(render(RESULTS).replace('"schema_version": 4', '"schema_version": 1'))


def test_a_report_of_version_2_is_read() -> None:
    """It had no bandwidths; caches were hot and there was one stream."""
    document = json.loads(render(RESULTS)) | {"schema_version": 2}
    del document["machine"]["memory_bandwidth"]
    for case in document["cases"]:
        del case["bandwidth_samples"], case["cold_cache"], case["num_streams"], case["arithmetic"], case["arithmetic_samples"]
    found = parse(json.dumps(document))
    before = replace(MEASURED, bandwidth_samples={}, cold_cache="none", num_streams=1)
    assert found == replace(RESULTS, machine=replace(MACHINE, memory_bandwidth=0.0), cases=(replace(CASES[0], result=before), *CASES[1:]))


def test_a_report_of_version_3_has_shares_of_the_f32_peak() -> None:
    document = json.loads(render(RESULTS)) | {"schema_version": 3}
    for case in document["cases"]:
        del case["arithmetic"], case["arithmetic_samples"]
    found = parse(json.dumps(document))
    assert found == RESULTS


def test_the_peak_of_an_arithmetic_is_kept() -> None:
    case = replace(CASES[0], result=replace(MEASURED, arithmetic="int8", arithmetic_samples=(4e9, 5e9)))
    found = parse(render(replace(RESULTS, cases=(case,))))
    assert found.cases == (case,)
    assert found.cases[0].result.peak == 5e9


def test_a_growing_report_is_complete_after_every_case(tmp_path: Path) -> None:
    stream = GrowingReport(tmp_path / "out.json", replace(RESULTS, cases=(), elapsed_s=0.0))
    for n, case in enumerate(CASES, 1):
        stream.add(case, float(n))
        sofar = replace(RESULTS, cases=CASES[:n], elapsed_s=float(n))
        assert (tmp_path / "out.json").read_text() == render(sofar)
    stream.close()


def test_a_growing_report_continues_from_present_results(tmp_path: Path) -> None:
    stream = GrowingReport(tmp_path / "deep" / "out.json", replace(RESULTS, cases=CASES[:2]))
    stream.add(CASES[2], 3.0)
    stream.close()
    assert (tmp_path / "deep" / "out.json").read_text() == render(replace(RESULTS, elapsed_s=3.0))


def test_the_summary_never_shrinks_the_file(tmp_path: Path) -> None:
    """Digits that go from 9 to 10, and seconds that print shorter."""
    stream = GrowingReport(tmp_path / "out.json", replace(RESULTS, cases=()))
    for n in range(12):
        stream.add(replace(CASES[1], index=n), 0.30000000000000004 if n % 2 else 1.0)
        assert len(json.loads((tmp_path / "out.json").read_text())["cases"]) == n + 1
    stream.close()


def test_a_file_is_replaced_as_a_whole_and_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "old").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "old"]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    write_whole(Path(os.devnull), "text")
    assert Path(os.devnull).is_char_device()


def test_other_code_has_another_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_report, "data_dir", lambda name: tmp_path)
    digests = [source.__wrapped__()]
    for text in ("x = 1", "x = 2"):
        (tmp_path / "driver.py").write_text(text)
        digests.append(source.__wrapped__())
    assert len(set(digests)) == 3


def _bad(case: dict[str, object], path: tuple[str | int, ...], value: object) -> None:
    at: object = case
    for key in path[:-1]:
        at = at[key]  # type: ignore[index]
    at[path[-1]] = value  # type: ignore[index]


SAMPLES = ("timings", "fused", "samples_s")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (SAMPLES, []),
        (SAMPLES, [0.0, 0.1]),
        (SAMPLES, [-0.1]),
        (SAMPLES, ["0.1"]),
        (SAMPLES, [None]),
        (SAMPLES, [True]),
        (SAMPLES, [float("nan")]),
        (SAMPLES, [float("inf")]),
        (SAMPLES, "0.1"),
        (SAMPLES, 0.1),
        (("timings",), []),
        (("timings", "fused", "called", "samples_s"), []),
        (("timings", "fused", "executions_per_sample"), 0),
        (("timings", "fused", "executions_per_sample"), "4"),
        (("timings", "fused", "partitions", 0, "samples_s"), [0.0]),
        (("timings", "fused", "partitions", 0, "compile_s"), "1"),
        (("timings", "fused", "partitions", 0, "flops"), None),
        (("peak_samples",), ["x"]),
        (("peak_samples",), [-1.0]),
        (("bandwidth_samples",), [{"bytes": "x", "samples": [1.0]}]),
        (("flops",), -1),
        (("total",), "7"),
        (("elapsed_s",), None),
        (("phases_s",), {"compile": "x"}),
        (("status",), "FINE"),
        (("repro",), 3),
        (("warnings",), [3]),
        (("accuracy",), [{}]),
        (("graph",), {"ops": 3}),
    ],
)
def test_a_case_that_cannot_be_is_named(path: tuple[str | int, ...], value: object) -> None:
    document = json.loads(render(RESULTS))
    _bad(document["cases"][0], path, value)
    with pytest.raises(ParseError, match=r"^case 0 \(.*\): .*; (measure anew with|give a file that) --report=json:FILE") as told:
        parse(json.dumps(document))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cases",), {}),
        (("cases",), "x"),
        (("elapsed_s",), "x"),
        (("machine", "peak_flops_1_thread"), {"f32": 0.0}),
        (("machine", "cores"), "4"),
        (("machine",), []),
    ],
)
def test_a_head_that_cannot_be_is_refused(path: tuple[str | int, ...], value: object) -> None:
    document = json.loads(render(RESULTS))
    _bad(document, path, value)
    with pytest.raises(ParseError):
        parse(json.dumps(document))
