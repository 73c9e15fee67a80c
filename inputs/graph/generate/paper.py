"""The Graph Compiler paper's workloads and the batch files over them.

Two MLPs and four attention shapes, as in the evaluation of "oneDNN Graph Compiler: A Hybrid Approach for High-Performance Deep Learning
Compilation" and its public artifact, in f32 and in int8; the bf16 twins are the f32 files with `--dt=bf16`. The files hold batch 1 (MLP)
and 32 (attention); `--mb` sets others.

    test_paper            mode C: attention at batch 2, since the float64 reference takes its time
    perf_paper            mode P: the paper's batch sizes in f32; perf_paper_bf16 and perf_paper_int8 the same in these
    perf_paper_ablation   mode P: all its subgraphs and their bf16 twins under every policy, and without coarse-grain fusion (Figure 8)

The paper's single products (Figure 7) are inputs/matmul/perf_matmul_paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph, GraphBuilder

MLPS = {"mlp_1": (13, 512, 256, 128), "mlp_2": (479, 1024, 1024, 512, 256, 1)}
MHAS = {"mha_1": (128, 768, 8), "mha_2": (128, 768, 12), "mha_3": (384, 1024, 8), "mha_4": (512, 1024, 16)}  # sequence, hidden, heads
MLP_BATCHES = (32, 64, 128, 256, 512)
MHA_BATCH = 32
MHA_BATCHES = (32, 64, 128)
FOLDER = "paper"
SCALE, ZERO_POINT = 0.12, 2  # of everything that is quantised; weights, and all of attention, have no zero point
ABLATION = "--policy=one_op_each,post_ops,fused:no-coarse,fused"


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


def mlp_int8(widths: tuple[int, ...]) -> Graph:
    """As `mlp`, every layer from u8 to u8: weights are s8 with a scale per column, the bias is f32."""
    b = GraphBuilder()
    x = b.input((1, widths[0]), DType.u8)
    for k, n in pairwise(widths):
        src = b.op("Dequantize", x, scales=(SCALE,), zps=(ZERO_POINT,))
        wei = b.op("Dequantize", b.constant((k, n), DType.s8), qtype="per_channel", axis=1, scales=(SCALE,) * n, zps=(0,) * n)
        y = b.op("ReLU", b.op("MatMul", src, wei, b.constant((n,))))
        x = b.op("Quantize", y, dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))
    return b.graph()


def mha_int8(sequence: int, hidden: int, heads: int) -> Graph:
    """As `mha`, from u8 to u8 by way of bf16: what is quantised is dequantised and narrowed, SoftMax in between is quantised too."""
    b, d = GraphBuilder(), hidden // heads

    def narrow(x: LogicalTensor) -> LogicalTensor:
        return b.op("TypeCast", b.op("Dequantize", x, scales=(SCALE,), zps=(0,)), dtype=DType.bf16)

    def quantised(x: LogicalTensor) -> LogicalTensor:
        return b.op("Quantize", b.op("TypeCast", x, dtype=DType.f32), dtype=DType.u8, scales=(SCALE,), zps=(0,))

    def given(*shape: int) -> LogicalTensor:
        return b.input((MHA_BATCH, *shape), DType.u8)

    q, k, v = (narrow(x) for x in (given(heads, sequence, d), given(heads, d, sequence), given(heads, sequence, d)))
    scores = b.op("Divide", b.op("MatMul", q, k), b.input((1,)))
    masked = b.op("Add", scores, b.input((MHA_BATCH, 1, 1, sequence), DType.bf16))
    context = b.op("MatMul", narrow(quantised(b.op("SoftMax", masked, axis=3))), v)
    quantised(b.op("Reorder", b.op("StaticTranspose", context, order=(0, 2, 1, 3))))
    return b.graph()


def _lines(mlp_batches: tuple[int, ...], *mha_batches: int, suffix: str = "", options: str = "") -> tuple[str, ...]:
    """Every workload, one line each. options: in front of the batch sizes."""
    named = [(name, mlp_batches) for name in MLPS] + [(name, mha_batches) for name in MHAS]
    begin = f"--reset {options}".rstrip()
    return tuple(f"{begin} --mb={','.join(map(str, batches))} --case={FOLDER}/{name}{suffix}.json" for name, batches in named)


_PAPERS = (MLP_BATCHES, *MHA_BATCHES)
BATCHES = {
    "test_paper": (
        "Correctness of the Graph Compiler paper's workloads",
        (*_lines((32, 128, 512), 2), *_lines((32,), 2, suffix="_int8")),
    ),
    "perf_paper": ("Speed on the Graph Compiler paper's workloads", _lines(MLP_BATCHES, MHA_BATCH)),
    "perf_paper_bf16": ("Speed on the Graph Compiler paper's workloads in bf16", _lines(MLP_BATCHES, MHA_BATCH, options="--dt=bf16")),
    "perf_paper_int8": ("Speed on the Graph Compiler paper's workloads in int8", _lines(MLP_BATCHES, MHA_BATCH, suffix="_int8")),
    "perf_paper_ablation": (
        "What each kind of fusion is worth on the Graph Compiler paper's subgraphs (its Figure 8) and their bf16 twins",
        (
            *_lines(*_PAPERS, options=ABLATION),
            *_lines(*_PAPERS, options=f"{ABLATION} --dt=bf16"),
            *_lines(*_PAPERS, suffix="_int8", options=ABLATION),
        ),
    ),
}


def graphs() -> Iterator[tuple[str, Graph]]:
    """Path under inputs/graph and graph of every workload."""
    yield from ((f"{FOLDER}/{name}.json", mlp(widths)) for name, widths in MLPS.items())
    yield from ((f"{FOLDER}/{name}.json", mha(*shape)) for name, shape in MHAS.items())
    yield from ((f"{FOLDER}/{name}_int8.json", mlp_int8(widths)) for name, widths in MLPS.items())
    yield from ((f"{FOLDER}/{name}_int8.json", mha_int8(*shape)) for name, shape in MHAS.items())
