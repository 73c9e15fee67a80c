"""Why oneDNN runs a reference implementation, from the dispatch lines of its verbose log.

That log costs time at every creation, and can be chosen only when the library is loaded. So the partition is compiled once more, in another
process that has it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.core.errors import BenchgraphError
from benchgraph.onednn import messages
from benchgraph.onednn.client import Process, process
from benchgraph.onednn.verbose_log import DISPATCH

LABEL = "dispatch"  # of the process


@dataclass(frozen=True)
class Source:
    """What a partition was made of: the graph, the policy's code, and the partition's position."""

    graph: messages.Graph
    policy: int
    position: int


def rejections(of: Process, source: Source, ins: Sequence[messages.Tensor], outs: Sequence[messages.Tensor]) -> dict[str, str]:
    """Per primitive, the implementations that were tried before the one it got, each with the reason; {} if oneDNN does not tell."""
    try:
        logging = process(of.path, of.threads, LABEL, log=DISPATCH)
        part: messages.Part = logging.ask("partition", source.graph, source.policy)[source.position]
        made: messages.Compiled = logging.ask("compile", part.number, tuple(ins), tuple(outs))
        logging.ask("flush")
    except BenchgraphError:  # a diagnosis that fails must not cost the case
        return {}
    found = dict[str, list[str]]()
    for primitive, name, reason in made.rejected:
        found.setdefault(primitive, []).append(f"{name}: {reason}")
    return {primitive: ", ".join(dict.fromkeys(texts)) for primitive, texts in found.items()}
