"""Attention's temporaries are tiles: a sequence twice as long needs at most twice as much, for every form of the graph.

Every attention of ours under inputs/graph, and of the corpus, is compiled for a sequence and for one twice as long. The temporaries of a
thread may grow as a row of scores does, those of all threads together not at all. A matrix of scores would grow fourfold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import from_partition
from benchgraph.gir.passes import PIPELINE
from benchgraph.graph.infer import infer_shapes
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.json import load
from benchgraph.graph.override.dtypes import with_dtype
from benchgraph.graph.override.layout import resized
from benchgraph.lower import lower
from benchgraph.machine.target import ISAS, Target
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.passes.plan_buffers import temporary_bytes
from tests.support.corpus import CORPUS
from tests.support.tensor_ir import before

OURS = Path(__file__).parents[2] / "inputs" / "graph"
THEIRS = CORPUS / "onednn" / "complex_fusion" / "mha"  # the paper's are ours too, see test_corpus.py
LONG = 512
ROOM = 2.5  # of the rows that two tasks are given, with what is padded

NARROW = ("attention", "attention_backward", "attention_heads_in_columns")  # of ours, those that are tried in bf16 too

# What has no sequence that could be made longer.
LEFT_OUT = {
    "gemma2-bf16-f32.json": "heads are as wide as the sequence is long, and sizes are what tells them apart here",
    "hf-sdpa-fwd-no-mask-bf16-f32.json": "one query and one key",
}


def cases() -> list[Path]:
    ours = [OURS / "attention.json", *OURS.glob("complex_fusion/attention*.json"), *OURS.glob("paper/mha_*.json")]
    theirs = THEIRS.glob("*.json") if CORPUS.is_dir() else ()
    return sorted(ours) + sorted(path for path in theirs if path.name not in LEFT_OUT)


def target(isa: str) -> Target:
    return Target(ISAS[isa], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)


def lengths(graph: Graph) -> set[int]:
    """Queries and keys: the sides of a matrix of scores."""
    scores = next(op.inputs[0] for op in graph.order if op.kind in ("SoftMax", "SoftMaxBackward", "Exp"))
    return set(scores.known_shape[-2:]) - {1}


def longer(graph: Graph, factor: int) -> Graph:
    """The graph for sequences longer by a factor; of heads side by side each becomes longer."""
    sides = lengths(graph)
    merged = {size for op in graph.ops if op.kind == "StaticReshape" for t in (*op.inputs, *op.outputs) for size in t.known_shape}
    sides |= {size for size in merged if any(size > side and size % side == 0 for side in sides)}

    def scaled(shape: Shape) -> Shape:
        return tuple(factor * size if size in sides else size for size in shape)

    def op(old: Op) -> Op:
        attrs = old.attrs
        for name in ("shape", "group_shape"):
            if name in attrs:
                attrs = attrs.updated(**{name: scaled(attrs.integers(name))})
        ins, outs = (tuple(resized(t, scaled(t.known_shape)) for t in ports) for ports in (old.inputs, old.outputs))
        return replace(old, attrs=attrs, inputs=ins, outputs=outs)

    return infer_shapes(replace(graph, ops=tuple(map(op, graph.ops))))


def held(graph: Graph, isa: str, off: Collection[str] = ()) -> tuple[int, int]:
    """Bytes of all temporaries, (shared, per thread), of the partition that needs most of them."""
    found = []
    for partition in partitions(graph, Policy.fused):
        if not partition.is_supported:
            continue
        g = from_partition(partition)
        for p in PIPELINE:
            g = g if p.switch in off else p.fn(g, target(isa))
        main = tir_passes.run(lower(g).main, target(isa), pipeline=before("pad-rows"), off=off)
        found.append(temporary_bytes(main))
    shared, thread = zip(*found, strict=True)
    return max(shared), max(thread)


def growth(graph: Graph, isa: str, off: Collection[str] = ()) -> tuple[int, float]:
    """Bytes that all threads share, and by how much those of one grow, when the sequence becomes twice as long."""
    factor = ceil(LONG / min(lengths(graph)))
    (_, before), (shared, after) = (held(longer(graph, n * factor), isa, off) for n in (1, 2))
    return shared, after / before


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_temporaries_grow_as_rows_do(path: Path) -> None:
    shared, thread = growth(infer_shapes(load(path)), "avx512_core_vnni")
    assert shared == 0
    assert thread <= 2 * ROOM


@pytest.mark.parametrize("path", [path for path in cases() if "bf16" in path.name or path.stem in NARROW], ids=lambda path: path.stem)
def test_temporaries_grow_as_rows_do_with_bf16_products(path: Path) -> None:
    """bf16 instructions take pairs along k, which a reduction over the rows of scores has in different rows."""
    graph = infer_shapes(load(path))
    shared, thread = growth(graph if "bf16" in path.name else with_dtype(graph, DType.bf16), "avx512_core_bf16")
    assert shared == 0
    assert thread <= 2 * ROOM


def test_products_of_all_heads_at_once_would_hold_matrices() -> None:
    shared, _ = growth(
        infer_shapes(load(OURS / "complex_fusion" / "attention_heads_in_columns.json")), "avx512_core_vnni", off=("split-heads",)
    )
    assert shared > 0


def test_unshrunk_temporaries_have_full_size() -> None:
    shared, _ = held(longer(infer_shapes(load(OURS / "attention.json")), 4), "avx512_core_vnni", off=("shrink",))
    assert shared > 4 * 8 * 512 * 512 * 4
