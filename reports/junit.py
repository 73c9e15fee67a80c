"""JUnit XML for CI systems: a suite per driver, a test per case, failures with their repro lines

As Jenkins' schema (junit-10.xsd of its xUnit plugin) has it, which GitLab and the GitHub actions for test reports read too:

    FAILED                                        <failure>: a result, and a wrong one (or the run broke down)
    UNIMPLEMENTED, INVALID_ARGUMENTS, UNTESTED    <error>: no result; both kinds make a build red
    SKIPPED, LISTED                               <skipped>
    MISTRUSTED                                    a pass that says why in its <system-out>; benchdnn does not count it as failed either

The name of a test is its repro line, the class benchgraph.<driver>.<folders of the case>. A suite has the host and the start of the run,
and as properties its commit, mode, wall time, machine, library versions and peaks. Cases of several machines are suites of their own.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from benchgraph.options.repro import split
from benchgraph.results.machine import Machine
from benchgraph.results.result import CaseResult, ResultSet, Status

FOREIGN = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 cannot say, or changes: \r
ERRORS = (Status.UNIMPLEMENTED, Status.INVALID_ARGUMENTS, Status.UNTESTED)

SUFFIXES = (".xml",)


def render(results: ResultSet) -> str:
    """An XML document. Times are seconds; a suite's and the whole's are sums over cases, also where they ran side by side."""
    suites = dict[tuple[str, str], list[CaseResult]]()
    for case in results.cases:
        machine = results.machine_of(case)
        suites.setdefault((split(case.repro).driver, machine.key if machine else ""), []).append(case)
    root = ET.Element("testsuites", {"name": "benchgraph", **_counts(results.cases)})
    for (driver, _), cases in suites.items():
        machine, kinds = results.machine_of(cases[0]), [_outcome(c.result.status) for c in cases]
        where_and_when = dict(_where_and_when(results, machine))
        suite = ET.SubElement(root, "testsuite", {"name": _text(driver or "benchgraph"), **where_and_when, **_counts(cases)})
        suite.set("skipped", str(kinds.count("skipped")))
        found = ET.SubElement(suite, "properties")
        for name, value in _properties(results, machine):
            ET.SubElement(found, "property", {"name": _text(name), "value": _text(value)})
        suite.extend(_case(c) for c in cases)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _where_and_when(results: ResultSet, machine: Machine | None) -> Iterator[tuple[str, str]]:
    """The host, and the start of the run in UTC, as the schema has it: without a zone."""
    if machine is not None and machine.host:
        yield "hostname", _text(machine.host)
    if results.origin is not None:
        yield "timestamp", datetime.fromtimestamp(results.origin.started, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    n = Counter(_outcome(c.result.status) for c in cases)
    counts = {"tests": len(cases), "failures": n["failure"], "errors": n["error"]}
    return {**{name: str(count) for name, count in counts.items()}, "time": _seconds(sum(c.elapsed_s for c in cases))}


def _outcome(status: Status) -> str:
    """The element that says it; '' for a pass."""
    if status in ERRORS:
        return "error"
    if status in (Status.SKIPPED, Status.LISTED):
        return "skipped"
    return "failure" if status.is_failure else ""


def _properties(results: ResultSet, m: Machine | None) -> Iterator[tuple[str, str]]:
    yield "mode", results.mode.value
    if results.cut:
        yield "cut_short", results.cut
    if (origin := results.origin) is not None:
        yield "run", origin.uid
        if origin.commit:
            yield from {"commit": origin.commit, "uncommitted_changes": str(origin.is_dirty).lower()}.items()
    if results.elapsed_s:
        yield "elapsed_s", _seconds(results.elapsed_s)
    if m is not None:
        yield from ((f"machine.{name}", text) for name, text in m.identity.items())
        yield from {"cpu": m.cpu, "cores": str(m.cores), "threads": str(m.threads), "isa": m.isa}.items()
        yield from ((f"version.{name}", version) for name, version in m.versions.items())
        yield from ((f"peak_gflops.{dtype}", f"{peak / 1e9:.6g}") for dtype, peak in m.peak_flops.items())


def _case(c: CaseResult) -> ET.Element:
    r, repro = c.result, split(c.repro)
    folders = (folder.replace(".", "_") for folder in repro.folder)  # a dot would be one more level
    where = ".".join(["benchgraph", *([repro.driver] if repro.driver else []), *folders])
    test = ET.Element("testcase", {"name": _text(c.repro), "classname": _text(where), "time": _seconds(c.elapsed_s)})
    if outcome := _outcome(r.status):
        found = ET.SubElement(test, outcome, {"type": r.status.value, "message": _text(r.reason or r.status.value)})
        if outcome != "skipped":
            wrong = [str(a) for a in r.accuracy if a.errors]
            found.text = _text("\n".join([c.line, *wrong, f"run again: benchgraph {c.repro}"]))
    if notes := "\n".join(_notes(c)):
        ET.SubElement(test, "system-out").text = _text(notes)
    return test


def _notes(c: CaseResult) -> Iterator[str]:
    """What a pass has to say: why not to trust it, and how long it took."""
    if c.result.status is Status.MISTRUSTED:
        yield c.line
    for t in c.result.timings:
        yield f"{t.policy}: median {t.timing.median_s * 1e3:.4f} ms of {len(t.timing.samples_s)} samples"
    yield from (f"warning: {w}" for w in c.result.warnings)


def _seconds(s: float) -> str:
    return f"{s:.6f}"


def _text(s: str) -> str:
    """With \\x1b in place of an escape, and so on: no parser takes control characters, nor halves of surrogate pairs."""
    return FOREIGN.sub(lambda found: repr(found[0])[1:-1], s)
