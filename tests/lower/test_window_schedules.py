"""Every schedule of a window's space gives the results of the reference, and schedules are chosen as documented."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.schedule.primitives import Schedule, parse
from benchgraph.tir.interpret import interpret
from tests.lower.depthwise import BY_DATA, BY_WEIGHTS, FORWARD, depthwise
from tests.lower.test_padded_window import pooled
from tests.lower.window_schedules import candidates, window_nodes, with_schedule
from tests.support.graph_ir import scheduled
from tests.support.partitions import partition_of
from tests.support.targets import TARGET


def interpolated(kind: str, src: Shape, sizes: Shape, mode: str, data_format: str = "NCX") -> Graph:
    b = GraphBuilder()
    dst = (*src[:2], *sizes) if data_format == "NCX" else (src[0], *sizes, src[-1])
    b.op(kind, *map(b.input, (src,) if kind == "Interpolate" else (src, dst)), mode=mode, sizes=sizes, data_format=data_format)
    return b.graph()


WINDOWS = {
    "maximum, channels last": pooled("MaxPool", (1, 20, 9, 5), (3, 3), data_format="NXC"),
    "maximum of every second, channels last": pooled("MaxPool", (1, 9, 40, 3), (3, 3), stride=2, data_format="NXC"),
    "maximum, rows of an image": pooled("MaxPool", (2, 3, 19, 9), (3, 3)),
    "average of every second, rows of an image": pooled("AvgPool", (2, 2, 8, 11), (5, 3), stride=2, exclude_pad=True),
    "wide padding": pooled("MaxPool", (2, 2, 4, 5), (3, 3), begin=3, end=4),
    "one row": pooled("MaxPool", (2, 3, 17), (3,)),
    "three dims": pooled("AvgPool", (1, 2, 5, 7, 6), (3, 3, 3)),
    "bf16 in planes": pooled("MaxPool", (2, 2, 5, 9), (3, 3), dtype=DType.bf16),
    "one window": pooled("AvgPool", (2, 5, 6, 7), (5, 6), begin=0, end=0, data_format="NXC"),
    "gradient of an average": pooled("AvgPoolBackward", (1, 20, 9, 5), (3, 3), exclude_pad=True, data_format="NXC"),
    "gradient of an average of every second": pooled("AvgPoolBackward", (1, 20, 9, 5), (3, 3), stride=2, data_format="NXC"),
    "gradient of a maximum": pooled("MaxPoolBackward", (1, 9, 18, 3), (3, 2), stride=2, data_format="NXC"),
    "gradient of a maximum, rows of an image": pooled("MaxPoolBackward", (1, 2, 7, 9), (2, 3)),
    "depthwise": depthwise(FORWARD, (4, 18), (3, 3), channels=3, images=1),
    "depthwise, strides of three": depthwise(FORWARD, (4, 29), (3, 5), stride=3, pad=0, channels=3),
    "depthwise, rows of an image": depthwise(FORWARD, (9, 14), (3, 3), channels=2, data_format="NCX", dilation=2, pad=2),
    "depthwise by data": depthwise(BY_DATA, (4, 18), (3, 3), stride=2, channels=3, images=1),
    "depthwise by data, strides of three": depthwise(BY_DATA, (5, 20), (3, 3), stride=3, channels=2, images=1),
    "depthwise by data, rows of an image": depthwise(BY_DATA, (9, 14), (3, 3), stride=2, channels=2, data_format="NCX"),
    "depthwise by weights": depthwise(BY_WEIGHTS, (2, 97), (3, 3), channels=3, images=1),
    "depthwise by weights, few windows": depthwise(BY_WEIGHTS, (3, 12), (3, 5), channels=3, pad=2),
    "depthwise, long kernel": depthwise(FORWARD, (40, 5), (30, 2), channels=2, pad=0, images=1),
    "linear, twice as large": interpolated("Interpolate", (1, 2, 5, 9), (10, 18), "linear"),
    "linear, channels last": interpolated("Interpolate", (1, 4, 5, 3), (7, 4), "linear", "NXC"),
    "linear, ratio of primes": interpolated("Interpolate", (1, 2, 17), (21,), "linear"),
    "nearest": interpolated("Interpolate", (1, 2, 5, 9), (7, 13), "nearest"),
    "gradient of linear": interpolated("InterpolateBackward", (1, 2, 5, 9), (10, 18), "linear"),
}  # fmt: skip


@pytest.mark.parametrize("graph", WINDOWS.values(), ids=WINDOWS)
def test_every_schedule_is_right(graph: Graph) -> None:
    """Of each window of a partition: results on the interpreter, and text that parses."""
    g, p = scheduled(graph), partition_of(graph)
    data, want = fill(graph, seed=1), evaluate(graph, fill(graph, seed=1))
    for node, schedule in [(n, s) for n in window_nodes(g) for s in candidates(g, n, TARGET)]:
        assert parse(str(schedule)) == schedule
        main = lower(with_schedule(g, node.name, schedule)).main
        outs = [np.zeros(t.shape or (), t.dtype.numpy) for t in p.outputs]
        interpret(main, [*(data[t.id].astype(t.dtype.numpy) for t in p.inputs), *outs])
        right = (compare(out, want[t.id], t.dtype, tolerance(graph)).ok for t, out in zip(p.outputs, outs, strict=True))
        assert all(right), str(schedule)


def test_spaces_are_not_trivial() -> None:
    """The windows above have all primitives among their schedules."""
    texts = [str(s) for graph in WINDOWS.values() for s in spaces(graph)]
    for part in ("unroll_jam d2 by 2;", "unroll_jam d2 by 6;", "unroll t0, t1;", "unroll t2.1;", "pack src with padding at d1;", "t1, d3;"):
        assert any(part in text for text in texts), part
    assert max(len(spaces(graph)) for graph in WINDOWS.values()) <= 30


def spaces(graph: Graph) -> list[Schedule]:
    g = scheduled(graph)
    return [schedule for node in window_nodes(g) for schedule in candidates(g, node, TARGET)]
