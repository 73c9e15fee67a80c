"""`benchgraph localise`: names the first op of each case whose output leaves its tolerance."""

from __future__ import annotations

import json
from typing import Any

from benchgraph.core.errors import UsageError
from benchgraph.core.formats import counted
from benchgraph.core.progress import begin_item
from benchgraph.graph.ir import Op
from benchgraph.harness.bench import Bench, need_isas, need_libraries
from benchgraph.harness.command_words import select_cases
from benchgraph.harness.contenders import library_of
from benchgraph.harness.localise import Place, labels, localise
from benchgraph.options.problem import Problem, settings_of
from benchgraph.present.progress import progress_line
from benchgraph.results.exit_codes import ExitCode
from benchgraph.results.mode import Mode

JSON = "--json"


def run(given: list[str], bench: Bench) -> tuple[str, int]:
    """The output, and the exit code: `failed` if a case has a wrong op. Raises UsageError for invalid words, and errors of graphs."""
    is_json, words = JSON in given, [word for word in given if word != JSON]
    command_line = select_cases("localise", words)
    problems = command_line.problems
    if not problems:
        raise UsageError("no case to look into", where="localise", fix=f"add {command_line.case}")
    for p in problems:
        if p.globals.mode is not Mode.correctness:
            what = f"outputs are compared, which mode {p.globals.mode.value} does not"
            raise UsageError(what, where="localise: --mode", fix="leave it out")
        if len(p.globals.library) > 1 or len(p.globals.policies) > 1:
            raise UsageError("one library and one policy at a time", where="localise", fix="name one of --library, one of --policy")
    need_isas(problems)
    need_libraries(problems, bench)
    found = list[tuple[Problem, Place]]()
    with progress_line("cases", len(problems)) as step:
        for p in problems:
            begin_item(p.description)
            with settings_of(p):
                graph = p.graph()
                found.append((p, localise(p, graph, library_of(p, graph, bench, p.globals.library[0]), p.globals.policies[0])))
            step()
    output = json.dumps([_fields(*each) for each in found], indent=2) if is_json else "\n".join(_text(*each) for each in found)
    return output, ExitCode.failed if any(place.op for _, place in found) else ExitCode.ok


def _text(problem: Problem, place: Place) -> str:
    """The case, and where it goes wrong."""
    lines = [problem.repro]
    if place.op is None:
        lines.append(f"  {counted(place.right, 'op')} right, alone and in their partitions")
    else:
        company = f" together with {labels(place.company)}" if place.company else " alone"
        lines.append(f"  {place.op.label} is the first wrong op,{company}: {place.reason}")
        lines.append(f"  {counted(place.right, 'op')} {'right alone' if place.company else 'before it right'}")
    if place.unrun:
        lines.append(f"  the library cannot run alone, so that the reference stood in: {labels(place.unrun)}")
    return "\n".join(lines)


def _fields(problem: Problem, place: Place) -> dict[str, Any]:
    return {
        "repro": problem.repro,
        "op": _op(place.op),
        "reason": place.reason,
        "company": [_op(op) for op in place.company],
        "right": place.right,
        "unrun": [_op(op) for op in place.unrun],
    }


def _op(op: Op | None) -> dict[str, Any] | None:
    return None if op is None else {"id": op.id, "kind": op.kind, "name": op.name}
