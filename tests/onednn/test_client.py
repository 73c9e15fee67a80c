"""This side of oneDNN's process: copies of memory, destruction of objects, and its death. fake_server.py is the other side."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.config import override
from benchgraph.core.errors import ExecutionFailed, InvalidArguments, InvalidShape, Unavailable, Unimplemented
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import json
from benchgraph.graph.ir import Graph
from benchgraph.harness.bench import Bench
from benchgraph.onednn.library import OneDnn
from benchgraph.partition.ir import Policy
from tests.onednn.graphs import F32, line, one
from tests.support.fake_library import FakeProbe, bandwidth


def compiled(library: OneDnn, graph: Graph) -> list:
    return [library.compile(p) for p in library.partitions(graph, Policy.fused)]


def test_data_are_copied_both_ways(fake: Path) -> None:
    code = compiled(OneDnn(str(fake)), line("ReLU"))[0]
    source, target = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    bound = code.bind([source], [target])
    bound()
    np.testing.assert_array_equal(target, 2 * source)
    source += 1  # the same arrays with other data
    bound()
    np.testing.assert_array_equal(target, 2 * source)
    assert code.compile_s == 0.25


def test_unwritten_elements_keep_their_values(fake: Path) -> None:
    """The fake doubles as many elements as its input has: the last row of a longer output is not written."""
    graph = one("Concat", [LogicalTensor(0, F32, (1, 4)), LogicalTensor(1, F32, (1, 4))], [LogicalTensor(2, F32, (2, 4))], axis=0)
    code, target = compiled(OneDnn(str(fake)), graph)[0], np.full((2, 4), np.nan, np.float32)
    code.bind([np.ones((1, 4), np.float32), np.ones((1, 4), np.float32)], [target])()
    np.testing.assert_array_equal(target, [[2] * 4, [np.nan] * 4])


def test_strides_are_kept(fake: Path) -> None:
    source = LogicalTensor(0, F32, (2, 3), (1, 2))
    graph = one("ReLU", [source], [LogicalTensor(1, F32, (2, 3), (1, 2))])
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    target = np.zeros((3, 2), np.float32).T
    compiled(OneDnn(str(fake)), graph)[0].bind([values], [target])()
    np.testing.assert_array_equal(target, 2 * values)


def test_the_window_grows_with_the_tensors(fake: Path) -> None:
    library = OneDnn(str(fake))
    for n in (8, 100_000, 16):
        source, target = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        compiled(library, line("ReLU", shape=(n,)))[0].bind([source], [target])()
        np.testing.assert_array_equal(target, 2 * source)


def test_a_chain_runs_in_the_other_process_which_times_it(fake: Path) -> None:
    library = OneDnn(str(fake))
    arrays = [np.ones((4, 8), np.float32) for _ in range(4)]
    codes = compiled(library, line("ReLU", "Tanh", "Abs"))
    steps = [code.bind([arrays[i]], [arrays[i + 1]]) for i, code in enumerate(codes)]
    chain = library.sequence(steps)
    assert chain.run(5) == pytest.approx(0.001 * 5 * 3)
    np.testing.assert_array_equal(arrays[3], 8)  # the first run fills the values between, for chains of one that read them
    arrays[3][...] = 0
    chain.run(1)
    np.testing.assert_array_equal(arrays[3], 0)  # and no run copies anything


def test_only_its_own_steps_can_be_chained(fake: Path) -> None:
    with pytest.raises(InvalidArguments, match="another library"):
        OneDnn(str(fake)).sequence([lambda: None])


def test_memory_in_the_other_process_is_freed_with_the_arrays(fake: Path) -> None:
    library = OneDnn(str(fake))
    bound = compiled(library, line("ReLU"))[0].bind([np.ones((4, 8), np.float32)], [np.ones((4, 8), np.float32)])
    bound()
    assert library.process.ask("census")[0] == 2
    del bound
    gc.collect()
    assert library.process.ask("census")[0] == 0


def test_one_process_serves_all_cases_each_with_empty_caches(fake: Path) -> None:
    first, second = OneDnn(str(fake)), OneDnn(str(fake))
    assert first.process is second.process
    assert first.process.ask("census")[1] == 2
    with override(threads=1):
        third = OneDnn(str(fake))
    assert third.process is not first.process
    assert not first.process.is_alive


def test_its_version_is_known(fake: Path) -> None:
    library = OneDnn(str(fake))
    assert (library.name, library.version, library.release) == ("onednn", "3.5.1 (OMP)", (3, 5))


def test_ops_that_it_cannot_compute_are_unsupported(fake: Path) -> None:
    library = OneDnn(str(fake))
    partition = library.partitions(line("Pow", beta=2.0), Policy.fused)[0]
    assert partition.reason == "oneDNN 3.5.1 has nothing to compute it with"
    with pytest.raises(Unimplemented, match="nothing to compute it with"):
        library.compile(partition)


def test_it_has_no_policy_post_ops(fake: Path) -> None:
    with pytest.raises(Unavailable, match="oneDNN has no policy post_ops; choose among fused, one_op_each"):
        OneDnn(str(fake)).partitions(line("ReLU"), Policy.post_ops)


def test_a_refusal_is_the_error_of_its_status(fake: Path) -> None:
    with pytest.raises(InvalidShape, match=r"onednn: 3\.5\.1 answers invalid_shape to compiling the partition"):
        compiled(OneDnn(str(fake)), line("Sqrt"))


def test_a_crash_names_the_signal_and_another_process_takes_over(fake: Path) -> None:
    library = OneDnn(str(fake))
    parts = library.partitions(line("ReLU"), Policy.fused)
    os.kill(library.process.pid, signal.SIGSEGV)
    with pytest.raises(ExecutionFailed, match=r"libdnnl\.so\.3 was killed by SIGSEGV in 'compile'; try another version of it"):
        library.compile(parts[0])
    with pytest.raises(ExecutionFailed, match=r"no longer there: it was killed by SIGSEGV in 'compile'; run what is asked of it alone"):
        library.compile(parts[0])
    assert OneDnn(str(fake)).process.ask("census")[1] == 1


def test_a_crash_while_memory_is_handed_over_is_reported_too(fake: Path) -> None:
    process = OneDnn(str(fake)).process
    os.kill(process.pid, signal.SIGKILL)
    process._process.wait()  # so that nobody takes the memory
    with pytest.raises(ExecutionFailed, match=r"libdnnl\.so\.3 was killed by SIGKILL in 'window'; try another version of it"):
        process.window(8)
    assert not process.is_alive


def test_a_process_that_hangs_can_be_ended(fake: Path) -> None:
    process = OneDnn(str(fake)).process
    os.kill(process.pid, signal.SIGSTOP)
    process.close()
    assert not process.is_alive


def test_an_uncaught_exception_while_compiling_means_unsupported(fake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unimplemented, match=r"3\.5\.1 .* throws 'no luck' when it compiles it"):
        compiled(OneDnn(str(fake)), line("Log"))
    assert "what():  no luck" in capfd.readouterr().err


def test_a_crash_fails_only_its_case(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("ReLU", "Exp", "Log", "Pow"):
        json.save(line(kind, **({"beta": 2.0} if kind == "Pow" else {})), f"{kind}.json")
    words = ["--mode=R", f"--library=onednn:{fake}", "--graph", *(f"--case={kind}.json" for kind in ("ReLU", "Exp", "Log", "Pow", "ReLU"))]
    done = CliRunner().invoke(main, words)
    said = [text.split(" (")[0] for text in done.output.splitlines() if text[:1].isdigit()][:5]
    assert said == ["0:EXECUTED", "1:FAILED", "2:UNIMPLEMENTED", "3:UNIMPLEMENTED", "4:EXECUTED"], done.output
    assert "was killed by SIGSEGV in 'compile'" in done.output
    assert done.exit_code == 1


def test_mode_p_measures_the_policies_that_it_has(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    json.save(line("ReLU", "Tanh"), "case.json")
    words = ["--mode=P", "--fix-times-per-prb=2", f"--library=onednn:{fake}", "--graph", "--expected-n-partitions=0"]
    steady = FakeProbe(1e11)  # measuring the machine would take seconds
    bench = Bench(probe=lambda *_: steady, kernel=lambda *_: steady, bandwidth=bandwidth)
    done = CliRunner().invoke(main, [*words, "--case=case.json"], obj=bench)
    assert done.exit_code == 0, done.output
    assert "within this run: one_op_each 1.00" in done.output
    assert "onednn 3.5.1 (OMP)" in done.output
    monkeypatch.setattr("benchgraph.harness.session.machine_of", lambda *_: None)  # which measures its peaks for mode P
    for word, why in (("--policy=post_ops", "oneDNN has no policy post_ops"), ("--cold-cache=all", "onednn has its memory")):
        skipped = CliRunner().invoke(main, [word, *words, "--case=case.json"])
        assert "0:SKIPPED (" in skipped.output
        assert why in skipped.output
    once = CliRunner().invoke(main, ["--mode=S", *words[2:], "--case=case.json"])
    assert "fused (2 partitions)       | 2.0000 |" in once.output, once.output
