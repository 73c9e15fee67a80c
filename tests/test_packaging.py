"""What pip installs is what the checkout holds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed(project: dict) -> None:
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "benchgraph").rglob("__init__.py")}
    listed = {name for name in project["tool"]["setuptools"]["packages"] if "_data" not in name}
    assert listed == found


def test_the_open_ends_ship_as_data(project: dict) -> None:
    mapped = project["tool"]["setuptools"]["package-dir"]
    assert {mapped[f"benchgraph._data.{name}"] for name in ("drivers", "reports", "inputs")} == {"drivers", "reports", "inputs"}


def test_the_machine_tables_ship(project: dict) -> None:
    shipped = project["tool"]["setuptools"]["package-data"]["benchgraph.machine"]
    tables = {p for p in (ROOT / "benchgraph" / "machine").rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert tables == {p for pattern in shipped for p in (ROOT / "benchgraph" / "machine").glob(pattern)}


def test_every_folder_of_inputs_ships(project: dict) -> None:
    folders = {".".join(p.relative_to(ROOT).parts) for p in (ROOT / "inputs").rglob("*") if p.is_dir() and p.name != "__pycache__"}
    listed = {name.removeprefix("benchgraph._data.") for name in project["tool"]["setuptools"]["packages"] if "_data.inputs." in name}
    assert listed == folders


def test_modules_stay_small() -> None:
    """Over 400 lines a module needs a reason, and would be named here with it."""
    long = {str(p.relative_to(ROOT)): n for p in (ROOT / "benchgraph").rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_no_module_is_called_utils() -> None:
    banned = {"utils", "helpers", "common", "misc"}
    assert not [p for p in ROOT.rglob("*.py") if p.stem in banned and ".venv" not in p.parts]


def test_the_readme_names_the_commands_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text()
    assert "    pip install -e . && benchgraph --driver graph --case mlp.json\n" in text
    assert "    pip install -e '.[test]' && pytest" in text
