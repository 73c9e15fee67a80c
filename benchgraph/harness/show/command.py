"""The words behind `benchgraph show`: --format and --output are its own, all others choose the case as they do without it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.errors import BenchgraphError
from benchgraph.harness.argv import UsageError, parse
from benchgraph.harness.bench import Bench
from benchgraph.harness.knobs import words
from benchgraph.harness.parsers import one_of
from benchgraph.harness.plugins import names
from benchgraph.harness.policy import Choice
from benchgraph.harness.problem import TRIGGER
from benchgraph.harness.show.dot import dot
from benchgraph.harness.show.picture import draw, part, sketch
from benchgraph.harness.show.svg import svg
from benchgraph.harness.show.text import text

FORMATS = {"text": text, "dot": dot, "svg": svg}
OPTIONS = {"--format": "format", "--output": "output", "-o": "output"}


@dataclass(frozen=True)
class Request:
    """format: a key of FORMATS. output: a file, '' for the terminal. rest: the words that choose the case."""

    format: str
    output: str
    rest: tuple[str, ...]


def read(given: list[str]) -> Request:
    """Take the command's own options out of the words. Raises UsageError."""
    own, rest = {"format": "text", "output": ""}, list[str]()
    for option, value in own_options("show", OPTIONS, given, rest):
        own[OPTIONS[option]] = value
    try:
        one_of(*FORMATS)(own["format"])
    except ValueError as bad:
        raise UsageError(f"bad value '{own['format']}'", where="show: --format", fix=str(bad)) from bad
    return Request(own["format"], own["output"], ordered(rest))


def own_options(command: str, options: Collection[str], given: list[str], rest: list[str]) -> Iterator[tuple[str, str]]:
    """(option, value) for each word that is one of these options, in order; all others go to rest.

    Raises UsageError, naming the command, for an option without a value.
    """
    left = list(given)
    while left:
        word = left.pop(0)
        option, has_value, value = word.partition("=")
        if option not in options:
            rest.append(word)
            continue
        if not has_value:
            value = left.pop(0) if left and not left[0].startswith("-") else ""
        if not value:
            raise UsageError("a value is missing", where=f"{command}: {option}", fix=f"write '{option} VALUE'")
        yield option, value


def ordered(words: list[str]) -> tuple[str, ...]:
    """The driver first and the cases last, so that every option counts wherever it stands. Without a driver it is graph."""
    drivers, cases, options = list[str](), list[str](), list[str]()
    left = list(words)
    while left:
        word = left.pop(0)
        option, has_value, _ = word.partition("=")
        is_driver = option == "--driver" or word.removeprefix("--") in names("drivers")
        taken = [word]
        if option.startswith("--") and not has_value and word.removeprefix("--") not in names("drivers") and word != "--reset" and left:
            taken.append(left.pop(0))
        is_case = option == TRIGGER or not word.startswith("-")
        (drivers if is_driver else cases if is_case else options).extend(taken)
    return (*(drivers or ["--graph"]), *options, *cases)


def show(given: list[str], bench: Bench) -> str:
    """The picture asked for, as text; written to the file if one is named, and then the answer says so.

    Raises UsageError for words nobody can follow, and what the case's graph raises.
    """
    request = read(given)
    problems = parse(list(request.rest)).problems
    if len(problems) != 1 or len(problems[0].globals.policies) != 1:
        count = f"{len(problems)} cases" if len(problems) != 1 else f"{len(problems[0].globals.policies)} policies"
        raise UsageError(f"{count} to draw", where="show", fix="give one --case, one value per option and one --policy")
    (problem,) = problems
    (policy,) = problem.globals.policies
    graph = problem.graph()
    partitions = bench.library(problem.globals.library[0]).partitions(graph, Choice.read(policy).policy)
    title = " ".join([f"--{problem.driver.name}", *words(problem.knobs)])
    picture = draw(sketch(graph), [[op.id for op in p.ops] for p in partitions], [part(p) for p in partitions], title, policy)
    drawn = FORMATS[request.format](picture)
    if not request.output:
        return drawn
    path = Path(request.output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawn + "\n", encoding="utf-8")
    except OSError as bad:
        raise BenchgraphError(f"cannot write the file: {bad.strerror}", where=request.output, fix="name another one") from bad
    return f"{request.format}: {path}"
