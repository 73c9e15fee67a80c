"""A measured table as the text of a file (table_file.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby

_MEASURED = "measured"  # the short name of the source of all its rates


def table_text(told: Mapping[str, str | int], source: str, rates: Mapping[str, float]) -> str:
    """told: the keys of [machine]; rates that the table does not have are those of its base. source: where the rates come from."""
    lines = ["[machine]", *(f"{key} = {json.dumps(value)}" for key, value in told.items())]
    lines += ["", "[sources]", f"{_MEASURED} = {json.dumps(source)}"]
    for group, names in groupby(rates, key=lambda name: name.rpartition(".")[0]):
        lines += ["", f"[rates.{group}]" if group else "[rates]"]
        lines += [f'{name.rpartition(".")[2]} = {{ value = {rates[name]:.4g}, source = "{_MEASURED}" }}' for name in names]
    return "\n".join(lines) + "\n"
