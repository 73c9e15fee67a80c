"""Whole partitions in bf16 as processors with its instructions run them: every case is checked as the command checks it."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.codegen import intrinsics
from benchgraph.codegen.emit import PARALLEL
from benchgraph.compile import compile_partition
from benchgraph.core.config import override
from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime import disk_cache, executable_cache
from benchgraph.runtime.threads import omp_functions
from tests.bf16.conftest import BELOW, BF16, Cpu
from tests.support.bf16_products import WAYS, check_padding_is_unused, check_two_products, close
from tests.support.sample_partition import partition as product_of_f32

FEWER_ROWS = "--in-shapes=0:1x2x32x96+1:1x2x96x32+2:1x2x32x96+6:1x1x1x32"  # two heads of a short sequence
CASES = {
    "mlp": ("--dt=bf16", "--mb=4", "--case=paper/mlp_1.json"),
    "attention": ("--dt=bf16", FEWER_ROWS, "--case=paper/mha_1.json"),
    "no mask": ("--dt=bf16", "--mb=1", "--case=complex_fusion/attention_no_mask.json"),
    "grouped queries": ("--dt=bf16", "--mb=1", "--case=complex_fusion/attention_grouped_queries.json"),
    "post-ops": ("--dt=bf16", "--case=pattern/matmul_post_op_chain.json"),
    "rows": ("--dt=bf16", "--case=pattern/matmul_layernorm.json", "--case=pattern/matmul_softmax.json"),
    "gradient": ("--dt=bf16", "--case=pattern/layer_backward.json"),
}


def passes(*words: str) -> None:
    result = CliRunner().invoke(main, ["--graph", *words])
    count = sum(word.startswith("--case") for word in words)
    assert f"tests:{count} passed:{count} " in result.output, result.output


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_cases_compute_the_reference(words: tuple[str, ...], cpu: Cpu) -> None:
    with cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        passes(*words)


def test_code_for_other_processors_computes_the_reference(cpu: Cpu, tuned_for: str) -> None:
    if tuned_for == "host":
        pytest.skip("this is what the other tests run")
    with cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        passes("--dt=bf16", "--mb=2", "--case=paper/mlp_1.json")
        passes(*CASES["attention"])


@pytest.mark.parametrize("runtime", ["threadpool", "omp", "seq"])
def test_threads_compute_the_reference(runtime: str, cpu: Cpu) -> None:
    if runtime == "omp" and not omp_functions():
        pytest.skip("no OpenMP library in this process or on this system")
    with override(isa=BF16.name, runtime=runtime, threads=3), cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        passes("--dt=bf16", "--mb=8", "--case=complex_fusion/heads_side_by_side.json", "--case=pattern/matmul_relu.json")


@pytest.mark.parametrize("way", WAYS[1::2], ids=str)
def test_products_of_every_shape_feed_each_other(way: tuple[bool, bool, tuple[int, ...]], cpu: Cpu) -> None:
    with cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        check_two_products(way)


def test_padding_is_never_multiplied(cpu: Cpu) -> None:
    with cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        check_padding_is_unused()


# ---- beside the level below


def layers() -> Partition:
    """Two layers with what comes after them."""
    b = GraphBuilder()
    x = b.input((9, 24), DType.bf16)
    h = b.op("GELU", b.op("MatMul", x, b.constant((24, 40), DType.bf16), b.constant((40,), DType.bf16)))
    b.op("SoftMax", b.op("MatMul", h, b.constant((40, 33), DType.bf16)), axis=-1)
    (found,) = partitions(b.graph(), Policy.fused)
    return found


def attention() -> Partition:
    b = GraphBuilder()
    q, k, v = (b.input((2, 3, 17, 32), DType.bf16) for _ in range(3))
    scores = b.op("SoftMax", b.op("MatMul", q, k, transpose_b=True), axis=-1)
    b.op("MatMul", scores, v)
    (found,) = partitions(b.graph(), Policy.fused)
    return found


def computed(partition: Partition, target: Target) -> np.ndarray:
    rng = np.random.default_rng(6)
    ins = [(rng.standard_normal(t.known_shape) / 2).astype(t.dtype.numpy) for t in partition.inputs]
    (out,) = (np.zeros(t.known_shape, t.dtype.numpy) for t in partition.outputs)
    compile_partition(partition, target).bind(ins, [out])()
    return out.astype(np.float32)


@pytest.mark.parametrize("partition", [layers(), attention()], ids=["layers", "attention"])
def test_results_are_those_of_the_level_below(partition: Partition, cpu: Cpu) -> None:
    """To the bit where that multiplies bf16 as the instruction does; else what lies between products is rounded elsewhere."""
    with cpu.executes("vdpbf16ps", "vcvtneps2bf16"):
        native = computed(partition, current())
    below = replace(current(), isa=BELOW)
    np.testing.assert_array_equal(native, computed(partition, replace(below, emulated=frozenset({DType.bf16}))))
    assert close(native, computed(partition, below).astype(np.float64), 2 * DType.bf16.eps)


# ---- machine code for all that other processors have, which is not run


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM is asked for code of this machine's architecture")
@pytest.mark.parametrize("name", ["znver5", "sapphirerapids"])
@pytest.mark.parametrize("partition", [layers(), attention()], ids=["layers", "attention"])
def test_rounding_is_one_instruction_and_nothing_is_called(partition: Partition, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    features = ",".join([*(f"+{f}" for f in BF16.needs), *(f"-{f}" for f in BF16.without), "-prefer-256-bit"])
    described = intrinsics.machine_arguments
    other = replace(described(BF16), cpu=name, features=features)
    monkeypatch.setattr(intrinsics, "machine_arguments", lambda isa, *more: other if isa == BF16 else described(isa, *more))
    text = compile_partition(partition, replace(current(), isa=BF16)).code.assembly()
    defined = {PARALLEL, *re.findall(r"^([\w.]+):", text, re.MULTILINE)}
    assert set(re.findall(r"\b(?:movabsq\t\$|(?:callq|jmp)\t)([A-Za-z_][\w.]*)", text)) <= defined
    assert re.search(r"vcvtneps2bf16\t\S+, %ymm", text)
    assert not re.search(r"vpmovdw|vcmpunordps", text)  # what rounding would take without


# ---- what is compiled for one processor


def test_the_cache_key_differs_between_processors(cpu: Cpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The level and all features are in the key, and the level cannot be raised by a user."""
    disk_cache._opened.cache_clear()
    with override(isa=BF16.name, cache_dir=str(tmp_path), disk_cache_capacity=16):
        p = product_of_f32()
        assert [compile_partition(p).is_warm for _ in range(2)] == [False, True]
        assert not compile_partition(p, replace(current(), isa=BELOW)).is_warm
        described = executable_cache.compiler_identity(BF16)
        monkeypatch.setattr(executable_cache, "compiler_identity", lambda isa: described.replace("+avx512bf16", "+avx512bf16,+avx512vbmi"))
        assert not compile_partition(p).is_warm
