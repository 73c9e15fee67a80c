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
from benchgraph.harness.command_words import need_output, own_options, select_cases
from benchgraph.harness.fallback import is_fallback, with_fallback
from benchgraph.harness.outputs import STDOUT
from benchgraph.harness.partitioning import partition_graph
from benchgraph.options.knobs import Globals
from benchgraph.options.problem import Problem, settings_of
from benchgraph.present.explain import text
from benchgraph.present.progress import progress_line
from benchgraph.results.json_report import write

JSON, OUTPUT = "--json", ("--output", "-o")
# Parameters of Graph IR and their keys in JSON, which stay when parameters get other names.
KEYS = {"unrolled_columns": "abreast", "score_columns": "step"}


@dataclass(frozen=True)
class Explained:
    """One case under one policy. partitions: in order of execution."""

    repro: str
    policy: str
    partitions: tuple[Explanation, ...]


def run(given: list[str], bench: Bench) -> str:
    """The explanation as text or JSON; if a file is named, it is written there and the result names it.

    Raises UsageError for invalid words, and the errors of a case's graph.
    """
    words = list[str]()
    [*_, output] = ["", *(value for _, value in own_options("explain", OUTPUT, given, words, form=" FILE"))]
    is_json = JSON in words
    command_line = select_cases("explain", [word for word in words if word != JSON])
    if not (problems := command_line.problems):
        raise UsageError("no case to explain", where="explain", fix=f"add {command_line.case}")
    need_output("explain", output, "json" if is_json else "console", {p.file for p in problems})
    if any(p.globals.library != Globals().library for p in problems):
        raise UsageError("only our own compiler can be asked", where="explain: --library", fix="leave it out")
    need_isas(problems)
    need_tuning(problems)
    explanations = list[Explained]()
    with progress_line("cases", len(problems)) as step:
        for problem in problems:
            explanations += _explained(problem, bench)
            step()
    if is_json:
        explanation = json.dumps(list(map(_plain, explanations)), indent=2)
    else:
        explanation = "\n\n".join(text(e.repro, e.policy, e.partitions) for e in explanations)
    if output in ("", STDOUT):
        return explanation
    write(output, explanation + "\n")
    return f"explanation: {output}"


def _explained(problem: Problem, bench: Bench) -> Iterator[Explained]:
    begin_item(problem.description)
    with settings_of(problem):
        graph = problem.graph()
        for spec in problem.globals.contender_specs:
            library = with_fallback(bench.library(spec.library), graph)
            partitions = [p for p in partition_graph(problem, graph, library, spec) if not is_fallback(p)]
            done = list[Explanation]()
            for partition in partitions:
                report_progress("compile", len(done), len(partitions))
                done.append(explain(partition))
            yield Explained(problem.repro, spec.policy, tuple(done))


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
