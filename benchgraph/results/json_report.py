"""The JSON report: written, read, and appended to while a run lasts; --resume reads it too.

    {"schema_version": 4, "mode": "C", "source": "5f0c...", "planned": 2, "origin": {...}, "machine": {...}, "cases": [
    {"index": 0, "repro": "--graph --case=mlp.json", "status": "PASSED", ...},
    {"index": 1, ...}
    ], "elapsed_s": 0.5, "summary": "tests:2 ..."}

A case is a line; growing_report.py appends them while the run lasts, in the order in which they finish. If a write was cut off, `parse`
reads the lines before it.

`machine` is where the cases ran. Where some ran elsewhere, `machines` after it is a table of the others, in the same form, and such a case
names its own: {"schema_version": 5, ..., "machine": {...}, "machines": {"3fa9c1d2e4b5": {...}}, "cases": [{..., "machine": "3fa9c1d2e4b5"},
A document of one machine is as version 4 has it.

Keys have a fixed order. planned: the number of cases of the run; an interrupted one has fewer. Units are in the names: _s is seconds;
flops of a case are operations, of a peak operations per second; bandwidths are bytes per second.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, fields
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import benchgraph
from benchgraph.core.errors import BenchgraphError, ParseError
from benchgraph.core.files import data_dir, make_folder, real
from benchgraph.core.formats import counted
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import Span
from benchgraph.core.printable import quoted
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.difference import Difference
from benchgraph.results.fallback_kind import FallbackKind
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import (
    SCHEMA_VERSION,
    SEVERAL_MACHINES,
    CaseResult,
    ContenderOutcome,
    Origin,
    PartitionTiming,
    PolicyTiming,
    Result,
    ResultSet,
    Shard,
    Status,
    Timing,
)
from benchgraph.results.roofline import Roofline
from benchgraph.results.sketch import OpSketch, Sketch
from benchgraph.results.validate import validate

Json: TypeAlias = dict[str, Any]

# Version 2 lacks bandwidth (its timings are hot, its streams one) and the graph; 3 has only the peak of f32.
READABLE = (2, 3, SCHEMA_VERSION, SEVERAL_MACHINES)
RUN_FILE = "give a file that --report=json:FILE of a run wrote"
OTHERS = (  # documents that are mistaken for one of a run: their fields, what they are, and what to do
    (
        {"old", "new", "findings", "max_launches"},
        "a report of 'benchgraph ab', which has no run",
        f"ab writes --report=markdown and html itself; {RUN_FILE}",
    ),
    (
        {"threshold", "left_out", "runs", "series"},
        "a report of 'benchgraph history' or 'regressions', which has medians of many runs",
        f"these commands write --report=markdown and html themselves; {RUN_FILE}",
    ),
)

# ---- writing ---------------------------------------------------------------------------------------------------------


def render(results: ResultSet) -> str:
    return assemble(head(results), map(line, results.cases), results.elapsed_s, results.summary)


def assemble(head: str, lines: Iterable[str], elapsed_s: float, counted: str = "") -> str:
    return opened(head) + ",".join(f"\n{text}" for text in lines) + tail(elapsed_s, counted)


def opened(head: str) -> str:
    """What precedes the first case."""
    return f'{head[:-1]}, "cases": ['


def head(results: ResultSet, machines: Mapping[str, Machine] | None = None) -> str:
    """The fields before the cases, as a JSON object. machines: the table of those that cases name, by key; None to ask the cases."""
    machine = None if results.machine is None else _machine(results.machine)
    origin = {} if results.origin is None else {"origin": asdict(results.origin)}
    planned = {"planned": results.planned} if results.planned else {}
    shard = {} if results.shard is None else {"shard": asdict(results.shard)}
    named = {key: _machine(m) for key, m in (results.named_machines if machines is None else machines).items()}
    table = {"machines": named} if named else {}
    version = SEVERAL_MACHINES if named else SCHEMA_VERSION
    identity = {"schema_version": version, "mode": results.mode.value, "source": results.source or source()}
    return json.dumps({**identity, **planned, **shard, **origin, "machine": machine, **table})


def with_machines(head: str, machines: Mapping[str, Machine]) -> str:
    """The head of a document with more machines in its table. head: one that was read before."""
    document: Json = json.loads(head)
    document["schema_version"] = SEVERAL_MACHINES
    document["machines"] = {**document.get("machines", {}), **{key: _machine(m) for key, m in machines.items()}}
    return json.dumps(document)


def line(c: CaseResult) -> str:
    """A case as a JSON object."""
    return json.dumps(_case(c))


def tail(elapsed_s: float, counted: str) -> str:
    """What follows the last case."""
    return f"\n], {json.dumps({'elapsed_s': elapsed_s, 'summary': counted})[1:]}\n"


@cache
def source() -> str:
    """A digest of the source code, since checkouts of one version may differ."""
    digest = hashlib.sha256()
    for root in (Path(benchgraph.__file__).parent, data_dir("drivers")):
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _fields(part: object, names: str) -> Json:
    """These attributes, in this order; names: separated by spaces."""
    return {name: getattr(part, name) for name in names.split()}


def _machine(m: Machine) -> Json:
    one = m.peak_flops_1_thread
    shares = {name: rate / one[name] for name, rate in m.microkernel.items()}
    return {
        **_fields(m, "host cpu identity table cores threads isa versions peak_flops peak_flops_1_thread"),
        "microkernel": {"shape": m.microkernel_shape, "flops": m.microkernel, "share": shares} if one else None,
        "memory_bandwidth": m.memory_bandwidth,
    }


def _case(c: CaseResult) -> Json:
    r = c.result
    return {
        "index": c.index,
        **({} if c.machine is None else {"machine": c.machine.key}),
        "repro": c.repro,
        "status": r.status.value,
        "reason": r.reason,
        "elapsed_s": c.elapsed_s,
        "phases_s": c.phases,
        **_fields(r, "errors total n_partitions partitions"),
        "implementations": {label: [[list(astuple(i)) for i in each] for each in ran] for label, ran in r.implementations.items()},
        "graph": r.graph and _graph(r.graph),
        "accuracy": [asdict(a) for a in r.accuracy],
        **_fields(r, "flops bytes input_bytes"),
        "compile_s": sum(t.compile_s for t in r.timings),
        **_fields(r, "cold_cache num_streams peak_samples arithmetic arithmetic_samples"),
        "bandwidth_samples": [{"bytes": size, "samples": rates} for size, rates in r.bandwidth_samples.items()],
        "timings": {t.policy: _policy(t, r) for t in r.timings},
        "told": [{"label": t.label, "status": t.status.value, "reason": t.reason} for t in r.outcomes],
        "differences": [asdict(d) for d in r.differences],
        "fallback": [{**asdict(f), "time_shares": {t.policy: f.share(t.partitions) for t in r.timings}} for f in r.fallback],
        **_fields(r, "warnings notes"),
    }


def _graph(g: Sketch) -> Json:
    """Ops as [id, kind, name, attributes, ids of tensors read, ids of tensors made]."""
    return {"ops": [astuple(op) for op in g.ops], "tensors": list(g.tensors.items()), "inputs": g.inputs, "outputs": g.outputs}


def _policy(t: PolicyTiming, r: Result) -> Json:
    return {
        **_timing(t.timing),
        "compile_s": t.compile_s,
        **({} if t.called is None else {"called": _timing(t.called)}),
        **_roofline(r.roofline(t)),
        "partitions": [_partition(p, r) for p in t.partitions],
        **({} if t.layers is None else {"layers": _layers(t.layers, r)}),
    }


def _timing(t: Timing) -> Json:
    return {"samples_s": t.samples_s, "executions_per_sample": t.times}


def _roofline(work: Roofline) -> Json:
    """Derived numbers, for readers without this package; `parse` ignores them."""
    return _fields(work, "flops_per_s bytes_per_s intensity peak_share bandwidth_share")


def _partition(p: PartitionTiming, r: Result) -> Json:
    return {**_fields(p, "id kind ops flops bytes compile_s is_warm"), **_timing(p.timing), **_roofline(r.roofline(p))}


def _layers(p: LayerProfile, r: Result) -> Json:
    """Spans as [layer, begin, end, thread, busy], in seconds."""
    layers = [{**asdict(layer), **_roofline(r.roofline(layer))} for layer in p.layers]
    return {**_fields(p, "whole_s threads is_profiled sum_s"), "layers": layers, "spans": [astuple(s) for s in p.spans]}


# ---- reading ---------------------------------------------------------------------------------------------------------


def parse(text: str) -> ResultSet:
    """Reads what `render` wrote. If the end of the document is missing, returns the cases before the cut.

    Raises ParseError for anything else, or an unknown version of the schema.
    """
    try:
        document = _document(text)
        for fields, what, fix in OTHERS:
            if document.keys() >= fields:
                raise ParseError(what, fix=fix)
        if (version := document["schema_version"]) not in READABLE:
            raise ParseError(f"schema version {version}; this benchgraph reads versions {', '.join(map(str, READABLE))}")
        machine = None if document["machine"] is None else _read_machine(document["machine"])
        named = {key: _read_machine(m) for key, m in document.get("machines", {}).items()}
        for key, known in (("machine", machine), *named.items()):
            if known is not None:
                validate(key, known)
        origin = Origin(**document["origin"]) if "origin" in document else None
        if not isinstance(document["cases"], list):
            raise TypeError("cases are a list")
        cases = tuple(_valid_case(case, place, named) for place, case in enumerate(document["cases"]))
        shard = Shard(**document["shard"]) if "shard" in document else None
        for what, part in (("origin", origin), ("shard", shard)):
            if part is not None:
                validate(what, part)
        _need_number(document.get("elapsed_s", 0.0))
        elapsed_s, planned = document.get("elapsed_s", 0.0), int(document.get("planned", 0))
        if not isinstance(document["source"], str):
            raise TypeError("source is a digest")
        return ResultSet(Mode(document["mode"]), machine, cases, elapsed_s, origin, planned, shard, document["source"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as bad:
        raise ParseError("not a JSON report of benchgraph", fix="give a file that --report=json:FILE wrote") from bad


def is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


def cut_short(file: str, text: str, results: ResultSet) -> str:
    """A remark on a report that is incomplete, or whose run was interrupted; '' for a complete one."""
    if is_whole(text) and len(results.cases) >= results.planned:
        return ""
    return f"{file}: cut short after {counted(len(results.cases), 'case')}; run the rest with --resume={file}"


def _document(text: str) -> Json:
    with suppress(json.JSONDecodeError):
        whole: Json = json.loads(text)
        return whole
    first, *rest = text.split("\n")
    document: Json = json.loads(f"{first}]}}")
    with suppress(json.JSONDecodeError):
        for row in rest:
            document["cases"].append(json.loads(row.removesuffix(",")))
    return document


def _read_machine(d: Json) -> Machine:
    micro = d["microkernel"] or {"flops": {}, "shape": Machine.microkernel_shape}
    peaks = (d["peak_flops"], d["peak_flops_1_thread"], micro["flops"], micro["shape"])
    later = (d.get("memory_bandwidth", 0.0), d.get("host", ""), d.get("identity", {}), d.get("table", ""))  # early versions lack these
    return Machine(d["cpu"], d["cores"], d["isa"], d["versions"], d["threads"], *peaks, *later)


def _valid_case(d: Json, place: int, machines: dict[str, Machine]) -> CaseResult:
    """The case at a place of the list. machines: the table of the document. Raises ParseError, which names the case, for invalid values."""
    name = f"case {place}" + (f" ({quoted(d['repro'])})" if isinstance(d, dict) and "repro" in d else "")
    try:
        case = _read_case(d, machines)
        validate(name, case)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as bad:
        raise ParseError(f"{name}: it is not as benchgraph writes one", fix="give a file that --report=json:FILE wrote") from bad
    return case


def _need_number(value: object) -> None:
    if not isinstance(value, int | float) or not isfinite(value):
        raise TypeError("seconds are a finite number")


def _read_case(d: Json, machines: dict[str, Machine]) -> CaseResult:
    simple: Json = {name: d[name] for name in ("reason", "errors", "total", "n_partitions", "flops", "bytes", "input_bytes")}
    simple |= {name: d[name] for name in ("arithmetic", "cold_cache", "num_streams") if name in d}  # early versions lack these
    simple |= {name: tuple(d[name]) for name in ("peak_samples", "warnings")}
    simple |= {name: tuple(d[name]) for name in ("arithmetic_samples", "notes") if name in d}
    result = Result(
        status=Status(d["status"]),
        **simple,
        partitions={policy: tuple(map(tuple, ops_of)) for policy, ops_of in d["partitions"].items()},
        implementations={
            label: tuple(tuple(Implementation(*i) for i in each) for each in ran) for label, ran in d.get("implementations", {}).items()
        },
        accuracy=tuple(Accuracy(**a) for a in d["accuracy"]),
        timings=tuple(_read_policy(policy, t) for policy, t in d["timings"].items()),
        bandwidth_samples={probe["bytes"]: tuple(probe["samples"]) for probe in d.get("bandwidth_samples", ())},
        outcomes=tuple(ContenderOutcome(t["label"], Status(t["status"]), t["reason"]) for t in d.get("told", ())),
        differences=tuple(Difference(**{**x, "index": tuple(x["index"])}) for x in d.get("differences", ())),
        graph=_read_graph(d["graph"]) if d.get("graph") else None,
        fallback=tuple(FallbackKind(f["kind"], f["by"], tuple(f["ops"]), f["flops"]) for f in d.get("fallback", ())),
    )
    machine = machines[d["machine"]] if "machine" in d else None
    return CaseResult(d["index"], d["repro"], d["elapsed_s"], result, d["phases_s"], machine)


def _read_graph(d: Json) -> Sketch:
    ops = (OpSketch(id, kind, name, *(tuple(given) for given in rest)) for id, kind, name, *rest in d["ops"])
    return Sketch(tuple(ops), dict(d["tensors"]), tuple(d["inputs"]), tuple(d["outputs"]))


def _read_partition(d: Json) -> PartitionTiming:
    return PartitionTiming(
        d["id"], d["kind"], tuple(d["ops"]), d["flops"], d["bytes"], d["compile_s"], _read_timing(d), d.get("is_warm", False)
    )


def _read_policy(name: str, d: Json) -> PolicyTiming:
    called = _read_timing(d["called"]) if "called" in d else None
    layers = _read_layers(d["layers"]) if "layers" in d else None
    return PolicyTiming(name, _read_timing(d), tuple(_read_partition(p) for p in d["partitions"]), called, layers)


def _read_layers(d: Json) -> LayerProfile:
    names = [f.name for f in fields(LayerTiming)]
    known = ({name: each[name] for name in names if name != "nests" or name in each} for each in d["layers"])  # older reports lack it
    values: Iterable[Json] = ({name: tuple(x) if isinstance(x, list) else x for name, x in each.items()} for each in known)
    spans = tuple(Span(*s) for s in d["spans"])
    return LayerProfile(tuple(LayerTiming(**v) for v in values), tuple(d["whole_s"]), spans, d["threads"], d["is_profiled"])


def _read_timing(d: Json) -> Timing:
    return Timing(tuple(d["samples_s"]), d["executions_per_sample"])


# ---- files -----------------------------------------------------------------------------------------------------------


def write_whole(path: Path, text: str) -> None:
    """Write a file, and make its folder, so that at any moment it holds the old text or the new. Raises OSError."""
    make_folder(path.parent)
    if not is_plain(path):
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # file names may not be UTF-8
        return
    target = real(path)  # symbolic links are kept
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8", errors="backslashreplace")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def write(file: str, text: str, where: str = "") -> None:
    """Write an output file of a command atomically. where: its name in an error. Raises BenchgraphError."""
    try:
        write_whole(Path(file), text)
    except OSError as bad:
        raise unwritable(bad, where or file) from bad


def unwritable(bad: OSError, where: str, full: str = "make room there, or name another one") -> BenchgraphError:
    """The error for a file that could not be written. full: the remedy for a full disk."""
    fix = full if is_full(bad) else "name another one"
    return BenchgraphError(f"cannot write the file: {bad.strerror}", where=where, fix=fix)


def is_full(bad: OSError) -> bool:
    """Whether the disk or the user's quota is full."""
    return bad.errno in (errno.ENOSPC, errno.EDQUOT)


def is_plain(path: Path) -> bool:
    """Whether it is a regular file or does not exist yet; not a device or a pipe."""
    return path.is_file() or not path.exists()
