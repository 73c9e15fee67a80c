"""`benchgraph merge A.json B.json ... -o FILE`: the shards of a run as one JSON report."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.analysis.merge import Allowed, merge
from benchgraph.core.errors import UsageError
from benchgraph.core.formats import counted
from benchgraph.harness.command_words import need_no_options, need_output, own_options
from benchgraph.harness.outputs import STDOUT
from benchgraph.present.screen import warn
from benchgraph.results.json_report import render, write
from benchgraph.results.saved import read

OUTPUT = ("--output", "-o")
OTHER_MACHINE, OTHER_CODE, INCOMPLETE = "--other-machine", "--other-code", "--incomplete"
FLAGS = (OTHER_MACHINE, OTHER_CODE, INCOMPLETE)


def run(given: Sequence[str]) -> tuple[str, int]:
    """Write the report. Returns the output and the exit code; raises UsageError for invalid words, BenchgraphError for invalid files."""
    files, words = list[str](), [word for word in given if word not in FLAGS]
    [*_, output] = ["", *(value for _, value in own_options("merge", OUTPUT, words, files, form=" FILE", barred="--"))]
    need_no_options("merge", files, (*OUTPUT, *FLAGS))
    if not files:
        raise UsageError("no shards to merge", where="merge", fix="give files that --shard=I/N --report=json:FILE wrote")
    need_output("merge", output, "json", files)
    read_files = [(file, *read(file)) for file in files]
    for *_, cut in read_files:
        if cut:
            warn(cut)
    allowed = Allowed(OTHER_MACHINE in given, OTHER_CODE in given, INCOMPLETE in given)
    merged = merge([(file, results) for file, results, _ in read_files], allowed)
    if merged.cut:
        warn(f"merge: {merged.cut}")
    if output in ("", STDOUT):
        return render(merged), 0
    write(output, render(merged))
    return f"json report: {output}, {counted(len(merged.cases), 'case')} of {counted(len(files), 'shard')}", 0
