"""The Graph Compiler paper's f32 workloads and the batch files over them.

Two MLPs and four attention shapes, as in the evaluation of "oneDNN Graph Compiler: A Hybrid Approach for High-Performance Deep Learning
Compilation" and its public artifact. The files hold batch 1 (MLP) and 32 (attention); `--mb` sets others.

    test_paper   mode C: attention at batch 2, since the float64 reference takes its time
    perf_paper   mode P: the paper's batch sizes
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchgraph.graph import Graph, GraphBuilder

MLPS = {"mlp_1": (13, 512, 256, 128), "mlp_2": (479, 1024, 1024, 512, 256, 1)}
MHAS = {"mha_1": (128, 768, 8), "mha_2": (128, 768, 12), "mha_3": (384, 1024, 8), "mha_4": (512, 1024, 16)}  # sequence, hidden, heads
MLP_BATCHES = (32, 64, 128, 256, 512)
MHA_BATCH = 32
FOLDER = "paper"


def mlp(widths: tuple[int, ...]) -> Graph:
    """Every layer: MatMul with bias, then ReLU. Weights and biases are constant."""
    b = GraphBuilder()
    x = b.input((1, widths[0]))
    for k, n in pairwise(widths):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((k, n)), b.constant((n,))))
    return b.graph()


def mha(sequence: int, hidden: int, heads: int) -> Graph:
    """SoftMax(Q K / scale + mask) V, then heads and sequence change places. K comes transposed."""
    b, d = GraphBuilder(), hidden // heads
    q, k, v = b.input((MHA_BATCH, heads, sequence, d)), b.input((MHA_BATCH, heads, d, sequence)), b.input((MHA_BATCH, heads, sequence, d))
    scores = b.op("Divide", b.op("MatMul", q, k), b.input((1,)))
    masked = b.op("Add", scores, b.input((MHA_BATCH, 1, 1, sequence)))
    context = b.op("MatMul", b.op("SoftMax", masked, axis=3), v)
    b.op("Reorder", b.op("StaticTranspose", context, order=(0, 2, 1, 3)))
    return b.graph()


def _lines(mlp_batches: tuple[int, ...], mha_batch: int) -> tuple[str, ...]:
    """Every workload, one line each."""
    mlps = (f"--reset --mb={','.join(map(str, mlp_batches))} --case={FOLDER}/{name}.json" for name in MLPS)
    return (*mlps, *(f"--reset --mb={mha_batch} --case={FOLDER}/{name}.json" for name in MHAS))


BATCHES = {
    "test_paper": ("Correctness of the Graph Compiler paper's workloads", _lines((32, 128, 512), 2)),
    "perf_paper": ("Speed on the Graph Compiler paper's workloads", _lines(MLP_BATCHES, MHA_BATCH)),
}


def graphs() -> Iterator[tuple[str, Graph]]:
    """Path under inputs/graph and graph of every workload."""
    yield from ((f"{FOLDER}/{name}.json", mlp(widths)) for name, widths in MLPS.items())
    yield from ((f"{FOLDER}/{name}.json", mha(*shape)) for name, shape in MHAS.items())
