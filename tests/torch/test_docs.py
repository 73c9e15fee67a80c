"""The page about the bridge: its code runs, and its statements about options are true."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'benchgraph[torch]')")

from benchgraph.torch.backend import PROGRAMS  # noqa: E402
from benchgraph.torch.options import Options  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_pages_code_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    first, profile = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names = dict[str, object]()
    exec(compile(first, str(PAGE), "exec"), names)
    (said,) = re.findall(r"print\(graphs\[0\]\)  # (.*)", first)
    assert capsys.readouterr().out.strip() == said
    exec(compile(profile, str(PAGE), "exec"), names)
    assert "of 1 partition on jit:" in capsys.readouterr().out


def test_every_option_is_on_the_page() -> None:
    rows = "".join(re.findall(r"^\| `.*$", TEXT, re.MULTILINE))
    assert all(f"`{f.name}`" in rows for f in fields(Options))
    assert f"up to {PROGRAMS}" in TEXT
