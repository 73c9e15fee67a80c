"""The import table of docs/architecture.md, enforced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchgraph

ROOT = Path(benchgraph.__file__).parent
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "tir": set(),
    "ops": {"tir"},
    "graph": {"ops"},
    "partition": {"graph", "ops"},
    "gir": {"partition", "ops", "tir"},
    "lower": {"gir", "ops", "tir"},
    "codegen": {"tir"},
    "runtime": {"codegen", "tir"},
    "compile": {"graph", "partition", "gir", "lower", "tir", "codegen", "runtime"},
    "candidates": {"explain", "gir", "partition"},
    "explain": {"compile", "gir", "graph", "partition", "runtime", "tir"},
    "reference": {"graph", "ops"},
    "library": {"compile", "graph", "partition", "runtime"},
    "framework": {"graph", "ops", "partition", "library"},
    "onednn": {"graph", "partition", "library", "runtime"},
    "harness": {"candidates", "explain", "graph", "ops", "partition", "library", "framework", "onednn", "reference", "runtime"},
    "cli": {"harness"},
    "__main__": {"cli"},
}


def imports(path: Path) -> Iterator[str]:
    """Rooms that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if isinstance(node, ast.ImportFrom) and node.module == "benchgraph":
            names = [f"benchgraph.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "benchgraph" and len(parts) > 1:
                yield parts[1]


def files() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT)
        room = relative.parts[0] if len(relative.parts) > 1 else relative.stem
        if room != "__init__" and relative.parts[0] != "_data":
            found.append((room, path))
    return found


def test_every_room_is_in_the_table() -> None:
    assert {room for room, _ in files()} == set(MAY_IMPORT)


def test_imports_run_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {target}"
        for room, path in files()
        for target in imports(path)
        if target not in {room, "core", "__version__"} | MAY_IMPORT[room]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycle() -> None:
    done: set[str] = set()
    while left := {room for room in MAY_IMPORT if room not in done}:
        ready = {room for room in left if MAY_IMPORT[room] <= done}
        assert ready, f"cycle among {left}"
        done |= ready


def test_the_package_docstring_lists_the_rooms() -> None:
    rooms = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    listed = {line.split()[0] for line in (benchgraph.__doc__ or "").splitlines() if line.startswith("    ")}
    assert rooms <= listed


def test_drivers_and_reports_are_not_imported_by_name() -> None:
    banned = ("import drivers", "from drivers", "import reports", "from reports")
    assert not [str(path) for _, path in files() if any(words in path.read_text() for words in banned)]


def test_llvmlite_stays_in_codegen_and_runtime() -> None:
    outside = [p for room, p in files() if room not in ("codegen", "runtime")]
    assert not [str(p) for p in outside if "import llvmlite" in p.read_text() or "from llvmlite" in p.read_text()]


def test_the_reading_order_names_files_as_long_as_it_says() -> None:
    """docs/architecture.md, In one day."""
    text = (ROOT.parent / "docs" / "architecture.md").read_text().partition("## In one day")[2].partition("\n## ")[0]
    lines = [line.split("|") for line in text.splitlines() if ".py`" in line]
    for _, what, files, said, _ in lines:
        found = sum(len((ROOT / name).read_text().splitlines()) for name in re.findall("`(.*?)`", files))
        assert found == pytest.approx(int(said), rel=0.2, abs=80), what
    assert len(lines) >= 8
