"""`benchgraph show`: --format and --output are its own options, all others select the case as in a run."""

from __future__ import annotations

from pathlib import Path

from benchgraph.core.errors import UsageError
from benchgraph.harness.bench import Bench
from benchgraph.harness.command_words import need_output, own_options, parsed_value, select_cases
from benchgraph.harness.outputs import STDOUT
from benchgraph.options.parsers import one_of
from benchgraph.options.policy import PolicyChoice
from benchgraph.present.show.dot import dot
from benchgraph.present.show.picture import draw, partition_label, sketch
from benchgraph.present.show.repeated_blocks import with_repeats_collapsed
from benchgraph.present.show.svg import svg
from benchgraph.present.show.text import text
from benchgraph.results.json_report import write

FORMATS = {"text": text, "dot": dot, "svg": svg}
UNFOLD = "--unfold"
OPTIONS = {"--format": "format", "--output": "output", "-o": "output"}


def show(given: list[str], bench: Bench) -> str:
    """The picture as text; if a file is named, it is written there and the result names it.

    Raises UsageError for invalid words, and the errors of the case's graph.
    """
    words = list[str]()
    own = {"format": "text", "output": ""}
    own |= {OPTIONS[option]: value for option, value in own_options("show", OPTIONS, [w for w in given if w != UNFOLD], words)}
    format, output = parsed_value("show", "--format", own["format"], one_of(*FORMATS)), own["output"]
    suffix = Path(output).suffix.lower().removeprefix(".")
    if suffix in FORMATS and suffix != format:
        raise UsageError(f"the file's name says {suffix}", where=f"show: --output={output}", fix=f"write '--format={suffix}'")
    problems = select_cases("show", words).problems
    if len(problems) != 1 or len(problems[0].globals.policies) != 1:
        count = f"{len(problems)} cases" if len(problems) != 1 else f"{len(problems[0].globals.policies)} policies"
        raise UsageError(f"{count} to draw", where="show", fix="give one --case, one value per option and one --policy")
    (problem,) = problems
    need_output("show", output, "console" if format == "text" else format, (problem.file,))
    (policy,) = problem.globals.policies
    graph = problem.graph()
    partitions = bench.library(problem.globals.library[0]).partitions(graph, PolicyChoice.read(policy).policy)
    title = problem.description
    picture = draw(sketch(graph), [[op.id for op in p.ops] for p in partitions], [partition_label(p) for p in partitions], title, policy)
    drawn = FORMATS[format](picture if UNFOLD in given or problem.globals.verbose else with_repeats_collapsed(picture))
    if output in ("", STDOUT):
        return drawn
    write(output, drawn + "\n")
    return f"{format}: {output}"
