"""`benchgraph explain`: --json and --output are its own options, all others select cases as in a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchgraph.core.errors import UsageError
from benchgraph.core.progress import begin_item, report_progress
from benchgraph.explain import Explanation, explain
from benchgraph.harness.bench import Bench, need_isas, need_tuning
from benchgraph.harness.command_words import need_output, select_cases, value_of
from benchgraph.harness.cut import cut
from benchgraph.harness.outputs import STDOUT
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem, settings_of
from benchgraph.present.explain import text
from benchgraph.present.progress import progress_line
from benchgraph.results.json_report import write

JSON, OUTPUT = ("--json",), ("--output", "-o")
# Parameters of Graph IR and their keys in JSON, which stay when parameters get other names.
KEYS = {"unrolled_columns": "abreast", "score_columns": "step", "l2_parts": "parts", "entry_groups": "groups"}


@dataclass(frozen=True)
class Request:
    """output: a file, '' for the terminal. rest: the words that select cases."""

    is_json: bool
    output: str
    rest: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """One case under one policy. partitions: in order of execution."""

    repro: str
    policy: str
    partitions: tuple[Explanation, ...]


def read(given: list[str]) -> Request:
    """Split off the command's own options. Raises UsageError."""
    is_json, output, rest, left = False, "", list[str](), list(given)
    while left:
        word = left.pop(0)
        option, has_value, value = word.partition("=")
        if option in JSON:
            if has_value:
                raise UsageError(f"--json takes no value, and '{value}' is one", where="explain", fix="write '--json -o FILE'")
            is_json = True
        elif option in OUTPUT:
            output = value_of("explain", word, left, form=" FILE")
        else:
            rest.append(word)
    return Request(is_json, output, tuple(rest))


def run(given: list[str], bench: Bench) -> str:
    """The explanation as text or JSON; if a file is named, it is written there and the result names it.

    Raises UsageError for invalid words, and the errors of a case's graph.
    """
    request = read(given)
    need_output("explain", request.output, "json" if request.is_json else "console")
    command_line = select_cases("explain", request.rest)
    if not (problems := command_line.problems):
        raise UsageError("no case to explain", where="explain", fix=f"add {command_line.case}")
    if any(p.globals.library != Globals().library for p in problems):
        raise UsageError("only our own compiler can be asked", where="explain: --library", fix="leave it out")
    need_isas(problems)
    need_tuning(problems)
    explanations = list[Explained]()
    with progress_line("cases", len(problems)) as step:
        for problem in problems:
            explanations += _explained(problem, bench)
            step()
    text_or_json = (
        json.dumps([_plain(each) for each in explanations], indent=2) if request.is_json else "\n\n".join(map(_text, explanations))
    )
    if request.output in ("", STDOUT):
        return text_or_json
    write(request.output, text_or_json + "\n")
    return f"explanation: {request.output}"


def _explained(problem: Problem, bench: Bench) -> Iterator[Explained]:
    begin_item(problem.description)
    with settings_of(problem):
        graph = problem.graph()
        for side in problem.globals.sides:
            partitions = cut(problem, graph, bench.library(side.library), side)
            done = list[Explanation]()
            for partition in partitions:
                report_progress("compile", len(done), len(partitions))
                done.append(explain(partition))
            yield Explained(problem.repro, side.policy, tuple(done))


def _text(explained: Explained) -> str:
    return text(explained.repro, explained.policy, explained.partitions)


def _plain(explained: Explained) -> dict[str, Any]:
    """The fields for JSON, with the derived peaks, and with the keys of parameters."""
    plain = asdict(explained)
    for partition, e in zip(plain["partitions"], explained.partitions, strict=True):
        for arenas, a in zip(partition["arenas"], e.arenas, strict=True):
            arenas |= {"peak_bytes": a.peak_bytes, "peak_bytes_without_reuse": a.peak_bytes_without_reuse}
        for chosen in (section["chosen"] for nest in partition["nests"] for section in nest["sections"] if section["chosen"]):
            chosen["parameters"] = {KEYS.get(name, name): value for name, value in chosen["parameters"].items()}
            chosen["reasons"] = [{"parameter": KEYS.get(r["parameter"], r["parameter"]), "text": r["text"]} for r in chosen["reasons"]]
    return plain
