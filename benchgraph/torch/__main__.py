"""python -m benchgraph.framework.torch: three models by eager, inductor and benchgraph, in one interleaved run.

Also `python -m benchgraph.torch`; `framework/torch.py` is the public name.
"""

from __future__ import annotations

import sys

import click
import torch
from rich.console import Console

from benchgraph.core.errors import BenchgraphError
from benchgraph.torch.models import MODELS
from benchgraph.torch.table import DTYPES, measure, show


@click.command()
@click.option("--model", "models", type=click.Choice(list(MODELS)), multiple=True, help="which models; all unless given")
@click.option("--dtype", "dtypes", type=click.Choice(list(DTYPES)), multiple=True, help="which dtypes; all unless given")
@click.option("--batch", "batches", type=click.IntRange(1), multiple=True, default=(1, 16), show_default=True)
@click.option("--size", type=click.IntRange(1), help="of the models (1: tests); the table's unless given")
@click.option("--threads", type=click.IntRange(1), help="PyTorch's unless given")
@click.option("--rounds", type=click.IntRange(2), default=20, show_default=True, help="samples per contender")
def main(
    models: tuple[str, ...], dtypes: tuple[str, ...], batches: tuple[int, ...], size: int | None, threads: int | None, rounds: int
) -> None:
    """The ops that torch.compile(model, backend='benchgraph') offloads for three models; times interleaved with eager and inductor."""
    if threads:
        torch.set_num_threads(threads)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        lines = [measure(m, d, b, rounds, size) for m in models or MODELS for d in dtypes or DTYPES for b in batches]
    except BenchgraphError as bad:
        raise click.ClickException(str(bad)) from bad
    show(lines, console)


if __name__ == "__main__":
    main(prog_name="python -m benchgraph.framework.torch")
