"""Writes the Graph Compiler paper's f32 workloads and the batch files over them: `python inputs/graph/build_paper.py [FOLDER]`.

Two MLPs and four attention shapes, as in the evaluation of "oneDNN Graph Compiler: A Hybrid Approach for High-Performance Deep Learning
Compilation" and its public artifact. The files hold batch 1 (MLP) and 32 (attention); `--mb` sets others.

    test_paper   mode C: attention at batch 2, since the float64 reference takes its time
    perf_paper   mode P: the paper's batch sizes
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

from benchgraph.graph import Graph, GraphBuilder, save

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


def batch(about: str, mlp_batches: tuple[int, ...], mha_batch: int) -> str:
    """A batch file: every workload, one line each."""
    lines = [f"# {about}; written by build_paper.py."]
    lines += [f"--reset --mb={','.join(map(str, mlp_batches))} --case={FOLDER}/{name}.json" for name in MLPS]
    lines += [f"--reset --mb={mha_batch} --case={FOLDER}/{name}.json" for name in MHAS]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """All graphs and both batch files; running it twice changes nothing."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, widths in MLPS.items():
        save(mlp(widths), folder / FOLDER / f"{name}.json")
    for name, shape in MHAS.items():
        save(mha(*shape), folder / FOLDER / f"{name}.json")
    (folder / "test_paper").write_text(batch("Correctness of the Graph Compiler paper's workloads", (32, 128, 512), 2), encoding="utf-8")
    (folder / "perf_paper").write_text(batch("Speed on the Graph Compiler paper's workloads", MLP_BATCHES, MHA_BATCH), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
