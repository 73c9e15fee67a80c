"""`--driver framework`: graphs through the framework, beside the library and the reference; its output and the errors that it detects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchgraph.cli import main
from benchgraph.framework.kernel_cache import get_kernel_cache_capacity
from benchgraph.framework.request import Output
from benchgraph.framework.shared_storage import Chunk
from benchgraph.graph import save
from benchgraph.options.argv import parse
from tests.framework.models import mlp


def ran(*words: str) -> Result:
    return CliRunner().invoke(main, ["--framework", *words], catch_exceptions=False)


@pytest.fixture
def case(tmp_path: Path) -> str:
    save(mlp(), tmp_path / "case.json")
    return f"--case={tmp_path / 'case.json'}"


def test_it_passes_and_reports_every_run(case: str) -> None:
    got = ran("-v1", "--policy=post_ops", case)
    assert got.exit_code == 0, got.output
    told = [line for line in got.output.splitlines() if line.startswith("[FRAMEWORK]: ")]
    assert re.match(
        r"\[FRAMEWORK\]: post_ops: run 0: 2 partitions of 5 ops, 0 fallbacks; (\d) reorders \(\d+ bytes\), \1 of weights, 0 lazy; "
        r"cache: 2 hits, 2 misses; temp: \d+ bytes, \d spills; arena: 2048 bytes; 0 copied back, 0 added",
        told[0],
    )
    for line in told[1:3]:
        assert "0 reorders (0 bytes), 0 of weights, 0 lazy; cache: 2 hits, 0 misses;" in line
        assert ", 0 spills;" in line
    assert told[3] == "[FRAMEWORK]: post_ops: equal to the library used directly, to the bit"
    assert "passed:1" in got.output


def test_the_driver_by_its_long_name_and_packaged_cases() -> None:
    got = CliRunner().invoke(main, ["--driver", "framework", "--case", "op/relu.json"], catch_exceptions=False)
    assert got.exit_code == 0, got.output
    assert "__REPRO: --framework --case=op/relu.json" in got.output


@pytest.mark.parametrize(
    "options",
    [
        ("--train",),
        ("--fallback=MatMul+1", "--policy=fused,one_op_each"),
        ("--callers=4", "--iters=2", "--policy=post_ops"),
        ("--cache-capacity=0",),
        ("--no-prepack", "--no-opaque", "--policy=one_op_each"),
        ("--mb=2", "--iters=1"),
    ],
    ids=lambda o: o[0],
)
def test_ways_to_run_it(options: tuple[str, ...], case: str) -> None:
    got = ran(*options, case)
    assert got.exit_code == 0, got.output
    (problem,) = parse(["--framework", *options, case]).problems
    assert parse(problem.repro.split()).problems == (problem,)
    assert f"__REPRO: {problem.repro}\n" in got.output
    assert get_kernel_cache_capacity() == 1024


def test_fallbacks_are_reported_with_their_reasons(case: str) -> None:
    got = ran("-v1", "--fallback=ReLU", case)
    assert "2 partitions of 4 ops, 1 fallbacks; op 1: ReLU: asked for;" in got.output


@pytest.mark.parametrize(
    ("word", "says", "code"),
    [
        ("Softmx", "benchgraph: --fallback: bad value 'Softmx'; did you mean 'SoftMax'?", 2),
        ("1+Nothing", "give ids of ops, or kinds that 'benchgraph ops' lists", 2),
        ("ReLU+99", "UNTESTED_FAILED (case.json: --fallback: op 99: there is no such op; the graph has 0 (MatMul), ", 1),
        ("SoftMax+1", "0:LISTED", 0),
    ],
)
def test_an_impossible_fallback_is_reported(word: str, says: str, code: int, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(case.removeprefix("--case=")).parent)
    got = ran("--mode=L", f"--fallback={word}", "--case=case.json")
    assert (says in got.output, got.exit_code) == (True, code), got.output


@pytest.mark.parametrize(
    ("options", "partitions"),
    [((), 1), (("--policy=post_ops,fused",), 1), (("--fallback=ReLU",), 2), (("--policy=post_ops",), None)],
    ids=lambda o: " ".join(o) if isinstance(o, tuple) else "",
)
def test_the_partitions_of_the_fused_policy_are_counted_if_a_number_is_given(
    options: tuple[str, ...], partitions: int | None, case: str
) -> None:
    """Those that are left beside the fallbacks; 0, the default, is any number."""
    got = ran(*options, "--expected-n-partitions=7,0,1,2", case)
    rows = [line.partition(":")[2] for line in got.output.splitlines() if re.match(r"[0-3]:[A-Z]", line)][:4]
    assert [row.startswith("PASSED") for row in rows] == [partitions is None, True, partitions in (None, 1), partitions in (None, 2)]
    if partitions is not None:
        what = f"expected number of partitions (7) doesn't coincide with the actual number of partitions ({partitions})"
        fix = f"use --expected-n-partitions={partitions} if that is right, 0 not to check"
        assert rows[0].startswith(f"UNTESTED_FAILED ({what}; {fix})")


def test_a_policy_that_leaves_passes_out_is_skipped(case: str) -> None:
    got = ran("--policy=fused:no-coarse", case)
    assert "SKIPPED (--policy=fused:no-coarse: the framework compiles with all passes; use --policy=fused)" in got.output


def test_all_callers_are_compared(case: str) -> None:
    assert ran("-v1", "--callers=3", case).output.count("run 0") == 1


@pytest.mark.parametrize("words", [("--mode=P",), ("--mode=R",)])
def test_other_modes_are_skipped(words: tuple[str, ...], case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchgraph.harness.session.machine_of", lambda *_: None)  # which measures its peaks for mode P
    got = ran(*words, case)
    assert "SKIPPED (--framework: the framework driver checks results" in got.output
    assert "benchgraph.harness.latency" in got.output


def test_listing(case: str) -> None:
    assert "LISTED" in ran("--mode=L", case).output


def test_the_policy_occurs_once_with_the_comparison(case: str) -> None:
    (line,) = [line for line in ran("--policy=post_ops", "-v1", case).output.splitlines() if line.startswith("[COMPARE]")]
    assert line.startswith("[COMPARE]: post_ops: framework: tensor 8 f32: ")


def test_a_wrong_result_fails(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Output.commit

    def mistaken(o: Output) -> None:
        honest(o)
        o.array.chunk.current.buffer[:4] = 0x41

    monkeypatch.setattr(Output, "commit", mistaken)
    got = ran(case)
    assert got.exit_code == 1
    assert "FAILED (fused: framework: tensor 8: 1 of 256 values differ" in got.output


def test_a_nan_is_reported_if_direct_use_of_the_library_gives_a_number(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Output.commit

    def mistaken(o: Output) -> None:
        honest(o)
        o.array.chunk.current.buffer[:4] = 0xFF

    monkeypatch.setattr(Output, "commit", mistaken)
    told = ran("-v", case).output
    assert "tensor 8: 1 of 256 values differ, 1 of them in NaN or infinity, first at [0, 0]: want " in told
    assert "off from the library used directly in NaN or infinity at 1 values, elsewhere by up to 0, in tensors 8" in told


def test_weights_that_are_converted_again_fail(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right but not as cheap as it should be."""
    monkeypatch.setattr(Chunk, "lend", lambda c, where: (c.to_default(where), c.store(where))[1])
    got = ran("--policy=one_op_each", case)
    assert got.exit_code == 1
    assert "a later run is not as cheap as it should be: " in got.output
    assert "weights converted" in got.output


def test_runs_that_differ_fail(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = Output.commit, [0]

    def mistaken(o: Output) -> None:
        honest(o)
        calls[0] += 1
        if calls[0] > 1:
            o.array.chunk.current.buffer[0] ^= 1

    monkeypatch.setattr(Output, "commit", mistaken)
    assert "tensor 8 differs in its bits from one run of the framework to the next" in ran(case).output


def test_reports_keep_the_notes(case: str, tmp_path: Path) -> None:
    assert ran(f"--report=json:{tmp_path / 'out.json'}", case).exit_code == 0
    assert '"notes": ["[FRAMEWORK]: fused: run 0' in (tmp_path / "out.json").read_text()
