"""What docs/architecture.md says of the code, held to it: who imports whom, the pipelines, the reading order; and what tests import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import benchgraph
from benchgraph.core.passes import Pass
from benchgraph.gir import passes as gir
from benchgraph.tir import passes as tir
from tests import support
from tests.support.architecture import MAY_IMPORT, ROOT, quoted, rows, section


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Of a file, inside functions and for type checkers as well."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom))


def imports(path: Path) -> Iterator[str]:
    """Packages that a file imports from."""
    for node in import_statements(path):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
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
        package = next((str(relative) for package in MAY_IMPORT if package == str(relative)), relative.parts[0].removesuffix(".py"))
        if package != "__init__" and relative.parts[0] != "_data":
            found.append((package, path))
    return found


def test_every_room_is_in_the_table() -> None:
    assert {package for package, _ in files()} == set(MAY_IMPORT)


def test_imports_run_one_way() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {target}"
        for package, path in files()
        for target in imports(path)
        if target not in {package, "core", "machine", "__version__"} | MAY_IMPORT[package]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycle() -> None:
    done: set[str] = set()
    while left := {package for package in MAY_IMPORT if package not in done}:
        ready = {package for package in left if MAY_IMPORT[package] <= done}
        assert ready, f"cycle among {left}"
        done |= ready


def test_no_file_imports_itself_through_others() -> None:
    modules = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path for _, path in files()}
    left = {name: imported_modules(path, set(modules)) - {name} for name, path in modules.items()}
    while ready := [name for name, others in left.items() if not others & left.keys()]:
        for name in ready:
            del left[name]
    assert not left, f"cycle among {', '.join(left)}"


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a file imports."""
    found = set[str]()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif node.module:
            found |= {f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in modules else node.module for a in node.names}
    return found & modules


@pytest.mark.parametrize("package", sorted(str(p.parent.relative_to(ROOT)) for p in ROOT.rglob("__init__.py") if p.parent != ROOT))
def test_the_index_of_a_room_names_every_file(package: str) -> None:
    folder = ROOT / package
    lines = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").splitlines()
    named = [line.split()[0] for line in lines if re.match(r"\s*[\w/]+(\.py|/)\s", line)]
    here = {p.name for p in folder.glob("*.py")} - {"__init__.py"} | {f"{p.parent.name}/" for p in folder.glob("*/__init__.py")}
    assert {name for name in named if "/" not in name.rstrip("/")} == here
    assert len(named) == len(set(named))


def test_the_package_docstring_lists_the_rooms() -> None:
    packages = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    listed = {word.rstrip(",") for line in (benchgraph.__doc__ or "").splitlines() if line.startswith("    ") for word in line.split()[:2]}
    assert packages <= listed


def test_drivers_and_reports_are_not_imported_by_name() -> None:
    banned = ("import drivers", "from drivers", "import reports", "from reports")
    assert not [str(path) for _, path in files() if any(words in path.read_text() for words in banned)]


def test_llvmlite_stays_where_machine_code_is_made() -> None:
    outside = [p for package, p in files() if package not in ("codegen", "runtime", "measure")]
    assert not [str(p) for p in outside if "import llvmlite" in p.read_text() or "from llvmlite" in p.read_text()]


OF_MACHINES = {"cores", "is_far", "l1_bytes", "l2_bytes", "llc_bytes", "machine", "rows_in_l1", "rows_in_l2"}  # of a target
LEGAL = {
    "Isa",
    "ISAS",
    "LINE_BYTES",
    "PAGE_BYTES",
    "TILES_OF_SUMS",
    "TILE_COLUMNS",
    "TILE_ROWS",
    "Target",
    "lanes_for",
    "on_line",
    "rows_in_sets",
}

# Files that ask nevertheless, for what; none may join them.
ASK = {
    "gir/gemm_nest.py": {"rates"},  # cycles of packing, which the cost adds up
    "gir/nest_schedule.py": {"cores"},  # among a product's parameters, which are reported
    "gir/passes/schedule.py": {"cores"},  # the tasks that fused loops may be left with
    "gir/packed_blocks.py": {"rates"},  # cycles of ops that make blocks, which the cost adds up
}


