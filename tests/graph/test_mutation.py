"""A few mutated files of each kind through the command, in a process of their own (tests/graph/mutation.py runs thousands)."""

from __future__ import annotations

from pathlib import Path

from benchgraph.core.files import data_dir
from tests.graph.mutation import mutated, run, write

FILES = [data_dir("inputs") / "graph" / name for name in ("mlp.json", "quantised_mlp.json", "op/softmax.json", "op/maxpool.json")]


def test_every_mutated_file_has_one_status_and_no_exception(tmp_path: Path) -> None:
    files = [f for f in FILES if f.is_file()]
    assert len(files) >= 2
    paths = write(tmp_path, files, range(60))
    counts, wrong = run(paths, "--graph", "--mode=C")
    assert not wrong
    assert counts["INVALID_ARGUMENTS"] > 15, "the mistakes are none"
    assert counts["PASSED"] > 5, "the mistakes hide each other"


def test_mutations_repeat(tmp_path: Path) -> None:
    text = FILES[0].read_text()
    assert [mutated(text, seed) for seed in range(20)] == [mutated(text, seed) for seed in range(20)]
