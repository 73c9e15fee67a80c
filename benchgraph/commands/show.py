"""`benchgraph show`: --format and --output are its own options, all others select the case as in a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.errors import UsageError
from benchgraph.harness.bench import Bench
from benchgraph.harness.command_words import need_output, own_options, parsed_value, select_cases
from benchgraph.harness.outputs import STDOUT
from benchgraph.options.parsers import one_of
from benchgraph.options.policy import PolicyChoice
from benchgraph.present.show.dot import dot
from benchgraph.present.show.picture import draw, part, sketch
from benchgraph.present.show.repeated_blocks import with_repeats_collapsed
from benchgraph.present.show.svg import svg
from benchgraph.present.show.text import text
from benchgraph.results.json_report import write

FORMATS = {"text": text, "dot": dot, "svg": svg}
UNFOLD = "--unfold"
OPTIONS = {"--format": "format", "--output": "output", "-o": "output"}


@dataclass(frozen=True)
class Request:
    """format: a key of FORMATS. output: a file, '' for the terminal. is_unfolded: whether repeated blocks are all drawn, as with -v.

    rest: the words that select the case.
    """

    format: str
    output: str
    is_unfolded: bool
    rest: tuple[str, ...]


def read(given: list[str]) -> Request:
    """Split off the command's own options. Raises UsageError."""
    own, rest = {"format": "text", "output": ""}, list[str]()
    for option, value in own_options("show", OPTIONS, [word for word in given if word != UNFOLD], rest):
        own[OPTIONS[option]] = value
    format = parsed_value("show", "--format", own["format"], one_of(*FORMATS))
    return Request(format, own["output"], UNFOLD in given, tuple(rest))


def show(given: list[str], bench: Bench) -> str:
    """The picture as text; if a file is named, it is written there and the result names it.

    Raises UsageError for invalid words, and the errors of the case's graph.
    """
    request = read(given)
    suffix = Path(request.output).suffix.lower().removeprefix(".")
    if suffix in FORMATS and suffix != request.format:
        raise UsageError(f"the file's name says {suffix}", where=f"show: --output={request.output}", fix=f"write '--format={suffix}'")
    need_output("show", request.output, "console" if request.format == "text" else request.format)
    problems = select_cases("show", request.rest).problems
    if len(problems) != 1 or len(problems[0].globals.policies) != 1:
        count = f"{len(problems)} cases" if len(problems) != 1 else f"{len(problems[0].globals.policies)} policies"
        raise UsageError(f"{count} to draw", where="show", fix="give one --case, one value per option and one --policy")
    (problem,) = problems
    (policy,) = problem.globals.policies
    graph = problem.graph()
    partitions = bench.library(problem.globals.library[0]).partitions(graph, PolicyChoice.read(policy).policy)
    title = problem.description
    picture = draw(sketch(graph), [[op.id for op in p.ops] for p in partitions], [part(p) for p in partitions], title, policy)
    drawn = FORMATS[request.format](picture if request.is_unfolded or problem.globals.verbose else with_repeats_collapsed(picture))
    if request.output in ("", STDOUT):
        return drawn
    write(request.output, drawn + "\n")
    return f"{request.format}: {request.output}"
