"""Another checkout of benchgraph behind the library protocol: this one stands for the other, and small ones that misbehave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import benchgraph
from benchgraph.cli import main
from benchgraph.core.errors import BenchgraphError, ExecutionFailed, InvalidArguments, Unavailable, Unimplemented
from benchgraph.core.options import Options
from benchgraph.graph import Graph, load
from benchgraph.library import benchgraph_library
from benchgraph.partition.ir import Policy
from benchgraph.peers.checkout import checkout_library, source

ROOT = Path(benchgraph.__file__).parent.parent
PACKAGE = {"benchgraph/__init__.py": "", "benchgraph/core.py": "raise ImportError('no luck')"}


def mlp() -> Graph:
    return load(ROOT / "inputs/graph/mlp.json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, the second of which has no package."""
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    (tmp_path / "README").touch()
    shutil.rmtree(tmp_path / "benchgraph")
    commit(tmp_path)
    return tmp_path


def git(where: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(where), "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True, capture_output=True)


def commit(where: Path) -> None:
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "a")


def test_it_computes_what_this_package_computes() -> None:
    graph = mlp()
    library = checkout_library(str(ROOT))
    (partition,) = library.partitions(graph, Policy.fused)
    (code,) = library.compile_all([partition])
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape, np.float32) for t in partition.inputs]
    outputs, ours = ([np.full(t.shape, np.nan, np.float32) for t in partition.outputs] for _ in range(2))
    bound = code.bind(inputs, outputs)
    bound()
    (our_partition,) = (here := benchgraph_library()).partitions(graph, Policy.fused)
    here.compile(our_partition).bind(inputs, ours)()
    np.testing.assert_array_equal(outputs, ours)
    assert library.sequence([bound]).run(3) > 0
    assert code.compile_s > 0
    assert not code.is_warm


def test_several_versions_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--policy=fused,one_op_each", "--report=json:out.json", "--graph", "--expected-n-partitions=0", "--case=mlp.json"]
    done = CliRunner().invoke(main, [f"--library=benchgraph:{ROOT},benchgraph", *words])
    assert done.exit_code == 0, done.output
    assert "libraries compared in 1 cases: 1 agree" in done.output
    text = (tmp_path / "out.json").read_text()
    assert all(label in text for label in (f"benchgraph@{ROOT}:fused", "benchgraph:one_op_each"))


def test_a_commit_is_written_once(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (repository / "benchgraph").mkdir()
    (repository / "benchgraph/__init__.py").touch()  # the working directory's repository is one of benchgraph
    found = source.find("HEAD~1")
    assert {str(p.relative_to(found.folder)) for p in found.folder.rglob("*.py")} == set(PACKAGE)
    assert found == source.find("HEAD~1")
    assert found.version == found.folder.name[:10]
    with pytest.raises(InvalidArguments, match=r"it has no benchgraph/__init__\.py; give a commit of benchgraph"):
        source.find("HEAD")


def test_changes_since_the_commit_show_in_the_version(repository: Path) -> None:
    git(repository, "checkout", "-q", "HEAD~1")
    assert not source.find(str(repository)).version.endswith("+")
    (repository / "benchgraph/core.py").write_text("")
    assert source.find(str(repository)).version.endswith("+")


def test_an_interpreter_of_its_own_is_used(tmp_path: Path) -> None:
    (tmp_path / "benchgraph").mkdir()
    (tmp_path / "benchgraph/__init__.py").touch()
    assert source.find(str(tmp_path)).python == ""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/bin/sh")
    assert source.find(str(tmp_path)).python == str(tmp_path / ".venv/bin/python")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no-such-thing", "there is no folder no-such-thing, and no commit of that name; give a checkout of benchgraph, or run in"),
        (".", r"has no benchgraph/__init__\.py; give the top folder of a checkout"),
    ],
)
def test_what_is_no_checkout_is_refused(place: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [f"--library=benchgraph:{place}", "--graph", "--case=mlp.json"])
    assert done.exit_code == 2
    assert CliRunner().invoke(main, [f"--library=benchgraph:{place}", "--mode=L", "--graph", "--case=mlp.json"]).exit_code == 0
    with pytest.raises(InvalidArguments, match=says):
        checkout_library(place)


def test_a_package_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidArguments, match=r"its package cannot be used: ImportError: no luck; give a checkout of a version"):
        checkout_library(str(tmp_path))


def test_one_place_under_two_labels_is_two_processes() -> None:
    first, second, again = (checkout_library(str(ROOT), label).process for label in ("a", "b", "a"))
    assert first is again
    assert first.pid != second.pid


def test_its_errors_and_its_death_cost_a_case() -> None:
    graph, library = mlp(), checkout_library(str(ROOT))
    (partition,) = library.partitions(graph, Policy.fused)
    with pytest.raises(Unavailable, match="the passes of another checkout cannot be left out"):
        library.compile(replace(partition, options=Options(("coarse",))))
    with pytest.raises(Unimplemented, match="why"):
        library.compile(replace(partition, reason="why"))
    with pytest.raises(BenchgraphError):
        library.process.ask("partition", "{", "fused")
    os.kill(library.process.pid, signal.SIGSEGV)
    with pytest.raises(ExecutionFailed, match="was killed by SIGSEGV"):
        library.compile(partition)
    checkout_library(str(ROOT)).partitions(graph, Policy.fused)  # another process has taken its place
