"""The main job in seconds: what a commit must not break. Also the guard against compiled code that is not compiled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.compile import compile_partition
from benchgraph.core.config import override
from benchgraph.core.files import data_dir
from benchgraph.core.remarks import collected
from benchgraph.graph import load
from benchgraph.graph.ir import Graph
from benchgraph.measure import bandwidth, sampling
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference import compare, evaluate, fill, tolerance
from benchgraph.results.result import SCHEMA_VERSION

CASES = ("mlp", "attention", "quantised_mlp")


def graph(name: str) -> Graph:
    return load(data_dir("inputs") / "graph" / f"{name}.json")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", Policy)
def test_every_policy_computes_the_reference(name: str, policy: Policy) -> None:
    result = CliRunner().invoke(main, ["--driver", "graph", f"--policy={policy.value}", "--case", f"{name}.json"])
    assert result.exit_code == 0, result.output
    assert "0:PASSED" in result.output


def test_the_mlp_is_one_partition_and_its_weights_are_packed_once() -> None:
    g = graph("mlp")
    (partition,) = partitions(g, Policy.fused)
    executable = compile_partition(partition)
    data = fill(g, seed=3)
    (t,) = partition.outputs
    out = np.full(t.known_shape, np.nan, np.float32)
    bound = executable.bind([data[i.id] for i in partition.inputs], [out])
    bound()
    assert compare(out, evaluate(g, data)[t.id], t.dtype, tolerance(g)).ok
    weights = next(i for i in partition.inputs if i.is_constant and len(i.known_shape) == 2)
    first = out.copy()
    data[weights.id][...] = 0  # documented: a constant is read at the first execution only
    bound()
    assert np.array_equal(out, first)


def test_execution_runs_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between binding and the result there is one native call."""
    g = graph("mlp")
    (partition,) = partitions(g, Policy.fused)
    data = fill(g, seed=0)
    outs = [np.empty(t.known_shape, np.float32) for t in partition.outputs]
    bound = compile_partition(partition).bind([data[t.id] for t in partition.inputs], outs)
    bound()
    for name in ("matmul", "add", "maximum", "dot", "multiply"):
        monkeypatch.delattr(np, name)
    bound()


def test_mode_p_writes_raw_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "last_level_bytes", lambda: 1 << 20)  # a memory that is soon read
    monkeypatch.setattr(sampling, "MIN_SAMPLE_S", 1e-3)
    out = tmp_path / "r.json"
    args = ["--mode=P", "--fix-times-per-prb=2", "--graph", f"--report=json:{out}", "--case=mlp.json"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    data = json.loads(out.read_text())
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["machine"]["peak_flops"]["f32"] > 0
    (case,) = data["cases"]
    assert case["status"] == "EXECUTED"
    assert set(case["timings"]) == {policy.value for policy in Policy}
    assert all(len(t["samples_s"]) == 2 and min(t["samples_s"]) > 0 for t in case["timings"].values())


def test_stages_are_printed_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    with override(print_after=("fuse-coarse", "llvm")):
        (partition,) = partitions(graph("mlp"), Policy.fused)
        compile_partition(partition)
    text = capfd.readouterr().err
    assert "// ---- after fuse-coarse" in text
    assert 'define void @"main"(ptr' in text


def test_the_former_name_of_a_stage_prints_it_and_is_remarked_once(capfd: pytest.CaptureFixture[str]) -> None:
    with override(print_after=("jam-rows",)), collected() as remarks:
        for partition in partitions(graph("mlp"), Policy.one_op_each):
            compile_partition(partition)
    assert "// ---- after unroll-and-jam\n" in capfd.readouterr().err
    assert remarks == ["BENCHGRAPH_PRINT_AFTER: jam-rows is now unroll-and-jam"]


def test_two_dumps_of_a_case_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with override(dump_dir=str(tmp_path / name)):
            (partition,) = partitions(graph("attention"), Policy.fused)
            compile_partition(partition)
    files = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert {p.split("-", 2)[2] for p in files} >= {
        "partition.txt",
        "decompose.txt",
        "schedule.txt",
        "main-tir.txt",
        "main-vectorise.txt",
        "llvm.ll",
        "assembly.s",
    }
    for name in files:
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text(), name
