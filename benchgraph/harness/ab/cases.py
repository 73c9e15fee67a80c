"""The cases of a command that compares versions, and whether they and the versions can be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchgraph.analysis.ab.comparison import Side
from benchgraph.core.errors import UsageError
from benchgraph.harness.ab.sides import policies
from benchgraph.harness.bench import Bench, need_isas, need_libraries, need_tuning
from benchgraph.harness.command_words import select_cases
from benchgraph.options.argv import CommandLine
from benchgraph.options.plugins import names
from benchgraph.options.problem import Problem

SETTLED = ("--mode", "--library", "--history", "--resume", "--commit")  # options of a run that mean nothing here


def cases(command: str, words: Sequence[str], budget_ms: int, default: Sequence[str] = ()) -> CommandLine:
    """The selected cases, under fused where they name no policy. budget_ms: of a launch, where they have none. default: the words for cases
    if none are given. Raises UsageError.
    """
    given = {word.partition("=")[0].replace("_", "-") for word in words}
    if settled := [option for option in SETTLED if option in given]:
        raise UsageError("the command settles this itself", where=f"{command}: {settled[0]}", fix="leave it out")
    defaults = {"--policy": "fused", "--max-ms-per-prb": budget_ms}
    late = [f"{option}={value}" for option, value in defaults.items() if option not in given]  # after the cases: for those without one
    line = select_cases(command, [*words, *late])
    if not line.planned and default and not given & {"--batch", "--driver", *(f"--{name}" for name in names("drivers"))}:
        line = select_cases(command, [*words, *default, *late])
    if not line.problems:
        raise UsageError("nothing to run", where=command, fix=f"add {line.case}")
    return line


def need_versions(command: str, problems: Sequence[Problem], versions: tuple[Side, Side], bench: Bench) -> None:
    """Raise BenchgraphError unless the versions work, with all that the cases ask of the machine."""
    need_isas(problems)
    need_tuning(problems)
    if not all(policies(p.globals, *versions) for p in problems):
        raise UsageError("the versions have no policy in common", where=f"{command}: --policy", fix="name one that both have")
    need_libraries([replace(p, globals=replace(p.globals, library=tuple(v.word for v in versions))) for p in problems], bench)
