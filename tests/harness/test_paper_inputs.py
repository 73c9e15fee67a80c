"""The committed workloads are what their script writes."""

import runpy
from pathlib import Path

from benchgraph.harness.plugins import data_dir


def test_the_script_writes_what_is_there(tmp_path: Path) -> None:
    inputs = data_dir("inputs") / "graph"
    runpy.run_path(str(inputs / "build_paper.py"))["write"](tmp_path)
    written = {p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()}
    assert len(written) == 6 + 2
    for name in written:
        assert (inputs / name).read_text() == (tmp_path / name).read_text()
