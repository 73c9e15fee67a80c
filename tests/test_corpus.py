"""Real graphs, read in place, through the whole command: the Graph Compiler paper's workloads, and oneDNN's own inputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.options.argv import parse

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
PAPER, ONEDNN = CORPUS / "paper", CORPUS / "onednn"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}")

CASES = (
    ("mlp_relu_13x512x256x128_fp32.json", "32,512"),
    ("mlp_relu_479x1024x1024x512x256x1_fp32.json", "32"),
    ("mlp_relu_13x512x256x128.json", "32"),
    ("mlp_relu_479x1024x1024x512x256x1.json", "32"),
    ("MHA_BS32_SL128_H768_A8_fp32.json", "2"),
    ("MHA_BS64_SL128_H768_A12_fp32.json", "1"),
    ("MHA_BS128_SL384_H1024_A8_fp32.json", "1"),
    ("MHA_BS32_SL512_H1024_A16_fp32.json", "1"),
    ("MHA_BS32_SL128_H768_A8.json", "2"),
)


@pytest.mark.parametrize(("name", "mb"), CASES, ids=[name.removesuffix(".json") for name, _ in CASES])
def test_the_papers_graphs_compute_the_reference(name: str, mb: str) -> None:
    result = CliRunner().invoke(main, ["--graph", f"--mb={mb}", f"--case={PAPER / name}"])
    count = mb.count(",") + 1
    assert f"tests:{count} passed:{count} " in result.output, result.output


OWN = {
    "mlp_relu_13x512x256x128": "mlp_1",
    "mlp_relu_479x1024x1024x512x256x1": "mlp_2",
    "MHA_BS32_SL128_H768_A8": "mha_1",
    "MHA_BS32_SL128_H768_A12": "mha_2",
    "MHA_BS32_SL384_H1024_A8": "mha_3",
    "MHA_BS32_SL512_H1024_A16": "mha_4",
}


@pytest.mark.parametrize(("theirs", "ours"), OWN.items(), ids=OWN.values())
def test_our_int8_workloads_are_the_papers(theirs: str, ours: str) -> None:
    """The same ops on tensors of the same dtypes and shapes, with the same scales."""

    def said(case: str) -> list[str]:
        (problem,) = parse(["--graph", "--mb=32", f"--case={case}"]).problems
        found = []
        for op in problem.graph().order:
            tensors = [(t.dtype.value, t.known_shape, t.is_constant) for t in (*op.inputs, *op.outputs)]
            found.append(f"{op.kind} {tensors} {[op.attrs.get(name) for name in ('scales', 'zps', 'order')]}")
        return sorted(found)

    assert said(f"paper/{ours}_int8.json") == said(f"{PAPER / theirs}.json")


@pytest.mark.parametrize("policy", ["post_ops", "one_op_each"])
def test_the_baselines_compute_the_reference_too(policy: str) -> None:
    cases = [f"--case={PAPER / name}" for name, _ in CASES[:1] + CASES[4:5] + CASES[8:]]
    result = CliRunner().invoke(main, ["--graph", "--mb=2", f"--policy={policy}", *cases])
    assert result.exit_code == 0, result.output


# (file, options): each is one partition. Large ones are cut down by their batch or not taken at all.
WINDOWS = (
    ("pattern/f32/maxpool_chain_fusion.json", "--mb=0"),
    ("pattern/f32/maxpool_sum_relu_fusion.json", "--mb=0"),
    ("pattern/int8/int8_avgpool_transpose_fusion.json", "--mb=0"),
    ("pattern/int8/int8_maxpool_add_mul_fusion.json", "--mb=1"),
    ("op/f32/conv_2d.json", "--mb=0"),
    ("op/f32/conv_bwd_d_2d.json", "--mb=0"),
    ("op/f32/conv_bwd_w_2d.json", "--mb=0"),
    ("op/f32/deconv.json", "--mb=0"),
    ("op/f32/deconv_bwd_d.json", "--mb=0"),
    ("op/f32/deconv_bwd_w.json", "--mb=0"),
    ("pattern/f32/conv_bias_post_ops_fusion.json", "--mb=0"),
    ("pattern/f32/conv_bias_relu_depthwise_bias_relu_fusion_cpu.json", "--mb=1"),
    ("pattern/f8/f8_conv_post_ops_fusion.json", "--mb=1"),
    ("pattern/int8/int8_convtranspose_post_ops_add_fusion.json", "--mb=0"),
    ("pattern/int8/int8_convtranspose_post_ops_square_fusion.json", "--mb=0"),
    ("pattern/int8/int8_depthwise_conv_fusion.json", "--mb=1"),
    ("pattern/f32/interpolate_post_ops_chain_fusion_2.json", "--mb=0"),
    ("pattern/f32/interpolate_post_ops_chain_fusion_3.json", "--mb=0"),
    ("pattern/f32/interpolate_post_ops_chain_fusion_4.json", "--mb=0"),
    ("op/f32/interpolate.json", "--mb=0"),
    ("op/f32/interpolate_3d.json", "--mb=0"),
    ("op/f32/interpolate_bwd.json", "--mb=0"),
    ("op/f32/interpolate_bwd_2d.json", "--mb=0"),
)


@pytest.mark.parametrize(("name", "option"), WINDOWS, ids=[Path(name).stem for name, _ in WINDOWS])
def test_onednns_graphs_of_windows_compute_the_reference(name: str, option: str) -> None:
    result = CliRunner().invoke(main, ["--graph", "--expected-n-partitions=1", option, f"--case={ONEDNN / name}"])
    assert "tests:1 passed:1 " in result.output, result.output


# (file, options). Concatenations, index masks and dropout, in ops of their own and inside attention.
EVERY_POLICY = "--policy=fused,post_ops,one_op_each"
INDEXED = (
    ("op/f32/concat_3.json", "--mb=1"),
    ("op/f32/genindex.json", EVERY_POLICY),
    ("pattern/f32/matmul_dropout.json", EVERY_POLICY),
    ("pattern/f32/unary_dropout_fusion.json", "--mb=1"),
    ("complex_fusion/mha/gqa-plain-implicit-causal-mask-fp32-bs1.json", "--mb=0"),
    ("complex_fusion/mha/gqa-plain-training-fwd-w-dropout-bf16-f32.json", "--mb=1"),
    ("complex_fusion/mha/sdpa-compressed-kv-implicit-causal-mask-int8-gs128.json", EVERY_POLICY),
)


@pytest.mark.parametrize(("name", "option"), INDEXED, ids=[Path(name).stem for name, _ in INDEXED])
def test_onednns_concatenations_masks_and_dropouts_compute_the_reference(name: str, option: str) -> None:
    result = CliRunner().invoke(main, ["--graph", "--expected-n-partitions=1", option, f"--case={ONEDNN / name}"])
    assert "tests:1 passed:1 " in result.output, result.output


@pytest.mark.parametrize("policy", ["fused", "post_ops", "one_op_each"])
def test_graphs_with_two_elements_to_a_byte_compute_the_reference(policy: str) -> None:
    files = [path for path in sorted(ONEDNN.rglob("*.json")) if re.search(r'"dtype": *"[su]4"', path.read_text())]
    assert files
    result = CliRunner().invoke(main, ["--graph", f"--policy={policy}", *(f"--case={path}" for path in files)])
    assert f"tests:{len(files)} passed:{len(files)} " in result.output, result.output
