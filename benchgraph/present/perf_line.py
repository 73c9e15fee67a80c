"""Fills in benchdnn's perf lines: one per timed case, or per policy if the template contains %policy%."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean

from benchgraph.options.perf_template import COUNTED, CREATION, SAMPLED, TEMPLATES, TOKEN, UNITS
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, PolicyTiming, Result

STATISTICS: dict[str, tuple[str, Callable[[tuple[float, ...]], float]]] = {"-": ("min", min), "0": ("avg", fmean), "+": ("max", max)}


def header(template: str) -> str:
    text = TEMPLATES.get(template, template)
    return f"Template entries: {text}\n{TOKEN.sub(_column, text)}"


def lines(template: str, problem: Problem, case: CaseResult) -> list[str]:
    """The perf lines of a case; times are 0 if there are none, as for a failed case."""
    text = TEMPLATES.get(template, template)
    timings = case.result.timings if "%policy%" in text else case.result.timings[:1]
    return [TOKEN.sub(lambda token, t=t: _value(token, problem, case, t), text) for t in (timings or (None,))]  # type: ignore[misc]


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
    texts = {
        "prb": case.repro,
        "desc": problem.description,
        "driver": problem.driver.name,
        "engine": problem.globals.engine,
        "idx": str(case.index),
        "impl": _implementations(r, timing) or ",".join(problem.globals.library),
        "mb": str(getattr(problem.knobs, "mb", "")),
        "policy": timing.policy if timing is not None else "",
        "attr": str(getattr(problem.knobs, "attr_fpmath", "")),
    }
    return texts.get(name, "")


def _implementations(r: Result, timing: PolicyTiming | None) -> str:
    """What a policy ran on: every name once."""
    ran = () if timing is None else r.implementations.get(timing.policy, ())
    return "+".join(dict.fromkeys(i.name for each in ran for i in each))


def _number(value: float) -> str:
    return f"{value:g}"


def _column(token: re.Match[str]) -> str:
    sign, unit, name = token.groups()
    if name not in (*SAMPLED, *CREATION):
        return unit + name
    default = "-" if name in SAMPLED else "+"
    return f"{STATISTICS[sign or default][0]}_{unit}{name}"
