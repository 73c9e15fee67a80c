"""benchdnn's perf lines: a template of %tokens%, filled in once per timed case, or per policy where it says %policy%.

A token is %[-0+][KMG]NAME%: a sign picks the least (-, the default), the average (0) or the largest (+) sample, a letter divides by a
power of 1000. All names of benchdnn's are known; those that say nothing of a graph are empty, as are clocks and frequencies, which nobody
measures here. Times are milliseconds per execution of the whole graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean

from benchgraph.core.errors import did_you_mean
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import CaseResult, PolicyTiming

TEMPLATES = {"def": "perf,%engine%,%prb%,%-time%,%0time%", "csv": "perf,%engine%,%desc%,%-time%,%0time%"}
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
STATISTICS: dict[str, tuple[str, Callable[[tuple[float, ...]], float]]] = {"-": ("min", min), "0": ("avg", fmean), "+": ("max", max)}
SAMPLED = ("time", "bw", "flops")
COUNTED = ("ops", "ibytes", "obytes", "iobytes")
CREATION = ("ctime", "cptime", "cpdtime")
SAID = ("prb", "desc", "driver", "engine", "idx", "impl", "name", "mb", "policy", "attr")
EMPTY = (
    *("clocks", "freq", "axis", "cfg", "alg", "dir", "dt", "sdt", "ddt", "bia_dt", "tag", "stag", "dtag", "wtag", "stat_tag", "group"),
    *("flags", "prop", "activation", "direction", "ctx-init", "ctx-exe"),
)
KNOWN = frozenset((*SAMPLED, *COUNTED, *CREATION, *SAID, *EMPTY))

_TOKEN = re.compile(r"%([-0+]?)([KMG]?)([a-z_-]+)%")


def check(template: str) -> None:
    """Raise ValueError for a template with a % that begins no token."""
    for word in re.findall(r"%[^%]*%?", TEMPLATES.get(template, template)):
        found = _TOKEN.fullmatch(word)
        if found is None:
            raise ValueError(f"'{word}' is no token; write %NAME%, as in %-time%")
        if found[3] not in KNOWN:
            raise ValueError(f"unknown token {word}; " + (did_you_mean(found[3], KNOWN) or f"there are {', '.join(sorted(KNOWN))}"))


def header(template: str) -> str:
    """Two lines: the template, and the column names that follow from it."""
    text = TEMPLATES.get(template, template)
    return f"Template entries: {text}\n{_TOKEN.sub(_column, text)}"


def _column(token: re.Match[str]) -> str:
    sign, unit, name = token.groups()
    if name not in (*SAMPLED, *CREATION):
        return unit + name
    default = "-" if name in SAMPLED else "+"
    return f"{STATISTICS[sign or default][0]}_{unit}{name}"


def lines(template: str, problem: Problem, case: CaseResult) -> list[str]:
    """The perf lines of a case; times are 0 when there are none, as for one that failed."""
    text = TEMPLATES.get(template, template)
    timings = case.result.timings if "%policy%" in text else case.result.timings[:1]
    return [_TOKEN.sub(lambda token, t=t: _value(token, problem, case, t), text) for t in (timings or (None,))]  # type: ignore[misc]


def _value(token: re.Match[str], problem: Problem, case: CaseResult, timing: PolicyTiming | None) -> str:
    sign, unit, name = token.groups()
    r, divisor = case.result, UNITS[unit]
    seconds = STATISTICS[sign or "-"][1](timing.timing.samples_s) if timing is not None else 0.0
    if name in SAMPLED:
        amount = {"time": 1.0, "bw": r.bytes, "flops": r.flops}[name]
        return _number((seconds * 1e3 if name == "time" else amount / seconds if seconds else 0.0) / divisor)
    if name in COUNTED:
        amounts = {"ops": r.flops, "ibytes": r.input_bytes, "obytes": r.bytes - r.input_bytes, "iobytes": r.bytes}
        return _number(amounts[name] / divisor)
    if name in CREATION:
        return _number((timing.compile_s * 1e3 if timing is not None and name != "cpdtime" else 0.0) / divisor)
    said = {
        "prb": case.repro,
        "desc": problem.description,
        "driver": problem.driver.name,
        "engine": problem.globals.engine,
        "idx": str(case.index),
        "impl": ",".join(problem.globals.library),
        "mb": str(getattr(problem.knobs, "mb", "")),
        "policy": timing.policy if timing is not None else "",
        "attr": str(getattr(problem.knobs, "attr_fpmath", "")),
    }
    return said.get(name, "")


def _number(value: float) -> str:
    return f"{value:g}"
