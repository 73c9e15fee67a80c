"""the raw results: machine, cases, every sample in seconds; what --resume reads"""

from __future__ import annotations

from benchgraph.results.json_report import render

__all__ = ["render"]
SUFFIXES = (".json",)
