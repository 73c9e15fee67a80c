"""Plugins: drivers and reports are files loaded by path; inputs are data beside them."""

from __future__ import annotations

import ast
import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from benchgraph.core.errors import InvalidArguments, did_you_mean
from benchgraph.core.files import data_dir

if TYPE_CHECKING:
    from benchgraph.options.problem import Driver
    from benchgraph.results.result import Report, ResultSet


@cache
def names(folder: str) -> list[str]:
    """The plugins in a folder, by file stem."""
    return sorted(p.stem for p in data_dir(folder).glob("*.py") if not p.stem.startswith("_"))


def driver_option(option: str) -> str:
    """The driver that an option chooses, as --matmul does; '' if it is none. In its name _ and - are one."""
    name = option.removeprefix("--").replace("-", "_")
    return name if option.startswith("--") and name in names("drivers") else ""


@cache
def _load(folder: str, name: str) -> ModuleType:
    """A plugin as a module of the package benchgraph_<folder>, which also has modules shared by plugins (`from ._shapes import ...`)."""
    if name not in (known := names(folder)):
        fix = did_you_mean(name, known) or f"there are {', '.join(known)}"
        raise InvalidArguments(f"no {folder.removesuffix('s')} named '{name}'", fix=fix)
    package = ModuleType(f"benchgraph_{folder}")
    package.__path__ = [str(data_dir(folder))]
    sys.modules.setdefault(package.__name__, package)
    return importlib.import_module(f"{package.__name__}.{name}")


@cache
def about(folder: str, name: str) -> str:
    """The first docstring line of a plugin, read without running it: reports import modules that are too slow for --help."""
    return next(iter((ast.get_docstring(_parsed(folder, name)) or "").splitlines()), "")


@cache
def suffixes() -> dict[str, str]:
    """File suffix -> report, from the constant SUFFIXES of each report, read without running it."""
    by_suffix = dict[str, str]()
    for name in names("reports"):
        for node in _parsed("reports", name).body:
            if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["SUFFIXES"]:
                by_suffix |= dict.fromkeys(ast.literal_eval(node.value), name)
    return by_suffix


def contradicts(report: str, file: str) -> str:
    """The other report that the suffix of a file implies; '' if it implies none or the same."""
    implied = suffixes().get(Path(file).suffix.lower(), report)
    return "" if implied == report else implied


def _parsed(folder: str, name: str) -> ast.Module:
    return ast.parse((data_dir(folder) / f"{name}.py").read_text(encoding="utf-8"))


def load_driver(name: str) -> Driver:
    """The driver in drivers/<name>.py. Raises InvalidArguments, with the nearest name, if there is none."""
    return cast("Driver", _load("drivers", name).DRIVER)


def load_report(name: str) -> Report:
    """The render function in reports/<name>.py. Raises InvalidArguments, with the nearest name, if there is none."""
    return cast("Report", _load("reports", name).render)


def shown(name: str, results: ResultSet, *, is_verbose: bool) -> str:
    """A report for the terminal: by its function `shown` if it has one, else by `render`."""
    module = _load("reports", name)
    return cast("str", module.shown(results, is_verbose=is_verbose) if hasattr(module, "shown") else module.render(results))
