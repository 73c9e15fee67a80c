"""Writes everything else under inputs/graph: `python -m inputs.graph.generate [FOLDER]`, from the root of the checkout.

Every family of cases is a module; its graphs go to JSON files, and how they are tested to batch files, each of which holds the one before:

    harness_graph_<family>_smoke   the plain lines of a few cases                       test_graph_smoke   of all families
    harness_graph_<family>_ci      the plain line of every case, some other dtypes      test_graph_ci
    harness_graph_<family>_all     all dtypes, shapes, layouts and attributes           test_graph_all

perf.py has the batch files for mode P, paper.py the workloads of the Graph Compiler paper. model.py has whole networks, in batches of their
own: harness_graph_model_ci, small ones, takes a minute, harness_graph_model_all, with those of their papers' sizes, some more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchgraph.graph import save

from . import gradient, matmul, model, movement, network, paper, pattern, perf, pointwise, quantisation, rows, window
from .case import CASES

FAMILIES = tuple(
    m.__name__.rpartition(".")[2] for m in (network, matmul, pointwise, rows, movement, window, quantisation, gradient, pattern)
)
LEVELS = {"smoke": "takes seconds", "ci": "takes a minute", "all": "takes minutes"}


def harness(family: str, level: str) -> str:
    """The batch file of a family's cases at one level."""
    below = {"smoke": "", "ci": "smoke", "all": "ci"}[level]
    lines = [f"--reset --batch=harness_graph_{family}_{below}"] if below else []
    for case in (c for c in CASES if c.family == family):
        plain = level == ("smoke" if case.smoke else "ci")
        options = {"smoke": (), "ci": case.ci, "all": case.sweep}[level]
        lines += [*([case.line()] if plain else []), *map(case.line, options)]
    return _text(f"The family {family}", lines)


def batch(level: str) -> str:
    """The batch file of all families at one level."""
    return _text(
        f"Correctness of what the driver offers; {LEVELS[level]}", [f"--reset --batch=harness_graph_{f}_{level}" for f in FAMILIES]
    )


def _text(about: str, lines: list[str]) -> str:
    return "\n".join([f"# {about}; written by inputs/graph/generate.", *lines]) + "\n"


def batches() -> Iterator[tuple[str, str]]:
    """Every batch file: its name and its text."""
    for level in LEVELS:
        yield from ((f"harness_graph_{family}_{level}", harness(family, level)) for family in FAMILIES)
        yield f"test_graph_{level}", batch(level)
    yield from ((f"harness_graph_model_{level}", _text("Whole networks", model.harness(level))) for level in ("ci", "all"))
    yield from ((name, _text(about, list(lines))) for name, (about, lines) in {**perf.BATCHES, **paper.BATCHES}.items())


def write(folder: Path) -> None:
    """All graphs and batch files; running it twice changes nothing."""
    for path, graph in [*((c.path, c.graph()) for c in CASES), *paper.graphs(), *model.graphs()]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        save(graph, folder / path)
    for name, text in batches():
        (folder / name).write_text(text, encoding="utf-8")
