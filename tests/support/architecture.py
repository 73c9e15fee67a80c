"""What docs/architecture.md and docs/compiler.md say of the code."""

from __future__ import annotations

import re
from pathlib import Path

import benchgraph

ROOT = Path(benchgraph.__file__).parent
TEXT = "".join((ROOT.parent / "docs" / name).read_text() for name in ("architecture.md", "compiler.md"))


def section(title: str) -> str:
    """From its heading to the next of the same level."""
    level = title.split()[0]
    return TEXT.partition(f"\n{title}\n")[2].partition(f"\n{level} ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the tables of a section, line by line, without headings."""
    return [[c.strip() for c in line.strip("|").split("|")] for line in section(title).splitlines() if line.startswith("| `")]


def quoted(cell: str) -> list[str]:
    """Words between backticks."""
    return [word for words in re.findall("`(.*?)`", cell) for word in words.split()]


MAY_IMPORT = {
    quoted(package)[0] if "/" in package else quoted(package)[0].removesuffix(".py"): set(quoted(others))
    for package, others in rows("## Who may import whom")
} | {
    "core": set(),
    "__main__": {"cli"},
}
