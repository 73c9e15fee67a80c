"""The engine that a file names: benchdnn ignores it, and so do we, but for a remark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.graph import GraphBuilder, save
from benchgraph.options.argv import parse
from tests.support.corpus import CORPUS

REMARK = "benchgraph: engine_kind gpu of files is ignored, as in benchdnn: they run on the CPU\n"


@pytest.mark.parametrize("words", [["--graph"], ["--model"], ["--framework"], ["--jobs=1", "--graph"]], ids=" ".join)
@pytest.mark.parametrize(("kind", "said"), [("gpu", REMARK), ("any", ""), ("cpu", "")])
def test_a_graph_for_another_engine_runs_on_the_cpu_which_is_said_once(
    words: list[str], kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    b = GraphBuilder()
    b.op("ReLU", b.input((4, 8)))
    save(replace(b.graph(), engine_kind=kind), "x.json")
    done = CliRunner().invoke(main, [*words, "--case=x.json", "--case=x.json"])
    assert done.stdout.count(":PASSED (") == 2
    assert ":PASSED (engine" not in done.stdout
    assert done.stderr == said
    assert parse([*words, "--case=x.json"]).problems[0].graph().engine_kind == "cpu"  # what the verbose log and dumps say


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus")
def test_the_corpus_has_such_files_and_none_is_refused() -> None:
    files = [file for file in CORPUS.rglob("*.json") if '"engine_kind": "gpu"' in file.read_text()]
    assert files
    for file in files:
        assert parse(["--graph", f"--case={file}"]).problems[0].graph().engine_kind == "cpu", file
