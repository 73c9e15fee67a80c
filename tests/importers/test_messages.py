"""docs/models.md lists messages: each stands in the source as the page has it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("benchgraph/importers/**/*.py", "benchgraph/peers/inference/*.py", "benchgraph/torch/export*.py", "benchgraph/core/*.py",
           "benchgraph/fallback/*.py", "drivers/model.py")  # fmt: skip


def test_every_message_of_the_page_is_one_that_is_raised() -> None:
    page = (ROOT / "docs/models.md").read_text()
    section = page.partition("## Messages")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!-)(.*?) \| .* \|$", section, re.MULTILINE)
    messages = [part.strip() for row in rows for part in re.split(r"; |\.\.\.|: ", row)]
    source = "\n".join(file.read_text() for pattern in SOURCES for file in sorted(ROOT.glob(pattern)))
    heads = ("of any model", "`.onnx`", "`.pt2`", "of a runtime (`--library=onnxruntime`", ")")
    unknown = [m for m in messages if m not in heads and m.strip(" ,") not in source]
    assert len(messages) > 60
    assert unknown == []
