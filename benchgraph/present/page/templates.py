"""Templates of pages, and the style that pages share."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchgraph.core.printable import printable

PACKAGE = "benchgraph.present.page"


@cache
def templates(package: str = PACKAGE) -> Environment:
    """The templates in the folder of a package. `file(NAME)` in them is the text of a file there, `shared(NAME)` of one here."""
    loader, here = PackageLoader(package, "."), PackageLoader(PACKAGE, ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.globals["file"] = lambda name: loader.get_source(environment, name)[0]
    environment.globals["shared"] = lambda name: here.get_source(environment, name)[0]
    return environment


def _shown(value: Any) -> Any:
    """Applied to every expression of the templates."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