def machine_reads(source: str) -> list[str]:
    """Where code asks for more of the machine than what is legal on its ISA level: lines, and what they ask for."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in OF_MACHINES:
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchgraph.machine"):
            found += [(node.lineno, a.name) for a in node.names if a.name not in LEGAL]
    return [f"{line}: {what}" for line, what in sorted(found)]


def test_only_the_schedule_asks_for_caches_cores_and_thresholds() -> None:
    """Before and below it, code reads what was chosen, and what is legal on the ISA level."""
    asked = {
        str(path.relative_to(ROOT)): machine_reads(path.read_text())
        for room in ("gir", "lower", "tir", "codegen")
        for path in sorted((ROOT / room).rglob("*.py"))
    }
    assert len(asked) > 100
    found = {name: {read.split()[-1] for read in reads} for name, reads in asked.items() if reads}
    assert found == ASK, asked


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("def f(t: Target) -> int:\n    return t.l1_bytes // 2", ["2: l1_bytes"]),
        ("from benchgraph.machine.table import rates, table", ["1: rates", "1: table"]),
        ("from benchgraph.machine.target import Target, current", ["1: current"]),
        ("def f(t: Target) -> bool:\n    return t.is_far(8) or t.cores > 2", ["2: cores", "2: is_far"]),
        ("from benchgraph.machine.target import LINE_BYTES, Target\n\n\ndef f(t: Target) -> int:\n    return t.lanes * LINE_BYTES", []),
    ],
)
def test_reads_of_the_machine_are_found(source: str, reads: list[str]) -> None:
    assert machine_reads(source) == reads


def test_the_reading_order_names_files_as_long_as_it_says() -> None:
    lines = [line.split("|") for line in section("## In one day").splitlines() if ".py`" in line]
    for _, what, files, said, _ in lines:
        found = sum(len((ROOT / name).read_text().splitlines()) for name in quoted(files))
        assert found == pytest.approx(int(said), rel=0.2, abs=80), what
    assert len(lines) >= 8


@pytest.mark.parametrize(("title", "pipeline"), [("## Graph IR", gir.PIPELINE), ("## Tensor IR", tir.PIPELINE)])
def test_the_pipelines_are_told_by_their_docstrings_in_order(title: str, pipeline: tuple[Pass[Any], ...]) -> None:
    told, seen = list[list[str]](), set[str]()
    for p in pipeline:
        first_line = (sys.modules[p.fn.__module__].__doc__ or "").splitlines()[0]
        told.append([f"`{p.name}`", "once more" if p.name in seen else first_line.removeprefix(f"{p.name}: ").removesuffix("."), p.switch])
        seen.add(p.name)
    assert [[*cells[:2], cells[2].strip("`")] for cells in rows(title)] == told


def test_files_that_the_documents_name_are_there() -> None:
    """From the project's root, from the package, from the package that the document is about, or, as links, from its folder."""
    top = ROOT.parent
    for doc in [top / "README.md", top / "CONTRIBUTING.md", *(top / "docs").glob("*.md")]:
        named = [name for both in re.findall(r"`([\w/]+\.(?:py|md))`|\]\(([\w/.]+)\)", doc.read_text()) for name in both if name]
        bases = (top, ROOT, doc.parent, *ROOT.rglob(doc.stem))
        assert not [name for name in named if not any((base / name).exists() for base in bases)], doc


TESTS = Path(__file__).parent


def named_modules(path: Path) -> Iterator[str]:
    """Modules of tests/ that a file imports, and names imported from these, which may be modules too; code in strings included."""
    for package, names in re.findall(r"\b(?:from|import) +(tests(?:\.\w+)*)(?: +import +\(?([\w ,\n]+))?", path.read_text()):
        yield package
        yield from (f"{package}.{name}" for name in re.findall(r"\w+", names))


def test_tests_import_nothing_from_test_modules() -> None:
    """What several tests use is in tests/support, or in a module beside them that has no tests."""
    test_modules = {".".join(path.relative_to(TESTS.parent).with_suffix("").parts) for path in TESTS.rglob("test_*.py")}
    assert len(test_modules) > 100
    wrong = [
        f"{path.relative_to(TESTS)} imports {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in named_modules(path)
        if module in test_modules
    ]
    assert not wrong, "\n".join(wrong)


def test_the_docstring_of_support_lists_its_files() -> None:
    listed = [line.split()[0] for line in (support.__doc__ or "").splitlines() if line.split(" ")[0].endswith(".py")]
    assert sorted(listed) == sorted(path.name for path in (TESTS / "support").glob("*.py") if path.stem != "__init__")
