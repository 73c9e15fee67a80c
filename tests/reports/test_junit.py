"""The JUnit report, by the rules of the schema that CI systems read (junit-10.xsd of Jenkins' xUnit plugin)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.options.plugins import load_report
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, Origin, PolicyTiming, Result, ResultSet, Status, Timing

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9})
WRONG = Accuracy("partition 0 (single)", 5, "f32", 64, 3, 0.5, 0.25, 2.0, 0.125, 0.0, "fused")
RIGHT = replace(WRONG, tensor=4, errors=0)
FAILED = Result(Status.FAILED, "first at [0]: want 1, got 2", 3, 64, accuracy=(RIGHT, WRONG))
CASES = (
    CaseResult(0, "--graph --case=mlp.json", 0.25, Result(Status.PASSED)),
    CaseResult(1, "--graph --mb=2 --case=deep/er.d/b.json", 1.0, FAILED),
    CaseResult(2, "--seed=1 --graph --case=/abs/c.json", 0.0, Result(Status.UNIMPLEMENTED, "no such op")),
    CaseResult(3, "--matmul 4x8:8x4", 0.5, Result(Status.MISTRUSTED, "99% zeros prove little")),
    CaseResult(4, "--matmul --dt=s32 4x8:8x4", 0.0, Result(Status.SKIPPED, "no op reads s32")),
    CaseResult(5, "--matmul 1x1:1x1", 0.0, Result(Status.LISTED)),
    CaseResult(6, "--matmul 2x2:2x2", 0.0, Result(Status.INVALID_ARGUMENTS, "bad")),
)
RESULTS = ResultSet(Mode.correctness, MACHINE, CASES, 2.0)

# element -> (required attributes, optional ones, children)
SCHEMA = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped", "hostname", "timestamp"}, {"properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname"}, {"skipped", "error", "failure", "system-out"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def document(results: ResultSet = RESULTS) -> ET.Element:
    return ET.fromstring(load_report("junit")(results).encode())


def case(root: ET.Element, name: str) -> ET.Element:
    (found,) = [t for t in root.iter("testcase") if t.get("name") == name]
    return found


def test_elements_and_attributes_are_the_schemas() -> None:
    for element in document().iter():
        required, optional, children = SCHEMA[element.tag]
        assert required <= set(element.keys()) <= required | optional, element.tag
        assert {child.tag for child in element} <= children, element.tag
        assert re.fullmatch(r"[0-9]+\.[0-9]+", element.get("time", "0.0"))


def test_counts_and_times_add_up() -> None:
    root = document()
    assert [s.get("name") for s in root] == ["graph", "matmul"]
    for suite in root:
        tests = suite.findall("testcase")
        counts = [len(tests), *(len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error", "skipped"))]
        assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [str(n) for n in counts]
        assert float(suite.get("time") or 0) == sum(float(t.get("time") or 0) for t in tests)
    for name, total in (("tests", 7), ("failures", 1), ("errors", 2), ("time", 1.75)):
        assert float(root.get(name) or 0) == total == sum(float(s.get(name) or 0) for s in root)


@pytest.mark.parametrize(
    ("status", "tag"),
    [
        (Status.PASSED, ""),
        (Status.EXECUTED, ""),
        (Status.INITIALIZED, ""),
        (Status.MISTRUSTED, "system-out"),
        (Status.SKIPPED, "skipped"),
        (Status.LISTED, "skipped"),
        (Status.FAILED, "failure"),
        (Status.UNIMPLEMENTED, "error"),
        (Status.INVALID_ARGUMENTS, "error"),
        (Status.UNTESTED, "error"),
    ],
)
def test_every_status_has_its_element(status: Status, tag: str) -> None:
    root = document(replace(RESULTS, cases=(replace(CASES[0], result=Result(status)),)))
    assert [child.tag for child in root.iter("testcase").__next__()] == ([tag] if tag else [])
    assert bool(root.findall(".//failure") + root.findall(".//error")) == status.is_failure


def test_a_failure_says_what_and_how_to_run_it_again() -> None:
    failed = case(document(), CASES[1].repro).find("failure")
    assert failed is not None
    assert (failed.get("type"), failed.get("message")) == ("FAILED", "first at [0]: want 1, got 2")
    assert (failed.text or "").splitlines() == [CASES[1].line, str(WRONG), f"run again: benchgraph {CASES[1].repro}"]


def test_a_mistrusted_pass_says_why() -> None:
    assert case(document(), CASES[3].repro).findtext("system-out") == CASES[3].line


def test_classes_are_drivers_and_folders() -> None:
    root = document()
    want = ["benchgraph.graph", "benchgraph.graph.deep.er_d", "benchgraph.graph.abs", "benchgraph.matmul"]
    assert [case(root, c.repro).get("classname") for c in CASES[:4]] == want


def test_properties_are_the_machine_and_versions() -> None:
    found = {p.get("name"): p.get("value") for p in document()[1].findall("properties/property")}
    machine = {"cpu": "Test CPU", "cores": "4", "threads": "2", "isa": "avx2", "version.python": "3.11", "peak_gflops.f32": "16"}
    assert found == {"mode": "C", "elapsed_s": "2.000000", **machine}
    assert len(document(replace(RESULTS, machine=None)).findall("testsuite[1]/properties/property")) == 2


def test_a_suite_has_the_host_the_start_and_the_commit() -> None:
    virtual = replace(MACHINE, host="runner-7", identity={"cpuid": "AuthenticAMD 25-17-1", "kernel": "Linux 6.1"})
    run = replace(RESULTS, machine=virtual, origin=Origin("u1d", 1e9, "c0ffee", is_dirty=True))
    for suite in document(run):
        assert (suite.get("hostname"), suite.get("timestamp")) == ("runner-7", "2001-09-09T01:46:40")
        found = {p.get("name"): p.get("value") for p in suite.findall("properties/property")}
        assert (found["run"], found["commit"], found["uncommitted_changes"]) == ("u1d", "c0ffee", "true")
        assert (found["machine.cpuid"], found["machine.kernel"]) == ("AuthenticAMD 25-17-1", "Linux 6.1")
    assert "timestamp" not in document()[0].attrib


def test_times_are_told() -> None:
    timed = Result(Status.EXECUTED, timings=(PolicyTiming("fused", Timing((0.5, 0.25, 0.75), 1), ()),), warnings=("loud",))
    root = document(replace(RESULTS, cases=(replace(CASES[0], result=timed),)))
    assert root.findtext(".//system-out") == "fused: median 500.0000 ms of 3 samples\nwarning: loud"


def test_an_empty_run() -> None:
    assert document(ResultSet(Mode.correctness, None, (), 0.0)).attrib == {
        "name": "benchgraph",
        "tests": "0",
        "failures": "0",
        "errors": "0",
        "time": "0.000000",
    }


@given(st.text())
def test_any_text_is_read_back(reason: str) -> None:
    """What XML can hold as it is, all else as Python would escape it."""
    hostile = replace(CASES[1], repro=f"--graph --case={reason}", result=Result(Status.FAILED, reason))
    (test,) = document(replace(RESULTS, cases=(hostile,))).iter("testcase")
    escaped = "".join(
        c if c in "\t\n\x85" or (ord(c) >= 32 and not 127 <= ord(c) < 160 and c not in "\ufffe\uffff") else repr(c)[1:-1] for c in reason
    )
    assert test.get("name") == f"--graph --case={escaped}"
    assert test[0].get("message") == (escaped or "FAILED")
    assert escaped in (test[0].text or "")


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\r", "\x7f", "\ud800", "\ufffe", "]]>", "<&\"'>"])
def test_signs_that_break_documents(sign: str) -> None:
    failed = document(replace(RESULTS, cases=(replace(CASES[1], result=Result(Status.FAILED, f"a{sign}b")),)))
    assert failed.find(".//failure").get("message") == (f"a{sign}b" if len(sign) > 1 else f"a{sign!r}b".replace("'", ""))  # type: ignore[union-attr]
