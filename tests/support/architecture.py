"""What docs/architecture.md says of the code."""

from __future__ import annotations

import re
from pathlib import Path

import benchgraph

ROOT = Path(benchgraph.__file__).parent
ARCHITECTURE = (ROOT.parent / "docs" / "architecture.md").read_text()


def section(title: str) -> str:
    """Of docs/architecture.md, from its heading to the next of the same level."""
    level = title.split()[0]
    return ARCHITECTURE.partition(f"\n{title}\n")[2].partition(f"\n{level} ")[0]


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
