"""Every stage of compilations as text and back: `parse(print(x)) == x` and `print(parse(text)) == text`.

`python -m tests.test_ir_round_trip --fuzz=500 BATCH...` compares every stage of the partitions of so many fuzzed graphs and of the graphs
of batch files, such as test_graph_ci, and counts them; its exit code is 1 when one of them differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from benchgraph.core.canonical import canonical
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.passes import run
from benchgraph.core.record import recorded
from benchgraph.fuzz.generate import generate
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Graph as GraphIR
from benchgraph.gir.parse import parse_gir
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import Target
from benchgraph.options.argv import parse
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import Func
from benchgraph.tir.parse import parse_tir
from benchgraph.tir.text import print_tir
from tests.support.targets import TARGET

SEED = 51


def stages(partition: Partition, target: Target = TARGET) -> Iterator[tuple[str, GraphIR | Func]]:
    """What goes into both pipelines and what each pass that changes it leaves, with the pass' name. Raises what the passes raise."""
    with recorded() as record:
        g = from_partition(partition)
        g = run(gir_passes.PIPELINE, g, target, show=print_gir, verify=verify, observe=lambda *_: None, off=partition.options.off)
        for func in lower(g).functions():
            tir_passes.run(func, target, observe=lambda *_: None, off=partition.options.off)
    for step in record.steps:
        assert isinstance(step.ir, GraphIR | Func)
        if step.is_changed or not step.name:
            yield step.name or "the input", step.ir


def difference(ir: GraphIR | Func) -> str:
    """What is not the same after printing and parsing; '' where all is."""
    text = print_gir(ir) if isinstance(ir, GraphIR) else print_tir(ir)
    try:
        back = parse_gir(text) if isinstance(ir, GraphIR) else parse_tir(text)[0]
    except BenchgraphError as bad:
        return f"{bad}\n{text}"
    if back != ir and canonical(back) != canonical(ir):  # NaN is not equal to itself
        return f"another value\n{text}"
    again = print_gir(back) if isinstance(back, GraphIR) else print_tir(back)
    return "" if again == text else f"another text:\n{text}\n{again}"


def graphs(fuzz: int, batches: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    """Fuzzed graphs, then those of batches that can be built, each with what it is called."""
    for index in range(fuzz):
        yield f"fuzz {SEED}:{index}", generate(SEED, index)
    for batch in batches:
        for problem in parse(["--graph", f"--batch={batch}"]).problems:
            with suppress(BenchgraphError):
                yield problem.repro, problem.graph()


@pytest.mark.parametrize("index", range(6))
def test_every_stage_of_a_fuzzed_graph_comes_back(index: int) -> None:
    for partition in partitions(generate(SEED, index), Policy.fused):
        for stage, ir in stages(partition) if partition.is_supported else ():
            assert not difference(ir), f"after {stage}"


def main(words: Sequence[str]) -> int:
    fuzz = sum(int(word.removeprefix("--fuzz=")) for word in words if word.startswith("--fuzz="))
    counts = Counter[str]()
    for name, graph in graphs(fuzz, [word for word in words if not word.startswith("--")]):
        counts["graphs"] += 1
        for partition in partitions(graph, Policy.fused):
            try:
                for stage, ir in stages(partition) if partition.is_supported else ():
                    counts["stages"] += 1
                    if (wrong := difference(ir)) and counts["different"] < 20:
                        print(f"{name}, partition {partition.id}, after {stage}: {wrong}")
                    counts["different"] += bool(wrong)
            except BenchgraphError as bad:
                counts["not compiled"] += 1
                print(f"{name}, partition {partition.id}: {bad.line}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return bool(counts["different"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
