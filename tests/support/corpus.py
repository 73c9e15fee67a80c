"""Graphs that lie beside the checkout, not in it: where they are, and which of them are legal."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"

# Stored with attributes that the library refuses; oneDNN's batch lines set others.
REFUSED = {"avgpool_3d_chain_fusion.json": "op 9: AvgPool: attribute 'pads_end' is (-1, 1, 0); give it sizes of 0 or more"}


def corpus_files(folder: str) -> list[Path]:
    """The legal graphs of a folder and those below it, in order."""
    return [path for path in sorted((CORPUS / folder).rglob("*.json")) if path.name not in REFUSED]
